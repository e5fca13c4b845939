// How fresh each stream is, what goes on, and what needs a person.

import { z } from 'zod'
import { type Problem, problemKinds, sourceOfProblem } from '../problems/stream-problems.ts'
import {
  careOf,
  problemsByKey,
  stateOfStream,
  verdictInWords,
  withProblems,
} from '../problems/stream-state.ts'
import { keptInWords, measured } from '../problems/targets.ts'
import { readProgress } from '../store/book/progress.ts'
import { readSourceLines } from '../store/book/source-config.ts'
import { livingRows, readOverview, type StreamOverview } from '../store/book/streams.ts'
import type { BlockedDeletions } from '../store/book/symptoms.ts'
import { readKeptTargets } from '../store/book/targets.ts'
import { readLastSeen, readMinutes, readWorkers, type WorkerSeen } from '../store/book/watch.ts'
import { pickStream, pickStreams, type Stream } from '../streams/catalog.ts'
import { estimate, isTold, type ReadingProgress, readingInWords } from '../streams/load-progress.ts'
import { sourceIn } from '../streams/names.ts'
import { settledThrough, settlingOf } from '../streams/settling.ts'
import { NotThere } from '../util/errors.ts'
import { formatDuration, snakeCased } from '../util/text.ts'
import { isLeast, rejection } from './deletions.ts'
import {
  amount,
  digits,
  document,
  type Facts,
  id,
  list,
  measure,
  streamName,
  streamNames,
  time,
} from './document.ts'
import { source } from './sources.ts'

// ── what is looked up ────────────────────────────────────────────────────────────────────────────────────────

export type Status = Awaited<ReturnType<typeof gatherStatus>>
export type StatusLine = Status['lines'][number]

type Needed = Pick<Facts, 'pool' | 'streams' | 'catalogue' | 'lookbackMs' | 'targets'> & {
  readonly problems: (workers: readonly WorkerSeen[]) => Promise<readonly Problem[]>
}

const rateMinutes = 5
const minuteMs = 60_000

/** With what is known of how a target was kept. */
const keptBy =
  (kept: Awaited<ReturnType<typeof readKeptTargets>>) => (target: ReturnType<typeof measured>[number]) => ({
    ...target,
    kept: kept.filter(({ stream, time }) => stream === target.stream && time === target.time),
  })

/** Of these streams; without names of those that are configured, and those that have rows. */
export async function gatherStatus(facts: Needed, named: readonly string[]) {
  const { pool, catalogue, streams } = facts
  const names = pickStreams(named, catalogue).map(({ name }) => name)
  const now = new Date()
  const thisMinute = Math.floor(now.getTime() / minuteMs) * minuteMs
  const span = { from: new Date(thisMinute - rateMinutes * minuteMs), to: new Date(thisMinute) }
  const targets = measured(facts.targets, catalogue)
  const own = new Set(catalogue.map(({ name }) => sourceIn(name)))
  const isOfAll = named.length === 0 && own.has('')
  const [overview, workers, lastSeen, readings, minutes, kept, sources] = await Promise.all([
    readOverview(pool, names),
    readWorkers(pool),
    readLastSeen(pool),
    readProgress(pool, names),
    readMinutes(pool, names, { ...span, bucketMs: rateMinutes * minuteMs }),
    readKeptTargets(pool, targets),
    isOfAll ? readSourceLines(pool) : [],
  ])
  const problems = await facts.problems(workers)
  const byKey = problemsByKey(problems)
  const isShown = ({ stream, readThroughAt }: StreamOverview) =>
    named.length > 0 || readThroughAt !== null || streams.some(({ name }) => name === stream)
  const known = new Map<string, Stream>(catalogue.map((stream) => [stream.name, stream]))
  const changed = new Map(minutes.map((minute) => [minute.stream, minute]))
  const lines = overview.filter(isShown).map((one) => {
    const [stream, rows] = [known.get(one.stream), changed.get(one.stream)]
    const kind = stream?.kind ?? 'list'
    const seen = { ...one, kind, nextReconcileAt: null }
    return {
      overview: one,
      kind,
      state: stateOfStream(one, stream?.service ?? 'assignment', byKey),
      // Null when it is settled.
      settling: settlingOf(
        { ...seen, lookbackMs: Math.max(one.lookbackMs ?? 0, facts.lookbackMs(one.stream)) },
        now,
      ),
      // A list is settled whenever it is read.
      settledAt: settledThrough(stream?.kind, one),
      targets: targets.filter(({ stream }) => stream === one.stream).map(keptBy(kept)),
      // Changed rows of the last five whole minutes; null: nothing was recorded yet.
      rowsPerMinute: rows ? (rows.inserted + rows.updated + rows.deleted) / rateMinutes : null,
    }
  })
  return {
    now,
    lines,
    // All of them, the worst first; none where only one source or some streams were asked for.
    sources: withProblems(sources, problems),
    problems: problems.filter((one) => {
      if (isOfAll || one.stream !== null) return isOfAll || names.includes(one.stream ?? '')
      const of = sourceOfProblem(one)
      return of === null || own.has(of)
    }),
    // Readings that go on, first loads among them.
    readings: readings.filter((one) => lines.some(({ overview: { stream } }) => stream === one.stream)),
    // What workers wait for before they try again.
    waits: workers
      .flatMap(({ isGone, waits }) => (isGone ? [] : waits))
      .flatMap(({ what, until }) => (until === null ? [] : [{ what, until: new Date(until) }])),
    // Whether a worker lives, and when one last did; null: there never was one.
    worker: lastSeen && { isThere: workers.some(({ isGone }) => !isGone), seenAt: lastSeen },
  }
}

/** Nothing stays up to date without a worker. */
function verdictOf({ problems, lines, worker, sources }: Status): string {
  const streams = lines.map(({ overview }) => overview)
  const words = verdictInWords(problems, streams, sources)
  return worker?.isThere === false && words.endsWith('up to date') ? 'No worker is running' : words
}

// ── the documents ────────────────────────────────────────────────────────────────────────────────────────────

const problem = z
  .object({
    key: z.string().describe('the same as long as it is the same problem'),
    kind: z.enum(problemKinds),
    stream: z.string().nullable().describe('null: it is not about one stream'),
    care: z.enum(['needs you', 'heals', 'news']),
    since: time.nullable(),
    what: z.string().describe('what happened, and what it means for the rows'),
    what_to_do: z.string(),
    runbook: z.string(),
  })
  .meta({ id: 'Problem' })

const lastRun = z.object({
  id,
  kind: z.string(),
  status: z.string(),
  started_at: time,
  finished_at: time.nullable(),
  error: z.string().nullable(),
  note: z.string().nullable(),
})

const target = z.object({
  seconds: measure,
  kept_7_days: measure.nullable().optional(),
  kept_30_days: measure.nullable().optional(),
  words: z.string().describe('the same in one line'),
})

const stream = z
  .object({
    stream: z.string(),
    kind: z.enum(['changes', 'list']),
    state: z.string().describe('in words, as the console shows it'),
    tone: z
      .enum(['ok', 'busy', 'idle', 'todo', 'warn', 'bad'])
      .describe('warn: it gets better by itself; bad: it needs a person'),
    position: digits,
    read_through: time.nullable(),
    settled_through: time.nullable(),
    settling: z
      .object({ when: z.string(), why: z.string() })
      .nullable()
      .describe('when it will be settled, and why it is not yet; null: it is'),
    deletions_known_through: time.nullable(),
    lag_seconds: measure.nullable(),
    rows: amount.nullable().describe('deleted ones among them; null: not known yet'),
    deleted_rows: amount.nullable(),
    living_rows: amount.nullable(),
    rows_per_minute: measure.nullable(),
    last_success_at: time.nullable(),
    last_reconcile_at: time.nullable(),
    last_run: lastRun.nullable(),
    running: list(z.string()).describe('the kinds of run that go on'),
    lookback_seconds: measure.nullable(),
    lookback_reason: z.string().nullable(),
    late_arrivals: amount,
    quarantined: amount,
    misfit_values: amount,
    missed_rows: amount,
    unfinished_backfills: amount,
    related: z
      .object({ read: amount, waiting: amount, set_aside: amount, quarantined: amount })
      .nullable()
      .describe('of assignments, where their related records are copied'),
    blocked_deletions: z
      .object({
        missing: amount.nullable(),
        is_least: isLeast,
        living: amount.nullable(),
        seen: amount.nullable(),
        at: time.nullable(),
        rejected: rejection,
      })
      .nullable(),
    unexplained_differences: z.object({ since: time, differences: amount }).nullable(),
    paused: z.object({ at: time, by: z.string(), reason: z.string().nullable() }).nullable(),
    targets: z.record(z.string(), target).describe('by the time that they are for: read, settled, deletions'),
    problems: list(problem),
  })
  .meta({ id: 'Stream' })

const reading = z
  .object({
    stream: z.string(),
    reading: z.string(),
    rows: amount,
    total: amount.nullable(),
    share: measure.nullable(),
    rows_per_second: measure.nullable(),
    seconds_left: z.array(measure.nullable()).length(2).nullable().describe('at least, and at most'),
    stalled: z.object({ seconds: measure, why: z.string().nullable(), until: time.nullable() }).nullable(),
    words: z.string().nullable().describe('the same in one line; null: there is nothing to tell yet'),
  })
  .meta({ id: 'Reading' })

const wholeStatus = z
  .object({
    at: time.describe('as of when'),
    verdict: z.string().describe('how everything stands, in one line'),
    worker: z.object({ running: z.boolean(), seen_at: time }).nullable(),
    problems: list(problem).describe('those that are not about one of the streams below'),
    streams: list(stream),
    readings: list(reading),
    sources: list(source).describe(
      'all sources, the worst first; empty where only some streams were asked for',
    ),
    waits: list(z.object({ what: z.string(), until: time })).describe('what workers wait for'),
  })
  .meta({ id: 'Status' })
export type WholeStatus = z.output<typeof wholeStatus>
export type StreamStatus = z.output<typeof stream>

const problemJson = (given: Problem): z.output<typeof problem> => {
  const { key, kind, stream: about, since, what, whatToDo, runbook } = given
  return { key, kind, stream: about, care: careOf(given), since, what, what_to_do: whatToDo, runbook }
}

const dated = (text: string | null): Date | null => (text === null ? null : new Date(text))

const blockedIn = ({ marked: _, isLeast = false, ...blocked }: BlockedDeletions) => ({
  ...blocked,
  is_least: isLeast,
})

function streamJson(
  { overview, kind, state, settling, settledAt, rowsPerMinute, targets }: StatusLine,
  problems: readonly Problem[],
): z.output<typeof stream> {
  const { firstReadThroughAt: _first, isReadAgain: _again, ...shown } = overview
  const { readThroughAt, settledThroughAt: _, deletionsKnownAt, ...more } = shown
  const { lagMs, lookbackMs, related, rescued, unexplained, lastRun: last, paused, ...kept } = more
  const { blockedDeletions: blocked, ...rest } = kept
  return {
    ...snakeCased(rest),
    kind,
    settling,
    rows_per_minute: rowsPerMinute,
    state: state.words,
    tone: state.tone,
    read_through: readThroughAt,
    settled_through: settledAt,
    deletions_known_through: deletionsKnownAt,
    lag_seconds: lagMs === null ? null : lagMs / 1000,
    lookback_seconds: lookbackMs === null ? null : lookbackMs / 1000,
    living_rows: livingRows(overview),
    last_run: last && {
      ...snakeCased(last),
      started_at: new Date(last.startedAt),
      finished_at: dated(last.finishedAt),
    },
    blocked_deletions: blocked && blockedIn(blocked),
    paused: paused && { ...paused, at: new Date(paused.at) },
    related: related && snakeCased(related),
    targets: Object.fromEntries(
      targets.map(({ time: which, seconds, kept }) => [
        which,
        {
          seconds,
          ...Object.fromEntries(kept.map(({ days, share }) => [`kept_${days}_days`, share])),
          words: [
            formatDuration(1000 * seconds),
            ...kept.map((one) => `over ${one.days} days ${keptInWords(one)}`),
          ].join(', '),
        },
      ]),
    ),
    misfit_values: rescued,
    unexplained_differences: unexplained && { ...unexplained, since: new Date(unexplained.since) },
    problems: problems.filter((one) => one.stream === overview.stream).map(problemJson),
  }
}

function readingJson(progress: ReadingProgress, now: Date): z.output<typeof reading> {
  const { stream: of, reading: kind, rows, total } = progress
  const seen = estimate(progress, now)
  const { share, rowsPerSecond, left, stalled } = seen
  return {
    stream: of,
    reading: kind,
    rows,
    total,
    share,
    rows_per_second: rowsPerSecond,
    seconds_left: left && [left.leastMs / 1000, left.mostMs && left.mostMs / 1000],
    stalled: stalled && { seconds: stalled.forMs / 1000, why: stalled.why, until: stalled.until },
    words: isTold(progress) ? readingInWords(progress, seen, now) : null,
  }
}

export const statusJson = (found: Status): WholeStatus => ({
  at: found.now,
  verdict: verdictOf(found),
  worker: found.worker && { running: found.worker.isThere, seen_at: found.worker.seenAt },
  problems: found.problems
    .filter((one) => found.lines.every(({ overview }) => overview.stream !== one.stream))
    .map(problemJson),
  streams: found.lines.map((line) => streamJson(line, found.problems)),
  readings: found.readings.map((one) => readingJson(one, found.now)),
  sources: found.sources.map((one) => snakeCased(one)),
  waits: found.waits,
})

export const status = document({
  path: '/status',
  title: 'How current each stream is, what goes on, and what needs a person',
  asked: z.strictObject({ stream: streamNames }),
  answer: wholeStatus,
  read: async (facts: Needed, asked) => statusJson(await gatherStatus(facts, asked.stream)),
})

export const streams = document({
  path: '/streams',
  title: 'How each stream stands',
  asked: z.strictObject({}),
  answer: list(stream),
  read: async (facts: Needed) => statusJson(await gatherStatus(facts, [])).streams,
})

export const oneStream = document({
  path: '/streams/{stream}',
  title: 'How one stream stands',
  asked: z.strictObject({ stream: streamName }),
  answer: stream,
  async read(facts: Needed, asked) {
    const [found] = statusJson(await gatherStatus(facts, [asked.stream])).streams
    if (!found)
      throw new NotThere(`Nothing of ${pickStream(asked.stream, facts.catalogue).name} was read yet.`)
    return found
  },
})

export const problems = document({
  path: '/problems',
  title: 'What needs a person, heals by itself, or is worth knowing',
  asked: z.strictObject({}),
  answer: list(problem),
  read: async (facts: Pick<Facts, 'problems'>) => (await facts.problems()).map(problemJson),
})
