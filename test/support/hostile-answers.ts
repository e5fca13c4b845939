// A server before a stand-in that passes everything on, but answers some requests with a body that would fill any memory.

import { once } from 'node:events'
import { request as ask, createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGzip } from 'node:zlib'

/** Parts of a body, as often as told. */
type Body = {
  readonly count: number
  part(index: number): string
  readonly packing?: 'gzip'
}

export type HostileServer = AsyncDisposable & {
  readonly url: string
  /** From now on requests for such paths are answered with these bodies. */
  answer(bodies: readonly (readonly [paths: RegExp, body: Body])[]): void
}

/** `target` is the address that everything else is passed on to. */
export async function startHostileServer(target: string): Promise<HostileServer> {
  let hostile: readonly (readonly [RegExp, Body])[] = []
  const server = createServer((request, response) => {
    const { method = 'GET', url = '/', headers } = request
    const [, body] = hostile.find(([paths]) => paths.test(url)) ?? []
    if (body) {
      request.resume()
      void sendBody(response, body).catch(() => response.destroy())
      return
    }
    const asking = ask(new URL(url, target), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    asking.on('error', () => response.destroy())
    request.pipe(asking)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    answer(bodies) {
      hostile = bodies
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function sendBody(response: ServerResponse, { count, part, packing }: Body): Promise<void> {
  response.on('error', () => {})
  response.writeHead(200, {
    'content-type': 'application/json',
    ...(packing && { 'content-encoding': packing }),
  })
  const packer = packing ? createGzip() : null
  packer?.on('error', () => {})
  packer?.pipe(response)
  const target = packer ?? response
  const closed = once(response, 'close')
  let gathered = ''
  for (let index = 0; index < count && !response.destroyed; index++) {
    gathered += part(index)
    if (gathered.length < 262_144 && index < count - 1) continue
    const isTaken = target.write(gathered)
    gathered = ''
    if (!isTaken && !response.destroyed) await Promise.race([once(target, 'drain'), closed])
  }
  target.end()
}

const letters = 'x'.repeat(1_000_000)
const empty = Array(10_000).fill('{}').join()
const inList = (count: number, record: (index: number) => string): Body => ({
  count: count + 1,
  part: (index) => (index === count ? ']' : `${index === 0 ? '[' : ','}${record(index)}`),
})
const manyFields = (count: number): Body => ({
  count: count + 1,
  part: (index) =>
    index === 0
      ? '[{"AssignmentId":1,"RowVersion":999999999'
      : index < count
        ? `,"Field${index}":${index}`
        : '}]',
})
const endless: Body = { count: 1_000, part: (index) => (index === 0 ? '["' : letters) }

export const hostileBodies = {
  endless,
  gzipBomb: { ...endless, packing: 'gzip' },
  emptyRecords: inList(1_300, () => empty),
  emptyObjects: inList(500, () => empty),
  millionFields: manyFields(1_000_000),
} as const satisfies Record<string, Body>
