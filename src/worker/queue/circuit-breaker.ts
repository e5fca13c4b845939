// What does not work at the moment: an upstream service, the database, or one stream's lane. Runs that would meet it wait and
// are owed; each trouble is told when it begins and when it is over, and not in between.

import type { Logger } from '../../log.ts'
import { afterFailure, type Outage } from '../../util/backoff.ts'
import { formatDuration } from '../../util/text.ts'
import { again, placeOf, type RunRequest } from './requests.ts'

/** What a failed run says about the rest: whether others would fail too. */
export type Blame = {
  readonly scope: 'service' | 'database' | 'stream'
  readonly notBefore: Date | null
  /** Tried again at least this often. */
  readonly longestDelayMs: number
  /** `info` for what is nobody's fault, `debug` for what is told elsewhere. */
  readonly level: 'warn' | 'info' | 'debug'
  readonly message: string
  readonly error: Error | null
}

export type Troubles = {
  /** True when the request has to wait; it is asked for again when its trouble is over, or may be. */
  mustWait(request: RunRequest): boolean
  failed(request: RunRequest, startedMs: number, blame: Blame): void
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

type Trouble = {
  outage: Outage
  readonly level: Blame['level']
  readonly owed: Map<string, RunRequest>
  timer: NodeJS.Timeout
}

type Options = {
  readonly serviceOf: (stream: string) => string
  readonly nudge: (request: RunRequest) => Promise<void>
  readonly log: Logger
}

const severity: Readonly<Record<Blame['level'], number>> = { debug: 0, info: 1, warn: 2 }
// Beyond it a timer fires at once.
const longestTimerMs = 2 ** 31 - 1

export function watchTroubles({ serviceOf, nudge, log }: Options): Troubles {
  const troubles = new Map<string, Trouble>()
  const lastSuccessMs = new Map<string, number>()
  const serviceKey = ({ stream }: RunRequest) => `the ${serviceOf(stream)} service`
  const streamKey = (request: RunRequest) => `the ${request.lane} lane of ${request.stream}`
  const databaseKey = 'the database'
  const keysOf = (request: RunRequest) => [databaseKey, serviceKey(request), streamKey(request)]

  function keyFor(request: RunRequest, startedMs: number, { scope }: Blame): string {
    if (scope === 'database') return databaseKey
    // While this run failed another one of the service succeeded: the trouble is the stream's own.
    const isServiceFine = (lastSuccessMs.get(serviceKey(request)) ?? -1) >= startedMs
    return scope === 'service' && !isServiceFine ? serviceKey(request) : streamKey(request)
  }

  /** Whoever was made to wait is asked for again; those that still cannot be done come back here. */
  function settleDebts(key: string): void {
    const trouble = troubles.get(key)
    if (!trouble) return
    const owed = [...trouble.owed.values()]
    trouble.owed.clear()
    for (const request of owed)
      nudge(again(request)).catch((error) =>
        log.debug({ err: error, ...request }, 'could not be asked for again; its next tick will do it'),
      )
  }

  return {
    mustWait(request) {
      const now = Date.now()
      for (const key of keysOf(request)) {
        const trouble = troubles.get(key)
        if (!trouble || trouble.outage.untilMs <= now) continue
        trouble.owed.set(placeOf(request), request)
        return true
      }
      return false
    },

    failed(request, startedMs, blame) {
      const key = keyFor(request, startedMs, blame)
      const known = troubles.get(key)
      const nowMs = Date.now()
      const outage = afterFailure(known?.outage ?? null, {
        nowMs,
        startedMs,
        notBeforeMs: blame.notBefore?.getTime() ?? null,
        longestDelayMs: blame.longestDelayMs,
        random: Math.random(),
      })
      clearTimeout(known?.timer)
      const timer = setTimeout(() => settleDebts(key), Math.min(longestTimerMs, outage.untilMs - nowMs))
      timer.unref()
      const owed = known?.owed ?? new Map<string, RunRequest>()
      owed.set(placeOf(request), request)
      const isWorse = known === undefined || severity[blame.level] > severity[known.level]
      troubles.set(key, { outage, level: isWorse ? blame.level : known.level, owed, timer })
      const fields = { err: blame.error, stream: request.stream, lane: request.lane }
      if (!isWorse) log.debug({ ...fields, failures: outage.failures }, `${key} still has trouble`)
      else
        log[blame.level](
          fields,
          `${key}: ${blame.message}; tried again by itself, at least every ${formatDuration(blame.longestDelayMs)}`,
        )
    },

    succeeded(request, requestCount) {
      const nowMs = Date.now()
      const hasAsked = requestCount > 0
      if (hasAsked) lastSuccessMs.set(serviceKey(request), nowMs)
      const proven = keysOf(request).filter((key) => hasAsked || key !== serviceKey(request))
      for (const key of proven) {
        const trouble = troubles.get(key)
        if (!trouble) continue
        clearTimeout(trouble.timer)
        trouble.owed.delete(placeOf(request))
        settleDebts(key)
        troubles.delete(key)
        const level = trouble.level === 'debug' ? 'debug' : 'info'
        log[level](`${key} works again, after ${formatDuration(nowMs - trouble.outage.sinceMs)}`)
      }
    },

    forget(request) {
      const key = streamKey(request)
      clearTimeout(troubles.get(key)?.timer)
      troubles.delete(key)
    },

    owed: () => [...troubles.values()].flatMap(({ owed }) => [...owed.values()]),

    servicesDown: () =>
      [...troubles.keys()].flatMap((key) => /^the (\w+) service$/.exec(key)?.slice(1) ?? []),

    close() {
      for (const { timer } of troubles.values()) clearTimeout(timer)
      troubles.clear()
    },
  }
}
