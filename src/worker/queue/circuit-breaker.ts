// What does not work at the moment: an upstream service, the database, or one stream's lane. Runs that would meet it wait and
// are owed; each trouble is told when it begins and when it is over, and not in between.

import type { Logger } from '../../log.ts'
import { afterFailure, type Outage } from '../../util/backoff.ts'
import { formatDuration } from '../../util/text.ts'
import { again, placeOf, type RunRequest } from './requests.ts'

/** What a failed run says about the rest: whether others would fail too. */
export type FailureScope = {
  readonly scope: 'service' | 'database' | 'stream'
  readonly notBefore: Date | null
  /** Tried again at least this often. */
  readonly longestDelayMs: number
  /** `info` for what is nobody's fault, `debug` for what is told elsewhere. */
  readonly level: 'warn' | 'info' | 'debug'
  readonly message: string
  readonly error: Error | null
}

export type CircuitBreaker = {
  /** True when the request has to wait; it is asked for again when its trouble is over, or may be. */
  mustWait(request: RunRequest): boolean
  failed(request: RunRequest, startedMs: number, failureScope: FailureScope): void
  /** A run that had nothing to ask for says nothing about its service. */
  succeeded(request: RunRequest, requestCount: number): void
  /** There is nothing more to do for it, so nothing is owed. */
  forget(request: RunRequest): void
  /** What was made to wait and not asked for again yet. */
  owed(): readonly RunRequest[]
  /** Names of the services that do not work. */
  servicesDown(): readonly string[]
  close(): void
}

type Failing = {
  outage: Outage
  readonly level: FailureScope['level']
  readonly owed: Map<string, RunRequest>
  timer: NodeJS.Timeout
}

type Options = {
  readonly serviceOf: (stream: string) => string
  readonly requestRun: (request: RunRequest) => Promise<void>
  readonly log: Logger
}

const severity: Readonly<Record<FailureScope['level'], number>> = { debug: 0, info: 1, warn: 2 }
// Beyond it a timer fires at once.
const longestTimerMs = 2 ** 31 - 1

export function openCircuitBreaker({ serviceOf, requestRun, log }: Options): CircuitBreaker {
  const breaker = new Map<string, Failing>()
  const lastSuccessMs = new Map<string, number>()
  const serviceKey = ({ stream }: RunRequest) => `the ${serviceOf(stream)} service`
  const streamKey = (request: RunRequest) => `the ${request.kind} run of ${request.stream}`
  const databaseKey = 'the database'
  const keysOf = (request: RunRequest) => [databaseKey, serviceKey(request), streamKey(request)]

  function keyFor(request: RunRequest, startedMs: number, { scope }: FailureScope): string {
    if (scope === 'database') return databaseKey
    // While this run failed another one of the service succeeded: the trouble is the stream's own.
    const isServiceFine = (lastSuccessMs.get(serviceKey(request)) ?? -1) >= startedMs
    return scope === 'service' && !isServiceFine ? serviceKey(request) : streamKey(request)
  }

  /** Whoever was made to wait is asked for again; those that still cannot be done come back here. */
  function runOwed(key: string): void {
    const outage = breaker.get(key)
    if (!outage) return
    const owed = [...outage.owed.values()]
    outage.owed.clear()
    for (const request of owed)
      requestRun(again(request)).catch((error) =>
        log.debug({ err: error, ...request }, 'could not be asked for again; its next tick will do it'),
      )
  }

  return {
    mustWait(request) {
      const now = Date.now()
      for (const key of keysOf(request)) {
        const outage = breaker.get(key)
        if (!outage || outage.outage.untilMs <= now) continue
        outage.owed.set(placeOf(request), request)
        return true
      }
      return false
    },

    failed(request, startedMs, failureScope) {
      const key = keyFor(request, startedMs, failureScope)
      const known = breaker.get(key)
      const nowMs = Date.now()
      const outage = afterFailure(known?.outage ?? null, {
        nowMs,
        startedMs,
        notBeforeMs: failureScope.notBefore?.getTime() ?? null,
        longestDelayMs: failureScope.longestDelayMs,
        random: Math.random(),
      })
      clearTimeout(known?.timer)
      const timer = setTimeout(() => runOwed(key), Math.min(longestTimerMs, outage.untilMs - nowMs))
      timer.unref()
      const owed = known?.owed ?? new Map<string, RunRequest>()
      owed.set(placeOf(request), request)
      const isWorse = known === undefined || severity[failureScope.level] > severity[known.level]
      breaker.set(key, { outage, level: isWorse ? failureScope.level : known.level, owed, timer })
      const fields = { err: failureScope.error, stream: request.stream, kind: request.kind }
      if (!isWorse) log.debug({ ...fields, failures: outage.failures }, `${key} still has trouble`)
      else
        log[failureScope.level](
          fields,
          `${key}: ${failureScope.message}; tried again by itself, at least every ${formatDuration(failureScope.longestDelayMs)}`,
        )
    },

    succeeded(request, requestCount) {
      const nowMs = Date.now()
      const hasAsked = requestCount > 0
      if (hasAsked) lastSuccessMs.set(serviceKey(request), nowMs)
      const proven = keysOf(request).filter((key) => hasAsked || key !== serviceKey(request))
      for (const key of proven) {
        const outage = breaker.get(key)
        if (!outage) continue
        clearTimeout(outage.timer)
        outage.owed.delete(placeOf(request))
        runOwed(key)
        breaker.delete(key)
        const level = outage.level === 'debug' ? 'debug' : 'info'
        log[level](`${key} works again, after ${formatDuration(nowMs - outage.outage.sinceMs)}`)
      }
    },

    forget(request) {
      const key = streamKey(request)
      clearTimeout(breaker.get(key)?.timer)
      breaker.delete(key)
    },

    owed: () => [...breaker.values()].flatMap(({ owed }) => [...owed.values()]),

    servicesDown: () => [...breaker.keys()].flatMap((key) => /^the (\w+) service$/.exec(key)?.slice(1) ?? []),

    close() {
      for (const { timer } of breaker.values()) clearTimeout(timer)
      breaker.clear()
    },
  }
}
