// What a reconcile and the search for vanished records need of the mirror in memory: which rows a listing lacked, and which of them
// may be marked as gone (P7); and the rows that are looked at again and again (P14).

import type { JsonObject } from '../../src/json/json.ts'
import { isFlaggedDeleted, type Row } from '../../src/streams/record.ts'
import type {
  AbsentRows,
  Difference,
  Gone,
  Reconciliation,
  ShownRows,
  Slice,
} from '../../src/sync/ports/audits.ts'
import type { Pin, PinnedRecords } from '../../src/sync/ports/store.ts'
import type { StoredRow } from './model-store.ts'

export type AuditedRows = {
  readonly rows: Map<string, StoredRow>
  /** Rises with every write and every run. */
  readonly tick: () => number
  readonly now: () => Date
  /** Keys that lists hide although their records are there, with the time of the last look. */
  readonly hidden: Map<string, Date>
  /** Keys of records that could not be rows. */
  readonly quarantined: Set<string>
  /** When rows were marked, each as often as rows were. */
  readonly marks: Date[]
  /** What an operator is asked about: deletions that were blocked, by the keys that are missing. */
  blocked(): { readonly missing: string; readonly isRejected: boolean } | null
  block(missing: string | null): void
  /** Every record that had vanished by then is marked. */
  knownThrough(at: Date): void
  ranksAgree(at: Date): void
  missed(rows: number): void
}

const living = (rows: AuditedRows['rows']) => [...rows.values()].filter(({ gone }) => gone === null)

function mark(
  { rows, tick, hidden, marks }: AuditedRows,
  gone: readonly Gone[],
  begun: number,
  startedAt: Date,
): number {
  let marked = 0
  for (const { key } of gone) {
    const row = rows.get(key)
    if (!row || row.gone === 'absent' || row.writtenAt > begun) continue
    if (row.gone === null) {
      marked += 1
      marks.push(startedAt)
    }
    hidden.delete(key)
    rows.set(key, { ...row, gone: 'absent', writtenAt: tick(), markedAt: startedAt })
  }
  return marked
}

export function modelAbsentRows(
  mirror: AuditedRows,
  begun: number,
  isSeen: (key: string) => boolean,
  seenCount: () => number,
): AbsentRows {
  const startedAt = mirror.now()
  let gathered: string[] = []
  const noted: Gone[] = []
  return {
    async markedBySource(limit) {
      const marked = [...mirror.rows.values()].filter(
        ({ gone, writtenAt }) => gone === 'source' && writtenAt <= begun,
      )
      const lacking = marked.filter(({ key }) => !isSeen(key)).map(({ key }) => key)
      return { shown: marked.length - lacking.length, hidden: lacking.sort().reverse().slice(0, limit) }
    },
    async gather() {
      for (const key of mirror.hidden.keys()) if (isSeen(key)) mirror.hidden.delete(key)
      const alive = living(mirror.rows)
      gathered = alive
        .filter(({ key, writtenAt }) => !isSeen(key) && writtenAt <= begun)
        .map(({ key }) => key)
        .sort()
      const fingerprint = gathered.join()
      return { living: alive.length, missing: gathered.length, seen: seenCount(), fingerprint }
    },
    some: async (limit) => gathered.slice(0, limit),
    keys: async (after, limit) => gathered.filter((key) => after === null || key > after).slice(0, limit),
    async spareShown() {
      gathered = gathered.filter((key) => !isSeen(key))
    },
    async noteGone(gone) {
      noted.push(...gone)
    },
    async noteThere(keys) {
      for (const key of keys) mirror.hidden.set(key, mirror.now())
    },
    async lowestAbove(after) {
      const keys = gathered.map(BigInt).filter((key) => after === null || key > after)
      return keys.length === 0 ? null : { key: keys.reduce((a, b) => (a < b ? a : b)), at: '' }
    },
    async lackedAgain(slice) {
      gathered = gathered.filter((key) => !slice.listed.includes(BigInt(key)))
      return gathered.find((key) => isInSlice(slice, BigInt(key))) ?? null
    },
    async noteSliceGone(slice, _at, evidence) {
      for (const key of gathered) if (isInSlice(slice, BigInt(key))) noted.push({ key, evidence })
    },
    countGone: async () => noted.length,
    async forgetGone() {
      noted.length = 0
    },
    markGone: async () => mark(mirror, noted, begun, startedAt),
  }
}

const isInSlice = ({ after, to }: Pick<Slice, 'after' | 'to'>, key: bigint): boolean =>
  (after === null || key > after) && (to === null || key <= to)

export const isSameRecord = (one: JsonObject, other: JsonObject): boolean =>
  one === other || JSON.stringify(one) === JSON.stringify(other)

export function differenceOf({ rows }: Pick<AuditedRows, 'rows'>, row: Row): Difference | null {
  const { key, version, record } = row
  const known = rows.get(key)
  const isSame = known?.version === version
  const isBack = known?.gone === 'absent' && !isFlaggedDeleted(record)
  if (isSame && !isBack && known && isSameRecord(record, known.record)) return null
  return {
    ...{ key, version, isBack, isLocal: false, isRewound: false },
    mirrored: known?.version ?? null,
    kind: known === undefined ? 'missing' : (version ?? 0n) > (known.version ?? 0n) ? 'stale' : 'content',
    columns: ['content'],
    record: null,
  }
}

export const modelReconciliation = (mirror: AuditedRows, guardAgain: () => void): Reconciliation => ({
  markedBefore: async () => markedWithinDay(mirror),
  block: async (shortfall) => mirror.block(shortfall && (shortfall.fingerprint ?? '')),
  recordMissedRows: async (rows) => mirror.missed(rows),
  guardAgain: async () => guardAgain(),
  isRejected: async ({ fingerprint }) =>
    mirror.blocked()?.isRejected === true && mirror.blocked()?.missing === fingerprint,
  async noteApproved() {
    mirror.marks.length = 0
  },
  compare: async (page) => page.rows.flatMap((row) => differenceOf(mirror, row) ?? []),
  noteMended: async () => {},
  cure: async () => {},
  noteSilent: async () => [],
  volatileFields: async () => [],
  noteSteady: async () => [],
})

const markedWithinDay = ({ marks, now }: AuditedRows): number =>
  marks.filter((at) => at.getTime() > now().getTime() - 86_400_000).length

export type Sweep = { after: bigint | null; beganAt: Date | null; readonly suspects: Set<string> }

export function modelShownRows(mirror: AuditedRows, begun: number, sweep: Sweep): ShownRows {
  const startedAt = mirror.now()
  const shown = (withDeleted: boolean) =>
    [...mirror.rows.values()]
      .filter(({ gone }) => gone === null || (withDeleted && gone === 'source'))
      .sort((a, b) => Number(a.key) - Number(b.key))
  /** What the list shows as well: records that cannot be rows. */
  const listed = (withDeleted: boolean) =>
    [...new Set([...shown(withDeleted).map(({ key }) => key), ...mirror.quarantined])]
      .map(BigInt)
      .sort((a, b) => (a < b ? -1 : Number(a > b)))
  const missing = ({ after, to, listed, withDeleted }: Slice) =>
    shown(withDeleted)
      .filter(({ writtenAt }) => writtenAt <= begun)
      .map((row) => ({ ...row, number: BigInt(row.key) }))
      .filter(({ number }) => isInSlice({ after, to }, number))
      .filter(
        ({ key, number }) => !listed.includes(number) && !mirror.hidden.has(key) && !sweep.suspects.has(key),
      )
  return {
    counts: async () => ({ living: listed(false).length, withDeleted: listed(true).length }),
    keyAt: async (rank, withDeleted) => listed(withDeleted)[rank - 1] ?? null,
    countLiving: async (keys) => living(mirror.rows).filter(({ key }) => keys.includes(BigInt(key))).length,
    async countMissing(slice) {
      for (const key of slice.listed) {
        mirror.hidden.delete(String(key))
        sweep.suspects.delete(String(key))
      }
      const all = missing(slice)
      return { all: all.length, living: all.filter(({ gone }) => gone === null).length }
    },
    async suspect(slice) {
      for (const { key } of missing(slice)) sweep.suspects.add(key)
    },
    countSuspects: async () => living(mirror.rows).filter(({ key }) => sweep.suspects.has(key)).length,
    suspects: async (after, limit) =>
      [...sweep.suspects]
        .sort()
        .filter((key) => after === null || key > after)
        .slice(0, limit),
    hiddenKeys: async (limit) =>
      [...mirror.hidden]
        .sort(([, a], [, b]) => a.getTime() - b.getTime())
        .slice(0, limit)
        .map(([key]) => BigInt(key)),
    async noteThere(keys) {
      for (const key of keys) {
        mirror.hidden.set(key, mirror.now())
        sweep.suspects.delete(key)
      }
    },
    markedByParts: async () => [],
    async someDeleted() {
      const row = [...mirror.rows.values()].find(({ gone }) => gone === 'source')
      return row ? BigInt(row.key) : null
    },
    async markGone(gone) {
      for (const { key } of gone) {
        sweep.suspects.delete(key)
        mirror.quarantined.delete(key)
      }
      return mark(mirror, gone, begun, startedAt)
    },
    clock: async () => mirror.now().toISOString(),
    // What a reconcile blocked or a person rejected stands.
    async block(shortfall) {
      if (!shortfall || !mirror.blocked()) mirror.block(shortfall && '')
    },
    beforehand: async () => ({
      ...{ isBlocked: mirror.blocked() !== null, marked: markedWithinDay(mirror) },
      ...{ mustLookAgain: mirror.hidden.size > 0, sweepBeganAt: sweep.beganAt },
    }),
    sweep: async () => ({ ...sweep }),
    async moveSweep(after) {
      if (after === null) sweep.beganAt = startedAt
      if (after === null) sweep.suspects.clear()
      sweep.after = after
    },
    async knownThrough(at) {
      const looked = [...mirror.hidden.values()].reduce((a, b) => (a < b ? a : b), at)
      mirror.knownThrough(looked < at ? looked : at)
    },
    ranksAgree: async () => mirror.ranksAgree(startedAt),
    ranksDiffer: async () => {},
  }
}

export function modelPinnedRecords(
  pins: Map<string, Pin>,
  { rows, now }: Pick<AuditedRows, 'rows' | 'now'>,
  isDoubtful: (row: StoredRow) => boolean,
  distrusted: Set<string>,
  beginEpoch: () => void,
): PinnedRecords {
  const known = () =>
    [...rows.values()]
      .filter((row) => row.gone !== 'absent' && !isDoubtful(row))
      .map(({ key, version, gone }) => ({ key, version: version ?? 0n, isMarked: gone !== null }))
      .sort((a, b) => Number(b.version - a.version))
  const pin = (row: Pick<Pin, 'key' | 'version' | 'isMarked'> | undefined, lookedAt: Date | null) => {
    if (row && !pins.has(row.key)) pins.set(row.key, { ...row, lookedAt, lostSince: null })
  }
  return {
    async known() {
      const there = known()
      for (const { key, version } of [...pins.values()])
        if (!there.some((row) => row.key === key && row.version === version)) pins.delete(key)
      return { pins: [...pins.values()], top: there[0]?.version ?? null }
    },
    async pinWithin(ranges) {
      const there = known().sort((a, b) => Number(a.isMarked) - Number(b.isMarked))
      for (const { above, upTo } of ranges)
        pin(
          there.find(({ version }) => version > above && version <= upTo),
          now(),
        )
    },
    async pinNext(wanted, beside) {
      const there = known()
      for (const { key, version } of wanted) {
        const place = there.findIndex((row) => row.key === key && row.version === version)
        if (place < 0) continue
        for (const row of there.slice(Math.max(0, place - beside), place + beside + 1)) pin(row, null)
      }
    },
    async note(looked) {
      for (const { isReleased, ...one } of looked)
        if (pins.get(one.key)?.version !== one.version) continue
        else if (isReleased) pins.delete(one.key)
        else pins.set(one.key, one)
    },
    async invalidateRows(fallen) {
      for (const { key, version } of fallen) if (rows.get(key)?.version === version) distrusted.add(key)
    },
    beginEpoch: async () => beginEpoch(),
    shownByAnother: async () => null,
  }
}
