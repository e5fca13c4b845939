// The upstream's client for tests: opened on a simulator, or on a server of a few lines that misbehaves in one way. Quick
// to retry, and it remembers what the observer was told.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { openLog } from '../../src/log.ts'
import type { Simulator } from '../../src/simulator/simulator.ts'
import { openUpstream, type Upstream, type UpstreamOptions } from '../../src/upstream/client.ts'
import { UpstreamError } from '../../src/upstream/http/errors.ts'
import type { RequestDone, RetryPlanned, SignInDone, Waited } from '../../src/upstream/http/transport.ts'
import type { Clock } from '../../src/util/waiting.ts'

type Told = {
  readonly requests: RequestDone[]
  readonly retries: RetryPlanned[]
  readonly waits: Waited[]
  readonly signIns: SignInDone[]
}
export type Client = Upstream & {
  readonly told: Told
  /** Everything the client logged. */
  logged(): string
}
export type ClientChanges = Partial<Omit<UpstreamOptions, 'service' | 'log' | 'observer'>>

export const noSignal = new AbortController().signal
const quickRetries = { attempts: 4, firstMs: 2, longestMs: 10, jitter: 0.5, deadlineMs: 30_000 } as const

export function openClient(
  options: ClientChanges & Pick<UpstreamOptions, 'service' | 'baseUrl' | 'authUrl'>,
): Client {
  const told: Told = { requests: [], retries: [], waits: [], signIns: [] }
  const stream = new PassThrough()
  const lines: string[] = []
  stream.on('data', (line) => lines.push(String(line)))
  const upstream = openUpstream({
    subjectId: 'a-subject',
    apiKey: () => 'an-api-key-of-the-tests',
    clientGuid: options.service === 'assignment' ? '00000000-0000-4000-8000-000000000001' : null,
    requestsPerSecond: () => null,
    requestTimeoutMs: 10_000,
    retryPolicy: quickRetries,
    ...options,
    log: openLog({ level: 'trace', stream }),
    observer: {
      requestDone: (request) => told.requests.push(request),
      retryPlanned: (retry) => told.retries.push(retry),
      waited: (wait) => told.waits.push(wait),
      signInDone: (signIn) => told.signIns.push(signIn),
    },
  })
  return { ...upstream, told, logged: () => lines.join('') }
}

export const openSimulatorClient = (
  simulator: Simulator,
  service: 'assignment' | 'tracking' = 'assignment',
  changes: ClientChanges = {},
): Client =>
  openClient({
    service,
    baseUrl: service === 'assignment' ? simulator.assignmentUrl : simulator.trackingUrl,
    authUrl: simulator.authUrl,
    subjectId: simulator.credentials.subjectId,
    apiKey: () => simulator.credentials.apiKey,
    clientGuid: service === 'assignment' ? simulator.credentials.clientGuid : null,
    ...changes,
  })

export type LocalServer = AsyncDisposable & {
  readonly url: string
  readonly port: number
  /** Method and path with query, as they came; sign-ins are not among them. */
  readonly received: readonly string[]
  readonly connections: number
}
type Answering = (request: IncomingMessage, response: ServerResponse, body: string) => void

const signEverybodyIn: Answering = (_, response) => response.end('"a-token-for-tests"')

/** Answers as told; by itself it signs everybody in with the token `a-token-for-tests`. */
export async function startServer(answer: Answering, signIn = signEverybodyIn): Promise<LocalServer> {
  const received: string[] = []
  let connections = 0
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const isSignIn = request.url === '/auth/Token/GenerateAccessTokenFromCache'
    if (!isSignIn) received.push(`${request.method} ${request.url}`)
    const respond = isSignIn ? signIn : answer
    respond(request, response, Buffer.concat(chunks).toString())
  })
  server.on('connection', () => connections++)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    received,
    get connections() {
      return connections
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export const openServerClient = (server: LocalServer, changes: ClientChanges = {}): Client =>
  openClient({ service: 'assignment', baseUrl: server.url, authUrl: `${server.url}/auth`, ...changes })

/** A clock that stands still, and on which waiting takes no time. */
export function jumpingClock(): Clock & { advance(ms: number): void; readonly waitedMs: readonly number[] } {
  let nowMs = Date.now()
  const waitedMs: number[] = []
  return {
    now: () => nowMs,
    waitedMs,
    advance: (ms) => {
      nowMs += ms
    },
    async waitUntil(timeMs, signal) {
      signal.throwIfAborted()
      const leftMs = Math.max(0, timeMs - nowMs)
      waitedMs.push(leftMs)
      nowMs += leftMs
    },
  }
}

/** The error that a call ends with. */
export async function failureOf(call: Promise<unknown>): Promise<UpstreamError> {
  const outcome = await call.then(
    () => new Error('the call succeeded'),
    (error: unknown) => error,
  )
  if (outcome instanceof UpstreamError) return outcome
  throw outcome
}
