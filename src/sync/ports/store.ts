// What reading needs of the store: runs of each kind with the roles that the kind needs, and where positions were in the past.
// src/store/ implements it, the tests model it.

import type { RelatedStream, RunKind } from '../../streams/catalog.ts'
import type { Records } from '../../streams/record.ts'
import type {
  AbsentRows,
  Arrival,
  CausedDifference,
  DifferenceCounts,
  ListAbsences,
  Reconciliation,
  ShownRows,
  Verification,
  VolatileField,
} from './audits.ts'
import type { RelatedBacklog, RelatedKeyFields } from './related.ts'

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
  /** What a poll at this position compares answers with: its anchors, and whether other runs have brought rows from above. */
  known(
    stream: string,
    position: bigint,
    limit: number,
  ): Promise<{ readonly anchors: readonly { key: string; version: bigint }[]; readonly hasAbove: boolean }>
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
  readonly incremental: {
    readonly position: Position
    readonly seen: SeenKeys
    readonly pinned: Pick<PinnedRecords, 'known' | 'pinNext'>
  }
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
    readonly pinned: Pick<PinnedRecords, 'pinNext'>
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
    readonly shown: Pick<ShownRows, 'clock' | 'counts' | 'markGone' | 'beforehand'>
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
  /** When the run began, by the clock of Postgres. */
  readonly startedAt: Date
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

/** Of a run whose worker ended, or whose stream was paused, before it was through. */
export const stoppedNote = 'stopped between two pages'

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

/**
 * The run lost its lease to another run of the same stream, to a rewind, or because what it had begun with holds no more: a new epoch, a
 * table that somebody changed, another source. Nothing of its last page was kept (P2).
 */
export class RunFenced extends Error {
  override readonly name = 'RunFenced'

  constructor(stream: string, kind: string) {
    super(
      `The ${kind} run of ${stream} lost its turn: another run, a rewind or an erase came in between, or everything is read again because the upstream, the source or the table is not what it was. What it had committed is kept.`,
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
export type Written = WriteCounts & {
  /** Filled by look-back and reconcile runs only. Records that are older than their row: by reconciles alone. */
  readonly arrivals: readonly Arrival[]
}

/** What a run writes down besides rows, fenced like them (P2). */
export type RunFindings = {
  learn(beliefs: readonly Belief[]): Promise<void>
  /** Only comparing the whole list shows what this run cannot: it is asked for, if that has not been done since. */
  wantReconcile(): Promise<void>
  setKeyField(field: string): Promise<void>
  /** From here on this field is the row version. Where positions were of another one, the stream begins anew: answers true. */
  setVersionField(field: string, evidence: string): Promise<boolean>
  /** The belief is not relied on until it is tested again. */
  invalidate(name: string, evidence: string): Promise<void>
  recordLateArrivals(arrivals: readonly LateArrival[]): Promise<void>
  /** `from`: what it was before. If another run has made it longer meanwhile, it is not made shorter. */
  setLookback(lookbackMs: number, reason: string, from: number | null): Promise<void>
  /** Kept for people to look up. The caller sees to it that they are few. */
  recordDifferences(found: readonly CausedDifference[]): Promise<void>
  /** From here on rows that differ in these fields alone are no changed rows (P16). Returns those that were not known as such. */
  setVolatile(fields: readonly string[], evidence: string): Promise<readonly VolatileField[]>
}
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
  /** Moves it back to there, unless it is below already, and records why. What was read above it counts no more. */
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

// ── pinned records ───────────────────────────────────────────────────────────────────────────────────────────

/** A row whose record is looked at again and again, because the upstream may go back (P14). */
export type Pin = {
  readonly key: string
  /** The version of the row when it was pinned. */
  readonly version: bigint
  /** When its record was last looked at, or else when it was pinned; null: it is looked at next. */
  readonly lookedAt: Date | null
  /** Since when each look showed an older version than the row has, or no record. */
  readonly lostSince: Date | null
  /** The upstream marks the record as deleted: a look by key may show it or not. */
  readonly isMarked: boolean
}
export type PinnedRecords = {
  /** Forgets those whose rows changed. `top` is the highest version of a row that is read in the present epoch. */
  known(): Promise<{ readonly pins: readonly Pin[]; readonly top: bigint | null }>
  /** Pins the highest row of each range, where there is one. */
  pinWithin(ranges: readonly VersionRange[]): Promise<void>
  /** Pins those of these rows that still have these versions, and so many on either side of each. They are looked at next. */
  pinNext(rows: readonly Pick<Pin, 'key' | 'version'>[], beside: number): Promise<void>
  /** What looks at them showed; those that are released are pinned no more. */
  note(looked: readonly (Pin & { readonly isReleased: boolean })[]): Promise<void>
  /** The next record that comes replaces these rows, whatever its version, unless they changed since. */
  invalidateRows(pins: readonly Pin[]): Promise<void>
  /** Everything is read again: what is shown from now on replaces what is stored, whatever the versions. Runs in progress end. */
  beginEpoch(found: WentBack): Promise<void>
  /**
   * The last time that another stream showed that the upstream went back, if this stream was not read from the beginning since. Such a
   * stream begins an epoch when records have been lost for at least `shownForMs`: if this one began its own in that time, that is enough.
   */
  shownByAnother(shownForMs: number): Promise<{ readonly stream: string; readonly evidence: string } | null>
}
/** By what it was noticed that the upstream went back to an older state. */
export type WentBack = { readonly looked: number; readonly lost: number; readonly evidence: string }

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
