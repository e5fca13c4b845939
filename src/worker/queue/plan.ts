// Which runs are due and which of them go to the queue now. Pure: the time, what is due beside the schedules, and how much room there
// is are arguments. The planner (planner.ts) keeps the state between two plans.
//
// A schedule asks for a run at fixed times. All of them up to `throughMs` were dealt with; so nothing has to be written down for a run
// that comes as its schedule says. What was due and found no room is late, and first in turn the next time.

import type { RunKind } from '../../streams/catalog.ts'
import { sourceIn } from '../../streams/names.ts'
import { cronTimes } from '../../util/cron.ts'

type Schedule = { readonly everyMs: number } | { readonly cron: string }
export type Place = { readonly stream: string; readonly kind: RunKind }
export const keyOf = ({ stream, kind }: Place): string => `${stream}/${kind}`

export type Scheduled = Place & { readonly schedule: Schedule }
export type Wanted = Scheduled & {
  /** Until when this was last done, as Postgres knows it; null: never. It counts where nobody knows when the last plan was. */
  readonly doneMs: number | null
}
/** Due at a time of its own, which somebody said at another time. */
export type Asked = Place & { readonly dueMs: number; readonly askedMs: number }

export type PlanState = {
  /** Null: nobody knows. */
  readonly throughMs: number | null
  /** By `keyOf`, since when. */
  readonly late: Readonly<Record<string, number>>
  /** Of sources that the last plans did not know: through when they were dealt with before. */
  readonly behind?: Readonly<Record<string, number>>
}
export const unknownState: PlanState = { throughMs: null, late: {} }

/** Short runs and long ones never take each other's places. */
export type QueueName = 'polls' | 'loads'
export type Room = Readonly<Record<QueueName, number>>

export type Given<Ask extends Asked> = {
  readonly nowMs: number
  /** Only what may be read at all: of no stream that is paused. */
  readonly wanted: readonly Wanted[]
  readonly asked: readonly Ask[]
  readonly queueOf: (place: Place) => QueueName
  /** How many runs may be released. */
  readonly room: Room
  /** What is not released now, whatever room there is. */
  readonly rests?: (place: Place) => boolean
  /** Sources that are to be read, and that this worker has not opened. Another plan deals with them. */
  readonly absent?: readonly string[]
}
export type Plan<Ask extends Asked> = {
  /** In turn. With what somebody asked for beside the schedule. */
  readonly released: readonly (Place & { readonly ask: Ask | null })[]
  readonly state: PlanState
  /** When the next run is due. */
  readonly nextMs: number
}

/** At least so often it is looked at what was missed. What people and other programs ask for is planned at once. */
export const longestPauseMs = 30_000
/** While something is due and finds no room. */
const crowdedPauseMs = 1_000
/** While all that is due rests. */
const restingPauseMs = 5_000

export function planRuns<Ask extends Asked>(before: PlanState, given: Given<Ask>): Plan<Ask> {
  const { nowMs, wanted, asked, queueOf, room, rests = () => false, absent = [] } = given
  const places = new Map<string, Place>([...wanted, ...asked].map((one) => [keyOf(one), one]))
  const since = new Map<string, number>()
  const isDueSince = (key: string, ms: number) => since.set(key, Math.min(ms, since.get(key) ?? nowMs))
  for (const [key, ms] of Object.entries(before.late)) if (places.has(key)) isDueSince(key, ms)
  for (const one of wanted) {
    // Where the clock was put back, nothing is due in this plan, and everything at its next time.
    const fromMs = before.behind?.[sourceIn(one.stream)] ?? before.throughMs ?? one.doneMs
    const dueMs = fromMs === null ? nowMs : nextTimeMs(one.schedule, fromMs)
    if (dueMs <= nowMs) isDueSince(keyOf(one), dueMs)
  }
  const isDue = ({ dueMs, askedMs }: Ask) => dueMs <= nowMs || askedMs > nowMs
  const asks = new Map(asked.filter(isDue).map((one) => [keyOf(one), one]))
  for (const [key, { dueMs }] of asks) isDueSince(key, dueMs)

  const released: (Place & { ask: Ask | null })[] = []
  const late: Record<string, number> = {}
  let pauseMs = longestPauseMs
  // Apart, for a short run that waits takes no turn of a long one.
  for (const name of ['polls', 'loads'] as const) {
    const own = [...since].filter(([key]) => queueOf(places.get(key) as Place) === name)
    let left = room[name]
    for (const key of inTurn(own, places)) {
      const { stream, kind } = places.get(key) as Place
      const isResting = rests({ stream, kind })
      if (!isResting && left-- > 0) {
        released.push({ stream, kind, ask: asks.get(key) ?? null })
        continue
      }
      late[key] = since.get(key) ?? nowMs
      pauseMs = Math.min(pauseMs, isResting ? restingPauseMs : crowdedPauseMs)
    }
  }
  let nextMs = nowMs + pauseMs
  for (const { schedule } of wanted) nextMs = Math.min(nextMs, nextTimeMs(schedule, nowMs))
  for (const one of asked) if (!isDue(one)) nextMs = Math.min(nextMs, one.dueMs)
  const plan = { released, state: { throughMs: nowMs, late }, nextMs }
  return absent.length === 0 ? plan : { ...plan, state: { ...plan.state, ...leftOut(before, plan, absent) } }
}

/** What another plan has to know of sources that this one did not know. */
function leftOut(
  before: PlanState,
  { state }: Pick<Plan<Asked>, 'state'>,
  absent: readonly string[],
): Pick<PlanState, 'late' | 'behind'> {
  const isAbsent = new Set(absent)
  const late = Object.entries(before.late).filter(([key]) => isAbsent.has(sourceIn(key)))
  const behind = absent.map((source) => [source, before.behind?.[source] ?? before.throughMs] as const)
  return {
    late: { ...state.late, ...Object.fromEntries(late) },
    behind: Object.fromEntries(behind.flatMap(([source, ms]) => (ms === null ? [] : [[source, ms]]))),
  }
}

/**
 * One of each source, then another of each, and the same among the streams of a source; of a stream and of a turn what has waited longest
 * goes first. So none starves, and none waits for all that another source has to do (P19).
 */
function inTurn(
  since: readonly (readonly [key: string, ms: number])[],
  places: ReadonlyMap<string, Place>,
): readonly string[] {
  const oldest = since.toSorted(([, one], [, other]) => one - other).map(([key]) => key)
  const streamOf = (key: string) => places.get(key)?.stream ?? ''
  return dealt(dealt(oldest, streamOf), (key) => sourceIn(streamOf(key)))
}

/** One of each group, then another of each; in the same order within a turn. */
function dealt(keys: readonly string[], groupOf: (key: string) => string): readonly string[] {
  const taken = new Map<string, number>()
  const turns = keys.map((key) => {
    const turn = taken.get(groupOf(key)) ?? 0
    taken.set(groupOf(key), turn + 1)
    return { key, turn }
  })
  return turns.toSorted((one, other) => one.turn - other.turn).map(({ key }) => key)
}

/** The first time of a schedule after a moment. Intervals are counted from the beginning of time, so that all workers mean the same. */
export const nextTimeMs = (schedule: Schedule, afterMs: number): number =>
  'everyMs' in schedule
    ? (Math.floor(afterMs / schedule.everyMs) + 1) * schedule.everyMs
    : cronTimes(schedule.cron, afterMs).nextMs
