// Related records: whether there may be some to read, how far their reading has come, and which are to be read again.

import pg from 'pg'
import { knownStreams, type RelatedStream, relatedIn } from '../../streams/catalog.ts'
import { keyIn, sourceIn } from '../../streams/names.ts'
import { foldName } from '../schema/column-names.ts'
import { qualified } from '../schema/places.ts'
import { readTableSchema } from '../schema/table-schema.ts'
import { isLocallyChangedSql } from '../schema/watch-table.ts'
import { queryCount, queryRow, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { latestRunsSql } from './runs.ts'

export type RelatedOptions = {
  /** Names of the related streams that are wanted. */
  readonly groups: readonly string[]
  /** How old a reading may become; null: it does not age. */
  readonly refreshMs: number | null
  /** The same, with what the settings say of them. */
  readonly streams?: readonly RelatedStream[]
}

/** At least so often the backlog itself is looked for, even if nothing seems to have happened. */
const certainly = '1 hour'
/** Runs of one kind that are looked at, the newest first; polls that changed nothing share a line. */
const runsPerKind = 200

/**
 * Whether there may be related records to read. Only looks whether anything happened since there was no backlog, which is much cheaper
 * than looking for the backlog itself.
 */
export async function isRelatedDue(client: Queryable, { groups, refreshMs }: RelatedOptions) {
  const source = sourceIn(groups[0] ?? '')
  return (
    (await queryValue<boolean>(
      client,
      `with clean as (
       -- When the last run began that left no backlog, for any of the groups.
       select case when count(last_success_at) = cardinality($1::text[]) then min(last_success_at) end as at
       from tidemark.stream where name = any ($1)
     )
     select coalesce(clean.at < now() - interval '${certainly}' or clean.at > now(), true)
       or exists (
         select from ${latestRunsSql('$3::text', { limit: runsPerKind })} as seen
         where seen.kind <> 'related'
           and (seen.status = 'running' or (not seen.is_idle and seen.finished_at >= clean.at))
       )
       or exists (select from tidemark.related_fetch where source = $4 and retry_at <= now())
       -- Somebody changed their tables in Postgres.
       or exists (select from tidemark.stream as known where name = any ($1) and ${isLocallyChangedSql})
       or exists (
         select from tidemark.related_fetch
         where source = $4 and fetched_at < now() - make_interval(secs => $2::float8 / 1000) and problem is null
       ) as is_due
     from clean`,
      [groups, refreshMs, keyIn(source, 'assignment'), source],
    )) ?? true
  )
}

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
  client: Queryable,
  assignments = 'assignment',
  lookedUp = mostLookedUp,
): Promise<RelatedProgress | null> {
  const source = sourceIn(assignments)
  const table = qualified({ name: assignments })
  const any = `select from tidemark.related_fetch where source = $2 and to_regclass($1) is not null limit 1`
  if ((await queryCount(client, any, [table, source])) === 0) return null
  const names = relatedIn(source).map(({ name }) => name)
  const size = await queryRow<{
    assignments: number
    fetched: number
    liveAssignments: number
    cleanAt: string | null
  }>(
    client,
    `select ${sizeSql('$2')} as assignments, ${fetchedSql} as fetched,
       pg_stat_get_live_tuples($2::regclass)::float8 as "liveAssignments",
       (select min(last_success_at)::text from tidemark.stream where name = any ($1)) as "cleanAt"`,
    [names, table, source],
  )
  return size && Math.max(size.assignments, size.liveAssignments) > lookedUp
    ? await queryRow<RelatedProgress>(client, estimatedSql(table), [
        names,
        size.assignments,
        size.fetched,
        size.cleanAt,
        source,
      ])
    : await queryRow<RelatedProgress>(client, countedSql(table), [names, source])
}

/** The size as of the last analyze. The counter that Postgres keeps since then may count rows twice. */
const sizeSql = (table: string): string =>
  `(select case when reltuples > 0 then reltuples else pg_stat_get_live_tuples(oid) end::float8 from pg_class where oid = ${table}::regclass)`

/** Where there are several sources, the table is not that of one. */
const fetchedSql = `case when exists (select from tidemark.related_fetch where source <> $3)
  then (select count(*)::float8 from tidemark.related_fetch where source = $3) else ${sizeSql(`'tidemark.related_fetch'`)} end`

const isReadSql = 'coalesce(known.hash = mine._hash and known.problem is null, false)'
const quarantinedSql = `(
  select count(*) from tidemark.quarantine where stream = any ($1) and dropped_at is null
)::float8 as quarantined`

const countedSql = (table: string) => `
  select
    count(*) filter (where is_read)::float8 as read,
    count(*) filter (where not is_read)::float8 as waiting,
    count(*) filter (where not is_read and problem is not null)::float8 as "setAside",
    ${quarantinedSql}
  from (
    select known.problem, ${isReadSql} as is_read
    from ${table} as mine left join tidemark.related_fetch as known on known.source = $2 and known.assignment_id = mine.assignment_id
    where mine._deleted_at is null
  ) as living`

/** When the last run that left no backlog began, nothing waited. So what waits now has changed since, or was set aside. */
const estimatedSql = (table: string) => `
  with aside as (
    select count(*)::float8 as rows from tidemark.related_fetch where source = $5 and retry_at is not null
  ), changed as (
    select count(*)::float8 as rows, count(fetched)::float8 as fetched from (
      select known.assignment_id as fetched
      from ${table} as mine left join tidemark.related_fetch as known on known.source = $5 and known.assignment_id = mine.assignment_id
      where mine._synced_at >= $4::timestamptz and mine._deleted_at is null and known.problem is null and not ${isReadSql}
      limit ${mostWaiting}
    ) as waiting
  )
  select greatest(0, $3::float8 - aside.rows - changed.fetched) as read,
    aside.rows + case when $4::timestamptz is null then greatest(0, $2::float8 - $3::float8) else changed.rows end as waiting,
    aside.rows as "setAside",
    ${quarantinedSql}
  from aside, changed`

/** An assignment as a write names it. */
export type NamedAssignment = { readonly id: string } | { readonly idExt: string }

/** Has an assignment's related records read again even if its row is unchanged: a write changed something that the assignment carries. */
export async function readRelatedAgain(client: Queryable, source: string, named: NamedAssignment) {
  if ('id' in named) {
    await client.query(
      'update tidemark.related_fetch set retry_at = now() where source = $1 and assignment_id = $2',
      [source, named.id],
    )
    return
  }
  const assignments = { ...knownStreams[0], name: keyIn(source, knownStreams[0].name) }
  const tableSchema = await readTableSchema(client, assignments)
  const idExt = tableSchema?.columns.find(({ field }) => foldName(field) === 'assignmentidext')
  // An assignment that is not mirrored yet is read anyway when it comes.
  if (!tableSchema || !idExt) return
  await client.query(
    `update tidemark.related_fetch as known set retry_at = now() from ${qualified(tableSchema.stream)} as mine
     where known.source = $2 and known.assignment_id = mine.${pg.escapeIdentifier(tableSchema.key.name)}
       and mine.${pg.escapeIdentifier(idExt.name)}::text = $1`,
    [named.idExt, source],
  )
}
