// Takes run requests from the queue and does them, a number at once. A long run gives way between two pages when all places
// are taken and another stream waits.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../../log.ts'
import type { RunOutcome } from '../../sync/perform-run.ts'
import type { CircuitBreaker, FailureScope } from './circuit-breaker.ts'
import { type Driver, placed, Worker } from './driver.ts'
import { again, type RunQueue, type RunRequest, runQueueName } from './requests.ts'

// How workers hold their jobs: long enough for a busy process to renew its lock, short enough that the jobs of a killed one
// are soon somebody else's.
export const lockOptions = {
  lockDuration: 15_000,
  stalledInterval: 5_000,
  // Being killed is nothing a job could be blamed for.
  maxStalledCount: 1_000_000,
  runRetryDelay: 1_000,
} as const

export type RunHooks = { readonly signal: AbortSignal; readonly shouldYield: () => boolean }
/** Null when there is nothing to do, or not for this worker. */
export type DoRun = (request: RunRequest, hooks: RunHooks) => Promise<RunOutcome | null>

type Options = {
  readonly driver: Driver
  readonly queue: RunQueue
  readonly run: DoRun
  /** What a run that failed, or could not even be written down, means for the others; null when it is nobody's trouble. */
  readonly failureScope: (error: unknown, isWrittenDown: boolean) => FailureScope | null
  readonly breaker: CircuitBreaker
  readonly runsAtOnce: number
  readonly log: Logger
  readonly onOutcome: (request: RunRequest, outcome: RunOutcome, durationMs: number) => void
  readonly onError: (error: Error) => void
}
export type RunWorker = {
  /** Begins nothing more, lets short runs end and tells long ones to stop after the page in hand. */
  close(): Promise<void>
}

const lookEveryMs = 1_000
const shortestTurnMs = 2_000
const graceMs = 4_000

export function startRunWorker(options: Options): RunWorker {
  const { driver, queue, breaker, runsAtOnce, log } = options
  const stopping = new AbortController()
  let active = 0
  let waiting = 0
  let isLooking = false

  const worker = new Worker<RunRequest>(
    runQueueName,
    async ({ data }) => {
      active++
      try {
        await take(data)
      } finally {
        active--
      }
    },
    { ...placed(driver), ...lockOptions, concurrency: runsAtOnce },
  )
  worker.on('error', options.onError)

  async function take(request: RunRequest): Promise<void> {
    if (stopping.signal.aborted || breaker.mustWait(request)) return
    const startedMs = Date.now()
    try {
      const outcome = await options.run(request, {
        signal: stopping.signal,
        shouldYield: () => mayYield(startedMs),
      })
      if (outcome === null) return breaker.forget(request)
      options.onOutcome(request, outcome, Date.now() - startedMs)
      await settle(request, outcome, startedMs)
    } catch (error) {
      const failureScope = options.failureScope(error, false)
      if (failureScope) breaker.failed(request, startedMs, failureScope)
    }
  }

  async function settle(request: RunRequest, outcome: RunOutcome, startedMs: number): Promise<void> {
    const { status, note, error, tally } = outcome
    if (status === 'done') breaker.succeeded(request, tally.requests)
    // Whoever works next goes on with it.
    const isCutShort = status === 'stopped' && stopping.signal.aborted
    if (outcome.yielded || isCutShort) await queue.requestRun(again(request))
    if (status === 'skipped') breaker.failed(request, startedMs, takenBy(note))
    if (status !== 'failed') return
    const failureScope = options.failureScope(error, true)
    if (failureScope) breaker.failed(request, startedMs, failureScope)
    else log.debug({ err: error, ...request }, 'the run lost its turn')
  }

  function mayYield(startedMs: number): boolean {
    if (waiting === 0 || Date.now() - startedMs < shortestTurnMs) return false
    waiting--
    return true
  }

  async function look(): Promise<void> {
    if (active < runsAtOnce || isLooking) {
      waiting = 0
      return
    }
    isLooking = true
    try {
      waiting = (await queue.counts()).waiting
    } catch {
      // The queue is away; nobody waits in it then.
      waiting = 0
    } finally {
      isLooking = false
    }
  }
  const looking = setInterval(look, lookEveryMs)

  return {
    async close() {
      clearInterval(looking)
      const closed = worker.close()
      await Promise.race([closed, wait(graceMs, undefined, { ref: false })])
      stopping.abort(new Error('the worker is stopping'))
      await closed
    },
  }
}

/** Whoever has the lane may let go at any moment. */
const takenPauseMs = 5_000

const takenBy = (note: string | null): FailureScope => ({
  scope: 'stream',
  notBefore: null,
  longestDelayMs: takenPauseMs,
  level: 'info',
  message: `is taken by ${note ?? 'another program'}`,
  error: null,
})
