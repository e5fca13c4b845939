// A static upstream in a process of its own, so that what it costs is not counted: `node bench/upstream.ts <records> [kind]`. A page is a
// slice of bytes. Prints its address when it is ready.

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { kindsOfRecords, repeatRecords, takeRecords } from './static-records.ts'

const [count = '', kindName] = process.argv.slice(2)
const kind = kindsOfRecords.find((known) => known === kindName) ?? 'recorded'
// Of more than these, the bytes would not fit in memory.
const mostTaken = 500_000
const different = 50_000
const records =
  Number(count) > mostTaken && kind !== 'unlike'
    ? await repeatRecords(kind, different, Number(count))
    : await takeRecords(kind, Number(count))

function answerPage(response: ServerResponse, url: URL): void {
  const page = Number(url.searchParams.get('Page') ?? 1)
  const size = Number(url.searchParams.get('PageSize') ?? records.count)
  const since = /neworchanged\/(\d+)$/.exec(url.pathname)?.[1]
  const isDescending = url.searchParams.get('Sorts')?.startsWith('-') ?? false
  const least = since === undefined ? 0 : records.rankOf(Number(since))
  const from = isDescending ? Math.max(least, records.count - page * size) : least + (page - 1) * size
  const to = isDescending ? records.count - (page - 1) * size : Math.min(records.count, from + size)
  const found = isDescending
    ? Array.from({ length: Math.max(0, to - from) }, (_, index) =>
        records.range(to - index - 1, to - index),
      ).flatMap((one, index) => (index === 0 ? [one] : [Buffer.from(','), one]))
    : from < to
      ? [records.range(from, to)]
      : []
  const body = [Buffer.from('['), ...found, Buffer.from(']')]
  response.writeHead(200, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': body.reduce((sum, part) => sum + part.length, 0),
  })
  for (const part of body) response.write(part)
  response.end()
}

function answerRecord(response: ServerResponse, key: string): void {
  const found = records.byKey(Number(key))
  response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' }).end(found ?? '{}')
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
  process.stdout.write(`http://127.0.0.1:${port}\n`)
})
