// One exchange over HTTP: a request out, the whole answer in, within bounds of time and size. Never asks twice, never
// follows to another address, and turns every failure of the network into an UpstreamError. Reads go their own, shorter way.

import got, { RequestError, TimeoutError } from 'got'
import { JsonError, ofAnswers, openBounds } from '../../json/bounds.ts'
import type { ServiceName } from '../../streams/catalog.ts'
import { openAgents, type Proxies, proxyOf } from '../../util/proxies.ts'
import { inMegabytes } from '../../util/text.ts'
import type { Clock } from '../../util/waiting.ts'
import { freeBytes, openSpareBytes, type SpareBytes } from '../../wire/spare-bytes.ts'
import type { Method } from '../operations/table.ts'
import { type AnswerMemory, answerMemory, type Share } from './answer-memory.ts'
import {
  type NetworkFailure,
  networkError,
  noRoomError,
  tooLargeError,
  unpagedError,
} from './network-failures.ts'
import { ReadFailure, readAnswerOf } from './read.ts'

export type HttpRequest = {
  readonly method: Method
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  /** A longer answer is no page, but everything there is; left out: only `largestBytes` bounds it. */
  readonly mostBytes?: number
  /** Left out: an answer may be as large as any. */
  readonly largestBytes?: number
  /** Its fields are hidden before its records are found, so that what it holds is counted sooner. */
  readonly isTakenApart?: boolean
}
export type HttpAnswer = {
  readonly status: number
  readonly headers: {
    readonly 'content-type'?: string | undefined
    readonly 'retry-after'?: string | undefined
    readonly date?: string | undefined
    readonly location?: string | undefined
    readonly 'www-authenticate'?: string | undefined
  }
  readonly bytes: Buffer
  readonly receivedAtMs: number
  /** Gives its memory to the next answers. */
  release(): void
  /** Gives its memory back to the system: what is done next needs as much, and not for an answer. */
  discard(): void
}
export type Transport = ReturnType<typeof openTransport>

const stepBytes = 4 * 1024 * 1024
/** A shorter answer cannot hold more values than it may. What its records may hold is counted when they are found. */
const countedBytes = 2 * ofAnswers.values
const stepsIn = (bytes: number): number => Math.floor(bytes / stepBytes)

type AnswerHead = Pick<HttpAnswer, 'status' | 'headers'>
/** Part of an answer, and how long all of it is where that is announced; else 0. A promise: nothing more is read until it is settled. */
export type Take = (chunk: Buffer, announced: number) => Promise<void> | undefined

const longestConnectMs = 15_000
// Enough for a few pages.
const mostSpareBytes = 24 * 1024 * 1024
/** Memory is kept for so long after the last page, and then given back to the system. */
const spareForMs = 10_000
/** Shorter answers get memory of their own: otherwise each would hold the memory of a whole page until it is dropped. */
const shortBytes = 131_072

const ownHeaders = {
  'user-agent': 'tidemark',
  accept: 'application/json, text/json;q=0.9, text/plain;q=0.8',
}

type TransportOptions = {
  readonly proxies: Proxies
  readonly requestTimeoutMs: number
  readonly maxResponseBytes: number
  readonly clock: Clock
  /** See UpstreamOptions. */
  readonly freeChunks: () => void
  /** Left out: the memory for all answers of this process. */
  readonly memory?: AnswerMemory
}

export function openTransport(options: TransportOptions) {
  const { proxies, requestTimeoutMs, maxResponseBytes, clock, freeChunks, memory = answerMemory } = options
  const kept = openAgents(proxies, { keepAlive: true })
  // A kept connection may be closed by the other side at the moment of use. A read is repeated then; a write must not be.
  const fresh = openAgents(proxies, { keepAlive: false })
  const spare = openSpareForPages(clock)
  const lengths = openLengths()
  // Shorter than the limit for the whole request, so that it is clear which one ended: without a connection nothing can have arrived.
  const connectMs = Math.min(longestConnectMs, requestTimeoutMs / 2)
  const client = got.extend({
    retry: { limit: 0 },
    followRedirect: false,
    throwHttpErrors: false,
    timeout: { lookup: connectMs, connect: connectMs, secureConnect: connectMs, request: requestTimeoutMs },
    headers: ownHeaders,
  })

  async function read(request: HttpRequest, signal: AbortSignal, take: Take): Promise<AnswerHead> {
    const { url } = request
    const headers = { ...ownHeaders, ...request.headers }
    const limits = { connectMs, requestMs: requestTimeoutMs }
    const answer = await readAnswerOf({ url, headers, agents: kept.of(url), take, signal, ...limits })
    return { status: answer.statusCode ?? 0, headers: answer.headers }
  }

  async function write(request: HttpRequest, signal: AbortSignal, take: Take): Promise<AnswerHead> {
    const { method, url, headers, body } = request
    // Without a body the library would wait for somebody to write it.
    const options = { method, headers: { ...headers }, agent: fresh.of(url), signal, body: body ?? '' }
    const stream = client.stream(url, options)
    try {
      for await (const chunk of stream)
        await take(chunk, Number(stream.response?.headers['content-length'] ?? 0))
    } catch (cause) {
      if (!(cause instanceof RequestError) || signal.aborted) throw cause
      throw networkError(request, { ...failureOf(cause), sentBytes: stream.uploadProgress.transferred })
    }
    const { response } = stream
    if (!response) throw networkError(request, { code: 'ECONNRESET', message: 'no answer', phase: 'request' })
    return { status: response.statusCode, headers: response.headers }
  }

  return {
    async send(asked: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
      signal.throwIfAborted()
      const request = { ...asked, proxy: proxyOf(asked.url, proxies) }
      const body = openBody(spare, freeChunks)
      const share = memory.open()
      const expectedBytes = () => lengths.expected(request.url)
      // Shorter than the limit for the whole request, so that the error names the memory and not the time.
      const limits = { maxResponseBytes, longestWaitMs: requestTimeoutMs / 2 }
      const take = takeInto({ ...limits, memory, request, body, share, signal, expectedBytes })
      try {
        const head = await (request.method === 'GET' ? read : write)(request, signal, take)
        lengths.note(request.url, body.size())
        return answerOf(head, body, share.leave, clock.now())
      } catch (cause) {
        body.discard()
        share.leave()
        if (signal.aborted) throw signal.reason
        throw cause instanceof ReadFailure ? networkError(request, cause.failure) : cause
      }
    },
    close() {
      kept.close()
      fresh.close()
    },
  }
}

function answerOf(head: AnswerHead, body: Body, leave: () => void, receivedAtMs: number): HttpAnswer {
  const bytes = body.bytes()
  forgotten.register(bytes, leave)
  return {
    ...head,
    bytes,
    receivedAtMs,
    release() {
      body.release()
      leave()
    },
    discard() {
      body.discard()
      leave()
    },
  }
}

/** Of answers that somebody dropped without a word. */
const forgotten = new FinalizationRegistry<() => void>((leave) => leave())

/** Takes an answer in within its limits, and within the memory that all answers share. */
function takeInto(options: {
  readonly maxResponseBytes: number
  readonly memory: AnswerMemory
  readonly request: HttpRequest
  readonly body: Body
  readonly share: Share
  readonly signal: AbortSignal
  readonly longestWaitMs: number
  readonly expectedBytes: () => number
}): Take {
  const { memory, request, body, share, signal } = options
  const { mostBytes = Number.POSITIVE_INFINITY } = request
  const largest = request.largestBytes ?? options.maxResponseBytes
  let expectBounded = openBounds(ofAnswers)
  let boundedBytes = 0
  const add = (chunk: Buffer, announced: number) => {
    body.add(chunk, announced || options.expectedBytes())
    if (body.size() <= (request.isTakenApart ? stepBytes : countedBytes)) return
    // Long answers are counted while they come in, so that one that holds too much is not read to its end.
    try {
      expectBounded(body.bytes().subarray(boundedBytes))
    } catch (cause) {
      if (!(cause instanceof JsonError)) throw cause
      if (cause.problem === 'too large') throw tooLargeError(request, cause.message)
      // What is wrong with it is said when all of it is here.
      expectBounded = () => {}
    }
    boundedBytes = body.size()
  }
  return (chunk, announced) => {
    const longest = Math.max(body.size() + chunk.length, announced)
    if (longest > mostBytes) throw unpagedError(request, mostBytes)
    if (longest > largest) throw tooLargeError(request, `the answer is larger than ${inMegabytes(largest)}`)
    const held = longest <= shortBytes ? 0 : Math.ceil(longest / stepBytes) * stepBytes
    if (share.take(held)) return void add(chunk, announced)
    return share.wait(held, options.longestWaitMs, signal).then((hasRoom) => {
      if (!hasRoom) throw noRoomError(request, longest, memory.most)
      add(chunk, announced)
    })
  }
}

/** Remembers how long the last answer from each address was: the next one is likely to be as long, if it does not say. */
function openLengths() {
  const lengths = new Map<string, number>()
  const placeOf = ({ pathname }: URL) => pathname.replaceAll(/\d+/g, '0')
  return {
    expected: (url: URL): number => lengths.get(placeOf(url)) ?? 0,
    note(url: URL, bytes: number) {
      if (lengths.size > mostPlaces) lengths.clear()
      lengths.set(placeOf(url), bytes)
    },
  }
}
const mostPlaces = 100

/** From this length on, so much room is taken that it is hardly ever too small: unused room takes no memory, and copying would. */
const longBytes = 1024 * 1024
const roomBytes = 48 * 1024 * 1024

type Body = ReturnType<typeof openBody>

/** Puts each part of an answer in its place at once. If the answer is longer than expected, the place may have to grow. */
function openBody(spare: SpareBytes, freeChunks: () => void) {
  let whole: Buffer | null = null
  let size = 0
  function giveBack(): void {
    if (whole !== null) spare.giveBack(whole)
    whole = null
  }
  function makeRoom(wanted: number): Buffer {
    if (whole !== null && whole.length >= wanted) return whole
    const larger = spare.take(size === 0 ? wanted : wanted > longBytes ? wanted + roomBytes : 2 * wanted)
    whole?.copy(larger, 0, 0, size)
    giveBack()
    whole = larger
    return larger
  }
  return {
    size: () => size,
    add(chunk: Buffer, expected: number) {
      const room = makeRoom(Math.max(size + chunk.length, size === 0 ? expected : 0))
      chunk.copy(room, size)
      size += chunk.length
      // Each chunk has memory of its own, which the engine hardly counts: for a long answer it would pile up (P10).
      if (stepsIn(size) > stepsIn(size - chunk.length)) freeChunks()
    },
    bytes: () => (whole ?? Buffer.alloc(0)).subarray(0, size),
    release: giveBack,
    discard() {
      if (whole !== null) freeBytes(whole)
      whole = null
    },
  }
}

function openSpareForPages(clock: Clock): SpareBytes {
  let pages = openSpareBytes(mostSpareBytes)
  let usedAtMs = 0
  return {
    take(least) {
      const isUnused = clock.now() - usedAtMs > spareForMs
      if (isUnused) pages = openSpareBytes(mostSpareBytes)
      if (least <= shortBytes) return Buffer.allocUnsafeSlow(least)
      usedAtMs = clock.now()
      return pages.take(least)
    },
    giveBack(bytes) {
      if (bytes.length > shortBytes) pages.giveBack(bytes)
    },
  }
}

function failureOf(error: RequestError): NetworkFailure {
  const { code, message, request } = error
  const timedOutAt = error instanceof TimeoutError ? error.event : null
  return { code, message, phase: request?.response ? 'body' : 'request', timedOutAt }
}

// What the client reports while it works, for metrics. It keeps no counts itself.
export type RequestDone = {
  readonly service: ServiceName
  readonly operation: string
  /** Null when no answer came. */
  readonly status: number | null
  /** It answers what was asked, be it that there is no such record, or no such page. */
  readonly isAnswered: boolean
  readonly durationMs: number
  readonly bytes: number
}
export type RetryPlanned = {
  readonly service: ServiceName
  readonly operation: string
  /** How many requests were made so far. */
  readonly attempt: number
  readonly delayMs: number
  readonly reason: string
  /** Null when no answer came. */
  readonly status: number | null
}
export type Waited = {
  readonly service: ServiceName
  readonly reason: 'budget' | 'retry-after'
  readonly waitedMs: number
}
export type SignInDone = {
  readonly service: ServiceName
  readonly outcome: 'new token' | 'same token' | 'failed'
  readonly durationMs: number
}

export type UpstreamObserver = {
  requestDone?(request: RequestDone): void
  retryPlanned?(retry: RetryPlanned): void
  waited?(wait: Waited): void
  signInDone?(signIn: SignInDone): void
}
