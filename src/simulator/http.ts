// node:http and nothing above it: reads a request and hands it on. How the answer gets onto the wire is in delivery.ts.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Answer, type Incoming, problem, type Query, type Service } from './answer.ts'
import { type Delivery, deliver } from './deliveries.ts'

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

function started(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) =>
      reject(
        new Error(
          `The stand-in cannot listen on ${host}:${port} (${cause.code ?? cause.message}): give it another port, or 0 for a free one`,
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
  const [, service, path] = prefix.exec(url?.pathname ?? '') ?? []
  if (!url || !service || !path)
    return refuse(response, 404, 'The paths here begin with /auth, /assignment or /tracking.')
  if (body === null) return refuse(response, 413, 'The body is too long.')
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
  const acceptsGzip = /\bgzip\b/.test(String(incoming.headers['accept-encoding'] ?? ''))
  await deliver(response, outcome.answer, outcome.delivery, outcome.isCompressed && acceptsGzip)
}

const refuse = (response: ServerResponse, status: number, reason: string): Promise<void> =>
  deliver(response, problem(status, reason), 'whole', false)

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
