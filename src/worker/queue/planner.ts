// The plan: one job for all workers of a database, which comes when the next run is due and hands what is due to the queues of runs, no
// more than they soon have room for. The job carries what the next plan has to know. Whatever happens to it, some worker notices within
// seconds and makes it anew; then Postgres says what is due.

import { createHash } from 'node:crypto'
import { DelayedError } from 'bullmq'
import type { Logger } from '../../log.ts'
import type { Cause } from '../../streams/catalog.ts'
import { sourceIn } from '../../streams/names.ts'
import { withTimeout } from '../../util/waiting.ts'
import {
  type Asked,
  keyOf,
  longestPauseMs,
  type Place,
  type Plan,
  type PlanState,
  planRuns,
  type QueueName,
  type Room,
  unknownState,
  type Wanted,
} from './plan.ts'
import { isLong, type QueuedRun, type RunQueue, slowAfterMs } from './requests.ts'

/** What Postgres says of the moment. */
export type Look = {
  /** By the clock of Postgres: those of workers differ. */
  readonly nowMs: number
  readonly wanted: readonly Wanted[]
  readonly asked: readonly (Asked & { readonly cause: Cause; readonly askedAt?: string })[]
  /** Polls that are overdue, whatever the queue knows. It may remember the database as it was before a restore. */
  readonly overdue: readonly string[]
  /** Sources that are to be read, and that this worker has not opened. Left out: none. */
  readonly absent?: readonly string[]
  /** Streams of which a poll is a first load. */
  readonly loading: ReadonlySet<string>
  readonly workers: number
  /** Which database it is. The queue may remember another one. */
  readonly database: string
}

export type PlanData = Partial<PlanState> & {
  /** Rises with each plan. */
  readonly round?: number
  /** Since when plans know what was dealt with. */
  readonly beganMs?: number
  /** Which polls were overdue, while what the first plan released may not have begun yet. */
  readonly overdue?: readonly string[]
  readonly database?: string
  /** Which schedules the last plan went by. */
  readonly settings?: string
  /** How long after that plan the next one comes. */
  readonly pauseMs?: number
  /** How many polls may wait, and whether more were due. */
  readonly mostPolls?: number
  readonly isFull?: boolean
}
type PlanJob = {
  readonly id?: string
  readonly data: PlanData
  updateData(data: never): Promise<void>
  moveToDelayed(timestampMs: number, token?: string): Promise<void>
  promote(): Promise<void>
  remove(): Promise<void>
  isDelayed(): Promise<boolean>
}
/** What BullMQ's queue offers for it. */
export type PlanQueue = {
  add(name: string, data: never, options: object): Promise<unknown>
  getJob(id: string): Promise<unknown>
}

export type PlannerOptions = {
  readonly queue: Pick<RunQueue, 'requestRun' | 'countsOf' | 'pollsLongerThan' | 'forPlan'>
  /** Where its records are asked for: those of one host mostly hang together. */
  readonly hostOf: (stream: string) => string
  readonly slowAfterMs?: number
  readonly look: () => Promise<Look>
  /** Asked of what is due by its schedule: whether there is anything to do. */
  readonly isDue: (place: Place) => Promise<boolean>
  /** Was handed to the queue of what `tidemark.due` asks for. */
  readonly onReleased: (asked: readonly (Place & { readonly askedAt: string })[]) => Promise<void>
  /** True when it has to wait for a part that does not work; whoever says so asks for it again later. */
  readonly mustWait: (request: QueuedRun) => boolean
  readonly slots: Readonly<Record<QueueName, number>>
  /** How many workers there are. Left out: this one alone. */
  readonly workers?: (() => number) | undefined
  /** A plan is nobody's for longer: the next worker to take it may have a Postgres that answers. */
  readonly longestPlanMs?: number
  /** As they are now. */
  readonly schedules: () => readonly Place[]
  readonly log: Logger
}
export type Planner = {
  /** Works on the job. Ends with an error by which BullMQ knows that the job goes on later; a second plan ends at once. */
  plan(job: unknown, token: string | undefined): Promise<void>
  /** Sees to it that there is a plan and that it comes round. False: it should have come, so jobs may not get through. */
  keep(): Promise<boolean>
  /** Plans at once. */
  planNow(): Promise<void>
}

export const planName = 'plan'
const usualLongestPlanMs = 10_000
/** While Postgres is away. */
const awayPauseMs = 5_000
/** It may be away for this worker alone: others have the plan soon, and this one does not look again for a while. */
const leftForMs = 1_000
const awayMs = 15_000
/** While this worker has not opened all sources: another one may have. */
const absentPauseMs = 5_000
/** A plan takes a while, too. */
const leastRoundMs = 15_000
const lateMs = 3_000
const lostMs = 15_000
/** After a plan of its own a worker looks again: the queue may have been emptied since, and a plan that is overdue may be lost. */
const keptMs = 6_000
const overdueMs = 1_000
const soonMs = 1_000
/** When so many plans in a row went by other schedules, a worker of this database has other settings. */
const contestedPlans = 3
const contested =
  'Another worker of this database has other schedules. All need the same STREAMS, SCHEDULE_…, LOOKBACK, RELATED and TRACKING_BASE_URL'

export function openPlanner(options: PlannerOptions): Planner {
  const { queue, longestPlanMs = usualLongestPlanMs, log } = options
  const settingsNow = () => fingerprintOf(options.schedules())
  let contestedInARow = 0
  let seen: { readonly round: number | undefined; readonly dueMs: number } | null = null
  /** `rests`: until then it need not be looked at: this worker had it a moment ago. `away`: Postgres did not answer a moment ago. */
  let [restsUntilMs, awayUntilMs] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]

  const planJob = async () => ((await queue.forPlan.getJob(planName)) as PlanJob | undefined) ?? null
  async function make(): Promise<void> {
    const jobOptions = { jobId: planName, attempts: 1, removeOnComplete: true, removeOnFail: true }
    await queue.forPlan.add(planName, {} as never, jobOptions)
    seen = null
  }

  /** Other programs may have written the pause. */
  function note(round: number | undefined, pauseMs: unknown): void {
    const restMs = Math.min(longestPauseMs, Number(pauseMs) || 0)
    seen = { round, dueMs: performance.now() + Math.max(leastRoundMs, restMs) }
  }
  function see(data: PlanData): void {
    if (seen !== null && seen.round === data.round) return
    note(data.round, data.pauseMs)
    const isOther = data.settings !== undefined && data.settings !== settingsNow()
    contestedInARow = isOther ? contestedInARow + 1 : 0
    if (contestedInARow === contestedPlans) log.warn(contested)
  }

  return {
    async plan(given, token) {
      const job = given as PlanJob
      if (job.id !== planName) return
      see(job.data)
      if (hasOthers(options) && performance.now() < awayUntilMs) return await leaveForNow(job, token)
      const next = await withTimeout(longestPlanMs, planOnce(options, job.data)).catch((error) => {
        awayUntilMs = performance.now() + awayMs
        return whileAway(options, job.data, error)
      })
      const round = (job.data.round ?? 0) + 1
      const data: PlanData = { ...next.data, round, settings: settingsNow(), pauseMs: next.pauseMs }
      await job.updateData(data as never)
      await job.moveToDelayed(Date.now() + next.pauseMs, token)
      note(round, next.pauseMs)
      restsUntilMs = performance.now() + Math.min(keptMs, next.pauseMs + overdueMs)
      throw new DelayedError()
    },
    async keep() {
      if (performance.now() < restsUntilMs) return true
      const job = await planJob()
      if (job === null) {
        await make()
        return true
      }
      see(job.data)
      const overdueForMs = performance.now() - (seen?.dueMs ?? 0)
      if (overdueForMs >= lostMs) {
        log.info('the plan of runs did not come round and is taken up again')
        seen = null
        if (await job.isDelayed()) await job.promote()
        // One that a worker holds cannot be removed; when that worker is gone, BullMQ gives it to another one.
        else await job.remove().then(make, () => {})
      }
      return overdueForMs < lateMs
    },
    async planNow() {
      const job = await planJob()
      if (job === null) return await make()
      // One that is under way may have looked already.
      await job.promote().catch(() => void setTimeout(() => job.promote().catch(() => {}), soonMs).unref())
    },
  }
}

const hasOthers = ({ workers = () => 1 }: PlannerOptions): boolean => workers() > 1

/** Ends with the error by which BullMQ knows that the job goes on later. */
async function leaveForNow(job: PlanJob, token: string | undefined): Promise<never> {
  await job.moveToDelayed(Date.now() + leftForMs, token)
  throw new DelayedError()
}

function whileAway(options: PlannerOptions, data: PlanData, error: unknown) {
  options.log.debug({ err: error }, 'nobody knows what is due while Postgres does not answer')
  return { data, pauseMs: hasOthers(options) ? leftForMs : awayPauseMs }
}

/** Schedules of named sources come from Postgres; that workers take them up one after the other is no mistake. */
function fingerprintOf(schedules: readonly Place[]): string {
  const ofEnvironment = schedules.filter(({ stream }) => sourceIn(stream) === '')
  return createHash('sha256').update(JSON.stringify(ofEnvironment)).digest('hex').slice(0, 12)
}

/** Mostly nothing is due, and then the queues need not be asked. */
const boundless: Room = { polls: Number.POSITIVE_INFINITY, loads: Number.POSITIVE_INFINITY }

/** Each takes a connection. */
const looksAtOnce = 4
/** Ten milliseconds each are as fast as they get. */
const mostPollsOfPlace = 100
const latePlanMs = 1_000
/** So long after its schedule a poll has begun when all goes well. */
const patienceMs = 60_000
/** By this worker, at once. */
export const askedAgain = (place: Place, nowMs: number): Look['asked'][number] => ({
  ...place,
  cause: 'again',
  dueMs: nowMs,
  askedMs: nowMs,
})

type KnownPlan = PlanState &
  Required<Pick<PlanData, 'beganMs' | 'overdue' | 'mostPolls' | 'isFull' | 'pauseMs'>>

/** Null: it is of another database, or no plan of Tidemark has written it. */
function readPlanData(data: PlanData, database: string): KnownPlan | null {
  const { throughMs, late, behind, beganMs, overdue, mostPolls, pauseMs } = data
  const isNumber = (value: unknown): value is number => Number.isFinite(value)
  const numbersIn = (given: unknown) =>
    Object.fromEntries(Object.entries(given ?? {}).filter(([, ms]) => isNumber(ms)))
  if (data.database !== database || !isNumber(throughMs) || !isNumber(beganMs)) return null
  return {
    throughMs,
    beganMs,
    overdue: Array.isArray(overdue) ? overdue : [],
    mostPolls: isNumber(mostPolls) ? mostPolls : 0,
    isFull: data.isFull === true,
    pauseMs: isNumber(pauseMs) ? pauseMs : 0,
    late: numbersIn(late),
    behind: numbersIn(behind),
  }
}

/** Hosts whose slow polls take enough places (P19): those of each a few, so that it is seen when it answers again, and those of all no more than there are. */
function slowHosts(hosts: readonly string[], mostOfEach: number, mostOfAll: number): ReadonlySet<string> {
  const counts = new Map<string, number>()
  for (const host of hosts) counts.set(host, (counts.get(host) ?? 0) + 1)
  const isFull = hosts.length >= mostOfAll
  return new Set([...counts].flatMap(([host, count]) => (isFull || count >= mostOfEach ? host : [])))
}

/**
 * What is due by its schedule and has nothing to do takes no room. Asked of what there is room for, and of twice as much as long as that has
 * nothing to do: to ask of all that is late, or to plan anew for each few, would take longer than the runs.
 */
async function planBusy(
  planIn: (times: number, wanted: Look['wanted']) => PlanOfLook,
  wanted: Look['wanted'],
  isDue: PlannerOptions['isDue'],
): Promise<PlanOfLook> {
  const told = new Set<string>()
  for (let [times, busy] = [1, wanted]; ; times *= 2) {
    const near = planIn(times, busy).released.filter((one) => !told.has(keyOf(one)))
    const idle = await idleAmong(near, isDue)
    if (idle.size === 0) return planIn(1, busy)
    for (const one of near) told.add(keyOf(one))
    busy = busy.filter((one) => !idle.has(keyOf(one)))
  }
}
type PlanOfLook = Plan<Look['asked'][number]>

/** When it cannot be found out, the run itself meets the error, and is owed until it is over. */
async function idleAmong(
  due: readonly (Place & { readonly ask: Asked | null })[],
  isDue: PlannerOptions['isDue'],
): Promise<ReadonlySet<string>> {
  const idle = new Set<string>()
  const places = due.filter(({ ask }) => ask === null).values()
  const look = async () => {
    for (const { stream, kind } of places)
      if (!(await isDue({ stream, kind }).catch(() => true))) idle.add(keyOf({ stream, kind }))
  }
  await Promise.all(Array.from({ length: looksAtOnce }, look))
  return idle
}

/**
 * How many runs may be released. Loads are planned again whenever one has ended, and polls once a second. The plan waits behind the polls that
 * it released: while it comes when it should, twice as many are released at once, and half as many when it comes later.
 */
async function roomIn(
  queue: PlannerOptions['queue'],
  given: {
    placesOf(name: QueueName): number
    readonly slow: number
    readonly known: KnownPlan | null
    readonly nowMs: number
  },
): Promise<{ readonly room: Room; readonly mostPolls: number }> {
  const { placesOf, slow, known, nowMs } = given
  const [polls, loads] = await Promise.all([queue.countsOf('polls'), queue.countsOf('loads')])
  // One more where there is no room: long runs give way to what waits.
  const usual = (name: QueueName, active: number) => Math.max(1, 2 * (placesOf(name) - active))
  // Workers have other places for those that hang, up to as many again. The plan itself takes none.
  const fewest = usual('polls', polls.active - 1 - Math.min(slow, placesOf('polls')))
  const most = Math.max(fewest, (known?.mostPolls ?? 0) - polls.waiting)
  const isLate = known !== null && nowMs - (known.throughMs ?? nowMs) > known.pauseMs + latePlanMs
  const times = isLate ? 0.5 : known?.isFull && polls.waiting === 0 ? 2 : 1
  const mostPolls = Math.min(Math.max(fewest, Math.floor(most * times)), placesOf('polls') * mostPollsOfPlace)
  return {
    room: { polls: mostPolls - polls.waiting, loads: usual('loads', loads.active) - loads.waiting },
    mostPolls,
  }
}

async function planOnce(
  options: PlannerOptions,
  given: PlanData,
): Promise<{ data: PlanData; pauseMs: number }> {
  const { queue, hostOf, slowAfterMs: slowMs = slowAfterMs, isDue, mustWait, slots } = options
  const { nowMs, wanted, overdue, loading, workers, database, absent = [], ...seen } = await options.look()
  const known = readPlanData(given, database)
  const beganMs = Math.min(known?.beganMs ?? nowMs, nowMs)
  // What the first plans released has to begin. What was not overdue then belongs to a source that came since.
  const isPatient = nowMs - beganMs <= patienceMs
  const before = new Set(isPatient ? (known?.overdue ?? overdue) : [])
  const unread = overdue.filter((stream) => !before.has(stream))
  const polls = unread.map((stream) => askedAgain({ stream, kind: 'incremental' }, nowMs))
  const asked = [...polls, ...seen.asked]
  const isLoad = ({ stream, kind }: Place) => kind === 'incremental' && loading.has(stream)
  const queueOf = (place: Place): QueueName => (isLong(place) || isLoad(place) ? 'loads' : 'polls')
  const slotsOf = (name: QueueName) => slots[name] * Math.max(1, workers)
  const planIn = (room: Room, rests: (place: Place) => boolean = () => false, busy = wanted) =>
    planRuns(known ?? unknownState, { nowMs, wanted: busy, asked, queueOf, room, rests, absent })
  let plan = planIn(boundless)
  let grown: Pick<PlanData, 'mostPolls' | 'isFull'> = { mostPolls: known?.mostPolls ?? 0 }
  if (plan.released.length > 0) {
    const { nextMs } = plan
    const slow = await queue.pollsLongerThan(slowMs)
    const { room, mostPolls } = await roomIn(queue, { placesOf: slotsOf, slow: slow.length, known, nowMs })
    const hosts = slow.map(({ stream }) => hostOf(stream))
    const slowAt = slowHosts(hosts, slots.polls, slotsOf('polls'))
    const rests = (place: Place) => queueOf(place) === 'polls' && slowAt.has(hostOf(place.stream))
    const roomFor = (times: number) => ({ polls: room.polls * times, loads: room.loads * times })
    const inRoom = await planBusy((times, busy) => planIn(roomFor(times), rests, busy), wanted, isDue)
    plan = { ...inRoom, nextMs: Math.min(nextMs, inRoom.nextMs) }
    const released = plan.released.filter((place) => queueOf(place) === 'polls').length
    grown = { mostPolls, isFull: released >= room.polls }
  }
  for (const { stream, kind, ask } of plan.released) {
    const request: QueuedRun = {
      stream,
      kind,
      cause: ask?.cause ?? 'tick',
      ...(isLoad({ stream, kind }) && { isLoad: true }),
      ...(ask?.askedAt !== undefined && { askedAt: ask.askedAt }),
    }
    if (!mustWait(request)) await queue.requestRun(request)
  }
  // After they were added: whoever is killed in between adds them twice, and never not at all.
  await options.onReleased(
    plan.released.flatMap(({ stream, kind, ask }) =>
      ask?.askedAt === undefined ? [] : { stream, kind, askedAt: ask.askedAt },
    ),
  )
  const data = { ...plan.state, database, beganMs, ...grown, ...(isPatient && { overdue }) }
  const longestMs = absent.length > 0 && workers > 1 ? absentPauseMs : longestPauseMs
  return { data, pauseMs: Math.min(longestMs, Math.max(0, plan.nextMs - nowMs)) }
}
