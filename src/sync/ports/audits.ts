// What comparing the mirror with the upstream needs of the store: which rows a listing lacked, how rows and records differ, and why.

import type { Records } from '../../streams/record.ts'

/** Living rows that a complete listing did not show. */
export type Shortfall = {
  readonly living: number
  readonly missing: number
  readonly seen: number
  /** More may be missing: only a listing of everything counts them all. */
  readonly isLeast?: boolean
  /** Rows that were marked just before, where only together with them too many are missing. */
  readonly marked?: number
  /** Made of the keys that are missing: another listing that lacks the same rows has the same one. */
  readonly fingerprint?: string | null
}
/** An empty listing, or one that lost more than a fifth, proves nothing (P7). */
const isDoubtful = ({ living, missing, seen }: Shortfall): boolean =>
  missing > 0 && (seen === 0 || missing * 5 > living)

/**
 * What is too much by itself, or together with the rows that were marked just before: too much at once is too much bit by bit as well (P7).
 * Null: it is believed.
 */
export function doubtfulWith(shortfall: Shortfall, marked: number): Shortfall | null {
  const { living, missing } = shortfall
  if (isDoubtful(shortfall)) return shortfall
  const together = { ...shortfall, living: living + marked, missing: missing + marked }
  return missing > 0 && isDoubtful(together) ? { ...shortfall, marked } : null
}

/** For list streams, whose records cannot be looked at singly. */
export type ListAbsences = {
  /** How many living rows no page from this one on has shown. */
  count(firstPage: number): Promise<number>
  /**
   * After a complete listing whose pages began at `firstPage`: marks living rows that were missing from this one and from the
   * complete listing before it (P7). Marks nothing and reports `blocked` when the listing is empty or lost more than a fifth, unless an
   * operator approved that many deletions.
   */
  settle(firstPage: number, approved?: number): Promise<Absences>
}
export type Absences = {
  readonly marked: number
  readonly waiting: number
  readonly blocked: number
  /** Within a day, where only together with them too many are missing. */
  readonly markedBefore?: number
}

// ── reconcile and verification ───────────────────────────────────────────────────────────────────────────────

/** Rows that the source itself marked as deleted, before the run began: how many its listing showed, and some that it did not. */
export type MarkedBySource = { readonly shown: number; readonly hidden: readonly string[] }

/** The living rows that the listing of this run has not shown, and what is known of them. */
export type AbsentRows = {
  /** Notes which they are; those written since the run began are left out. */
  gather(): Promise<Shortfall>
  markedBySource(limit: number): Promise<MarkedBySource>
  /** Some of the keys gathered, from all over them. */
  some(limit: number): Promise<readonly string[]>
  /** Keys gathered, in their order, after the one given. They are looked at after this. */
  keys(after: string | null, limit: number): Promise<readonly string[]>
  /** Forgets keys gathered that a listing showed since. */
  spareShown(): Promise<void>
  noteGone(gone: readonly Gone[]): Promise<void>
  /** Notes that these are there although the list lacks them. */
  noteThere(keys: readonly string[]): Promise<void>
  /** The lowest of the keys above this one, where keys are whole numbers, and the time by the clock of the database. */
  lowestAbove(after: bigint | null): Promise<{ readonly key: bigint; readonly at: string } | null>
  /** Compares with a slice of the list that was read once more: forgets what it shows now. Returns one key of those it lacked again; null: none. */
  lackedAgain(slice: Omit<Slice, 'withDeleted'>): Promise<string | null>
  /** Notes all those in the slice as gone, by what was asked for after this time. */
  noteSliceGone(slice: Pick<Slice, 'after' | 'to'>, at: string, evidence: string): Promise<void>
  countGone(): Promise<number>
  /** Takes back what was noted of all of them. */
  forgetGone(): Promise<void>
  /** Marks what was noted as gone, in one transaction; not a row that was written since the run began (P7). */
  markGone(): Promise<number>
}
export type Gone = { readonly key: string; readonly evidence: string }
/** How the evidence begins where the list alone is the proof. */
export const provenByParts = 'missing from two readings of its part of the list'
/** What the upstream said of one missing row, asked for by its key. */
export type MissingLook = { readonly key: string; readonly answer: 'gone' | 'there' | 'unclear' }

/** What a list showed of the keys above `after` and up to `to`. */
export type Slice = {
  readonly after: bigint | null
  readonly to: bigint | null
  readonly listed: readonly bigint[]
  readonly withDeleted: boolean
}

/** How many keys a list should show. `withDeleted`: also those that the source itself marks as deleted. */
export type ShownCounts = { readonly living: number; readonly withDeleted: number }

/** The rows that the upstream's list should show, by keys that are whole numbers. */
export type ShownRows = {
  /** Null where keys are no whole numbers, or there is no table yet. */
  counts(): Promise<ShownCounts | null>
  /** The key with this rank among them, counted from 1. */
  keyAt(rank: number, withDeleted: boolean): Promise<bigint | null>
  /** How many of these are rows that live. */
  countLiving(keys: readonly bigint[]): Promise<number>
  /** How many rows of a slice its list lacks, of those that were there when the run began; suspects aside. Forgets of those it shows that they were hidden or suspects. */
  countMissing(slice: Slice): Promise<{ readonly all: number; readonly living: number }>
  /** Remembers these as suspects of the current round of the sweep, until a look tells of each, or the round ends. */
  suspect(slice: Slice): Promise<void>
  /** How many of the suspects are living rows. */
  countSuspects(): Promise<number>
  /** Keys of suspects in their order, after the one given. */
  suspects(after: string | null, limit: number): Promise<readonly string[]>
  /** Keys of rows that the list lacks although their records are there, those that were looked at longest ago first. */
  hiddenKeys(limit: number): Promise<readonly bigint[]>
  /** Notes that a look said so. They do not count as missing until the list shows them, or a look says that they are gone. */
  noteThere(keys: readonly string[]): Promise<void>
  /** Keys of rows that a reconcile marked as gone by parts of the list, without a look at each, those marked longest ago first. */
  markedByParts(limit: number): Promise<readonly bigint[]>
  /** The key of a row that the source marks as deleted. */
  someDeleted(): Promise<bigint | null>
  /**
   * Marks rows whose records were looked at and are gone; not one that was written since the run began, and none while a person has to
   * decide about deletions (P7). Keeps the evidence.
   */
  markGone(gone: readonly Gone[], askedAt: string): Promise<number>
  /** The time by the clock of the database: read before records are asked for. */
  clock(): Promise<string>
  /** Remembers that too many vanished to be believed; null takes it back. */
  block(shortfall: Shortfall | null): Promise<void>
  /** Whether a person has to decide about deletions, and how many rows were marked before, as `Reconciliation.markedBefore` tells. */
  beforehand(): Promise<{
    readonly isBlocked: boolean
    readonly marked: number
    /** There are `hiddenKeys` or `markedByParts`. */
    readonly mustLookAgain: boolean
    /** As `sweep` has it. */
    readonly sweepBeganAt: Date | null
  }>
  /** How far the current round of the sweep has come, and when it began; null: there was none. */
  sweep(): Promise<{ readonly after: bigint | null; readonly beganAt: Date | null }>
  /** Null begins a new round, without suspects. */
  moveSweep(after: bigint | null): Promise<void>
  /** Every record that had vanished by then is marked, but for those that lists hide: of these it is known when they were last looked at. */
  knownThrough(at: Date): Promise<void>
  /**
   * The list has as many records as there are rows. But one record that vanished and one that became visible late cancel each other. So
   * it counts only when a look-back that reached all the way, which brings the late one, has gone by, and they still are as many.
   */
  ranksAgree(): Promise<void>
  /** The list and the rows differ in so many places, and no look has told why. */
  ranksDiffer(differences: number): Promise<void>
}

export type Reconciliation = {
  /** How many rows were marked within the last day, since a person last approved deletions. */
  markedBefore(): Promise<number>
  /** A person keeps the very rows that are missing. */
  isRejected(shortfall: Shortfall): Promise<boolean>
  /** A person has approved what this run marks: it does not count with what is missing later. */
  noteApproved(): Promise<void>
  /** Remembers that a listing was too small to be believed, and what looks at some of the missing rows said; null takes it back. */
  block(shortfall: Shortfall | null, looks?: readonly MissingLook[]): Promise<void>
  /** Rows that only this run found, to be shown until somebody acknowledges them. */
  recordMissedRows(rows: number, samples: readonly Arrival[]): Promise<void>
  /** How the rows differ from these records now. Writes nothing. */
  compare(page: Records): Promise<readonly Difference[]>
  /** Notes that the other records which earlier runs called fallen back have been mended since. */
  noteMended(stillFallen: readonly string[]): Promise<void>
  /** The differences of one cause that this run recorded are mended, and how. */
  cure(cause: Cause, how: string): Promise<void>
  /**
   * Which columns differed at the same row version in at least half of the rows. One that did so in three reconciles in a row is
   * volatile from here on: returns the fields that are newly so.
   */
  noteSilent(columns: readonly string[]): Promise<readonly VolatileField[]>
  /** Fields that were found to be volatile, and what they were when a reconcile last looked. None where an operator chose them. */
  volatileFields(): Promise<readonly WatchedField[]>
  /** Keeps what they are now. One that was steady three times in a row is compared from here on: returns the names of those. */
  noteSteady(looks: readonly FieldLook[]): Promise<readonly string[]>
  /** After a complete listing. A rewind had let older versions replace rows; from now on they cannot any more (P3). */
  guardAgain(): Promise<void>
}

/** What a field was in some records, by their keys: their versions, and what tells the value from any other. */
export type FieldSample = {
  readonly at: string
  readonly records: Readonly<Record<string, { readonly version: string; readonly value: string }>>
}
/** `field` in lower case. */
export type WatchedField = { readonly field: string; readonly sample: FieldSample | null }
export type FieldLook = {
  readonly field: string
  /** Compared with the sample before; unknown: too few records kept their version. */
  readonly outcome: 'steady' | 'changed' | 'unknown'
  readonly sample: FieldSample
}

export type Verification = {
  /** How the rows differ from these records now. Writes nothing; never answers `extra`. */
  compare(page: Records): Promise<readonly Difference[]>
  /** Remembers what is to be looked at again. */
  suspect(found: readonly Difference[]): Promise<void>
  /** Which of these were suspected with the same record; they are suspected no more. */
  confirm(found: readonly Difference[]): Promise<ReadonlySet<string>>
  suspects(after: string | null, limit: number): Promise<readonly string[]>
  /** These rows are known to be wrong: the next record that comes replaces them, whatever its version. Not what was written meanwhile. */
  invalidateRows(found: readonly Pick<Difference, 'key' | 'mirrored'>[]): Promise<void>
  randomKeys(limit: number): Promise<readonly string[]>
  /** The live position as it is now. */
  currentPosition(): Promise<bigint>
} & Pick<ShownRows, 'beforehand'>

/**
 * `missing`: no row. `stale`: the row has an older version, or is not of this record where there are no versions. `content`: the
 * same version, or record, with other values. `extra`: a living row whose record is gone.
 */
type DifferenceKind = 'missing' | 'stale' | 'content' | 'extra'
export type Difference = {
  readonly key: string
  readonly kind: DifferenceKind
  /** Which columns differ, where `kind` is `content`. A field that has no column is named as in `_rescued`. */
  readonly columns: readonly string[]
  /** The record's version, and the row's. */
  readonly version: bigint | null
  readonly mirrored: bigint | null
  /** Tells the record's content from any other. */
  readonly record: string | null
  /** The row says that it holds this very record, or is known to have been changed here. */
  readonly isLocal: boolean
  /** The row is marked as gone, and the record is there. */
  readonly isBack: boolean
  /** A rewind said that the upstream may have gone back behind the row. */
  readonly isRewound: boolean
}
/** How a record that came differed from the row as it was before, and whether it was written: not where the row has a newer version. */
export type Arrival = Difference & { readonly isWritten: boolean }
/** By the name that the upstream gives it, and as differences name its column. */
export type VolatileField = { readonly field: string; readonly column: string }

/**
 * Why a row differed from its record (P16). `late`: a version never stored before, below the position. `silent`: the same version
 * with other content; `volatile`: again and again, in the same field. `fell back`: a lower version; `restored`: of another version or content,
 * after a rewind or in a new epoch. `local damage`: changed here. `deleted`, `undeleted`: gone, and back. `twin`: two records have its key.
 */
export const causes = [
  'late',
  'silent',
  'volatile',
  'fell back',
  'restored',
  'local damage',
  'deleted',
  'undeleted',
  'twin',
] as const
export type Cause = (typeof causes)[number]
export type DifferenceCounts = Readonly<Partial<Record<Cause, number>>>
export type CausedDifference = Pick<Difference, 'key' | 'columns' | 'version' | 'mirrored'> & {
  readonly cause: Cause
  readonly isCured: boolean
  /** How it was mended, or will be. */
  readonly cure: string | null
}
