// Turns the ticks of the schedules into nudges. It does nothing else, so that a tick takes no longer than adding a job.

import type { Queue as BullQueue } from 'bullmq'
import { type Driver, forTools, placed, Queue, Worker } from './queue-classes.ts'
import { keepSchedules, type NextTick, nextTicks, type Tick, type Wanted } from './schedules.ts'
import { lockOptions } from './worker-options.ts'

export type TickWorker = {
  readonly queue: BullQueue
  /** Makes the schedules what they should be. Returns how many were not. */
  keepSchedules(): Promise<number>
  /** When each schedule ticks next. */
  next(): Promise<readonly NextTick[]>
  close(): Promise<void>
}

type Options = {
  readonly driver: Driver
  readonly schedules: readonly Wanted[]
  readonly onTick: (tick: Tick) => Promise<void>
  readonly onError: (error: Error) => void
}

const tickQueueName = 'tidemark-ticks'

export async function startTickWorker(options: Options): Promise<TickWorker> {
  const { driver, schedules, onTick, onError } = options
  const queue = new Queue<Tick>(tickQueueName, placed(driver))
  queue.on('error', onError)
  let keeping: Promise<number> | null = null
  // Two at once would make the same schedule twice; those that wait for a queue that is away would all come back together.
  const keep = (isStart: boolean): Promise<number> => {
    keeping ??= keepSchedules(queue, schedules, { nowMs: Date.now(), isStart }).finally(() => {
      keeping = null
    })
    return keeping
  }
  await keep(true)
  const isWanted = ({ stream, lane }: Tick) =>
    schedules.some((wanted) => wanted.stream === stream && wanted.lane === lane)
  const worker = new Worker<Tick>(
    tickQueueName,
    async ({ data }) => {
      // A tick that was due when its schedule was removed still comes.
      if (isWanted(data)) await onTick(data)
    },
    { ...placed(driver), ...lockOptions, concurrency: 1 },
  )
  worker.on('error', onError)
  return {
    queue: forTools(queue),
    keepSchedules: () => keep(false),
    next: async () => nextTicks(await queue.getJobSchedulers(), schedules),
    async close() {
      await worker.close()
      await queue.close()
    },
  }
}
