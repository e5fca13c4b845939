// What the pages read: one object, so that pages see no SQL and no queue.

import type { Json } from '../json/json.ts'
import { parseJson } from '../json/parse.ts'
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
import { readFirstLoads } from '../store/queries/progress.ts'
import { newestInQuarantine, type QuarantineEntry, readQuarantine } from '../store/queries/quarantine.ts'
import {
  type KeyEvents,
  type KeyNotes,
  type RowStory,
  readKeyEvents,
  readKeyNotes,
  readRow,
  storyTable,
} from '../store/queries/row-story.ts'
import {
  type RowCursor,
  type RowPage,
  type RowSearch,
  readRowPage,
  rowTable,
  sqlOf,
} from '../store/queries/rows.ts'
import {
  type LatestRun,
  type RowRates,
  type RunFilter,
  type RunLine,
  readLatestRuns,
  readRowRates,
  readRuns,
} from '../store/queries/runs.ts'
import { relatedStreams, type Stream } from '../streams/catalog.ts'
import type { ReadingProgress } from '../streams/load-progress.ts'
import { isObject } from '../streams/record.ts'

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
  /** First loads, those that are complete among them. */
  readonly loads: readonly ReadingProgress[]
}

/** By what a stream is read. */
export type Setting = { readonly variable: string; readonly value: string; readonly meaning: string }

/** A page of rows with the columns that were wanted, and the query that shows the same. */
export type RowsShown = {
  /** Names of all columns besides the key. */
  readonly all: readonly string[]
  readonly keyName: string
  readonly columns: readonly string[]
  readonly page: RowPage
  readonly sql: string
}
export type RowsAsked = {
  readonly search: RowSearch
  /** Those that there are not are left out; none: `choose` says which. */
  readonly columns: readonly string[]
  readonly choose: (all: readonly string[]) => readonly string[]
  readonly after: RowCursor | null
  readonly limit: number
  /** Of a value; longer ones are cut. */
  readonly mostCharacters: number
}

/** One row, and what was noted about its key. */
export type RecordShown = {
  readonly row: (RowStory & { readonly values: Readonly<Record<string, Json>> }) | null
  readonly notes: KeyNotes
  readonly events: KeyEvents
  /** The field of the upstream behind each column. */
  readonly fieldOf: Readonly<Record<string, string>>
  readonly settledAt: Date | null
  /** The upstream can be asked for this one. */
  readonly canCompare: boolean
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
  /** Null while the stream has no table. */
  /** Null when nothing of that name is mirrored. */
  record(stream: string, key: string): Promise<RecordShown | null>
  settings(stream: string): readonly Setting[]
  rows(stream: string, asked: RowsAsked): Promise<RowsShown | null>
  /** What a backfill would take, by the names of the verb's options. Rejects with a UsageError when it cannot be right. */
  planBackfill(
    stream: string,
    options: Readonly<Record<string, string>>,
  ): Promise<{ readonly text: string; readonly from: string; readonly to: string }>
}

type Given = Pick<StatusQueries, 'problems' | 'planBackfill' | 'settings'> & {
  readonly pool: Parameters<typeof readOverview>[0]
  readonly streams: readonly Stream[]
  /** Of the queue; none when it does not answer. */
  readonly nextRuns: () => Promise<readonly NextRun[]>
}

export function openStatusQueries({ pool, streams, nextRuns, ...given }: Given): StatusQueries {
  const names = streams.map(({ name }) => name)
  const kinds = new Map(streams.map(({ name, kind }) => [name, kind]))
  return {
    streams: names,
    async snapshot() {
      const [overview, latestRuns, rates, loads, next] = await Promise.all([
        readOverview(pool, names),
        readLatestRuns(pool, names),
        readRowRates(pool),
        readFirstLoads(pool, names),
        nextRuns(),
      ])
      return {
        at: new Date(),
        streams: overview.map((one) => ({ ...one, kind: kinds.get(one.stream) ?? 'list' })),
        latestRuns,
        rates,
        loads,
        // The other schedules look whether something is to be done; mostly nothing is.
        nextRuns: next
          .filter(({ kind }) => kind === 'incremental' || kind === 'reconcile')
          // Asked to read what is new, a list stream is listed.
          .map((one) => (kinds.get(one.stream) === 'list' ? { ...one, kind: 'list' } : one)),
      }
    },
    problems: given.problems,
    planBackfill: given.planBackfill,
    settings: given.settings,
    runs: (filter, page) => readRuns(pool, filter, page),
    checkpoints: (stream, limit) => readCheckpoints(pool, { stream, limit }),
    backfills: (stream) => listBackfills(pool, stream),
    quarantine: (stream, page) => readQuarantine(pool, { stream, id: null }, page),
    newestInQuarantine: (stream) => newestInQuarantine(pool, stream),
    fields: (search, limit) => readFields(pool, search, limit),
    fieldStreams: () => readFieldStreams(pool),
    beliefs: () => readBeliefs(pool),
    record: (name, key) => readRecord(pool, streams, name, key),
    rows: (name, asked) => readRows(pool, streams, name, asked),
  }
}

async function readRows(
  pool: Given['pool'],
  streams: readonly Stream[],
  name: string,
  { search, columns: wanted, choose, ...page }: RowsAsked,
): Promise<RowsShown | null> {
  const stream = streams.find((one) => one.name === name)
  const table = stream && (await rowTable(pool, stream))
  if (!table) return null
  const all = table.columns.map((column) => column.name)
  const known = wanted.filter((one) => all.includes(one))
  const names = known.length > 0 ? known : choose(all)
  const columns = table.columns.filter((column) => names.includes(column.name))
  return {
    all,
    keyName: table.tableSchema.key.name,
    columns: columns.map((column) => column.name),
    page: await readRowPage(pool, table, { columns, search, ...page }),
    sql: sqlOf(table, columns, search, page.limit),
  }
}

const nothingNoted: KeyEvents = { differences: [], quarantine: [], related: [] }

async function readRecord(
  pool: Given['pool'],
  streams: readonly Stream[],
  name: string,
  key: string,
): Promise<RecordShown | null> {
  const stream = streams.find((one) => one.name === name)
  const mirrored = stream ?? relatedStreams.find((one) => one.name === name)
  if (!mirrored || key.includes('\0')) return null
  const table = await storyTable(pool, mirrored)
  const isKey = table?.takesKey(key) === true
  const [row, notes, events, overview] = await Promise.all([
    isKey ? readRow(pool, table, key) : null,
    readKeyNotes(pool, name, key),
    isKey ? readKeyEvents(pool, table, key) : nothingNoted,
    stream ? readOverview(pool, [name]) : [],
  ])
  const values = row && parseJson(Buffer.from(row.text))
  return {
    row: row && { ...row, values: isObject(values) ? values : {} },
    notes,
    events,
    fieldOf: Object.fromEntries(table?.tableSchema.columns.map((one) => [one.name, one.field]) ?? []),
    settledAt: (stream?.kind === 'list' ? overview[0]?.readThroughAt : overview[0]?.settledThroughAt) ?? null,
    canCompare: stream?.lookup != null && isKey,
  }
}
