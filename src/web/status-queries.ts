// The status queries of the pages: what they read, put together from the mirror and the queue.

import type { SyncContext } from '../context.ts'
import { askedSpan, planBackfill } from '../operator/backfill.ts'
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
import { within } from '../util/waiting.ts'
import type { PartsWatch } from '../worker/availability.ts'
import type { Jobs } from '../worker/queue/jobs.ts'

// What the pages read: one object, put together where the parts of the worker meet. Pages see no SQL and no queue.
export type BackfillLine = Awaited<ReturnType<typeof listBackfills>>[number]
export type NextRun = { readonly stream: string; readonly kind: string; readonly at: Date }
export type StreamSight = StreamOverview & { readonly kind: Stream['kind'] }
/** Everything of the overview, as of one moment. */
export type Sight = {
  readonly at: Date
  readonly streams: readonly StreamSight[]
  readonly latestRuns: readonly LatestRun[]
  readonly rates: RowRates
  readonly nextRuns: readonly NextRun[]
}

/** Lists are cut at the limit; null is no restriction. */
export type StatusQueries = {
  /** The names of the configured streams. */
  readonly streams: readonly string[]
  sight(): Promise<Sight>
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

type Context = {
  readonly context: Pick<SyncContext, 'database' | 'store' | 'streams'>
  readonly pageSize: number
  readonly jobs: Pick<Jobs, 'nextTicks'>
  readonly parts: Pick<PartsWatch, 'states'>
  readonly problems: StatusQueries['problems']
}

/** A queue that went away a moment ago has not been noticed yet, and answers when it is back. */
const queueTimeoutMs = 1_000

export function openStatusQueries({ context, jobs, parts, problems, pageSize }: Context): StatusQueries {
  const { pool } = context.database
  const names = context.streams.map(({ name }) => name)
  const kinds = new Map(context.streams.map(({ name, kind }) => [name, kind]))
  // The mirror can be shown without the queue.
  const nextTicks = async () =>
    parts.states().queue?.isUp ? await within(queueTimeoutMs, jobs.nextTicks()).catch(() => []) : []
  return {
    streams: names,
    async sight() {
      const [streams, latestRuns, rates, nextRuns] = await Promise.all([
        readOverview(pool, names),
        readLatestRuns(pool, names),
        readRowRates(pool),
        nextTicks(),
      ])
      // The other schedules look whether something is to be done; mostly nothing is.
      const shown = nextRuns
        .filter(({ kind }) => kind === 'incremental' || kind === 'reconcile')
        // Asked to read what is new, a list stream is listed.
        .map((next) => (kinds.get(next.stream) === 'list' ? { ...next, kind: 'list' as const } : next))
      return {
        at: new Date(),
        streams: streams.map((one) => ({ ...one, kind: kinds.get(one.stream) ?? 'list' })),
        latestRuns,
        rates,
        nextRuns: shown,
      }
    },
    problems,
    runs: (filter, page) => readRuns(pool, filter, page),
    checkpoints: (stream, limit) => readCheckpoints(pool, { stream, limit }),
    backfills: (stream) => listBackfills(pool, stream),
    quarantine: (stream, page) => readQuarantine(pool, { stream, id: null }, page),
    newestInQuarantine: (stream) => newestInQuarantine(pool, stream),
    fields: (search, limit) => readFields(pool, search, limit),
    fieldStreams: () => readFieldStreams(pool),
    beliefs: () => readBeliefs(pool),
    async planBackfill(name, options) {
      const { stream, span } = await askedSpan(context, name, options)
      const { text, json } = await planBackfill(pool, stream, span, pageSize)
      return { text, from: json.from, to: json.to }
    },
  }
}
