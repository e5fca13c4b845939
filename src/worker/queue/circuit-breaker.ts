// Knows what does not work at the moment: an upstream service, the database, or one stream's runs of a kind. Requests that would meet
// the outage wait; this worker owes them, and asks for them again later: as soon as all workers know that the host works, or that somebody has
// to try it. The log tells when an outage begins and when it is over, and nothing in between.

import type { Logger } from '../../log.ts'
import { afterFailure, type BackoffPolicy, type Outage } from '../../util/backoff.ts'
import { formatDuration, sentence } from '../../util/text.ts'
import { longestTimerMs } from '../../util/waiting.ts'
import { keyOf } from './plan.ts'
import { again, type QueuedRun } from './requests.ts'

/** What a failed run says about the rest: whether others would fail too. */
export type FailureScope = {
  readonly scope: 'service' | 'database' | 'stream'
  readonly notBefore: Date | null
  /** Nothing was asked, because all workers leave the service alone until then. */
  readonly isLeftAlone?: boolean
  readonly policy: BackoffPolicy
  /** `info` for what is nobody's fault, `debug` for what is logged elsewhere. */
  readonly level: 'warn' | 'info' | 'debug'
  readonly message: string
  readonly error: Error | null
}

export type CircuitBreaker = {
  /** True when the request has to wait; it is asked for again when the outage is over, or may be. */
  mustWait(request: QueuedRun): boolean
  /** It would have to wait here for what only this worker knows of, so that others may be able to do it. */
  isForOthers(request: QueuedRun): boolean
  failed(request: QueuedRun, startedMs: number, failureScope: FailureScope): void
  /** There was no place for it, which says nothing about what works. It is asked for again soon. */
  turnedAway(request: QueuedRun): void
  /** A run that had nothing to ask for says nothing about its service. */
  succeeded(request: QueuedRun, requestCount: number): void
  /** There is nothing more to do for it, so nothing is owed. */
  forget(request: QueuedRun): void
  /** What was made to wait and not asked for again yet. */
  owed(): readonly QueuedRun[]
  /** What kept runs from working: a service by its name, or `database`; null: nothing. */
  outageOf(part: string): Error | null
  /** The part works again, so what waits for it is tried at once. */
  tryAgain(part: string): void
  /** What does not work, in words, and when it is tried again; `partName`: of a service by its name, or of `database`. */
  waits(): readonly { readonly what: string; readonly until: Date; readonly partName: string | null }[]
  close(): void
}

type Failing = {
  readonly outage: Outage
  readonly error: Error
  readonly level: FailureScope['level']
  readonly owed: Map<string, QueuedRun>
  /** Until a timer ends, and not until a time of the clock, which may be set back. */
  readonly isLeftAlone: boolean
  /** All workers leave it alone. */
  readonly isHeld: boolean
  /** So long it asked itself to be left alone, whatever others know. */
  readonly notBeforeMs: number
  /** One of those that wait. */
  readonly stream: string
  readonly timer: NodeJS.Timeout
}

export type CircuitOptions = {
  readonly serviceOf: (stream: string) => string
  /** Until when all workers leave the service of a stream alone; null: it may be asked. */
  readonly heldUntil: (stream: string) => Promise<Date | null>
  readonly requestRun: (request: QueuedRun) => Promise<void>
  /** How many workers there are. Left out: this one alone. */
  readonly workers?: (() => number) | undefined
  readonly log: Logger
}
/** `failing` is keyed by what does not work, in words. */
type State = CircuitOptions & {
  readonly failing: Map<string, Failing>
  readonly turnedAway: Map<string, QueuedRun>
  readonly lastSuccessMs: Map<string, number>
}

const severity: Readonly<Record<FailureScope['level'], number>> = { debug: 0, info: 1, warn: 2 }
const databaseKey = 'the database'
const forgottenAfterMs = 10 * 60_000
/** While a service is left alone. */
const lookEveryMs = 2_000
/** There may be a place then. */
const placeAfterMs = 5_000
/** Those that wait for one time do not all begin at once. */
const spreadMs = 1_000
const serviceKeyPattern = /^the ([\w.]+) service$/

export function openCircuitBreaker(options: CircuitOptions): CircuitBreaker {
  const state: State = { ...options, failing: new Map(), turnedAway: new Map(), lastSuccessMs: new Map() }
  const { failing, turnedAway } = state
  let askingAgain: NodeJS.Timeout | undefined
  const looking = setInterval(() => {
    for (const key of failing.keys()) if (serviceKeyPattern.test(key)) void followAll(state, key)
  }, lookEveryMs).unref()
  const leftAlone = (keys: readonly string[]) =>
    keys.flatMap((key) => failing.get(key) ?? []).filter(({ isLeftAlone }) => isLeftAlone)
  return {
    mustWait(request) {
      const [waitsFor] = leftAlone(keysOf(state, request))
      waitsFor?.owed.set(keyOf(request), request)
      return waitsFor !== undefined
    },
    isForOthers(request) {
      const parts = leftAlone([databaseKey, serviceKey(state, request)])
      return parts.length > 0 && parts.every(({ isHeld }) => !isHeld) && (options.workers?.() ?? 1) > 1
    },
    failed: (request, startedMs, failureScope) => noteFailure(state, request, startedMs, failureScope),
    turnedAway(request) {
      turnedAway.set(keyOf(request), request)
      askingAgain ??= setTimeout(() => {
        askingAgain = undefined
        askFor(state, turnedAway)
      }, placeAfterMs).unref()
    },
    succeeded: (request, requestCount) => noteSuccess(state, request, requestCount > 0),
    forget(request) {
      const key = streamKey(request)
      clearTimeout(failing.get(key)?.timer)
      failing.delete(key)
    },
    owed: () => [...turnedAway.values(), ...[...failing.values()].flatMap(({ owed }) => [...owed.values()])],
    outageOf: (part) => failing.get(keyOfPart(part))?.error ?? null,
    tryAgain: (part) => tryAgain(state, keyOfPart(part)),
    waits: () =>
      [...failing].flatMap(([what, { outage, isLeftAlone }]) =>
        isLeftAlone || serviceKeyPattern.test(what)
          ? [{ what, until: new Date(outage.untilMs), partName: partOfKey(what) }]
          : [],
      ),
    close() {
      clearInterval(looking)
      clearTimeout(askingAgain)
      turnedAway.clear()
      for (const { timer } of failing.values()) clearTimeout(timer)
      failing.clear()
    },
  }
}

const serviceKey = ({ serviceOf }: State, { stream }: QueuedRun): string => `the ${serviceOf(stream)} service`
const streamKey = ({ stream, kind }: QueuedRun): string => `the ${kind} run of ${stream}`
const keyOfPart = (part: string): string => (part === 'database' ? databaseKey : `the ${part} service`)
const partOfKey = (key: string): string | null =>
  key === databaseKey ? 'database' : (serviceKeyPattern.exec(key)?.[1] ?? null)
const keysOf = (state: State, request: QueuedRun): readonly string[] => [
  databaseKey,
  serviceKey(state, request),
  streamKey(request),
]

function keyFor(state: State, request: QueuedRun, startedMs: number, given: FailureScope): string {
  const { scope, isLeftAlone } = given
  const service = serviceKey(state, request)
  if (scope === 'database') return databaseKey
  // If another run of the service succeeded while this one failed, the trouble is the stream's own.
  const isServiceFine = (state.lastSuccessMs.get(service) ?? -1) >= startedMs
  return isLeftAlone || (scope === 'service' && !isServiceFine) ? service : streamKey(request)
}

function noteFailure(state: State, request: QueuedRun, startedMs: number, given: FailureScope): void {
  const { policy, level, message, error } = given
  const key = keyFor(state, request, startedMs, given)
  const known = state.failing.get(key)
  const isHeld = given.isLeftAlone === true
  const outage = outageAfter(known?.outage ?? null, startedMs, given)
  clearTimeout(known?.timer)
  const timer = startTimer(state, key, outage.untilMs)
  const owed = known?.owed ?? new Map<string, QueuedRun>()
  owed.set(keyOf(request), request)
  const isWorse = known === undefined || severity[level] > severity[known.level]
  state.failing.set(key, {
    outage,
    owed,
    isLeftAlone: true,
    timer,
    error: error ?? new Error(message),
    isHeld,
    stream: request.stream,
    notBeforeMs: isHeld ? 0 : (given.notBefore?.getTime() ?? 0),
    level: isWorse ? level : known.level,
  })
  const fields = { err: error, stream: request.stream, kind: request.kind }
  const next =
    outage.untilMs - Date.now() > policy.longestMs
      ? `at ${new Date(outage.untilMs).toISOString()}`
      : `at least every ${formatDuration(policy.longestMs)}`
  if (isWorse) state.log[level](fields, `${key}: ${sentence(message)} Tidemark tries again ${next}.`)
  else state.log.debug({ ...fields, failures: outage.failures }, `${key} still does not work`)
}

function outageAfter(
  known: Outage | null,
  startedMs: number,
  { policy, notBefore, isLeftAlone }: FailureScope,
): Outage {
  const nowMs = Date.now()
  const notBeforeMs = notBefore?.getTime() ?? null
  // That nothing was asked says nothing new.
  if (isLeftAlone && notBeforeMs !== null) {
    const { sinceMs = nowMs, failures = 0 } = known ?? {}
    return { sinceMs, failures, lastFailureMs: nowMs, untilMs: notBeforeMs }
  }
  const isClockSetBack = known !== null && known.lastFailureMs > nowMs
  const failure = { nowMs, startedMs, policy, random: Math.random(), notBeforeMs }
  return afterFailure(isClockSetBack ? null : known, failure)
}

const startTimer = (state: State, key: string, untilMs: number): NodeJS.Timeout =>
  setTimeout(
    () => void tryInTurn(state, key),
    Math.min(longestTimerMs, Math.max(0, untilMs - Date.now()) + spreadMs * Math.random()),
  ).unref()

/** It is tried now, unless all leave it alone for longer, or another worker is at it. */
async function tryInTurn(state: State, key: string): Promise<void> {
  const timer = state.failing.get(key)?.timer
  if (serviceKeyPattern.test(key)) await followAll(state, key)
  if (timer === state.failing.get(key)?.timer) tryAgain(state, key)
}

/** What all workers know of the service counts: until when it is left alone, and that it works again. */
async function followAll(state: State, key: string): Promise<void> {
  const { stream = null } = state.failing.get(key) ?? {}
  if (stream === null) return
  const until = await state.heldUntil(stream).catch(() => null)
  const known = state.failing.get(key)
  if (!known) return
  if (until === null) {
    if (!known.isHeld) return
    state.failing.set(key, { ...known, isHeld: false })
    return tryAgain(state, key)
  }
  // That its time is over says nothing to a run that met another failure, such as a refused sign-in.
  if (!known.isHeld && until.getTime() <= Date.now()) return
  const untilMs = Math.max(until.getTime(), known.notBeforeMs)
  // Each look finds a moment that differs by some milliseconds.
  const isSame = known.isHeld && Math.abs(known.outage.untilMs - untilMs) < spreadMs
  if (isSame || (untilMs <= Date.now() && !known.isLeftAlone)) return
  clearTimeout(known.timer)
  state.failing.set(key, {
    ...known,
    isLeftAlone: true,
    isHeld: true,
    outage: { ...known.outage, untilMs },
    timer: startTimer(state, key, untilMs),
  })
}

function noteSuccess(state: State, request: QueuedRun, hasAsked: boolean): void {
  const nowMs = Date.now()
  const service = serviceKey(state, request)
  if (hasAsked) state.lastSuccessMs.set(service, nowMs)
  for (const key of keysOf(state, request)) {
    const known = state.failing.get(key)
    if (!known || (key === service && !hasAsked)) continue
    clearTimeout(known.timer)
    known.owed.delete(keyOf(request))
    askFor(state, known.owed)
    state.failing.delete(key)
    const level = known.level === 'debug' ? 'debug' : 'info'
    state.log[level](`${key} works again, after ${formatDuration(nowMs - known.outage.sinceMs)}`)
  }
}

function tryAgain(state: State, key: string): void {
  const known = state.failing.get(key)
  if (!known) return
  clearTimeout(known.timer)
  // The outage is forgotten after a while: another worker may take what is owed, and this one would never hear that it works.
  const timer = setTimeout(() => key !== databaseKey && state.failing.delete(key), forgottenAfterMs)
  timer.unref()
  state.failing.set(key, { ...known, isLeftAlone: false, timer })
  askFor(state, known.owed)
}

/** Asks again for the requests that were made to wait. Those that still cannot be done come back here. */
function askFor({ requestRun, log }: State, waiting: Map<string, QueuedRun>): void {
  const requests = [...waiting.values()]
  waiting.clear()
  for (const request of requests)
    requestRun(again(request)).catch((error) =>
      log.debug({ err: error, ...request }, 'could not be asked for again; its next time will do it'),
    )
}
