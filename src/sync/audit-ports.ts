// What audit and repair need of the mirror besides ports.ts: backfills with a position of their own, what a listing lacked,
// and how rows differ from records. src/mirror/ implements it.

import type { Records } from '../record.ts'
import type { Lane } from '../streams.ts'
import type { Arrival, Busy, Run } from './ports.ts'

// ── backfills ────────────────────────────────────────────────────────────────────────────────────────────────

export type Backfill = {
  readonly id: string
  readonly stream: string
  /** Everything above this, up to and including `to`. */
  readonly from: bigint
  readonly to: bigint
  readonly position: bigint
  /** `running` outlives a run that was killed: whoever gets the lane goes on. */
  readonly status: 'waiting' | 'running' | 'done' | 'cancelled'
  readonly requestedAt: Date
  readonly requestedBy: string
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  readonly rowsRead: number
  readonly inserted: number
  readonly updated: number
  readonly quarantined: number
  readonly attempts: number
  readonly error: string | null
  readonly note: string | null
}

/** Its state's position is the backfill's, and so is the one that its pages move. */
type BackfillRun = Run & { endBackfill(isComplete: boolean, note: string | null): Promise<void> }

/** Somebody cancelled it, or it was over already. */
export class BackfillCancelled extends Error {
  override readonly name = 'BackfillCancelled'

  constructor(id: string) {
    super(`backfill ${id} was cancelled or is over; what it had committed is kept`)
  }
}

export type Backfills = {
  startBackfill(stream: string, id: string): Promise<BackfillRun | Busy>
  /** The oldest that is not finished. */
  nextBackfill(stream: string): Promise<Backfill | null>
  noteBackfillError(id: string, error: string): Promise<void>
}

// ── census and verification ──────────────────────────────────────────────────────────────────────────────────

/** Living rows that a complete listing did not show. */
export type Shortfall = { readonly living: number; readonly missing: number; readonly seen: number }
/** An empty listing, or one that lost more than a fifth, proves nothing (P7). */
export const isDoubtful = ({ living, missing, seen }: Shortfall): boolean =>
  missing > 0 && (seen === 0 || missing * 5 > living)

export type Gone = { readonly key: string; readonly evidence: string }

/**
 * `missing`: no row. `stale`: the row has an older version, or is not of this record where there are no versions. `content`: the
 * same version, or record, with other values. `extra`: a living row whose record is gone.
 */
type DifferenceKind = 'missing' | 'stale' | 'content' | 'extra'
export type Difference = {
  readonly key: string
  readonly kind: DifferenceKind
  /** Of content; fields that have no column by their name in `_rescued`. */
  readonly columns: readonly string[]
  /** The record's version, and the row's. */
  readonly version: bigint | null
  readonly mirrored: bigint | null
  /** Tells the record's content from any other. */
  readonly record: string | null
}

export type AuditRun = Run & {
  /** Notes which living rows no page of the listing has shown; those written since the run began are left out. */
  gatherAbsent(): Promise<Shortfall>
  /** Keys gathered, in their order, after the one given. */
  absentKeys(after: string | null, limit: number): Promise<readonly string[]>
  noteGone(gone: readonly Gone[]): Promise<void>
  /** Marks what was noted as gone, in one transaction; not a row that was written since the run began (P7). */
  markGone(): Promise<number>
  /** Remembers that a listing was too small to be believed; null takes it back. */
  hold(shortfall: Shortfall | null): Promise<void>
  /** Rows that only this run found, to be shown until somebody acknowledges them. */
  recordRescues(rows: number, samples: readonly Arrival[]): Promise<void>
  /** After a listing that was complete: what a rewind left open to older versions is guarded again (P3). */
  guardAgain(): Promise<void>
  /** How the rows differ from these records now. Writes nothing; never answers `extra`. */
  compare(page: Records): Promise<readonly Difference[]>
  /** Remembers what is to be looked at again. */
  suspect(found: readonly Difference[]): Promise<void>
  /** Which of these were suspected with the same record; they are suspected no more. */
  confirm(found: readonly Difference[]): Promise<ReadonlySet<string>>
  /** Forgets keys gathered that a listing showed since. */
  spareShown(): Promise<void>
  suspects(after: string | null, limit: number): Promise<readonly string[]>
  /** These rows are known to be wrong: the next record that comes replaces them, whatever its version. */
  distrust(keys: readonly string[]): Promise<void>
  randomKeys(limit: number): Promise<readonly string[]>
  /** The live position as it is now. */
  currentPosition(): Promise<bigint>
}

export type Audits = {
  startAudit(
    stream: string,
    lane: Lane,
    options?: { readonly collectArrivals?: boolean },
  ): Promise<AuditRun | Busy>
}
