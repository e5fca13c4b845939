// A static upstream in a process of its own, so that what it costs is not counted: `node bench/upstream.ts <records> [look]`.
// The records are the stand-in's, taken once from it as bytes; a page is a slice of them. Prints its address when it is ready.

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { looks } from '../src/simulator/resources.ts'
import { startSimulator } from '../src/simulator/simulator.ts'

const [count = '', lookName = 'recorded'] = process.argv.slice(2)
const look = looks.find((known) => known === lookName) ?? 'recorded'

type Records = { readonly bytes: Buffer; readonly starts: Float64Array; readonly versions: Float64Array }
const versionField = look === 'recorded' ? 'sysRowVersion' : 'RowVersion'
const pageSize = 5_000

/** In the order of their versions. */
async function takeRecords(wanted: number): Promise<Records> {
  await using simulator = await startSimulator({
    look,
    assignments: wanted,
    notes: 0,
    objects: 0,
    trackers: 0,
  })
  const { clientGuid, subjectId, apiKey } = simulator.credentials
  const signIn = await fetch(`${simulator.authUrl}/Token/GenerateAccessTokenFromCache`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ clientId: 3, subjectId, apiKey }),
  })
  const { accessToken } = (await signIn.json()) as { accessToken: string }
  const texts: string[] = []
  const versions: number[] = []
  for (let since = 0; texts.length < wanted; since = versions.at(-1) ?? 0) {
    const url = `${simulator.assignmentUrl}/api/Assignment/neworchanged/${since}?Page=1&PageSize=${pageSize}&Sorts=${versionField}`
    const answer = await fetch(url, {
      headers: { authorization: `Bearer ${accessToken}`, clientId: clientGuid },
    })
    const found = splitRecords(await answer.text())
    if (found.length === 0) throw new Error(`the stand-in has only ${texts.length} records`)
    for (const text of found) {
      texts.push(text)
      versions.push(Number(new RegExp(`"${versionField}":(\\d+)`).exec(text)?.[1]))
    }
  }
  const starts = new Float64Array(texts.length + 1)
  const parts = texts.map((text, index) => {
    const part = Buffer.from(`,${text}`)
    starts[index + 1] = (starts[index] ?? 0) + part.length
    return part
  })
  return { bytes: Buffer.concat(parts), starts, versions: Float64Array.from(versions) }
}

/** Records without objects in them. */
const splitRecords = (list: string): string[] => list.match(/\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}/g) ?? []

const { bytes, starts, versions } = await takeRecords(Number(count))

/** How many records have a version up to this. */
function rankOf(version: number): number {
  let [low, high] = [0, versions.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((versions[middle] ?? 0) > version) high = middle
    else low = middle + 1
  }
  return low
}

function answerPage(response: ServerResponse, url: URL): void {
  const page = Number(url.searchParams.get('Page') ?? 1)
  const size = Number(url.searchParams.get('PageSize') ?? versions.length)
  const since = /neworchanged\/(\d+)$/.exec(url.pathname)?.[1]
  const isDescending = url.searchParams.get('Sorts')?.startsWith('-') ?? false
  const least = since === undefined ? 0 : rankOf(Number(since))
  const from = isDescending ? Math.max(least, versions.length - page * size) : least + (page - 1) * size
  const to = isDescending ? versions.length - (page - 1) * size : Math.min(versions.length, from + size)
  const range = (one: number, end: number) => bytes.subarray((starts[one] ?? 0) + 1, starts[end])
  const records = isDescending
    ? Array.from({ length: Math.max(0, to - from) }, (_, index) => range(to - index - 1, to - index)).flatMap(
        (one, index) => (index === 0 ? [one] : [Buffer.from(','), one]),
      )
    : from < to
      ? [range(from, to)]
      : []
  const body = [Buffer.from('['), ...records, Buffer.from(']')]
  response.writeHead(200, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': body.reduce((sum, part) => sum + part.length, 0),
  })
  for (const part of body) response.write(part)
  response.end()
}

function answerRecord(response: ServerResponse, key: string): void {
  const field = look === 'recorded' ? 'assignmentId' : 'AssignmentId'
  const found = bytes.indexOf(`{"${field}":${key},`)
  const index = starts.indexOf(found - 1)
  if (found < 0 || index < 0) response.writeHead(404, { 'content-type': 'application/json' }).end('{}')
  else
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(bytes.subarray(found, starts[index + 1]))
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url ?? '/', 'http://upstream')
  if (request.method === 'POST') {
    request.resume()
    const token = JSON.stringify({ accessToken: 'a-token-of-the-bench', expiresIn: 36_000 })
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': token.length }).end(token)
    return
  }
  // `/30ms/assignment/…`: answers come so much later.
  const latencyMs = Number(/^\/(\d+)ms\//.exec(url.pathname)?.[1] ?? 0)
  if (latencyMs > 0) await wait(latencyMs)
  const key = /\/api\/Assignment\/Id\/(\d+)$/.exec(url.pathname)?.[1]
  if (key !== undefined) answerRecord(response, key)
  else if (url.pathname.includes('/assignment/api/Assignment')) answerPage(response, url)
  else response.writeHead(404).end()
})
server.listen(Number(process.env.BENCH_UPSTREAM_PORT ?? 0), '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stdout.write(`http://127.0.0.1:${port} ${bytes.length}\n`)
})
