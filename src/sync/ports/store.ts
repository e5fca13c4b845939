// The two sides of reading, as the rules see them: a source that answers requests, and a mirror that keeps rows.
// src/upstream/ implements the first, src/mirror/ the second, the tests model both.

import type { Json, JsonObject } from '../../json/json.ts'
import type { RelatedStream, RunKind } from '../../streams/catalog.ts'
import type { Records } from '../../streams/record.ts'

// ── the source ───────────────────────────────────────────────────────────────────────────────────────────────

export type Sorts = 'RowVersion' | '-RowVersion'
export type ChangesRequest = {
  /** The value in the path of `/neworchanged/{rowVersion}`. */
  readonly since: bigint
  readonly page: number
  readonly pageSize: number
  readonly sorts: Sorts | null
}
export type ListRequest = { readonly page: number; readonly pageSize: number }
export type Answer = { readonly records: readonly Json[]; readonly bytes: number }
/** The upstream answered a request that carried `Sorts` with a 4xx that is not about rights. */
export type Refusal = { readonly refused: number }
export type Lookup = { readonly found: JsonObject } | 'gone' | 'unclear'

export type Source = {
  changes(request: ChangesRequest, signal: AbortSignal): Promise<Answer | Refusal>
  list(request: ListRequest, signal: AbortSignal): Promise<Answer>
  /** Some lists know no pages: one answer is all there is. */
  readonly listHasPages: boolean
  /** One record by its key. Null when the upstream offers no such look. */
  readonly lookup: ((key: string, signal: AbortSignal) => Promise<Lookup>) | null
}

// ── the mirror ───────────────────────────────────────────────────────────────────────────────────────────────

export type Belief = {
  readonly name: string
  readonly value: string
  readonly evidence: string
  readonly testedAt: Date
}
export type WriteCounts = {
  readonly inserted: number
  readonly updated: number
  readonly unchanged: number
  readonly rescued: number
  readonly quarantined: number
}
/** A row that a write inserted or replaced. */
export type Arrival = { readonly key: string; readonly version: bigint | null; readonly isNew: boolean }
export type Written = WriteCounts & {
  /** Only filled when the run was started with `collectArrivals`. */
  readonly arrivals: readonly Arrival[]
}

export type StreamState = {
  readonly position: bigint
  readonly positionReachedAt: Date | null
  readonly keyField: string | null
  readonly lookbackMs: number | null
  readonly lookbackReason: string | null
  /** Set when the stream waits for a person, e.g. UPSTREAM_RESTORED. */
  readonly stoppedReason: string | null
  /** When the last complete reading of the recent past began. */
  readonly lastLookbackAt: Date | null
  readonly beliefs: readonly Belief[]
}

export type RunCounts = { readonly requests: number; readonly bytes: number }
export type RunEnd = RunCounts & {
  readonly status: 'done' | 'failed'
  readonly error: string | null
  readonly errorCode: string | null
  readonly note: string | null
  /** Everything there was when the run began is in the mirror. */
  readonly isComplete: boolean
  /** The upstream shows nothing of the stream any more, which says nothing about what there is; left out by runs that cannot tell. */
  readonly isHidden?: boolean
}

/** Somebody else is reading this stream in this lane. */
export type Busy = { readonly busy: string }

/** A table of related records, and the field that is their key. */
type Beside = { readonly stream: RelatedStream; readonly keyField: string }

export type Run = {
  readonly id: string
  readonly state: StreamState
  /**
   * Writes one page and moves the position, in one transaction (P1), fenced by this run's epoch (P2). May be called
   * again before the last call is done: commits keep the order of the calls. Rejects with `RunFenced` when the run lost its turn.
   * `beside` writes into another table than the stream's own.
   */
  write(page: Records, position: bigint | null, beside?: Beside): Promise<Written>
  /**
   * Remembers which keys a page of a listing showed. Page numbers rise through all passes of a listing; page 1 begins another
   * one, and what was seen in the one before is forgotten.
   */
  see(pageNumber: number, keys: readonly string[]): Promise<void>
  /** How many keys were seen both at or before this page and again after it. */
  countSeenAround(pageNumber: number): Promise<number>
  /** Moves the position back to where the run began, and records why. */
  retreat(position: bigint, reason: string): Promise<void>
  learn(beliefs: readonly Belief[]): Promise<void>
  setKeyField(field: string): Promise<void>
  stopStream(reason: string): Promise<void>
  recordLateArrivals(arrivals: readonly LateArrival[]): Promise<void>
  setLookback(lookbackMs: number, reason: string): Promise<void>
  /** How many living rows no page from this one on has shown. */
  countAbsent(firstPage: number): Promise<number>
  /**
   * After a complete listing whose pages began at `firstPage`: marks living rows that lacked in this one and in the complete
   * listing before it (P7). Marks nothing and reports `blocked` when the listing is empty or lost more than a fifth, unless an operator
   * believes that so many rows are gone (`release`).
   */
  settleAbsences(firstPage: number, approved?: number): Promise<Absences>
  finish(end: RunEnd): Promise<void>
}
/** The run lost its turn to another run of the same stream and lane, or to a rewind. Nothing of its last page was kept (P2). */
export class RunFenced extends Error {
  override readonly name = 'RunFenced'

  constructor(stream: string, kind: string) {
    super(
      `the ${kind} run of ${stream} lost its turn to another run or a rewind; what it had committed is kept`,
    )
  }
}
export type LateArrival = {
  readonly key: string
  readonly version: bigint
  readonly distance: bigint
  readonly lateMs: number
}
export type Absences = { readonly marked: number; readonly waiting: number; readonly blocked: number }

export type Store = {
  /** Takes the stream's lane for this process, or says who has it. */
  startRun(
    stream: string,
    kind: RunKind,
    options?: { readonly collectArrivals?: boolean },
  ): Promise<Run | Busy>
  /** The highest position that was held at a time; null before the first checkpoint. */
  positionAt(stream: string, time: Date): Promise<bigint | null>
  /** When the position first reached a version; null when no checkpoint tells. */
  reachedAt(stream: string, version: bigint): Promise<Date | null>
  /** The living rows with the highest versions at or below one. */
  highestRows(
    stream: string,
    atMost: bigint,
    limit: number,
  ): Promise<readonly { key: string; version: bigint }[]>
}

// What audit and repair need of the mirror besides ports.ts: backfills with a position of their own, what a listing lacked,
// and how rows differ from records. src/mirror/ implements it.
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

// ── reconcile and verification ──────────────────────────────────────────────────────────────────────────────────

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
  recordMissedRows(rows: number, samples: readonly Arrival[]): Promise<void>
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
    kind: RunKind,
    options?: { readonly collectArrivals?: boolean },
  ): Promise<AuditRun | Busy>
}

// What reading related records needs of the mirror besides ports.ts. src/mirror/ implements it.
/** An assignment whose related records are to be read. */
export type Due = {
  readonly assignmentId: string
  /** Tells the row that the mirror held when it was picked: as of that one it will have been read. */
  readonly hash: string
  /** The mirror knows that it was deleted: it has no related records any more. */
  readonly isGone: boolean
}
/** The keys of one group, all of them. */
type Children = { readonly stream: string; readonly keys: readonly string[] }
/** An assignment with its groups; one that its answer did not have is left out, and stays as it is. */
export type Family = { readonly due: Due; readonly children: readonly Children[] }
/** An assignment that could not be read, to be tried again later. */
export type SetAside = { readonly due: Due; readonly problem: string }

export type RelatedWork = {
  /** The backlog: first what was deleted or changed, the last change first; then what was read too long ago. */
  due(limit: number): Promise<readonly Due[]>
  /** What these assignments had when they were last read. */
  linked(
    assignmentIds: readonly string[],
  ): Promise<readonly { readonly assignmentId: string; readonly stream: string; readonly key: string }[]>
  /** Other assignments that had records of a group when they were last read. */
  othersWith(group: string, besides: readonly string[], limit: number): Promise<readonly string[]>
  keyFieldOf(group: string): Promise<string | null>
  keepKeyField(group: string, field: string): Promise<void>
  /** Before the records are written: notes which ones each assignment has, besides those it had. */
  link(families: readonly Family[]): Promise<void>
  /**
   * After the records are written, in one transaction: what each assignment has now, that it was read, and what nobody has any
   * more (P7, P8).
   */
  settle(families: readonly Family[], aside: readonly SetAside[]): Promise<void>
  /** There is no backlog. */
  noteComplete(): Promise<void>
}
export type RelatedRun = Run & RelatedWork
export type Relations = { startRelated(): Promise<RelatedRun | Busy> }
