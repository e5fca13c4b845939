// What there is to say about each stream: how complete it is, what ran last, and what needs a person.

import pg, { type ClientBase, type QueryResult } from 'pg'
import { relatedStreams } from '../../streams/catalog.ts'
import { latestRunsSql } from './runs.ts'
import { type BlockedDeletions, blockedDeletionsOf, isUnexplainedSql, type Unexplained } from './symptoms.ts'

// How far the reading of related records has come. Counts only.
export type RelatedProgress = {
  /** Assignments whose related records are as of the row that is here. */
  readonly read: number
  /** Assignments that changed since, or were never read. */
  readonly waiting: number
  /** Those among them that could not be read, and are tried again later. */
  readonly setAside: number
  /** Related records that cannot be rows. */
  readonly quarantined: number
}

/** With more assignments, it would take too long to look each of them up: only those that changed lately are counted as waiting. */
const mostLookedUp = 50_000
const mostWaiting = 100_000

/** Null where related records were never read, or somebody dropped the table of their assignments. Of large tables it is an estimate, exact again where nothing waits. */
export async function readRelatedProgress(
  client: Pick<ClientBase, 'query'>,
  lookedUp = mostLookedUp,
): Promise<RelatedProgress | null> {
  const { rows: any } = await client.query(
    `select from tidemark.related_fetch where to_regclass('mirror.assignment') is not null limit 1`,
  )
  if (any.length === 0) return null
  const names = relatedStreams.map(({ name }) => name)
  const { rows: sizes } = await client.query<{
    assignments: number
    fetched: number
    liveAssignments: number
    cleanAt: string | null
  }>(
    `select ${sizeSql('mirror.assignment')} as assignments, ${sizeSql('tidemark.related_fetch')} as fetched,
       pg_stat_get_live_tuples('mirror.assignment'::regclass)::float8 as "liveAssignments",
       (select min(last_success_at)::text from tidemark.stream where name = any ($1)) as "cleanAt"`,
    [names],
  )
  const [size] = sizes
  const { rows } =
    size && Math.max(size.assignments, size.liveAssignments) > lookedUp
      ? await client.query<RelatedProgress>(estimatedSql, [
          names,
          size.assignments,
          size.fetched,
          size.cleanAt,
        ])
      : await client.query<RelatedProgress>(countedSql, [names])
  return rows[0] ?? null
}

/** The size as of the last analyze. The counter that Postgres keeps since then may count rows twice. */
const sizeSql = (table: string): string =>
  `(select case when reltuples > 0 then reltuples else pg_stat_get_live_tuples(oid) end::float8 from pg_class where oid = '${table}'::regclass)`

const isReadSql = 'coalesce(known.hash = mine._hash and known.problem is null, false)'
const quarantinedSql = `(
  select count(*) from tidemark.quarantine where stream = any ($1) and dropped_at is null
)::float8 as quarantined`

const countedSql = `
  select
    count(*) filter (where is_read)::float8 as read,
    count(*) filter (where not is_read)::float8 as waiting,
    count(*) filter (where not is_read and problem is not null)::float8 as "setAside",
    ${quarantinedSql}
  from (
    select known.problem, ${isReadSql} as is_read
    from mirror.assignment as mine left join tidemark.related_fetch as known using (assignment_id)
    where mine._deleted_at is null
  ) as living`

/** When the last run that left no backlog began, nothing waited. So what waits now has changed since, or was set aside. */
const estimatedSql = `
  with aside as (
    select count(*)::float8 as rows from tidemark.related_fetch where retry_at is not null
  ), changed as (
    select count(*)::float8 as rows, count(fetched)::float8 as fetched from (
      select known.assignment_id as fetched
      from mirror.assignment as mine left join tidemark.related_fetch as known using (assignment_id)
      where mine._synced_at >= $4::timestamptz and mine._deleted_at is null and known.problem is null and not ${isReadSql}
      limit ${mostWaiting}
    ) as waiting
  )
  select greatest(0, $3::float8 - aside.rows - changed.fetched) as read,
    aside.rows + case when $4::timestamptz is null then greatest(0, $2::float8 - $3::float8) else changed.rows end as waiting,
    aside.rows as "setAside",
    ${quarantinedSql}
  from aside, changed`

export type StreamOverview = {
  readonly stream: string
  readonly position: string
  readonly readThroughAt: Date | null
  readonly lagMs: number | null
  /** Late commits before this moment were looked for, in two ways. */
  readonly settledThroughAt: Date | null
  /** When everything had been read once. */
  readonly firstReadThroughAt: Date | null
  /** Every record that had vanished by then has been noticed. */
  readonly deletionsKnownAt: Date | null
  /** Deleted ones among them. As Postgres has counted along, or estimates them after a crash of its own; null when it does not know yet. */
  readonly rows: number | null
  /** Null where they cannot be counted now: somebody dropped their index, or holds the table. */
  readonly deletedRows: number | null
  readonly lastSuccessAt: Date | null
  readonly lastReconcileAt: Date | null
  readonly lastRun: LastRun | null
  readonly running: readonly string[]
  readonly lookbackMs: number | null
  readonly lookbackReason: string | null
  readonly lateArrivals: number
  /** Records that cannot be rows. */
  readonly quarantined: number
  /** Values that did not fit their column. */
  readonly rescued: number
  /** Rows that only a reconcile found, until somebody acknowledges them. */
  readonly missedRows: number
  readonly unfinishedBackfills: number
  /** Of assignments, where their related records are mirrored. */
  readonly related: RelatedProgress | null
  /** Until an operator approves or rejects them. */
  readonly blockedDeletions: BlockedDeletions | null
  /** Differences that no look has explained: deletions stay known through a time before. */
  readonly unexplained: Unexplained | null
  /** By an operator; null: it is read as usual. */
  readonly paused: { readonly at: string; readonly by: string; readonly reason: string | null } | null
}
export type LastRun = {
  readonly id: string
  readonly kind: string
  readonly status: string
  readonly startedAt: string
  readonly finishedAt: string | null
  readonly error: string | null
  readonly note: string | null
}

/** Null: it is not known how many there are, or how many of them are deleted. */
export const livingRows = ({
  rows,
  deletedRows,
}: Pick<StreamOverview, 'rows' | 'deletedRows'>): number | null =>
  rows === null || deletedRows === null ? null : Math.max(0, rows - deletedRows)

type Found = Omit<StreamOverview, 'lagMs' | 'related' | 'blockedDeletions' | 'deletedRows'> & {
  readonly lagMs: string | null
  /** Of the index of deleted rows, as it was last analyzed; null where there is none. */
  readonly deletedAtLast: number | null
  readonly blockedDeletions: unknown
}

export async function readOverview(
  client: Pick<ClientBase, 'query'>,
  streams: readonly string[],
): Promise<readonly StreamOverview[]> {
  const { rows } = await client.query<Found>(
    `select
       stream.name as stream,
       stream.position::text as position,
       read_through_at as "readThroughAt",
       extract(epoch from now() - read_through_at) * 1000 as "lagMs",
       settled_through_at as "settledThroughAt",
       deletions_known_at as "deletionsKnownAt",
       first_read_through_at as "firstReadThroughAt",
       -- A Postgres that was killed forgets how many there are, until it counts them some day.
       case when to_regclass(format('mirror.%I', stream.name)) is null then 0 else
         (select coalesce(nullif(pg_stat_get_live_tuples(oid), 0)::float8, nullif(reltuples, -1)::float8,
                          case when pg_relation_size(oid) = 0 then 0 end)
          from pg_class where oid = to_regclass(format('mirror.%I', stream.name))) end as rows,
       (
         select reltuples::float8 from pg_index
         join pg_class on pg_class.oid = indexrelid
         join pg_attribute on attrelid = indrelid and attname = '_deleted_at' and attnum = indkey[0]
         where indrelid = to_regclass(format('mirror.%I', stream.name)) and indpred is not null and indisvalid limit 1
       ) as "deletedAtLast",
       last_success_at as "lastSuccessAt",
       last_reconcile_at as "lastReconcileAt",
       last_run.line as "lastRun",
       array(
         select kind from tidemark.run where run.stream = stream.name and status = 'running' order by kind
       ) as running,
       lookback_ms::float8 as "lookbackMs",
       lookback_reason as "lookbackReason",
       (
         select count(*) from tidemark.late_arrival as late where late.stream = stream.name
       )::int as "lateArrivals",
       (
         select count(*) from tidemark.quarantine as kept where kept.stream = stream.name and dropped_at is null
       )::int as quarantined,
       (
         select coalesce(sum(field.rescued), 0) from tidemark.field where field.stream = stream.name
       )::float8 as rescued,
       (
         select coalesce(sum(missed.rows), 0) from tidemark.missed_rows as missed
         where missed.stream = stream.name and acknowledged_at is null
       )::float8 as "missedRows",
       (
         select count(*) from tidemark.backfill as asked
         where asked.stream = stream.name and asked.status in ('waiting', 'running')
       )::int as "unfinishedBackfills",
       blocked_deletions as "blockedDeletions",
       case when ${isUnexplainedSql} then unexplained end as unexplained,
       case when paused_at is not null
         then jsonb_build_object('at', paused_at, 'by', paused_by, 'reason', pause_reason) end as paused
     from unnest($1::text[]) with ordinality as wanted (name, place)
     join tidemark.stream on stream.name = wanted.name
     left join lateral (
       select jsonb_build_object('id', id::text, 'kind', latest.kind, 'status', status, 'startedAt', started_at,
                'finishedAt', finished_at, 'error', error, 'note', note) as line
       from ${latestRunsSql('stream.name')} as latest
       order by coalesce(finished_at, started_at) desc, id desc limit 1
     ) as last_run on true
     order by wanted.place`,
    [streams],
  )
  const related = streams.includes('assignment') ? await readRelatedProgress(client) : null
  const deleted = await countDeleted(client, rows)
  return rows.map(({ deletedAtLast: _, ...row }) => ({
    ...row,
    // A stream without a table has no rows.
    deletedRows: row.rows === 0 ? 0 : (deleted.get(row.stream) ?? null),
    lagMs: row.lagMs === null ? null : Math.round(Number(row.lagMs)),
    blockedDeletions: blockedDeletionsOf(row.blockedDeletions),
    related: row.stream === 'assignment' ? related : null,
  }))
}

/** With more of them, the estimate of the last analyze does. */
const mostDeletedCounted = 100_000
/** Somebody holds the table, such as with an ALTER TABLE, or dropped it just now. */
const unavailable = ['55P03', '42P01']

async function countDeleted(
  client: Pick<ClientBase, 'query'>,
  streams: readonly Pick<Found, 'stream' | 'deletedAtLast'>[],
): Promise<ReadonlyMap<string, number | null>> {
  const known = new Map(streams.map(({ stream, deletedAtLast }) => [stream, deletedAtLast]))
  const counted = [...known].flatMap(([stream, last]) =>
    last !== null && last <= mostDeletedCounted ? stream : [],
  )
  if (counted.length === 0) return known
  for (const stream of counted) known.set(stream, null)
  const counts = counted.map(
    (stream) =>
      `select ${pg.escapeLiteral(stream)} as stream, count(*)::float8 as rows from mirror.${pg.escapeIdentifier(stream)} where _deleted_at is not null`,
  )
  try {
    const [, { rows }] = (await client.query(
      `select set_config('lock_timeout', '100ms', true); ${counts.join(' union all ')}`,
    )) as unknown as [unknown, QueryResult<{ stream: string; rows: number }>]
    for (const { stream, rows: deleted } of rows) known.set(stream, deleted)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && unavailable.includes(String(error.code)))) throw error
  }
  return known
}
