// node:http and nothing above it: reads a request, hands it on, puts the answer on the wire, rightly or as a fault has it.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { createGzip, gzip } from 'node:zlib'
import { type Answer, type Incoming, problem, type Query, type Service } from './answer.ts'
import { type Delivery, wholeBody } from './fault-answers.ts'

export type Exchange = {
  readonly request: Incoming
  readonly query: URLSearchParams
}
export type Outcome = { readonly answer: Answer; readonly delivery: Delivery; readonly isCompressed: boolean }
export type HttpServer = { readonly origin: string; close(): Promise<void> }

const mostBodyBytes = 30_000_000
const prefix = /^\/(auth|assignment|tracking)(\/.*)$/i

export async function listen(
  { host, port }: { readonly host: string; readonly port: number },
  answer: (exchange: Exchange) => Promise<Outcome>,
): Promise<HttpServer> {
  const server = createServer((incoming, response) => {
    response.on('error', () => {})
    exchange(incoming, response, answer).catch((error: unknown) => {
      if (response.headersSent) response.destroy()
      else void send(response, problem(500, String(error)), 'whole', false)
    })
  })
  server.keepAliveTimeout = 60_000
  await started(server, host, port)
  const address = server.address() as AddressInfo
  const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address
  return {
    origin: `http://${shown === '0.0.0.0' || shown === '[::]' ? '127.0.0.1' : shown}:${address.port}`,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

function started(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause) =>
      reject(new Error(`The stand-in cannot listen on ${host}:${port}: ${cause.message}`, { cause })),
    )
    server.listen(port, host, () => resolve())
  })
}

async function exchange(
  incoming: IncomingMessage,
  response: ServerResponse,
  answer: (exchange: Exchange) => Promise<Outcome>,
): Promise<void> {
  const body = await readBody(incoming)
  const url = URL.parse(incoming.url ?? '/', 'http://simulator')
  const [, service, path] = prefix.exec(url?.pathname ?? '') ?? []
  if (!url || !service || !path)
    return send(
      response,
      problem(404, 'The paths here begin with /auth, /assignment or /tracking.'),
      'whole',
      false,
    )
  if (body === null) return send(response, problem(413, 'The body is too long.'), 'whole', false)
  const query: Query = new Map([...url.searchParams].map(([name, value]) => [name.toLowerCase(), value]))
  const request: Incoming = {
    method: incoming.method ?? 'GET',
    service: service.toLowerCase() as Service,
    path,
    query,
    headers: incoming.headers,
    body,
  }
  const outcome = await answer({ request, query: url.searchParams })
  const accepts = /\bgzip\b/.test(String(incoming.headers['accept-encoding'] ?? ''))
  await send(response, outcome.answer, outcome.delivery, outcome.isCompressed && accepts)
}

async function readBody(incoming: IncomingMessage): Promise<Buffer | null> {
  if (incoming.method === 'GET') return Buffer.alloc(0)
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of incoming) {
    bytes += piece.length
    if (bytes <= mostBodyBytes) pieces.push(piece)
  }
  return bytes > mostBodyBytes ? null : Buffer.concat(pieces)
}

async function send(
  response: ServerResponse,
  answer: Answer,
  delivery: Delivery,
  isCompressed: boolean,
): Promise<void> {
  if (delivery === 'never' || response.destroyed) return
  const { status, body, contentType, headers } = answer
  response.statusCode = status
  for (const [name, value] of Object.entries(headers ?? {})) response.setHeader(name, value)
  if (body === null) {
    if (delivery === 'reset') response.socket?.resetAndDestroy()
    else if (status === 204) response.end()
    else response.setHeader('content-length', 0).end()
    return
  }
  response.setHeader('content-type', contentType)
  if (isCompressed) response.setHeader('content-encoding', 'gzip')
  if (delivery === 'whole' && Array.isArray(body) && !isCompressed) {
    response.setHeader(
      'content-length',
      body.reduce((sum: number, piece: Buffer) => sum + piece.length, 0),
    )
    response.cork()
    for (const piece of body) response.write(piece)
    response.end()
    return
  }
  if (delivery === 'whole' && !Buffer.isBuffer(body) && !Array.isArray(body)) {
    const pieces = Readable.from(body, { objectMode: false, highWaterMark: 1_000_000 })
    if (isCompressed) pipeline(pieces, createGzip({ level: 1 }), response, () => {})
    else pipeline(pieces, response, () => {})
    return
  }
  const whole = wholeBody(answer)
  const bytes = isCompressed ? await compressed(whole) : whole
  response.setHeader('content-length', bytes.length)
  if (delivery === 'whole') response.end(bytes)
  else if (delivery === 'reset') resetHalfway(response, bytes)
  else await drip(response, bytes, delivery.bytesPerSecond)
}

const compressed = (bytes: Buffer): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    gzip(bytes, { level: 1 }, (error, result) => (error ? reject(error) : resolve(result)))
  })

function resetHalfway(response: ServerResponse, bytes: Buffer): void {
  response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => response.socket?.resetAndDestroy())
}

async function drip(response: ServerResponse, bytes: Buffer, bytesPerSecond: number): Promise<void> {
  const pieceBytes = Math.max(1, Math.floor(bytesPerSecond / 10))
  for (let start = 0; start < bytes.length && !response.destroyed; start += pieceBytes) {
    response.write(bytes.subarray(start, start + pieceBytes))
    await delay(100)
  }
  response.end()
}
