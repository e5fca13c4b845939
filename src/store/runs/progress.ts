// Notes how far a run has come, for whoever watches: at most once a second, and no page ever waits for it. If a note fails, the next one
// includes it. A kill loses at most the counts of the last second, and never the rows themselves.

import pg, { type Pool } from 'pg'
import type { Logger } from '../../log.ts'
import { type RunKind, type Stream, versionedBy } from '../../streams/catalog.ts'
import { openSteps, type RunStep } from '../../streams/run-steps.ts'
import type { RunEnd, RunProgress, WriteCounts } from '../../sync/ports/store.ts'
import { holdableJson } from '../../util/text.ts'
import { withTimeout } from '../../util/waiting.ts'
import { inOneTransaction } from '../book/ask.ts'
import { readBackfill } from '../book/backfills.ts'
import { qualified } from '../schema/places.ts'
import { readTableSchema } from '../schema/table-schema.ts'
import { queryAny, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import type { StartingPoint } from './unread.ts'

/** What requests to a service wait for, in words. */
export type Waiting = { readonly what: string; readonly until: Date }

type Needs = {
  readonly pool: Pool
  readonly stream: Stream
  readonly kind: RunKind
  readonly runId: string
  readonly startedAt: Date
  readonly noteLine: () => Promise<void>
  /** The stream was never read whole. */
  readonly isFirst: boolean
  /** It was read before, and its rows are here. */
  readonly isReadAgain: boolean
  readonly backfill: string | null
  readonly from: StartingPoint
  readonly versionField: string | null
  readonly waitsFor: () => Waiting | null
  readonly log: Logger
}
type Committed = { readonly written: WriteCounts; readonly newlyQuarantined: number }
export type RunRecorder = RunProgress & {
  /** A page is in a table. */
  committed(table: string, committed: Committed): void
  marked(table: string, rows: number): void
  /** Null where they would tell no more than the run's line in the ledger. */
  steps(end: RunEnd): readonly RunStep[] | null
  end(end: RunEnd): Promise<void>
}

type Minute = { inserted: number; updated: number; deleted: number; quarantined: number }
const everyMs = 1_000
/** A run that is over sooner is not shown. */
const shownAfterMs = 1_000
const markEveryMs = 5_000
const endMs = 2_000

/** These runs come again every few seconds. Where one was over soon, its line in the ledger says enough. */
const frequent: readonly RunKind[] = ['incremental', 'list', 'lookback', 'deletions', 'related']

/** These runs count the records that the list showed, because they compare rows rather than write them. */
const listing: readonly RunKind[] = ['reconcile', 'verify', 'deletions']

const openState = (reading: string) => ({
  reading,
  /** Since the last note. */
  news: { rows: 0, requests: 0, bytes: 0 },
  minutes: new Map<string, Minute>(),
  asked: { requests: 0, bytes: 0, records: 0 },
  steps: openSteps(),
  hasNoted: false,
  /** What earlier runs of the same reading had read. */
  rowsBefore: 0,
  /** What the run does was not noted yet. */
  hasNewStep: false,
  markedMs: 0,
  minutesMs: performance.now(),
  last: Promise.resolve(),
  isNoting: false,
})
type State = Needs & ReturnType<typeof openState> & { readonly elapsedMs: () => number }

export function startRecorder(needs: Needs): RunRecorder {
  const beganMs = performance.now()
  const elapsedMs = () => Math.round(performance.now() - beganMs)
  const isFirst = needs.isFirst && (needs.kind === 'incremental' || needs.kind === 'list')
  const state = { ...needs, ...openState(isFirst ? 'first load' : needs.kind), elapsedMs }
  const isWatched = () => state.hasNoted || isFirst || elapsedMs() >= shownAfterMs
  const timer = setInterval(() => {
    lookAtWaits(state)
    if (isWatched()) noteSoon(state)
  }, everyMs)
  timer.unref()
  return {
    asked({ requests, bytes, records }) {
      state.news.requests += requests - state.asked.requests
      state.news.bytes += bytes - state.asked.bytes
      if (listing.includes(state.kind)) state.news.rows += records - state.asked.records
      state.steps.add(
        { requests: requests - state.asked.requests, records: records - state.asked.records },
        elapsedMs(),
      )
      state.asked = { requests, bytes, records }
      // At once, so that whoever watches a first load sees it begin.
      if (isFirst && !state.hasNoted) noteSoon(state)
    },
    step(what) {
      state.steps.begin(what, elapsedMs())
      state.hasNewStep = true
    },
    committed(table, { written, newlyQuarantined }) {
      const { inserted, updated, unchanged, quarantined } = written
      add(state, table, { inserted, updated, quarantined: newlyQuarantined, deleted: 0 })
      if (table !== state.stream.name || listing.includes(state.kind)) return
      state.news.rows +=
        isFirst && !needs.isReadAgain
          ? inserted + newlyQuarantined
          : inserted + updated + unchanged + quarantined
    },
    marked: (table, rows) => add(state, table, { inserted: 0, updated: 0, quarantined: 0, deleted: rows }),
    steps({ status }) {
      const isSaid = status === 'done' && elapsedMs() < shownAfterMs && frequent.includes(needs.kind)
      return isSaid ? null : state.steps.told(elapsedMs())
    },
    async end(end) {
      clearInterval(timer)
      await withTimeout(
        endMs,
        state.last.then(() => noteEnd(state, end, isWatched())),
      ).catch((error) =>
        needs.log.debug({ err: error, stream: needs.stream.name }, 'the end of a run could not be noted'),
      )
    },
  }
}

function add({ minutes }: State, table: string, more: Minute): void {
  if (more.inserted + more.updated + more.deleted + more.quarantined === 0) return
  const known = minutes.get(table) ?? { inserted: 0, updated: 0, deleted: 0, quarantined: 0 }
  for (const name of ['inserted', 'updated', 'deleted', 'quarantined'] as const) known[name] += more[name]
  minutes.set(table, known)
}

function lookAtWaits({ steps, elapsedMs, waitsFor }: State): void {
  const waiting = waitsFor()
  steps.look(waiting && waiting.until.getTime() > Date.now() ? waiting.what : null, elapsedMs())
}

function noteSoon(state: State): void {
  if (state.isNoting) return
  state.isNoting = true
  state.last = note(state, null)
    .catch((error) =>
      state.log.debug({ err: error, stream: state.stream.name }, 'progress could not be noted'),
    )
    .finally(() => {
      state.isNoting = false
    })
}

async function noteEnd(state: State, end: RunEnd, isWatched: boolean): Promise<void> {
  if (isWatched) await note(state, end)
  else await noteMinutes(state)
}

async function note(state: State, end: RunEnd | null): Promise<void> {
  const { pool, stream, reading, runId, backfill } = state
  const nowMs = performance.now()
  const isBeginning = !state.hasNoted
  await state.noteLine()
  if (isBeginning) {
    await pool.query(beginAnewSql, [stream.name, reading, backfill])
    state.rowsBefore = await rowsNoted(pool, state)
  }
  const waiting = state.waitsFor()
  const isMark = nowMs - state.markedMs >= markEveryMs
  const { rows, requests, bytes } = state.news
  state.news = { rows: 0, requests: 0, bytes: 0 }
  try {
    await pool.query({
      name: 'tidemark_note_progress',
      text: noteSql,
      values: [
        ...[stream.name, reading, runId, backfill, state.startedAt],
        ...[end !== null, end?.status === 'done' && end.isComplete, rows, requests, bytes],
        ...[waiting?.what ?? null, waiting?.until ?? null, end?.error ?? null, isMark],
      ],
    })
    state.hasNoted = true
    if ((isMark || state.hasNewStep) && end === null) await noteSteps(state)
    // Not awaited: until the rows are counted, no share is shown.
    if (isBeginning)
      rowsToRead(state)
        .then((total) => (total === null ? undefined : noteTotal(pool, state, total)))
        .catch((error) => state.log.debug({ err: error }, 'what is to be read could not be counted'))
    if (isMark) state.markedMs = nowMs
  } catch (error) {
    state.news.rows += rows
    state.news.requests += requests
    state.news.bytes += bytes
    throw error
  }
  if (end !== null || nowMs - state.minutesMs >= markEveryMs) await noteMinutes(state)
}

/** Stores the steps while the run goes on, so that they are known even if it is killed. */
async function noteSteps(state: State): Promise<void> {
  const { pool, runId, steps, elapsedMs } = state
  state.hasNewStep = false
  await pool.query({
    name: 'tidemark_note_steps',
    text: `update tidemark.run set steps = $2 where id = $1 and status = 'running'`,
    values: [runId, holdableJson(steps.told(elapsedMs()))],
  })
}

/** A first load and a backfill go on where the run before left off; all others begin anew. */
const beginAnewSql = `
  delete from tidemark.progress
  where stream = $1 and reading = $2
    and (is_complete or reading not in ('first load', 'backfill') or subject is distinct from $3)`

const rowsNoted = async (pool: Queryable, { stream, reading }: Pick<State, 'stream' | 'reading'>) =>
  (await queryValue<number>(
    pool,
    'select rows::float8 as rows from tidemark.progress where stream = $1 and reading = $2',
    [stream.name, reading],
  )) ?? 0

/** The share stays below 1 until all is read. */
const shareSql = (rows: string, total: string, complete: string, before: string) => `
  case when ${complete} then 1
       when ${total} is null then ${before}
       else greatest(${before}, least(0.999, ${rows}::real / greatest(${total}, ${rows}, 1))) end`

const noteSql = `
  insert into tidemark.progress as known (
    stream, reading, run_id, subject, began_at, updated_at, ended_at, is_complete, rows, rows_at, requests, bytes,
    share, waits_for, waits_until, error, marks
  )
  values (
    $1, $2, $3, $4, $5, now(), case when $6 then now() end, $7, $8::bigint, case when $8::bigint > 0 then now() end,
    $9::bigint, $10::bigint, case when $7 then 1 end, $11, $12, $13,
    jsonb_build_array(jsonb_build_array(extract(epoch from $5::timestamptz), 0))
  )
  on conflict (stream, reading) do update
  set run_id = excluded.run_id, updated_at = now(), ended_at = excluded.ended_at, is_complete = excluded.is_complete,
      rows = known.rows + excluded.rows, rows_at = coalesce(excluded.rows_at, known.rows_at),
      requests = known.requests + excluded.requests, bytes = known.bytes + excluded.bytes,
      share = ${shareSql('(known.rows + excluded.rows)', 'known.total', 'excluded.is_complete', 'known.share')},
      waits_for = excluded.waits_for, waits_until = excluded.waits_until, error = excluded.error,
      -- The last six minutes of them.
      marks = case when not $14 then known.marks
                   else case when jsonb_array_length(known.marks) >= 73 then known.marks - 0 else known.marks end
                        || jsonb_build_array(jsonb_build_array(extract(epoch from now()), known.rows + excluded.rows)) end
  where known.run_id <= excluded.run_id`

async function noteMinutes(state: State): Promise<void> {
  const { pool, minutes } = state
  if (minutes.size === 0) return
  state.minutes = new Map()
  state.minutesMs = performance.now()
  try {
    await pool.query(
      `insert into tidemark.minute as known (stream, at, inserted, updated, deleted, quarantined)
       select key, date_trunc('minute', now()), (value->>'inserted')::bigint, (value->>'updated')::bigint,
         (value->>'deleted')::bigint, (value->>'quarantined')::bigint
       from jsonb_each($1)
       on conflict (stream, at, minutes) do update
       set inserted = known.inserted + excluded.inserted, updated = known.updated + excluded.updated,
           deleted = known.deleted + excluded.deleted, quarantined = known.quarantined + excluded.quarantined`,
      [JSON.stringify(Object.fromEntries(minutes))],
    )
  } catch (error) {
    for (const [table, counts] of minutes) add(state, table, counts)
    throw error
  }
}

// ── how many there are ───────────────────────────────────────────────────────────────────────────────────────

const countMs = 5_000

/** Counted in the mirror where that tells it; a first load is counted upstream. */
async function rowsToRead({ pool, stream, kind, reading, backfill, from, versionField }: State) {
  const isWhole = kind === 'reconcile' || kind === 'verify'
  if (reading === 'first load' || !(isWhole || backfill !== null)) return null
  return await inOneTransaction(pool, async (client) => {
    await client.query(`set local statement_timeout = ${countMs}`)
    const tableSchema = await readTableSchema(client, versionedBy(stream, versionField))
    if (!tableSchema) return null
    const versions = tableSchema.versions.map(({ name }) => pg.escapeIdentifier(name)).join(', ')
    const found = backfill === null ? null : await readBackfill(client, backfill)
    if (backfill !== null && (!found || versions === '')) return null
    return await queryValue<number>(
      client,
      `select count(*)::float8 as count from ${qualified(stream)}
         where ${found ? `_deleted_reason is distinct from 'absent' and coalesce(${versions}) > $1 and coalesce(${versions}) <= $2` : '_deleted_at is null'}`,
      found ? [from.position, found.to] : [],
    )
  })
}

/** What this run is to read, beside what was read before it. */
const noteTotal = (
  pool: Queryable,
  { stream, reading, runId, rowsBefore }: Pick<State, 'stream' | 'reading' | 'runId' | 'rowsBefore'>,
  total: number,
) =>
  pool.query(
    `update tidemark.progress set total = $4, total_at = now(), total_requests = 0
     where stream = $1 and reading = $2 and run_id = $3 and total is null`,
    [stream.name, reading, runId, rowsBefore + total],
  )

// A first load is counted at the upstream, now and then, by whoever loads.
export const countAgainAfterMs = 300_000

/** Whether a first load of it goes on that was not counted lately. */
export const isLoadToBeCounted = (client: Queryable, stream: string) =>
  queryAny(
    client,
    `select from tidemark.progress
     where stream = $1 and reading = 'first load' and not is_complete
       and coalesce(total_at < now() - $2::float8 * interval '1 millisecond', true)`,
    [stream, countAgainAfterMs],
  )

/** The share of what is read does not fall when there are more than before. */
export async function noteLoadCount(
  client: Queryable,
  stream: string,
  { records, requests }: { readonly records: number; readonly requests: number },
) {
  await client.query(
    `update tidemark.progress as known
     set total = $2, total_at = now(), total_requests = $3,
         share = ${shareSql('known.rows', '$2::bigint', 'false', 'known.share')}
     where stream = $1 and reading = 'first load' and not is_complete`,
    [stream, records, requests],
  )
}
