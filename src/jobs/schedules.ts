// Keeps the schedules of the tick queue as they should be: upserted only when missing, changed or astray, removed when nothing
// wants them. Guarded, because an upsert of a cron schedule near its slot can run it twice.

import { ErrorCode } from 'bullmq'
import { CronExpressionParser } from 'cron-parser'
import type { Lane } from '../streams.ts'

export type Tick = { readonly stream: string; readonly lane: Lane }
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

/** Another worker made it at the same moment. When it did not, the next look finds it missing. */
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
      tick: { stream: one.stream, lane: one.lane },
    }))
  return { remove, upsert }
}

export const nextTicks = (there: readonly Scheduled[], wanted: readonly Wanted[]): readonly NextTick[] =>
  wanted.flatMap(({ stream, lane }) => {
    const next = there.find(({ key }) => key === scheduleId({ stream, lane }))?.next
    return next === undefined ? [] : [{ stream, lane, at: new Date(next) }]
  })

const scheduleId = ({ stream, lane }: Tick): string => `${stream}/${lane}`

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
