// When a service may be asked: within its budget, and not before the end of the latest `Retry-After`, which holds for
// every request of the service, not only for the one that got it (P10).

import type { ServiceName } from '../../streams/catalog.ts'
import { leftUntil } from '../../util/backoff.ts'
import { type Clock, untilAborted } from '../../util/waiting.ts'
import { errorThatAsksToWait } from './answer.ts'
import { errorOf, type UpstreamError } from './errors.ts'
import type { HttpAnswer, HttpRequest, UpstreamObserver } from './transport.ts'

// The budget of requests a second of one service (P10): a token bucket that holds one token, so that there is always the
// same time at least from one request to the next.
export type RateLimit = {
  /** Waits for a token and returns how long that took. Requests that give way wait one at a time: so at most one is ahead of any other. */
  take(signal: AbortSignal, lowPriority?: boolean): Promise<number>
}

export function openRateLimit(options: {
  /** As it is at the moment; null: there is no limit. */
  readonly requestsPerSecond: () => number | null
  readonly clock: Clock
}): RateLimit {
  const { requestsPerSecond, clock } = options
  let lastMs = Number.NEGATIVE_INFINITY
  let queue: Promise<unknown> = Promise.resolve()
  let givingWay: Promise<unknown> = Promise.resolve()

  async function takeToken(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const intervalMs = 1000 / (requestsPerSecond() ?? Number.POSITIVE_INFINITY)
    const nowMs = clock.now()
    // Never longer than one interval, even if the clock was set back meanwhile.
    const waitMs = Math.min(lastMs + intervalMs - nowMs, intervalMs)
    if (waitMs > 0) await clock.waitUntil(nowMs + waitMs, signal)
    lastMs = clock.now()
  }

  // A request that gives up must not hold up those behind it.
  function takeTurn(signal: AbortSignal): Promise<void> {
    const mine = queue.then(() => takeToken(signal))
    queue = mine.catch(() => undefined)
    return mine
  }

  function takeLateTurn(signal: AbortSignal): Promise<void> {
    const mine = givingWay.then(() => takeTurn(signal))
    givingWay = mine.catch(() => undefined)
    return mine
  }

  return {
    async take(signal, lowPriority = false) {
      if (requestsPerSecond() === null) return 0
      const askedMs = clock.now()
      await (lowPriority ? takeLateTurn(signal) : takeTurn(signal))
      return clock.now() - askedMs
    },
  }
}

// Limits how many requests that give way are under way at once. The limit falls when the service says that they are too many, and rises
// by one after as many as that went well.
export type Crowd = {
  add<Result>(work: () => Promise<Result>): Promise<Result>
  wereTooMany(): void
}

/** Requests that were under way together may all get that answer: within this time it counts once. */
const oncePerMs = 1_000

export function openCrowd(clock: Clock): Crowd {
  let most = Number.POSITIVE_INFINITY
  let underWay = 0
  let toldMs = Number.NEGATIVE_INFINITY
  const waiting: (() => void)[] = []

  function letIn(): void {
    while (underWay < Math.floor(most) && waiting.length > 0) {
      underWay++
      waiting.shift()?.()
    }
  }

  return {
    async add(work) {
      const { promise: turn, resolve } = Promise.withResolvers<void>()
      waiting.push(resolve)
      letIn()
      await turn
      try {
        const result = await work()
        most += 1 / most
        return result
      } finally {
        underWay--
        letIn()
      }
    },
    wereTooMany() {
      if (clock.now() - toldMs < oncePerMs) return
      toldMs = clock.now()
      most = Math.max(1, Math.min(most, underWay) / 2)
    },
  }
}

export type PacingOptions = {
  readonly service: ServiceName
  readonly requestsPerSecond: () => number | null
  /** A request that would have to wait longer fails instead. */
  readonly longestMs: number
  readonly clock: Clock
  readonly observer: UpstreamObserver
}
export type Pacing = {
  /** Sends as soon as that is allowed, and heeds what the answer asks for. */
  send(
    request: HttpRequest,
    signal: AbortSignal,
    lowPriority: boolean,
    send: () => Promise<HttpAnswer>,
  ): Promise<HttpAnswer>
}
type Pause = { readonly untilMs: number; readonly isLong: boolean; readonly failure: UpstreamError }

export function openPacing(options: PacingOptions): Pacing {
  const { service, requestsPerSecond, longestMs, clock, observer } = options
  const limit = openRateLimit({ requestsPerSecond, clock })
  let pause: Pause | null = null
  let first: Promise<void> | null = null

  const leftOfPause = (): number => (pause === null ? 0 : leftUntil(pause.untilMs, clock.now()))

  /** Comes back when the request may be sent, with what to call when its answer is there. */
  async function waitForTurn(request: HttpRequest, signal: AbortSignal, lowPriority: boolean) {
    for (;;) {
      const waitedMs = await limit.take(signal, lowPriority)
      if (waitedMs > 0) observer.waited?.({ service, reason: 'budget', waitedMs })
      const leftMs = leftOfPause()
      if (pause && leftMs > longestMs) throw notSentError(request, pause.failure)
      if (pause && leftMs > 0) {
        await clock.waitUntil(pause.untilMs, signal)
        observer.waited?.({ service, reason: 'retry-after', waitedMs: leftMs })
      } else if (first) await untilAborted(first, signal)
      else return pause?.isLong ? goFirst() : () => {}
    }
  }

  /** After a long pause the answer may well be the same, so that one request tries it and the others wait for its answer. */
  function goFirst() {
    const { promise, resolve } = Promise.withResolvers<void>()
    first = promise
    pause = null
    return () => {
      first = null
      resolve()
    }
  }

  function heed(failure: UpstreamError | null): void {
    const untilMs = failure?.notBefore?.getTime() ?? 0
    // A pause from before the clock was put back is over, though it would end later.
    if (failure && (leftOfPause() === 0 || untilMs > (pause?.untilMs ?? 0)))
      pause = { untilMs, isLong: untilMs - clock.now() > longestMs, failure }
  }

  return {
    async send(request, signal, lowPriority, send) {
      const ended = await waitForTurn(request, signal, lowPriority)
      try {
        const answer = await send()
        heed(errorThatAsksToWait(request, answer))
        return answer
      } finally {
        ended()
      }
    },
  }
}

const notSentError = (request: HttpRequest, { code, status, notBefore, problem }: UpstreamError) =>
  errorOf(request, {
    ...{ code, status, notBefore, retryable: true, mayHaveArrived: false },
    problem: `not sent, because of an earlier answer: ${problem}`,
  })
