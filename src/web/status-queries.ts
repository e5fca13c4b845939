// What the pages read: one object, so that pages see no SQL and no queue.

import type { Document, Facts } from '../documents/document.ts'
import { readStory } from '../documents/records.ts'
import { typesIn } from '../openapi/descriptions.ts'
import { differencesOf, readFieldsBeside } from '../openapi/differences.ts'
import { listsOffered } from '../openapi/lists.ts'
import { readDescriptionChanges, readUnusableDescriptions, storedDescriptions } from '../openapi/stored.ts'
import { readHappeningsInWords } from '../operator/happenings.ts'
import type { RewindPlan } from '../operator/rewind.ts'
import type { UpstreamSays } from '../operator/upstream-record.ts'
import type { Alerting } from '../problems/receivers.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { measured } from '../problems/targets.ts'
import { readActions } from '../store/book/actions.ts'
import type { AlertSetting } from '../store/book/alert-settings.ts'
import { listBackfills } from '../store/book/backfills.ts'
import { type ChangesAsked, readChanges } from '../store/book/changes.ts'
import { readCheckpoints } from '../store/book/checkpoints.ts'
import { readDeletionEvidence } from '../store/book/deletions.ts'
import * as dictionary from '../store/book/dictionary.ts'
import type { Lately } from '../store/book/happenings.ts'
import { readSessionId, readSessions, readTokens } from '../store/book/people.ts'
import { readClosedProblems } from '../store/book/problems.ts'
import { readFirstLoads, readProgress } from '../store/book/progress.ts'
import { readQuarantine, readQuarantinedKey, readQuarantineOf } from '../store/book/quarantine.ts'
import { readAskedFor, readRequests } from '../store/book/request-history.ts'
import * as runs from '../store/book/runs.ts'
import { readSilences } from '../store/book/silences.ts'
import { readSourceLines } from '../store/book/source-config.ts'
import { readOverview, type StreamOverview } from '../store/book/streams.ts'
import { readKeptTargets } from '../store/book/targets.ts'
import * as watch from '../store/book/watch.ts'
import { type Catalogue, relatedBeside, type Stream } from '../streams/catalog.ts'
import type { Settings } from '../streams/settings.ts'
import { settlingOf } from '../streams/settling.ts'
import { findInAll, type RowsAsked, readRecord, readRows } from './row-queries.ts'
import type { ChartSpan } from './time-range.ts'

export type { Happening } from '../operator/happenings.ts'
export type BackfillLine = Awaited<ReturnType<typeof listBackfills>>[number]
export type BackfillPlan = { readonly text: string; readonly from: string; readonly to: string }
export type NextRun = {
  readonly stream: string
  readonly kind: string
  readonly schedule: { readonly everyMs: number } | { readonly cron: string }
  readonly at: Date
}
export type StreamSnapshot = ReturnType<typeof standing>
/** Everything of the overview, as of one moment. */
export type Snapshot = Awaited<ReturnType<typeof readSnapshot>>
export type DescriptionShown = Awaited<ReturnType<typeof readDescriptionShown>>

/** Bound to a connection that changes nothing. Lists are cut at the limit; null is no restriction. */
const plain = {
  runs: runs.readRuns,
  runSpans: runs.readRunSpans,
  run: runs.readRun,
  runsSince: runs.countRuns,
  checkpoints: readCheckpoints,
  backfills: listBackfills,
  quarantine: readQuarantine,
  quarantineOf: readQuarantineOf,
  quarantinedKey: readQuarantinedKey,
  deletionEvidence: readDeletionEvidence,
  actions: readActions,
  tokens: readTokens,
  sessions: readSessions,
  sessionId: readSessionId,
  closedProblems: readClosedProblems,
  minutes: watch.readMinutes,
  requests: readRequests,
  askedFor: readAskedFor,
  workers: watch.readWorkers,
  sources: readSourceLines,
  fields: dictionary.readFields,
  fieldStreams: dictionary.readFieldStreams,
  beliefs: dictionary.readBeliefs,
}
type Client = Parameters<typeof readOverview>[0]
type Bound<Queries> = {
  readonly [Name in keyof Queries]: Queries[Name] extends (
    client: Client,
    ...rest: infer Rest
  ) => infer Answer
    ? (...rest: Rest) => Answer
    : never
}

type Given = {
  /** Who is told of problems, and when. */
  readonly alerting: () => Alerting
  /** Of these what was set up in the console; it is taken up at once. */
  readonly alertSettings: () => Promise<readonly AlertSetting[]>
  /** STALE_AFTER: a stream that is behind for longer is a problem. */
  readonly staleAfterMs: (stream: string) => number
  /** Where the pages of docs/operations can be read; null: they are named by their path. */
  readonly runbooksUrl: string | null
  /** LOOKBACK: the least that late commits are waited for. */
  readonly lookbackMs: (stream: string) => number
  /** The names of the related records that are copied. */
  readonly related: readonly string[]
  readonly pool: Client
  readonly streams: readonly Stream[]
  readonly catalogue: Catalogue
  /** When the schedules ask for the next runs; none when the queue does not answer. */
  readonly nextRuns: () => Promise<readonly NextRun[]>
  readonly problems: () => Promise<readonly Problem[]>
  /** How many jobs the queue has in each state; null while it does not answer. */
  readonly queueCounts: () => Promise<Readonly<Record<string, number>> | null>
  /** Rejects when there is no such source. Left out: those of the one that the environment describes. */
  readonly settings: (source?: string) => Promise<Settings>
  /** What a backfill would take, by the names of the verb's options. Rejects with a UsageError when it cannot be right. */
  readonly planBackfill: (stream: string, options: Readonly<Record<string, string>>) => Promise<BackfillPlan>
  /** What a rewind would mean, likewise. */
  readonly planRewind: (stream: string, options: Readonly<Record<string, string>>) => Promise<RewindPlan>
}

/** What asks for all configured streams, or for the rows of one. */
function ofStreams(given: Given) {
  const { pool, streams } = given
  const names = streams.map(({ name }) => name)
  return {
    /** The names of the configured streams. */
    streams: names as readonly string[],
    /** The same, and those of the related records beside them. */
    mirrored: [
      ...new Set([...streams, ...relatedBeside(streams)].map(({ name }) => name)),
    ] as readonly string[],
    snapshot: () => readSnapshot(given, names),
    /** How far what reads now has come; null: of all streams. */
    readings: (stream: string | null) => readProgress(pool, stream === null ? names : [stream]),
    happenings: ({ stream = null, ...asked }: Lately & { readonly stream?: string | null } = {}) =>
      readHappeningsInWords(
        pool,
        streams.filter(({ name }) => stream === null || name === stream),
        asked,
      ),
    changes: (asked: ChangesAsked) => readChanges(pool, [...streams, ...relatedBeside(streams)], asked),
    /** How well the targets of a stream were kept. */
    keptTargets: (stream: string) =>
      readKeptTargets(
        pool,
        measured(given.alerting().targets, streams).filter((one) => one.stream === stream),
      ),
    states: (span: ChartSpan) => watch.readStates(pool, names, span),
    /** What the upstream says about itself, and what of it the records contradict. */
    contract: () => readDescriptionShown(given, names),
    /** Null when nothing of that name is mirrored. */
    record: (name: string, key: string) => readRecord(pool, streams, name, key),
    /** What the API answers. */
    document: <Asked, Answer>(document: Document<Facts, Asked, Answer>, asked: Asked): Promise<Answer> =>
      document.read({ ...given, targets: given.alerting().targets }, asked),
    recordStory: (stream: string, key: string, upstream: UpstreamSays) =>
      readStory(given, { stream, key }, upstream),
    /** Searches these streams side by side: a slow search in one does not keep the others waiting. */
    find: (text: string, among: readonly string[]) =>
      findInAll(
        pool,
        streams.filter(({ name }) => among.includes(name)),
        text,
      ),
    rows: (name: string, asked: RowsAsked) => readRows(pool, streams, name, asked),
  }
}

export type StatusQueries = Bound<typeof plain> &
  ReturnType<typeof ofStreams> &
  Omit<Given, 'pool' | 'streams' | 'related' | 'lookbackMs' | 'runbooksUrl' | 'nextRuns'>

export function openStatusQueries(given: Given): StatusQueries {
  const bound = Object.entries(plain).map(([name, query]) => [
    name,
    (...rest: readonly unknown[]) => Reflect.apply(query, null, [given.pool, ...rest]),
  ])
  return { ...given, ...(Object.fromEntries(bound) as Bound<typeof plain>), ...ofStreams(given) }
}

async function readSnapshot(
  { pool, streams, nextRuns, lookbackMs, runbooksUrl }: Given,
  names: readonly string[],
) {
  const [overview, latestRuns, rates, loads, silences, next] = await Promise.all([
    readOverview(pool, names),
    runs.readLatestRuns(pool, names),
    runs.readRowRates(pool),
    readFirstLoads(pool, names),
    readSilences(pool),
    nextRuns(),
  ])
  const at = new Date()
  const known = new Map(streams.map((stream) => [stream.name, stream]))
  return {
    at,
    streams: overview.map((one) => {
      const { kind = 'list', service = 'assignment' } = known.get(one.stream) ?? {}
      return standing({ ...one, kind, service }, next, lookbackMs(one.stream), at)
    }),
    latestRuns,
    rates,
    /** First loads, those that are complete among them. */
    loads,
    runbooksUrl,
    /** Of what no alerts are sent. */
    silences,
    // The other schedules only look whether there is something to do, and mostly there is nothing: they are not shown.
    nextRuns: next
      .filter(({ kind }) => kind === 'incremental' || kind === 'reconcile')
      // For a list stream, an `incremental` request means a listing.
      .map((one) => (known.get(one.stream)?.kind === 'list' ? { ...one, kind: 'list' } : one)),
  }
}

/** `settling`: null when it is settled. */
function standing(
  stream: StreamOverview & Pick<Stream, 'kind' | 'service'>,
  next: readonly NextRun[],
  leastLookbackMs: number,
  at: Date,
) {
  const reconcile = next.find((run) => run.stream === stream.stream && run.kind === 'reconcile')
  const lookbackMs = Math.max(stream.lookbackMs ?? 0, leastLookbackMs)
  const settling = settlingOf({ ...stream, lookbackMs, nextReconcileAt: reconcile?.at ?? null }, at)
  return { ...stream, settling }
}

const mostChanges = 50
/** Rows of a table that a page waits for. */
const mostCountedRows = 20_000

async function readDescriptionShown({ pool, catalogue, related }: Given, names: readonly string[]) {
  const mirrored = [...names, ...relatedBeside(catalogue).map(({ name }) => name)]
  const [descriptions, unusable, changes, fields] = await Promise.all([
    storedDescriptions(pool),
    readUnusableDescriptions(pool),
    readDescriptionChanges(pool, { limit: mostChanges }),
    readFieldsBeside(pool, mirrored, { mostCounted: mostCountedRows }),
  ])
  const types = typesIn(descriptions, catalogue)
  const lists = descriptions.flatMap(({ description }) => listsOffered(description, catalogue, related))
  return { descriptions, unusable, changes, types, differences: differencesOf(fields, types), lists }
}
