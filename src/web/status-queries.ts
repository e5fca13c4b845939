// What the pages read: one object, so that pages see no SQL and no queue.

import type { RecordType } from '../openapi/description.ts'
import { typesIn } from '../openapi/descriptions.ts'
import { type Difference, differencesOf, readFieldsBeside } from '../openapi/differences.ts'
import { type ListOffered, listsOffered } from '../openapi/lists.ts'
import {
  type ChangeLine,
  readDescriptionChanges,
  readUnusableDescriptions,
  type StoredDescription,
  storedDescriptions,
  type UnusableDescription,
} from '../openapi/stored.ts'
import { type Happening, readHappeningsInWords } from '../operator/happenings.ts'
import type { RewindPlan } from '../operator/rewind.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { type ActionLine, readActions } from '../store/book/actions.ts'
import { listBackfills } from '../store/book/backfills.ts'
import { type Checkpoint, readCheckpoints } from '../store/book/checkpoints.ts'
import { type DeletionEvidence, readDeletionEvidence } from '../store/book/deletions.ts'
import {
  type BeliefLine,
  type FieldLine,
  readBeliefs,
  readFieldStreams,
  readFields,
} from '../store/book/dictionary.ts'
import { type ClosedProblem, readClosedProblems } from '../store/book/problems.ts'
import { readFirstLoads, readProgress } from '../store/book/progress.ts'
import {
  countQuarantine,
  newestInQuarantine,
  type QuarantineEntry,
  readQuarantine,
} from '../store/book/quarantine.ts'
import {
  countRuns,
  type LatestRun,
  type RowRates,
  type RunFilter,
  type RunLine,
  type RunSpan,
  type RunStory,
  type RunsOfHost,
  readLatestRuns,
  readRowRates,
  readRun,
  readRunSpans,
  readRuns,
} from '../store/book/runs.ts'
import { readOverview, type StreamOverview } from '../store/book/streams.ts'
import {
  type MinuteBucket,
  readMinutes,
  readRequests,
  readStates,
  readWorkers,
  type ServiceBucket,
  type StateSpan,
  type WorkerSeen,
} from '../store/book/watch.ts'
import { relatedStreams, type Stream } from '../streams/catalog.ts'
import type { ReadingProgress } from '../streams/load-progress.ts'
import type { Settings } from '../streams/settings.ts'
import { type Settling, settlingOf } from '../streams/settling.ts'
import type { DaySpan } from './history-charts.ts'
import {
  type FoundIn,
  findInAll,
  type RecordShown,
  type RowsAsked,
  type RowsShown,
  readRecord,
  readRows,
} from './row-queries.ts'

export type { Happening } from '../operator/happenings.ts'
export type BackfillLine = Awaited<ReturnType<typeof listBackfills>>[number]
export type NextRun = { readonly stream: string; readonly kind: string; readonly at: Date }
export type StreamSnapshot = StreamOverview & {
  readonly kind: Stream['kind']
  /** Null when it is settled. */
  readonly settling: Settling | null
}
/** Everything of the overview, as of one moment. */
export type Snapshot = {
  readonly at: Date
  readonly streams: readonly StreamSnapshot[]
  readonly latestRuns: readonly LatestRun[]
  readonly rates: RowRates
  readonly nextRuns: readonly NextRun[]
  /** First loads, those that are complete among them. */
  readonly loads: readonly ReadingProgress[]
  /** Where the pages of docs/operations can be read; null: they are named by their path. */
  readonly runbooksUrl: string | null
}

export type DescriptionShown = {
  readonly descriptions: readonly StoredDescription[]
  readonly unusable: readonly UnusableDescription[]
  readonly changes: readonly ChangeLine[]
  /** By the names of the streams. */
  readonly types: ReadonlyMap<string, RecordType>
  readonly differences: readonly Difference[]
  /** What the descriptions name. */
  readonly lists: readonly ListOffered[]
}
/** Lists are cut at the limit; null is no restriction. */
export type StatusQueries = {
  /** The names of the configured streams. */
  readonly streams: readonly string[]
  /** In which form people are told of problems; null: nobody is told. */
  readonly alertFormat: string | null
  /** STALE_AFTER: a stream that is behind for longer is a problem. */
  readonly staleAfterMs: number
  snapshot(): Promise<Snapshot>
  problems(): Promise<readonly Problem[]>
  /** The newest first, those older than an id. */
  runs(
    filter: RunFilter,
    page: { readonly before: string | null; readonly limit: number },
  ): Promise<readonly RunLine[]>
  /** The runs of the last hour. */
  runSpans(streams: readonly string[]): Promise<readonly RunSpan[]>
  /** How far what reads now has come; null: of all streams. */
  readings(stream: string | null): Promise<readonly ReadingProgress[]>
  checkpoints(page: Parameters<typeof readCheckpoints>[1]): Promise<readonly Checkpoint[]>
  backfills(stream: string | null): Promise<readonly BackfillLine[]>
  /** The oldest first, those after an id. */
  quarantine(
    stream: string | null,
    page: { readonly after: string; readonly limit: number; readonly mostCharacters: number },
  ): Promise<readonly QuarantineEntry[]>
  /** How many of a stream there are, and the highest id; null when it has none. */
  quarantineOf(stream: string): Promise<{ readonly records: number; readonly through: string } | null>
  deletionEvidence(stream: string): Promise<DeletionEvidence>
  actions(page: Parameters<typeof readActions>[1]): Promise<readonly ActionLine[]>
  /** Problems that ended within the last seven days, the newest first. */
  closedProblems(limit: number): Promise<readonly ClosedProblem[]>
  /** The newest first. */
  happenings(): Promise<readonly Happening[]>
  /** In time order; buckets in which nothing was noted are left out. */
  minutes(stream: string, span: DaySpan): Promise<readonly MinuteBucket[]>
  states(span: DaySpan): Promise<readonly StateSpan[]>
  requests(span: DaySpan): Promise<readonly ServiceBucket[]>
  workers(): Promise<readonly WorkerSeen[]>
  run(id: string): Promise<RunStory | null>
  /** How many runs each host did within the last so many milliseconds. */
  runsSince(ms: number): Promise<readonly RunsOfHost[]>
  /** How many jobs the queue has in each state; null while it does not answer. */
  queueCounts(): Promise<Readonly<Record<string, number>> | null>
  fields(
    search: { readonly stream: string | null; readonly text: string },
    limit: number,
  ): Promise<readonly FieldLine[]>
  /** Streams that have fields, related ones among them. */
  fieldStreams(): Promise<readonly string[]>
  beliefs(): Promise<readonly BeliefLine[]>
  /** What the upstream says about itself, and what of it the records contradict. */
  contract(): Promise<DescriptionShown>
  /** Null when nothing of that name is mirrored. */
  record(stream: string, key: string): Promise<RecordShown | null>
  settings(): Settings
  /** Searches all streams side by side: a slow search in one does not keep the others waiting. */
  find(text: string): Promise<readonly FoundIn[]>
  rows(stream: string, asked: RowsAsked): Promise<RowsShown | null>
  /** What a backfill would take, by the names of the verb's options. Rejects with a UsageError when it cannot be right. */
  planBackfill(
    stream: string,
    options: Readonly<Record<string, string>>,
  ): Promise<{ readonly text: string; readonly from: string; readonly to: string }>
  /** What a rewind would mean, likewise. */
  planRewind(stream: string, options: Readonly<Record<string, string>>): Promise<RewindPlan>
}

type Given = Pick<
  StatusQueries,
  'problems' | 'planBackfill' | 'planRewind' | 'settings' | 'queueCounts' | 'alertFormat' | 'staleAfterMs'
> & {
  readonly runbooksUrl: string | null
  /** LOOKBACK: the least that late commits are waited for. */
  readonly lookbackMs: number
  /** The names of the related records that are copied. */
  readonly related: readonly string[]
  readonly pool: Parameters<typeof readOverview>[0]
  readonly streams: readonly Stream[]
  /** The next ticks of the schedules; none when the queue does not answer. */
  readonly nextRuns: () => Promise<readonly NextRun[]>
}

export function openStatusQueries({ pool, streams, nextRuns, ...given }: Given): StatusQueries {
  const names = streams.map(({ name }) => name)
  const kinds = new Map(streams.map(({ name, kind }) => [name, kind]))
  return {
    streams: names,
    snapshot: () => readSnapshot({ pool, names, kinds, nextRuns, given }),
    alertFormat: given.alertFormat,
    staleAfterMs: given.staleAfterMs,
    problems: given.problems,
    planBackfill: given.planBackfill,
    planRewind: given.planRewind,
    settings: given.settings,
    runs: (filter, page) => readRuns(pool, filter, page),
    runSpans: (wanted) => readRunSpans(pool, wanted),
    readings: (stream) => readProgress(pool, stream === null ? names : [stream]),
    checkpoints: (page) => readCheckpoints(pool, page),
    backfills: (stream) => listBackfills(pool, stream),
    quarantine: (stream, page) => readQuarantine(pool, { stream, id: null }, page),
    async quarantineOf(stream) {
      const through = await newestInQuarantine(pool, stream)
      if (through === null) return null
      return { through, records: await countQuarantine(pool, { stream, id: null }, BigInt(through)) }
    },
    deletionEvidence: (stream) => readDeletionEvidence(pool, stream),
    actions: (page) => readActions(pool, page),
    closedProblems: (limit) => readClosedProblems(pool, limit),
    happenings: () => readHappeningsInWords(pool, names),
    minutes: (stream, span) => readMinutes(pool, [stream], span),
    states: (span) => readStates(pool, names, span),
    requests: (span) => readRequests(pool, span),
    workers: () => readWorkers(pool),
    run: (id) => readRun(pool, id),
    runsSince: (ms) => countRuns(pool, ms),
    queueCounts: given.queueCounts,
    fields: (search, limit) => readFields(pool, search, limit),
    fieldStreams: () => readFieldStreams(pool),
    beliefs: () => readBeliefs(pool),
    contract: async () => readDescriptionShown(pool, names, given.related),
    record: (name, key) => readRecord(pool, streams, name, key),
    find: (text) => findInAll(pool, streams, text),
    rows: (name, asked) => readRows(pool, streams, name, asked),
  }
}

async function readSnapshot({
  pool,
  names,
  kinds,
  nextRuns,
  given,
}: Pick<Given, 'pool' | 'nextRuns'> & {
  readonly names: readonly string[]
  readonly kinds: ReadonlyMap<string, Stream['kind']>
  readonly given: Pick<Given, 'lookbackMs' | 'runbooksUrl'>
}): Promise<Snapshot> {
  const [overview, latestRuns, rates, loads, next] = await Promise.all([
    readOverview(pool, names),
    readLatestRuns(pool, names),
    readRowRates(pool),
    readFirstLoads(pool, names),
    nextRuns(),
  ])
  const at = new Date()
  return {
    at,
    streams: overview.map((one) =>
      standing({ ...one, kind: kinds.get(one.stream) ?? 'list' }, next, given.lookbackMs, at),
    ),
    latestRuns,
    rates,
    loads,
    runbooksUrl: given.runbooksUrl,
    // The other schedules only look whether there is something to do, and mostly there is nothing: they are not shown.
    nextRuns: next
      .filter(({ kind }) => kind === 'incremental' || kind === 'reconcile')
      // For a list stream, an `incremental` request means a listing.
      .map((one) => (kinds.get(one.stream) === 'list' ? { ...one, kind: 'list' } : one)),
  }
}

function standing(
  stream: StreamOverview & Pick<StreamSnapshot, 'kind'>,
  next: readonly NextRun[],
  leastLookbackMs: number,
  at: Date,
): StreamSnapshot {
  const reconcile = next.find((run) => run.stream === stream.stream && run.kind === 'reconcile')
  const lookbackMs = Math.max(stream.lookbackMs ?? 0, leastLookbackMs)
  const settling = settlingOf({ ...stream, lookbackMs, nextReconcileAt: reconcile?.at ?? null }, at)
  return { ...stream, settling }
}

const mostChanges = 50
/** Rows of a table that a page waits for. */
const mostCountedRows = 20_000

async function readDescriptionShown(
  pool: Given['pool'],
  names: readonly string[],
  related: readonly string[],
): Promise<DescriptionShown> {
  const mirrored = [...names, ...relatedStreams.map(({ name }) => name)]
  const [descriptions, unusable, changes, fields] = await Promise.all([
    storedDescriptions(pool),
    readUnusableDescriptions(pool),
    readDescriptionChanges(pool, { limit: mostChanges }),
    readFieldsBeside(pool, mirrored, { mostCounted: mostCountedRows }),
  ])
  const types = typesIn(descriptions)
  const lists = descriptions.flatMap(({ description }) => listsOffered(description, related))
  return { descriptions, unusable, changes, types, differences: differencesOf(fields, types), lists }
}
