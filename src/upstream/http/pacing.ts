// When a service may be asked: within its budgets, and not before the end of the latest `Retry-After`, which holds for
// every request of the budget, not only for the one that got it (P10).

import type { ServiceName } from '../../streams/catalog.ts'
import { type Clock, untilAborted } from '../../util/waiting.ts'
import { errorThatAsksToWait, statusError } from './answer.ts'
import { type Budget, leftOf, type Pause } from './budget.ts'
import type { Circuit } from './circuit.ts'
import { errorOf, isAboutService, isStatusOfService, UpstreamError } from './errors.ts'
import type { HttpAnswer, HttpRequest, UpstreamObserver } from './transport.ts'

// Limits how many requests that give way are under way at once. The limit falls when the service says that they are too many, and rises
// by one after as many as that went well.
/** Requests that were under way together may all get that answer: within this time it counts once. */
const oncePerMs = 1_000

export function openCrowd(clock: Clock) {
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
    async add<Result>(work: () => Promise<Result>): Promise<Result> {
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

/** As the rate is at the moment; null: there is none. */
export type Limit = { readonly budget: Budget; readonly requestsPerSecond: () => number | null }
export type PacingOptions = {
  readonly service: ServiceName
  /** Each of them holds. The last one is of most requests, so that its pauses count. */
  readonly limits: readonly [Limit, ...Limit[]]
  /** Of the host, and of who asks it; null: there is none. */
  readonly circuit: Circuit | null
  /** A request that would have to wait longer fails instead. */
  readonly longestMs: number
  readonly clock: Clock
  readonly observer: UpstreamObserver
}
export type Pacing = ReturnType<typeof openPacing>
/** Sends one request, until the signal. */
type Send = (signal: AbortSignal) => Promise<HttpAnswer>

export function openPacing(options: PacingOptions) {
  const { service, limits, circuit, longestMs, clock, observer } = options
  const { budget: widest, requestsPerSecond } = limits.at(-1) ?? limits[0]

  async function take(signal: AbortSignal, lowPriority: boolean): Promise<void> {
    if (limits.every(({ requestsPerSecond }) => requestsPerSecond() === null)) return
    const askedMs = clock.now()
    await takeAll(limits, signal, { lowPriority })
    const waitedMs = clock.now() - askedMs
    if (waitedMs > 0) observer.waited?.({ service, reason: 'budget', waitedMs })
  }

  /** Comes back when the request may be sent, with what to call when its answer is there. */
  async function waitForTurn(request: HttpRequest, signal: AbortSignal, lowPriority: boolean) {
    for (;;) {
      await take(signal, lowPriority)
      const pause = await widest.pauseNow()
      const leftMs = pause === null ? 0 : leftOf(pause, clock.now())
      if (pause && leftMs > longestMs) throw notSentError(request, pause)
      if (pause && leftMs > 0) {
        await clock.waitUntil(pause.untilMs, signal)
        observer.waited?.({ service, reason: 'retry-after', waitedMs: leftMs })
      } else if (widest.first) await untilAborted(widest.first, signal)
      else return pause && pause.askedMs > longestMs ? goFirst() : () => {}
    }
  }

  /** After a long pause the answer may well be the same, so that one request tries it and the others wait for its answer. */
  function goFirst() {
    const { promise, resolve } = Promise.withResolvers<void>()
    widest.first = promise
    widest.forgetPause()
    return () => {
      widest.first = null
      resolve()
    }
  }

  function heed(failure: UpstreamError | null): void {
    if (failure?.notBefore == null) return
    const { code, status, problem, notBefore } = failure
    const untilMs = notBefore.getTime()
    widest.heed({ code, status, problem, untilMs, askedMs: untilMs - clock.now() })
  }

  return {
    /** Sends as soon as that is allowed, and heeds what the answer asks for. */
    async send(
      request: HttpRequest,
      signal: AbortSignal,
      lowPriority: boolean,
      send: Send,
    ): Promise<HttpAnswer> {
      // A description may be on another host.
      const isWatched = circuit !== null && request.url.origin === circuit.host
      // It takes no place in a budget then.
      if (isWatched) await circuit.expect(request)
      const ended = await waitForTurn(request, signal, lowPriority)
      try {
        const answer = await (isWatched ? sendWatched(circuit, request, signal, send) : send(signal))
        const failure = errorThatAsksToWait(request, answer)
        heed(failure)
        if (failure === null && answer.status === 429 && requestsPerSecond() !== null) widest.wereTooMany()
        return answer
      } finally {
        ended()
      }
    },
  }
}

/** One that has its turn gives way no more: others of its limit wait behind it. `soon`: so many follow it. */
async function takeAll(
  [first, ...rest]: readonly Limit[],
  signal: AbortSignal,
  { lowPriority, soon = 0 }: { readonly lowPriority: boolean; readonly soon?: number },
): Promise<void> {
  if (!first) return
  const perSecond = first.requestsPerSecond()
  const isLow = lowPriority && perSecond === null
  await first.budget.take(perSecond, signal, {
    lowPriority,
    soon,
    meanwhile: (next) => takeAll(rest, signal, { lowPriority: isLow, soon: next }),
  })
}

/** Sends unless the host is left alone, and tells how that ended. */
export async function sendWatched(
  circuit: Circuit,
  request: HttpRequest,
  signal: AbortSignal,
  send: Send,
): Promise<HttpAnswer> {
  const exchange = await circuit.begin(request)
  // What changes something is not sent twice.
  const overtaken = request.method === 'GET' ? exchange.overtaken : null
  try {
    const answer = await send(overtaken ? AbortSignal.any([signal, overtaken]) : signal)
    const failure = isStatusOfService(answer.status) ? statusError(request, answer) : null
    if (failure) await exchange.failed(failure)
    else exchange.answered()
    return answer
  } catch (error) {
    // Whatever came, too: the host answers.
    if (!(error instanceof UpstreamError)) await exchange.givenUp()
    else if (isAboutService(error)) await exchange.failed(error)
    else exchange.answered()
    throw overtaken?.aborted && !signal.aborted ? overtakenError(request) : error
  }
}

const overtakenError = (request: HttpRequest) =>
  errorOf(request, {
    code: 'UPSTREAM_TIMEOUT',
    status: null,
    retryable: true,
    mayHaveArrived: true,
    problem: 'no answer, while the host has answered other requests since.',
  })

const notSentError = (request: HttpRequest, { code, status, untilMs, problem }: Pause) =>
  errorOf(request, {
    code,
    status,
    notBefore: new Date(untilMs),
    retryable: true,
    mayHaveArrived: false,
    problem: `not sent, because of an earlier answer: ${problem}`,
  })
