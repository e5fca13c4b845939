// The queues of runs. Any number of requests for the same stream and kind become one run that is under way and at most one after it,
// across all workers. A run begins after the request that asked for it, so no request is lost. Short runs and long ones have a queue each,
// so that a load never takes the place of a poll.

import type { RunKind, RunRequest } from '../../streams/catalog.ts'
import type { CanaryQueue } from './canary.ts'
import { type Driver, placed, Queue } from './driver.ts'
import type { HeldQueue } from './lost-jobs.ts'
import { keyOf, type Place, type QueueName } from './plan.ts'
import type { PlanQueue } from './planner.ts'

export type QueueCounts = { readonly waiting: number; readonly active: number; readonly delayed: number }
export type QueuedRun = RunRequest & {
  /** A first load, or what is left of a poll that gave way. */
  readonly isLoad?: true
  /** Of a run that `tidemark.due` asks for: which request of it. */
  readonly askedAt?: string
  /** How many times a worker has left it to others. */
  readonly leftToOthers?: number
}

export type RunQueue = {
  requestRun(request: QueuedRun): Promise<void>
  /** Of both queues together. */
  counts(): Promise<QueueCounts>
  countsOf(name: QueueName): Promise<Omit<QueueCounts, 'delayed'>>
  /** Polls of any worker that have been under way for longer. */
  pollsLongerThan(ms: number): Promise<readonly Place[]>
  readonly forPlan: PlanQueue
  readonly forCanaries: Readonly<Record<QueueName, CanaryQueue & HeldQueue>>
  close(): Promise<void>
}

export const queueNames = ['polls', 'loads'] as const satisfies readonly QueueName[]
export const nameInDriver = (name: QueueName): string => `tidemark-${name}`
const longKinds: ReadonlySet<RunKind> = new Set(['reconcile', 'backfill', 'related', 'verify'])
export const isLong = ({ kind, isLoad }: Pick<QueuedRun, 'kind' | 'isLoad'>): boolean =>
  isLoad === true || longKinds.has(kind)

const keepFailedSeconds = 3_600
const loadLookMs = 200
const runName = 'run'
/** When a poll is slow. An upstream that answers at all mostly has by then. */
export const slowAfterMs = 10_000
const mostLookedAt = 1_000
/** Nobody reads the events of jobs. */
const keptEvents = 100

export function openRunQueue(driver: Driver, onError: (error: Error) => void): RunQueue {
  const open = (name: QueueName) => {
    const options = { ...placed(driver), streams: { events: { maxLen: keptEvents } } }
    const queue = new Queue<QueuedRun>(nameInDriver(name), options)
    return queue.on('error', onError)
  }
  const queues = { polls: open('polls'), loads: open('loads') }
  async function countsOf(name: QueueName) {
    const { waiting = 0, active = 0 } = await queues[name].getJobCounts('waiting', 'active')
    return { waiting, active }
  }
  const lookedUp = new Map<string, { readonly atMs: number; readonly found: Promise<string | null> }>()
  /** Whether a stream is being loaded. Many webhooks at once are one question. */
  function loadOf(key: string): Promise<string | null> {
    const last = lookedUp.get(key)
    if (last && performance.now() - last.atMs < loadLookMs) return last.found
    const found = queues.loads.getDeduplicationJobId(key)
    lookedUp.set(key, { atMs: performance.now(), found })
    return found
  }
  /** A poll of a stream that is being loaded follows the load. Two queues would give both a place, and one would find the other there. */
  async function queueOf(request: QueuedRun): Promise<QueueName> {
    if (isLong(request)) return 'loads'
    return request.kind === 'incremental' && (await loadOf(keyOf(request))) !== null ? 'loads' : 'polls'
  }
  return {
    async requestRun(request) {
      await queues[await queueOf(request)].add(runName, request, {
        deduplication: { id: keyOf(request), keepLastIfActive: true },
        // The next plan is the retry: a job that waits to be retried would swallow run requests.
        attempts: 1,
        removeOnComplete: true,
        removeOnFail: { age: keepFailedSeconds },
      })
    },
    async counts() {
      const [polls, loads] = await Promise.all([countsOf('polls'), countsOf('loads')])
      // Runs are never put off: what is delayed is the next plan.
      return { waiting: polls.waiting + loads.waiting, active: polls.active + loads.active, delayed: 0 }
    },
    countsOf,
    async pollsLongerThan(ms) {
      const active = await queues.polls.getActive(0, mostLookedAt)
      return active
        .filter(({ name, processedOn }) => name === runName && Date.now() - (processedOn ?? Date.now()) > ms)
        .map(({ data }) => data)
    },
    forPlan: queues.polls,
    forCanaries: queues,
    async close() {
      await Promise.all(queueNames.map((name) => queues[name].close()))
    },
  }
}

/** The same, asked for by the worker itself; what an operator asked for stays that. */
export const again = ({ leftToOthers: _, ...request }: QueuedRun): QueuedRun => ({
  ...request,
  cause: request.cause === 'operator' ? 'operator' : 'again',
})
