// The two sides of reading, as the rules see them: a source that answers requests, and a mirror that keeps rows.
// src/upstream/ implements the first, src/mirror/ the second, the tests model both.

import type { Json, JsonObject } from '../json/json.ts'
import type { Records } from '../record.ts'
import type { Lane, RelatedStream } from '../streams.ts'

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

export type Fact = {
  readonly name: string
  readonly value: string
  readonly evidence: string
  readonly checkedAt: Date
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
  /** Set when the stream waits for a person, e.g. UPSTREAM_REWOUND. */
  readonly stoppedReason: string | null
  /** When the last complete reading of the recent past began. */
  readonly lastTrailingAt: Date | null
  readonly facts: readonly Fact[]
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
  learn(facts: readonly Fact[]): Promise<void>
  setKeyField(field: string): Promise<void>
  stopStream(reason: string): Promise<void>
  recordLateArrivals(arrivals: readonly LateArrival[]): Promise<void>
  setLookback(lookbackMs: number, reason: string): Promise<void>
  /** How many living rows no page from this one on has shown. */
  countAbsent(firstPage: number): Promise<number>
  /**
   * After a complete listing whose pages began at `firstPage`: marks living rows that lacked in this one and in the complete
   * listing before it (P7). Marks nothing and reports `held` when the listing is empty or lost more than a fifth, unless an operator
   * believes that so many rows are gone (`release`).
   */
  settleAbsences(firstPage: number, release?: number): Promise<Absences>
  finish(end: RunEnd): Promise<void>
}
/** The run lost its turn to another run of the same stream and lane, or to a rewind. Nothing of its last page was kept (P2). */
export class RunFenced extends Error {
  override readonly name = 'RunFenced'

  constructor(stream: string, lane: string) {
    super(
      `the ${lane} run of ${stream} lost its turn to another run or a rewind; what it had committed is kept`,
    )
  }
}
export type LateArrival = {
  readonly key: string
  readonly version: bigint
  readonly distance: bigint
  readonly lateMs: number
}
export type Absences = { readonly marked: number; readonly waiting: number; readonly held: number }

export type Mirror = {
  /** Takes the stream's lane for this process, or says who has it. */
  startRun(stream: string, lane: Lane, options?: { readonly collectArrivals?: boolean }): Promise<Run | Busy>
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
