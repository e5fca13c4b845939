// The queue of runs. Any number of requests for the same stream and kind become one run that is under way and at most one after it,
// across all workers. A run begins after the request that asked for it, so no request is lost.

import type { Logger } from '../../log.ts'
import type { RunRequest } from '../../streams/catalog.ts'
import type { CanaryQueue } from './canary.ts'
import { type Driver, placed, Queue } from './driver.ts'

export type QueueCounts = { readonly waiting: number; readonly active: number; readonly delayed: number }

export type RunQueue = {
  requestRun(request: RunRequest): Promise<void>
  counts(): Promise<QueueCounts>
  readonly forCanaries: CanaryQueue
  close(): Promise<void>
}

export const runQueueName = 'tidemark-runs'
const keepFailedSeconds = 3_600

export function openRunQueue(driver: Driver, onError: (error: Error) => void): RunQueue {
  const queue = new Queue<RunRequest>(runQueueName, placed(driver))
  queue.on('error', onError)
  return {
    async requestRun(request) {
      await queue.add('run', request, {
        deduplication: { id: placeOf(request), keepLastIfActive: true },
        // The next tick is the retry: a job that waits to be retried would swallow run requests.
        attempts: 1,
        removeOnComplete: true,
        removeOnFail: { age: keepFailedSeconds },
      })
    },
    async counts() {
      const {
        waiting = 0,
        active = 0,
        delayed = 0,
      } = await queue.getJobCounts('waiting', 'active', 'delayed')
      return { waiting, active, delayed }
    },
    forCanaries: queue,
    close: () => queue.close(),
  }
}

/** The same, asked for by the worker itself; what an operator asked for stays that. */
export const again = (request: RunRequest): RunRequest => ({
  ...request,
  cause: request.cause === 'operator' ? 'operator' : 'again',
})

export const placeOf = ({ stream, kind }: Pick<RunRequest, 'stream' | 'kind'>): string => `${stream}/${kind}`

// Turns any number of webhooks into few run requests: the first at once, then at most one in a window, and always one after the
// last webhook.
export type RunDebounce = {
  announce(): void
  close(): void
}

type Options = {
  readonly windowMs: number
  readonly requestRun: () => Promise<void>
  readonly log: Logger
}

export function openRunDebounce({ windowMs, requestRun, log }: Options): RunDebounce {
  let isAnnounced = false
  let isClosed = false
  let timer: NodeJS.Timeout | null = null
  let isUnderWay = false

  async function pass(): Promise<void> {
    isAnnounced = false
    isUnderWay = true
    try {
      await requestRun()
    } catch (error) {
      isAnnounced = true
      log.debug({ err: error }, 'a webhook could not be passed on yet')
    }
    isUnderWay = false
    if (!isClosed) timer = setTimeout(next, windowMs)
  }

  function next(): void {
    timer = null
    if (isAnnounced) void pass()
  }

  return {
    announce() {
      isAnnounced = true
      if (timer === null && !isUnderWay && !isClosed) void pass()
    },
    close() {
      isClosed = true
      if (timer) clearTimeout(timer)
    },
  }
}
