// What the pages read: one object, so that pages see no SQL and no queue.

import type { Problem } from '../problems/stream-problems.ts'
import { listBackfills } from '../store/queries/backfills.ts'
import {
  type BeliefLine,
  type FieldLine,
  readBeliefs,
  readFieldStreams,
  readFields,
} from '../store/queries/dictionary.ts'
import { readOverview, type StreamOverview } from '../store/queries/overview.ts'
import { type Checkpoint, readCheckpoints } from '../store/queries/positions.ts'
import { newestInQuarantine, type QuarantineEntry, readQuarantine } from '../store/queries/quarantine.ts'
import {
  type LatestRun,
  type RowRates,
  type RunFilter,
  type RunLine,
  readLatestRuns,
  readRowRates,
  readRuns,
} from '../store/queries/runs.ts'
import type { Stream } from '../streams/catalog.ts'

export type BackfillLine = Awaited<ReturnType<typeof listBackfills>>[number]
export type NextRun = { readonly stream: string; readonly kind: string; readonly at: Date }
export type StreamSnapshot = StreamOverview & { readonly kind: Stream['kind'] }
/** Everything of the overview, as of one moment. */
export type Snapshot = {
  readonly at: Date
  readonly streams: readonly StreamSnapshot[]
  readonly latestRuns: readonly LatestRun[]
  readonly rates: RowRates
  readonly nextRuns: readonly NextRun[]
}

/** Lists are cut at the limit; null is no restriction. */
export type StatusQueries = {
  /** The names of the configured streams. */
  readonly streams: readonly string[]
  snapshot(): Promise<Snapshot>
  problems(): Promise<readonly Problem[]>
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
  beliefs(): Promise<readonly BeliefLine[]>
  /** What a backfill would take, by the names of the verb's options. Rejects with a UsageError when it cannot be right. */
  planBackfill(
    stream: string,
    options: Readonly<Record<string, string>>,
  ): Promise<{ readonly text: string; readonly from: string; readonly to: string }>
}

type Given = Pick<StatusQueries, 'problems' | 'planBackfill'> & {
  readonly pool: Parameters<typeof readOverview>[0]
  readonly streams: readonly Stream[]
  /** Of the queue; none when it does not answer. */
  readonly nextRuns: () => Promise<readonly NextRun[]>
}

export function openStatusQueries({ pool, streams, problems, planBackfill, nextRuns }: Given): StatusQueries {
  const names = streams.map(({ name }) => name)
  const kinds = new Map(streams.map(({ name, kind }) => [name, kind]))
  return {
    streams: names,
    async snapshot() {
      const [overview, latestRuns, rates, next] = await Promise.all([
        readOverview(pool, names),
        readLatestRuns(pool, names),
        readRowRates(pool),
        nextRuns(),
      ])
      return {
        at: new Date(),
        streams: overview.map((one) => ({ ...one, kind: kinds.get(one.stream) ?? 'list' })),
        latestRuns,
        rates,
        // The other schedules look whether something is to be done; mostly nothing is.
        nextRuns: next
          .filter(({ kind }) => kind === 'incremental' || kind === 'reconcile')
          // Asked to read what is new, a list stream is listed.
          .map((one) => (kinds.get(one.stream) === 'list' ? { ...one, kind: 'list' } : one)),
      }
    },
    problems,
    planBackfill,
    runs: (filter, page) => readRuns(pool, filter, page),
    checkpoints: (stream, limit) => readCheckpoints(pool, { stream, limit }),
    backfills: (stream) => listBackfills(pool, stream),
    quarantine: (stream, page) => readQuarantine(pool, { stream, id: null }, page),
    newestInQuarantine: (stream) => newestInQuarantine(pool, stream),
    fields: (search, limit) => readFields(pool, search, limit),
    fieldStreams: () => readFieldStreams(pool),
    beliefs: () => readBeliefs(pool),
  }
}
