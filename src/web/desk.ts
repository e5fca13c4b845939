// What the pages read: one object, put together where the parts of the worker meet. Pages see no SQL and no queue.

import type { Concern } from '../concerns/concern.ts'
import type { listBackfills } from '../mirror/backfills.ts'
import type { Checkpoint } from '../mirror/checkpoints.ts'
import type { FactLine } from '../mirror/fact-list.ts'
import type { FieldLine } from '../mirror/field-list.ts'
import type { LaneRun } from '../mirror/lane-runs.ts'
import type { StreamOverview } from '../mirror/overview.ts'
import type { QuarantineEntry } from '../mirror/quarantine-review.ts'
import type { RowRates } from '../mirror/row-rates.ts'
import type { RunFilter, RunLine } from '../mirror/run-list.ts'
import type { Stream } from '../streams.ts'

export type BackfillLine = Awaited<ReturnType<typeof listBackfills>>[number]
export type NextRun = { readonly stream: string; readonly lane: string; readonly at: Date }
export type StreamSight = StreamOverview & { readonly kind: Stream['kind'] }
/** Everything of the overview, as of one moment. */
export type Sight = {
  readonly at: Date
  readonly streams: readonly StreamSight[]
  readonly laneRuns: readonly LaneRun[]
  readonly rates: RowRates
  readonly nextRuns: readonly NextRun[]
}

/** Lists are cut at the limit; null is no restriction. */
export type Desk = {
  /** The names of the configured streams. */
  readonly streams: readonly string[]
  sight(): Promise<Sight>
  concerns(): Promise<readonly Concern[]>
  /** The newest first, those older than an id. */
  runs(
    filter: RunFilter,
    page: { readonly before: string | null; readonly limit: number },
  ): Promise<readonly RunLine[]>
  checkpoints(stream: string | null, limit: number): Promise<readonly Checkpoint[]>
  backfills(stream: string | null): Promise<readonly BackfillLine[]>
  /** The oldest first, those after an id. */
  quarantine(
    stream: string | null,
    page: { readonly after: string; readonly limit: number; readonly mostCharacters: number },
  ): Promise<readonly QuarantineEntry[]>
  /** The highest id of a stream; null when it has none. */
  newestInQuarantine(stream: string): Promise<string | null>
  fields(
    search: { readonly stream: string | null; readonly text: string },
    limit: number,
  ): Promise<readonly FieldLine[]>
  /** Streams that have fields, related ones among them. */
  fieldStreams(): Promise<readonly string[]>
  facts(): Promise<readonly FactLine[]>
  /** What a backfill would take, by the names of the verb's options. Rejects with a UsageError when it cannot be right. */
  planBackfill(
    stream: string,
    options: Readonly<Record<string, string>>,
  ): Promise<{ readonly text: string; readonly from: string; readonly to: string }>
}
