// node:http and nothing above it: reads a request, hands it on, and sends the answer rightly or as a fault has it.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { createGzip, gzip } from 'node:zlib'
import { type Answer, type Incoming, problem, type Service, wholeBody } from './answer.ts'

export type Exchange = {
  readonly request: Incoming
  readonly query: URLSearchParams
}
export type Outcome = {
  readonly answer: Answer
  readonly delivery: Delivery
  readonly isCompressed: boolean
  readonly isChunked: boolean
  readonly latencyMs: number
}
export type HttpServer = { readonly origin: string; close(): Promise<void> }

const mostBodyBytes = 30_000_000
const prefixed = /^(\/(auth|assignment|tracking))(\/.*)$/i

export async function listen(
  { host, port }: { readonly host: string; readonly port: number },
  answer: (exchange: Exchange) => Promise<Outcome>,
): Promise<HttpServer> {
  const server = createServer((incoming, response) => {
    response.on('error', () => {})
    exchange(incoming, response, answer).catch((error: unknown) => {
      if (response.headersSent) response.destroy()
      else void refuse(response, 500, String(error))
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

const isOfHost: ReadonlySet<string | undefined> = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EADDRNOTAVAIL'])

function started(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) =>
      reject(
        new Error(
          `The stand-in cannot listen on ${host}:${port} (${cause.code ?? cause.message}): ${isOfHost.has(cause.code) ? '--host must be an address of this machine' : 'give it another port, or 0 for a free one'}`,
          { cause },
        ),
      ),
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
  const place = url && placeOf(url.pathname)
  if (!url || !place)
    return refuse(response, 404, 'The paths here begin with /auth, /assignment or /tracking.')
  if (body === null) return refuse(response, 413, 'The body is too long.')
  const query = new Map<string, string>()
  // Of a parameter that is there twice, the first one counts.
  for (const [name, value] of url.searchParams)
    if (!query.has(name.toLowerCase())) query.set(name.toLowerCase(), value)
  const request: Incoming = {
    method: incoming.method ?? 'GET',
    service: place.service,
    path: place.path,
    baseUrl: `http://${incoming.headers.host ?? 'localhost'}${place.prefix}`,
    query,
    headers: incoming.headers,
    body,
  }
  const outcome = await answer({ request, query: url.searchParams })
  if (outcome.latencyMs > 0) await delay(outcome.latencyMs)
  const acceptsGzip = /\bgzip\b/.test(String(incoming.headers['accept-encoding'] ?? ''))
  await deliver(response, { ...outcome, isCompressed: outcome.isCompressed && acceptsGzip })
}

/** Each service under a prefix of its own, or all of them where the recorded service has them. */
function placeOf(pathname: string): { service: Service; prefix: string; path: string } | null {
  const [, prefix = '', service = '', path] = prefixed.exec(pathname) ?? []
  if (path) return { service: service.toLowerCase() as Service, prefix, path }
  if (/^\/simulator(?:\/|$)/.test(pathname))
    return { service: 'control', prefix: '/simulator', path: pathname.slice(10) || '/' }
  if (/^\/token\//i.test(pathname)) return { service: 'auth', prefix: '', path: pathname }
  return /^\/(?:api|openapi)\//i.test(pathname) ? { service: 'assignment', prefix: '', path: pathname } : null
}

const refuse = (response: ServerResponse, status: number, detail: string): Promise<void> =>
  deliver(response, {
    answer: problem(status, { detail }),
    delivery: 'whole',
    isCompressed: false,
    isChunked: false,
  })

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

export type Delivery = 'whole' | 'never' | 'reset' | { readonly bytesPerSecond: number }

async function deliver(response: ServerResponse, outcome: Omit<Outcome, 'latencyMs'>): Promise<void> {
  const { answer, delivery, isCompressed } = outcome
  if (delivery === 'never' || response.destroyed) return
  const { status, body, contentType, headers } = answer
  response.statusCode = status
  for (const [name, value] of Object.entries(headers ?? {})) response.setHeader(name, value)
  if (body !== null) response.setHeader('content-type', contentType)
  if (body !== null && isCompressed) response.setHeader('content-encoding', 'gzip')
  if (delivery === 'whole' && body !== null && !Array.isArray(body))
    return stream(response, body, isCompressed)
  const whole = isCompressed && body !== null ? [await compressed(wholeBody(answer))] : [...(body ?? [])]
  const hasLength = body === null ? response.req.method !== 'HEAD' : !outcome.isChunked
  if (status !== 204 && hasLength) response.setHeader('content-length', lengthOf(whole))
  if (delivery === 'whole') return send(response, whole)
  if (delivery === 'reset') return resetHalfway(response, Buffer.concat(whole))
  await drip(response, Buffer.concat(whole), delivery.bytesPerSecond)
}

const lengthOf = (pieces: readonly Buffer[]) => pieces.reduce((sum, piece) => sum + piece.length, 0)

/** Pieces are not joined first: copying a page costs as much as sending it. */
function send(response: ServerResponse, pieces: readonly Buffer[]): void {
  // A corked response of Node loses the pieces of a chunked body that come after the first.
  if (response.hasHeader('content-length')) response.cork()
  for (const piece of pieces) response.write(piece)
  response.end()
}

function stream(response: ServerResponse, body: Iterable<Buffer>, isCompressed: boolean): void {
  const pieces = Readable.from(body, { objectMode: false, highWaterMark: 1_000_000 })
  // A client that leaves early is no error of the stand-in.
  if (isCompressed) pipeline(pieces, createGzip({ level: 1 }), response, () => {})
  else pipeline(pieces, response, () => {})
}

const compressed = (bytes: Buffer): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    gzip(bytes, { level: 1 }, (error, result) => (error ? reject(error) : resolve(result)))
  })

function resetHalfway(response: ServerResponse, bytes: Buffer): void {
  const reset = () => response.socket?.resetAndDestroy()
  if (bytes.length === 0) reset()
  else response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), reset)
}

async function drip(response: ServerResponse, bytes: Buffer, bytesPerSecond: number): Promise<void> {
  const pieceBytes = Math.max(1, Math.floor(bytesPerSecond / 10))
  for (let start = 0; start < bytes.length && !response.destroyed; start += pieceBytes) {
    response.write(bytes.subarray(start, start + pieceBytes))
    await delay(100)
  }
  response.end()
}
