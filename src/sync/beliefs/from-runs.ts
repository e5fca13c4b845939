// What runs learn about beliefs in passing, and record: after looks at pinned records, after a look-back, after a reconcile.

import { formatDuration, plural } from '../../util/text.ts'
import { type Detected, detected, toRecord } from '../capabilities.ts'
import type { LateArrival, RunCore } from '../ports/store.ts'

type Recording = Pick<RunCore, 'state' | 'findings'>

const record = (run: Recording, seen: readonly Detected[], now: Date): Promise<void> =>
  run.findings.learn(toRecord(run.state.beliefs, seen, now))

/** After a look-back that reached all the way: was anything later than it is long? */
export function recordLateness(
  run: Recording,
  lookbackMs: number,
  late: readonly LateArrival[],
  now: Date,
): Promise<void> {
  const worstMs = Math.max(0, ...late.map(({ lateMs }) => lateMs))
  const reach = `a look-back of ${formatDuration(lookbackMs)}`
  const holds = worstMs <= lookbackMs
  const found =
    late.length === 0
      ? 'nothing late'
      : `${plural(late.length, 'late row')}, the worst by ${formatDuration(worstMs)},`
  return record(run, [detected('lateness', holds ? 'holds' : 'later', `${found} in ${reach}`)], now)
}

type LookedAt<Look> = {
  readonly kind: 'as before' | 'waiting' | 'fallen' | 'went back'
  readonly fallen?: readonly Look[]
  readonly lost?: readonly Look[]
  readonly looked: number
  readonly describe: (look: Look) => string
}

/** After looks at pinned records: did one fall, or so many that it is another upstream? */
export async function recordPinned<Look>(run: Recording, seen: LookedAt<Look>, now: Date): Promise<void> {
  const { kind, looked, describe } = seen
  // While a lagging replica may be the reason, nothing can be said yet.
  if (kind === 'waiting' || looked === 0) return
  const lower = (seen.lost ?? seen.fallen ?? []).map(describe)
  const [first = null] = lower
  const isOther = kind === 'went back'
  const stand = `${plural(looked, 'pinned record')} looked at`
  const evidence =
    first === null ? `${stand}, none has a lower version than here` : `${lower.length} of ${stand}: ${first}`
  await record(
    run,
    [
      detected('versions_rise', first === null ? 'yes' : 'no', evidence),
      detected('same_upstream', isOther ? 'no' : 'yes', evidence),
    ],
    now,
  )
}

export type Compared = {
  readonly listed: number
  /** Two records of one answer had the same key. */
  readonly twins: number
  /** Only the list brought them, though neworchanged should have. */
  readonly missedRows: number
  /** The list lacked them, and they are there when asked for by id. */
  readonly alive: number
  /** The list lacked them, and whether they are there could not be seen. */
  readonly unclear: number
}

/** After a reconcile that compared everything. A list that showed no record, or looks that told nothing, prove nothing (P11). */
export function recordComparison(run: Recording, compared: Compared, now: Date): Promise<void> {
  const { listed, twins, missedRows, alive, unclear } = compared
  const records = plural(listed, 'record')
  const isSame = missedRows === 0 && alive === 0
  const isCertain = listed > 0 && unclear === 0
  const differing = `${plural(missedRows, 'row')} came by the list alone, and the list lacked ${plural(alive, 'record')} that are there`
  return record(
    run,
    [
      ...(isSame && isCertain
        ? [detected('list_shows_changes', 'yes', `a reconcile of ${records} found both the same`)]
        : []),
      ...(isSame ? [] : [detected('list_shows_changes', 'no', differing)]),
      ...(listed > 0
        ? [
            detected(
              'keys_unique',
              twins === 0 ? 'yes' : 'no',
              `${twins === 0 ? 'no key' : plural(twins, 'key')} twice in answers with ${records}`,
            ),
          ]
        : []),
      ...(missedRows > 0
        ? [
            detected(
              'lateness',
              'later',
              `a reconcile found ${plural(missedRows, 'row')} that no look-back had brought`,
            ),
          ]
        : []),
    ],
    now,
  )
}
