// One exchange over HTTP: a request out, the whole answer in, within bounds of time and size. Never asks twice, never
// follows to another address, and turns every failure of the network into an UpstreamError.

import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import got, { RequestError, TimeoutError } from 'got'
import type { Clock } from './clock.ts'
import { type NetworkFailure, networkError, tooLargeError } from './network-error.ts'
import type { Method } from './operations.ts'

export type HttpRequest = {
  readonly method: Method
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
}
export type HttpAnswer = {
  readonly status: number
  readonly headers: {
    readonly 'content-type'?: string | undefined
    readonly 'retry-after'?: string | undefined
    readonly date?: string | undefined
    readonly location?: string | undefined
  }
  readonly bytes: Buffer
  readonly receivedAtMs: number
}
export type Transport = {
  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer>
  close(): void
}

const longestConnectMs = 15_000

export function openTransport(options: {
  readonly requestTimeoutMs: number
  readonly maxResponseBytes: number
  readonly clock: Clock
}): Transport {
  const { requestTimeoutMs, maxResponseBytes, clock } = options
  const kept = agents(true)
  // A kept connection may be closed by the other side at the moment of use. A read is repeated then; a write must not be.
  const fresh = agents(false)
  // Shorter than the whole, so that it shows which of them was over: without a connection nothing can have arrived.
  const connectMs = Math.min(longestConnectMs, requestTimeoutMs / 2)
  const client = got.extend({
    retry: { limit: 0 },
    followRedirect: false,
    throwHttpErrors: false,
    timeout: { lookup: connectMs, connect: connectMs, secureConnect: connectMs, request: requestTimeoutMs },
    headers: { 'user-agent': 'tidemark', accept: 'application/json, text/json;q=0.9, text/plain;q=0.8' },
  })

  return {
    async send(request, signal) {
      signal.throwIfAborted()
      const { method, url, headers, body } = request
      const stream = client.stream(url, {
        method,
        headers: { ...headers },
        agent: method === 'GET' ? kept : fresh,
        signal,
        // Without one the library would wait for somebody to write it.
        ...(method !== 'GET' && { body: body ?? '' }),
      })
      const chunks: Buffer[] = []
      let size = 0
      try {
        for await (const chunk of stream) {
          size += chunk.length
          const announced = Number(stream.response?.headers['content-length'] ?? 0)
          if (Math.max(size, announced) > maxResponseBytes) throw tooLargeError(request, maxResponseBytes)
          chunks.push(chunk)
        }
      } catch (cause) {
        if (signal.aborted) throw signal.reason
        if (cause instanceof RequestError) throw networkError(request, failureOf(cause))
        throw cause
      }
      const { response } = stream
      if (!response)
        throw networkError(request, { code: 'ECONNRESET', message: 'no answer', phase: 'request' })
      return {
        status: response.statusCode,
        headers: response.headers,
        bytes: Buffer.concat(chunks, size),
        receivedAtMs: clock.now(),
      }
    },
    close() {
      for (const agent of [kept.http, kept.https, fresh.http, fresh.https]) agent.destroy()
    },
  }
}

const agents = (keepAlive: boolean) => ({
  http: new HttpAgent({ keepAlive, maxSockets: 32 }),
  https: new HttpsAgent({ keepAlive, maxSockets: 32 }),
})

function failureOf(error: RequestError): NetworkFailure {
  const { code, message, request } = error
  const timedOutAt = error instanceof TimeoutError ? error.event : null
  return { code, message, phase: request?.response ? 'body' : 'request', timedOutAt }
}
