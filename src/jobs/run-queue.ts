// The queue of runs. Any number of nudges for a stream's lane become one run that is under way and at most one after it,
// across all workers. A run begins after the nudge that asked for it, so no nudge is lost.

import type { Queue as BullQueue } from 'bullmq'
import type { Lane } from '../streams.ts'
import { type Driver, forTools, placed, Queue } from './queue-classes.ts'

/** Why a run was asked for. */
export type Cause = 'tick' | 'webhook' | 'operator' | 'again'
export type RunRequest = { readonly stream: string; readonly lane: Lane; readonly cause: Cause }
export type QueueCounts = { readonly waiting: number; readonly active: number; readonly delayed: number }

export type RunQueue = {
  readonly queue: BullQueue
  nudge(request: RunRequest): Promise<void>
  counts(): Promise<QueueCounts>
  close(): Promise<void>
}

export const runQueueName = 'tidemark-runs'
const keepFailedSeconds = 3_600

export function openRunQueue(driver: Driver, onError: (error: Error) => void): RunQueue {
  const queue = new Queue<RunRequest>(runQueueName, placed(driver))
  queue.on('error', onError)
  return {
    queue: forTools(queue),
    async nudge(request) {
      await queue.add('run', request, {
        deduplication: { id: placeOf(request), keepLastIfActive: true },
        // The next tick is the retry: a job that waits to be retried would swallow nudges.
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
    close: () => queue.close(),
  }
}

/** The same, asked for by the worker itself; what an operator asked for stays that. */
export const again = (request: RunRequest): RunRequest => ({
  ...request,
  cause: request.cause === 'operator' ? 'operator' : 'again',
})

export const placeOf = ({ stream, lane }: Pick<RunRequest, 'stream' | 'lane'>): string => `${stream}/${lane}`
