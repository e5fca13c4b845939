// What reading needs of the store: runs of each kind with the roles that the kind needs, and where positions were in the past.
// src/store/ implements it, the tests model it.

import type { RelatedStream, RunKind } from '../../streams/catalog.ts'
import type { Records } from '../../streams/record.ts'

export type Store = {
  /** Takes the lease for this process, or says who has it. `id` is that of the backfill to take up. */
  openRun<Kind extends RunKind>(
    kind: Kind,
    stream: string,
    options?: { readonly id?: string },
  ): Promise<Run<Kind> | Busy>
  /** The oldest backfill that is not finished and whose time has come. */
  nextBackfill(stream: string): Promise<Backfill | null>
  readonly history: PositionHistory
}

/** Another run holds the lease that this one needs; in words. */
export type Busy = { readonly busy: string }

export type PositionHistory = {
  /** The position that was held at a time; null before the first checkpoint. */
  positionAt(stream: string, time: Date): Promise<bigint | null>
  /** When the position first reached each of these versions; null where no checkpoint tells. */
  reachedAt(stream: string, versions: readonly bigint[]): Promise<readonly (Date | null)[]>
  /** The rows with the highest versions at or below one, the highest first, also those that the source marks as deleted. */
  anchors(stream: string, atMost: bigint, limit: number): Promise<readonly { key: string; version: bigint }[]>
  /** Whether there is a living row, whatever its version. */
  hasRows(stream: string): Promise<boolean>
}

// ── a run ────────────────────────────────────────────────────────────────────────────────────────────────────

/** What every run has, and the roles of its kind. */
export type Run<Kind extends RunKind = RunKind> = RunCore & RunRoles[Kind]

export type RunCore = {
  readonly id: string
  readonly state: StreamState
  readonly pages: Pages
  readonly findings: RunFindings
  readonly progress: RunProgress
  finish(end: RunEnd): Promise<void>
}

/** How far the run has come, for whoever watches. Nothing waits for it. */
export type RunProgress = {
  /** What was asked for so far, and how many records came, in all. */
  asked(sum: { readonly requests: number; readonly bytes: number; readonly records: number }): void
  /** What the run does from here on, as people read it; the same words again go on with the step. */
  step(what: string): void
}

export type RunRoles = {
  readonly incremental: { readonly position: Position; readonly seen: SeenKeys }
  /** Its position stays where it is. */
  readonly lookback: {
    readonly position: Position
    readonly seen: SeenKeys
    readonly pinned: PinnedRecords
  }
  /** Its position is the backfill's own. */
  readonly backfill: { readonly position: Position; readonly seen: SeenKeys }
  readonly list: { readonly seen: SeenKeys & SeenTwice; readonly absences: ListAbsences }
  readonly reconcile: {
    readonly seen: SeenKeys
    readonly absent: AbsentRows
    readonly reconciliation: Reconciliation
  }
  readonly verify: {
    readonly seen: SeenKeys
    readonly absent: AbsentRows
    readonly verification: Verification
  }
  readonly 'quarantine-retry': { readonly verification: Pick<Verification, 'compare'> }
  readonly deletions: { readonly shown: ShownRows }
  /** It only learns. */
  readonly probe: Readonly<Record<never, never>>
  readonly related: {
    readonly backlog: RelatedBacklog
    readonly keyFields: RelatedKeyFields
    readonly shown: Pick<ShownRows, 'clock' | 'count' | 'markGone'>
  }
}

export type Belief = {
  readonly name: string
  readonly value: string
  readonly evidence: string
  readonly testedAt: Date
  /** It is doubted from then on, until it is tested again; null or left out: as long as beliefs of its kind last. */
  readonly expiresAt?: Date | null
  /** Where the position was before the first run that relied on it; null or left out: none did, or it was taken back. */
  readonly restsFrom?: bigint | null
}
export type StreamState = {
  /** The live position. */
  readonly position: bigint
  readonly positionReachedAt: Date | null
  /** Read by version and by list, and both agreed up to here (P13). */
  readonly settledThrough: bigint | null
  readonly keyField: string | null
  /** The field that `neworchanged` answers to; null: nobody has found it out yet, or it is doubted. */
  readonly versionField: string | null
  readonly lookbackMs: number | null
  readonly lookbackReason: string | null
  /** When the last complete reading of the recent past began. */
  readonly lastLookbackAt: Date | null
  /** When the last run of this kind ended well. */
  readonly lastRunAt: Date | null
  /** Polls in a row that were shown nothing known (P11). */
  readonly inconclusiveRuns: number
  /** Somebody changed the table in Postgres, and the next run that reads what is new begins to mend it (P15). */
  readonly isLocallyChanged: boolean
  readonly beliefs: readonly Belief[]
}

export type RunEnd = {
  readonly requests: number
  readonly bytes: number
  readonly status: 'done' | 'failed' | 'inconclusive'
  readonly error: string | null
  readonly errorCode: string | null
  readonly note: string | null
  /** Everything there was when the run began is in the mirror. */
  readonly isComplete: boolean
  /** What a reconcile confirmed: changes made before this time, up to this version, are here, however late they became visible (P13). */
  readonly settled?: { readonly version: bigint; readonly at: Date }
  /** Everything that had vanished when the run began is marked now. */
  readonly knowsDeletions?: boolean
  /** How many differences it found, by cause; left out by runs that compare nothing (P16). */
  readonly differences?: DifferenceCounts
  /** It ended before it was through, and goes on at once when it is its turn. */
  readonly isCutShort?: boolean
  /** The upstream shows nothing of the stream any more, which says nothing about what there is; left out by runs that cannot tell. */
  readonly isHidden?: boolean
}

/** The run lost its lease to another run of the same stream, to a rewind or to a new epoch. Nothing of its last page was kept (P2). */
export class RunFenced extends Error {
  override readonly name = 'RunFenced'

  constructor(stream: string, kind: string) {
    super(
      `The ${kind} run of ${stream} lost its turn to another run, a rewind or a new epoch. What it had committed is kept.`,
    )
  }
}

// ── what all runs do ─────────────────────────────────────────────────────────────────────────────────────────

export type Pages = {
  /**
   * Writes one page and moves the run's position, in one transaction (P1), fenced by the lease (P2). May be called again before
   * the last call is done: commits keep the order of the calls. Rejects with `RunFenced` when the run lost its lease.
   */
  commit(page: Records, to: bigint | null, also?: CommitAlso): Promise<Written>
}
export type CommitAlso = {
  /** Another table than the stream's own. */
  readonly into?: RelatedTable
  /** What a reading in ranges has left unread after this page. */
  readonly unread?: Unread
}

/** Versions above one, up to and including another. */
export type VersionRange = { readonly above: bigint; readonly upTo: bigint }

/** Of a reading in ranges: everything above the position and up to `upTo` is read, but for these ranges, the lowest first. */
export type Unread = { readonly upTo: bigint; readonly ranges: readonly VersionRange[] }

/** A table of related records, and the field that is their key. */
export type RelatedTable = { readonly stream: RelatedStream; readonly keyField: string }

export type WriteCounts = {
  readonly inserted: number
  readonly updated: number
  readonly unchanged: number
  readonly rescued: number
  readonly quarantined: number
}
/** How a record that came differed from the row as it was before, and whether it was written: not where the row has a newer version. */
export type Arrival = Difference & { readonly isWritten: boolean }
export type Written = WriteCounts & {
  /** Only told by look-back and reconcile runs; records that are older than their row by reconciles alone. */
  readonly arrivals: readonly Arrival[]
}

/** What a run writes down besides rows, fenced like them (P2). */
export type RunFindings = {
  learn(beliefs: readonly Belief[]): Promise<void>
  setKeyField(field: string): Promise<void>
  /** From here on this field is the row version. Where positions were of another one, the stream begins anew: answers true. */
  setVersionField(field: string, evidence: string): Promise<boolean>
  /** The belief is not relied on until it is tested again. */
  doubt(name: string, evidence: string): Promise<void>
  recordLateArrivals(arrivals: readonly LateArrival[]): Promise<void>
  /** `from` is what it was: another run may have made it longer meanwhile, and then it is not made shorter. */
  setLookback(lookbackMs: number, reason: string, from: number | null): Promise<void>
  /** Kept for people to look up. The caller sees to it that they are few. */
  recordDifferences(found: readonly CausedDifference[]): Promise<void>
  /** From here on rows that differ in these fields alone are no changed rows (P16). Returns those that were not known as such. */
  setVolatile(fields: readonly string[], evidence: string): Promise<readonly VolatileField[]>
}
/** By the name that the upstream gives it, and as differences name its column. */
export type VolatileField = { readonly field: string; readonly column: string }
export type LateArrival = {
  readonly key: string
  readonly version: bigint
  readonly distance: bigint
  readonly lateMs: number
}

// ── reading by row version, and listing ──────────────────────────────────────────────────────────────────────

export type Position = {
  /** Where it was when the run began. */
  readonly start: bigint
  /** What an earlier run that read in ranges has left; null: nothing above the position is known to be read. */
  readonly unread: Unread | null
  /** Moves it back to there, or further, and records why. What was read above it counts no more. */
  retreat(reason: string, to: bigint): Promise<void>
}

/** Which keys the pages of a listing showed. */
export type SeenKeys = {
  /** Page numbers rise through all passes of a listing; page 1 begins another one, and what was seen in the one before is forgotten. */
  add(pageNumber: number, keys: readonly string[], contents?: SeenContents): Promise<void>
  /** How many keys were seen both at or before this page and again after it. */
  countAround(pageNumber: number): Promise<number>
}

export type SeenTwice = {
  /** Keys that had other contents on an earlier page of the same pass: two records, or one that changed and moved meanwhile. */
  twice(limit: number): Promise<readonly string[]>
}

/** What the records of some keys were, in their order, and on which page its pass began. */
export type SeenContents = { readonly fingerprints: readonly string[]; readonly passBegan: number }

/** Living rows that a complete listing did not show. */
export type Shortfall = {
  readonly living: number
  readonly missing: number
  readonly seen: number
  /** Of the keys that are missing: another listing that lacks the same rows has the same one. */
  readonly fingerprint?: string | null
}
/** An empty listing, or one that lost more than a fifth, proves nothing (P7). */
export const isDoubtful = ({ living, missing, seen }: Shortfall): boolean =>
  missing > 0 && (seen === 0 || missing * 5 > living)

/** For list streams, whose records cannot be looked at singly. */
export type ListAbsences = {
  /** How many living rows no page from this one on has shown. */
  count(firstPage: number): Promise<number>
  /**
   * After a complete listing whose pages began at `firstPage`: marks living rows that lacked in this one and in the complete
   * listing before it (P7). Marks nothing and reports `blocked` when the listing is empty or lost more than a fifth, unless an
   * operator approved that many deletions.
   */
  settle(firstPage: number, approved?: number): Promise<Absences>
}
export type Absences = { readonly marked: number; readonly waiting: number; readonly blocked: number }

// ── pinned records ───────────────────────────────────────────────────────────────────────────────────────────

/** A row whose record is looked at again and again, because the upstream may go back (P14). */
export type Pin = {
  readonly key: string
  /** Of the row. */
  readonly version: bigint
  /** Or pinned. */
  readonly lookedAt: Date
  /** Since when each look showed an older version than the row has, or no record. */
  readonly lostSince: Date | null
}
export type PinnedRecords = {
  /** Forgets those whose rows changed. `top` is the highest version of a row that is read in the present epoch. */
  known(): Promise<{ readonly pins: readonly Pin[]; readonly top: bigint | null }>
  /** Pins the highest row of each range, where there is one. */
  pinWithin(ranges: readonly VersionRange[]): Promise<void>
  /** Pins so many rows on either side of these, by their versions. */
  pinBeside(keys: readonly string[], rows: number): Promise<void>
  /** What looks at them showed; those that are released are pinned no more. */
  note(looked: readonly (Pin & { readonly isReleased: boolean })[]): Promise<void>
  /** The next record that comes replaces these rows, whatever its version, unless they changed since. */
  distrust(pins: readonly Pin[]): Promise<void>
  /** Everything is read again: what is shown from now on replaces what is stored, whatever the versions. Runs in progress end. */
  beginEpoch(found: WentBack): Promise<void>
}
/** By what it was noticed that the upstream went back to an older state. */
export type WentBack = { readonly looked: number; readonly lost: number; readonly evidence: string }

// ── reconcile and verification ───────────────────────────────────────────────────────────────────────────────

/** Rows that the source itself marked as deleted, before the run began: how many its listing showed, and some that it did not. */
export type MarkedBySource = { readonly shown: number; readonly hidden: readonly string[] }

/** The living rows that the listing of this run has not shown, and what is known of them. */
export type AbsentRows = {
  /** Notes which they are; those written since the run began are left out. */
  gather(): Promise<Shortfall>
  markedBySource(limit: number): Promise<MarkedBySource>
  /** Keys gathered, in their order, after the one given. They are looked at after this. */
  keys(after: string | null, limit: number): Promise<readonly string[]>
  /** Forgets keys gathered that a listing showed since. */
  spareShown(): Promise<void>
  noteGone(gone: readonly Gone[]): Promise<void>
  /** Marks what was noted as gone, in one transaction; not a row that was written since the run began (P7). */
  markGone(): Promise<number>
}
export type Gone = { readonly key: string; readonly evidence: string }

/** The rows that the upstream's list should show, by keys that are whole numbers. */
export type ShownRows = {
  /** Null where keys are no whole numbers, or there is no table yet. `withDeleted`: also those that the source itself marks as deleted. */
  count(withDeleted: boolean): Promise<number | null>
  /** The key with this rank among them, counted from 1. */
  keyAt(rank: number, withDeleted: boolean): Promise<bigint | null>
  /** Keys above one and up to another, lowest first; of rows that were there when the run began. */
  keysBetween(after: bigint | null, to: bigint | null, withDeleted: boolean): Promise<readonly bigint[]>
  /** The key of a row that the source marks as deleted. */
  someDeleted(): Promise<bigint | null>
  /** Marks rows whose records were looked at and are gone; not one that was written since the run began (P7). */
  markGone(gone: readonly Gone[], askedAt: string): Promise<number>
  /** By the clock of the database, before records are asked for. */
  clock(): Promise<string>
  /** Remembers that too many vanished to be believed; null takes it back. */
  block(shortfall: Shortfall | null): Promise<void>
  /**
   * Whether a person is to decide about deletions, and how many rows searches have marked since the list was last compared whole, in a
   * day at most: what is too much for one of them is so for several (P7).
   */
  beforehand(): Promise<{ readonly isBlocked: boolean; readonly marked: number }>
  /** How far the current round of the sweep has come. */
  sweep(): Promise<{ readonly after: bigint | null; readonly beganAt: Date | null }>
  /** Null begins a new round. */
  moveSweep(after: bigint | null): Promise<void>
  /** Every record that had vanished by then is marked. */
  knownThrough(at: Date): Promise<void>
  /**
   * The list has as many records as there are rows. One that vanished and one that became visible late cancel each other, so it counts
   * when a look-back that reached all the way, and so brings the late one, has gone by, and they still are as many.
   */
  ranksAgree(): Promise<void>
}

export type Reconciliation = {
  /** Remembers that a listing was too small to be believed; null takes it back. */
  block(shortfall: Shortfall | null): Promise<void>
  /** Rows that only this run found, to be shown until somebody acknowledges them. */
  recordMissedRows(rows: number, samples: readonly Arrival[]): Promise<void>
  /** How the rows differ from these records now. Writes nothing. */
  compare(page: Records): Promise<readonly Difference[]>
  /** The look-backs look at these rows again, as they are now. */
  pin(rows: readonly Pick<Difference, 'key' | 'mirrored'>[]): Promise<void>
  /** Records that fell back before, by earlier runs, and are not among these: their rows were mended since. */
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
  /** After a listing that was complete: what a rewind left open to older versions is guarded again (P3). */
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
  /** Beside the sample of before; unknown where too few records are as they were. */
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
  /** These rows are known to be wrong: the next record that comes replaces them, whatever its version. */
  distrust(keys: readonly string[]): Promise<void>
  randomKeys(limit: number): Promise<readonly string[]>
  /** The live position as it is now. */
  currentPosition(): Promise<bigint>
}

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
  /** The row says that it holds this very record, or is known to have been changed here. */
  readonly isLocal: boolean
  /** The row is marked as gone, and the record is there. */
  readonly isBack: boolean
  /** A rewind said that the upstream may have gone back behind the row. */
  readonly isRewound: boolean
}

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

// ── backfills ────────────────────────────────────────────────────────────────────────────────────────────────

export type Backfill = {
  readonly id: string
  readonly stream: string
  /** Everything above this, up to and including `to`. */
  readonly from: bigint
  readonly to: bigint
  readonly position: bigint
  /** `running` outlives a run that was killed: whoever gets the lease goes on. */
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
  /** Why the last attempt did not finish it. */
  readonly error: string | null
  readonly note: string | null
}

/** Somebody cancelled it, or it was over already. */
export class BackfillCancelled extends Error {
  override readonly name = 'BackfillCancelled'

  constructor(id: string) {
    super(`Backfill ${id} was cancelled or is over. What it had committed is kept.`)
  }
}

// ── related records ──────────────────────────────────────────────────────────────────────────────────────────

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
/** A related record that an assignment has. */
export type RelatedLink = { readonly assignmentId: string; readonly stream: string; readonly key: string }

export type RelatedBacklog = {
  /**
   * First what was deleted or changed: mostly the last changes, and always some of those that wait longest. Then what was read too long
   * ago. Of what has to be read again, so much only that many changes at once, or everything that got old, do not ask the upstream for
   * everything at once.
   */
  due(limit: number): Promise<readonly Due[]>
  /** What these assignments had when they were last read. */
  linked(assignmentIds: readonly string[]): Promise<readonly RelatedLink[]>
  /** Another assignment that was read before; null: there is none. */
  otherRead(besides: readonly string[]): Promise<string | null>
  /** Other assignments that had records of a group when they were last read. */
  othersWith(group: string, besides: readonly string[], limit: number): Promise<readonly string[]>
  /** Before the records are written: notes which ones each assignment has, besides those it had. */
  link(families: readonly Family[]): Promise<void>
  /**
   * After the records are written, in one transaction: what each assignment has now, that it was read, and what nobody has any
   * more (P7, P8).
   */
  settle(families: readonly Family[], aside: readonly SetAside[]): Promise<void>
  /** Notes how current the groups are, and whether nothing waits any more. */
  noteEnd(hasBacklog: boolean): Promise<{ readonly isDone: boolean }>
}

/** By which field the rows of each group are told apart. */
export type RelatedKeyFields = {
  of(group: string): Promise<string | null>
  keep(group: string, field: string): Promise<void>
}
