// Keeps the schedules of the tick queue as they should be: upserted only when missing, changed or astray, removed when nothing
// wants them. Guarded, because an upsert of a cron schedule near its slot can run it twice.

import { ErrorCode } from 'bullmq'
import { CronExpressionParser } from 'cron-parser'
import type { RunKind } from '../../streams/catalog.ts'
import { type CanaryQueue, type Consumer, canaryName, takeCanary } from './canary.ts'
import { type Driver, placed, Queue, Worker } from './driver.ts'
import { leave, lockOptions } from './run-worker.ts'

export type Tick = { readonly stream: string; readonly kind: RunKind }
export type Wanted = Tick & { readonly schedule: { readonly everyMs: number } | { readonly cron: string } }
export type Scheduled = {
  readonly key: string
  readonly every?: number
  readonly pattern?: string
  readonly next?: number
}
export type NextTick = Tick & { readonly at: Date }
type Repeat = { readonly every: number } | { readonly pattern: string }
export type Changes = {
  readonly remove: readonly string[]
  readonly upsert: readonly { readonly id: string; readonly repeat: Repeat; readonly tick: Tick }[]
}

/** At the start nobody has taken ticks for a while: what is overdue is still going to come, and must not be put off. */
type Now = { readonly nowMs: number; readonly isStart: boolean }

/** What the queue offers for it. */
export type ScheduleKeeper = {
  getJobSchedulers(): Promise<readonly Scheduled[]>
  removeJobScheduler(id: string): Promise<unknown>
  upsertJobScheduler(
    id: string,
    repeat: Repeat,
    template: { name: string; data: Tick; opts: { removeOnComplete: true; removeOnFail: true } },
  ): Promise<unknown>
}

/** Returns how many schedules had to be changed. */
export async function keepSchedules(
  queue: ScheduleKeeper,
  wanted: readonly Wanted[],
  now: Now,
): Promise<number> {
  const { remove, upsert } = scheduleChanges(await queue.getJobSchedulers(), wanted, now)
  for (const id of remove) await queue.removeJobScheduler(id)
  for (const { id, repeat, tick } of upsert)
    await queue
      .upsertJobScheduler(id, repeat, {
        name: 'tick',
        data: tick,
        opts: { removeOnComplete: true, removeOnFail: true },
      })
      .catch(unlessTaken)
  return remove.length + upsert.length
}

/** Ignores that another worker made the same schedule at the same moment. If none did, the next look finds it missing. */
function unlessTaken(error: unknown): void {
  const code = error instanceof Error && 'code' in error ? error.code : null
  if (code !== ErrorCode.SchedulerJobIdCollision && code !== ErrorCode.SchedulerJobSlotsBusy) throw error
}

export function scheduleChanges(there: readonly Scheduled[], wanted: readonly Wanted[], now: Now): Changes {
  const byId = new Map(wanted.map((one) => [scheduleId(one), one]))
  const fine = new Set<string>()
  const remove: string[] = []
  for (const scheduled of there) {
    const one = byId.get(scheduled.key)
    if (one && isAs(scheduled, one) && !isAstray(scheduled, one, now)) fine.add(scheduled.key)
    else remove.push(scheduled.key)
  }
  const upsert = wanted
    .filter((one) => !fine.has(scheduleId(one)))
    .map((one) => ({
      id: scheduleId(one),
      repeat: repeatOf(one),
      tick: { stream: one.stream, kind: one.kind },
    }))
  return { remove, upsert }
}

const nextTicks = (there: readonly Scheduled[], wanted: readonly Wanted[]): readonly NextTick[] =>
  wanted.flatMap(({ stream, kind }) => {
    const next = there.find(({ key }) => key === scheduleId({ stream, kind }))?.next
    return next === undefined ? [] : [{ stream, kind, at: new Date(next) }]
  })

const scheduleId = ({ stream, kind }: Tick): string => `${stream}/${kind}`

const repeatOf = ({ schedule }: Wanted): Repeat =>
  'cron' in schedule ? { pattern: schedule.cron } : { every: schedule.everyMs }

const isAs = ({ every, pattern }: Scheduled, { schedule }: Wanted): boolean =>
  'cron' in schedule ? pattern === schedule.cron : every === schedule.everyMs

const slackMs = 60_000

/** The clock jumped, or the chain of ticks broke: the next one is too far ahead, or long past without having come. */
function isAstray({ next }: Scheduled, { schedule }: Wanted, { nowMs, isStart }: Now): boolean {
  if (next === undefined) return false
  const latest = 'cron' in schedule ? nextSlot(schedule.cron, nowMs) : nowMs + schedule.everyMs
  const earliest = nowMs - ('cron' in schedule ? 0 : 2 * schedule.everyMs)
  return next > latest + slackMs || (!isStart && next < earliest - slackMs)
}

const nextSlot = (cron: string, nowMs: number): number =>
  CronExpressionParser.parse(cron, { currentDate: new Date(nowMs) })
    .next()
    .getTime()

// Turns the ticks of the schedules into run requests. It does nothing else, so that a tick takes no longer than adding a job.
export type TickWorker = Omit<Consumer, 'name' | 'queue'> & {
  readonly forCanaries: CanaryQueue
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

const longestTickMs = 60_000
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
  await keep(true).catch(async (error) => {
    await queue.close().catch(() => {})
    throw error
  })
  const isWanted = ({ stream, kind }: Tick) =>
    schedules.some((wanted) => wanted.stream === stream && wanted.kind === kind)
  let [tookMs, isBusy]: [number | null, boolean] = [null, false]
  const open = () => {
    const worker = new Worker<Tick>(
      tickQueueName,
      async ({ name, data }) => {
        tookMs = performance.now()
        if (name === canaryName) return await takeCanary()
        isBusy = true
        try {
          // A tick that was due when its schedule was removed still comes.
          if (isWanted(data)) await onTick(data)
        } finally {
          isBusy = false
        }
      },
      { ...placed(driver), ...lockOptions, concurrency: 1 },
    )
    return worker.on('error', onError)
  }
  let worker = open()
  return {
    forCanaries: queue,
    tookMs: () => tookMs,
    // While Postgres is away, a tick waits for it.
    isFull: () => isBusy && performance.now() - (tookMs ?? 0) < longestTickMs,
    leave: () => leave(worker),
    begin() {
      worker = open()
    },
    keepSchedules: () => keep(false),
    next: async () => nextTicks(await queue.getJobSchedulers(), schedules),
    async close() {
      await worker.close()
      await queue.close()
    },
  }
}
