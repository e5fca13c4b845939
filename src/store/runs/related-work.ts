// Which assignments' related records are still to be read. The records themselves are written like those of any stream.

import pg, { type ClientBase } from 'pg'
import type { RelatedStream } from '../../streams/catalog.ts'
import { sourceIn } from '../../streams/names.ts'
import type { Due, Family, RelatedBacklog, RelatedKeyFields, SetAside } from '../../sync/ports/related.ts'
import { backoff } from '../../util/backoff.ts'
import { readKeyField } from '../book/checkpoints.ts'
import type { RelatedOptions } from '../book/related.ts'
import { qualified, sourceSql } from '../schema/places.ts'
import { readTableSchema, type TableSchema, versionSql } from '../schema/table-schema.ts'
import { isLocallyChangedSql } from '../schema/watch-table.ts'
import { arraysOf, queryRows, queryValue } from '../server/query.ts'
import { delaySql, type Queryable } from '../server/session.ts'
import { addLinks, linked, othersWith, replaceLinks } from './related-links.ts'
import type { RunParts } from './run.ts'

/** The backlog of assignments, as one run works on it. */
export function backlogOf({ session, stream, onMarked, related }: RunParts): RelatedBacklog {
  const { client, lease, afterWrites, fencedAfterWrites } = session
  const source = sourceIn(stream.name)
  const backlog = { client, stream, related }
  /** An assignment that somebody asked to be read again after this moment may have changed after it was read: it stays due (P8). */
  let pickedAt = ''
  let againLeft = mostAgain
  let isAgedPicked = false
  return {
    due: (limit) =>
      afterWrites(async () => {
        pickedAt = (await queryValue<string>(client, 'select clock_timestamp()::text')) ?? ''
        const due = await dueAssignments(backlog, limit, Math.min(limit, againLeft))
        againLeft -= due.filter(({ isAgain }) => isAgain).length
        if (due.length > 0 || isAgedPicked) return due
        isAgedPicked = true
        return await agedAssignments(backlog)
      }),
    otherRead: (besides) => afterWrites(() => otherRead(client, source, besides)),
    linked: (assignmentIds) => afterWrites(() => linked(client, source, assignmentIds)),
    othersWith: (group, besides, limit) => afterWrites(() => othersWith(client, group, besides, limit)),
    link: (families) => fencedAfterWrites(() => addLinks(client, source, families)),
    settle: (families, aside) =>
      fencedAfterWrites(async () => {
        onMarked(await replaceLinks(client, { source, streams: related.streams ?? [] }, families))
        await noteRead(client, { source, groups: related.groups }, { families, aside, pickedAt })
        await setAside(client, source, aside)
      }),
    noteEnd: (hasBacklog) =>
      fencedAfterWrites(async () => {
        const isDone = !hasBacklog && (againLeft > 0 || (await dueAssignments(backlog, 1, 1)).length === 0)
        await noteEnd(backlog, lease.runId, isDone)
        return { isDone }
      }),
  }
}

export function relatedKeyFieldsOf({ session }: RunParts): RelatedKeyFields {
  const { client, afterWrites, fencedAfterWrites } = session
  const known = new Map<string, string>()
  return {
    async of(group) {
      const field = known.get(group) ?? (await afterWrites(() => readKeyField(client, group)))
      if (field !== null) known.set(group, field)
      return field
    },
    async keep(group, field) {
      await fencedAfterWrites(() =>
        client.query(
          `insert into tidemark.stream (name, key_field) values ($1, $2)
           on conflict (name) do update set key_field = excluded.key_field`,
          [group, field],
        ),
      )
      known.set(group, field)
    },
  }
}

/** When an operator has named another key for a group, every assignment with such records is read again; the first one rekeys the table. */
export async function readAgainByKey(client: Queryable, streams: readonly RelatedStream[]): Promise<void> {
  const chosen = streams.flatMap(({ name, isKeyChosen, keyFields: [keyField = ''] }) =>
    isKeyChosen ? [{ name, keyField }] : [],
  )
  if (chosen.length === 0) return
  await client.query(
    `update tidemark.related_fetch set retry_at = now()
     where problem is null and (source, assignment_id) in (
       select ${sourceSql('chosen.name')}, assignment_id from unnest($1::text[], $2::text[]) as chosen (name, key_field)
       join tidemark.stream on stream.name = chosen.name and lower(stream.key_field) <> lower(chosen.key_field)
       join tidemark.related_link on related_link.stream = chosen.name
     )`,
    arraysOf(chosen, 'name', 'keyField'),
  )
}

type Backlog = Pick<RunParts, 'stream' | 'related'> & { readonly client: ClientBase }

/** At most this many changed assignments are read again in one run, the others in the next: a bulk update changes everything at once. */
const mostAgain = 200
/** One of five is taken from those that wait longest: otherwise new changes could keep them waiting for ever. */
const oldestShare = 0.2

type Picked = Due & { readonly isAgain: boolean }

const pickedSql = (tableSchema: TableSchema): string =>
  `mine.${pg.escapeIdentifier(tableSchema.key.name)}::text as "assignmentId", encode(mine._hash, 'hex') as hash,
      (${versionSql(tableSchema, 'mine')})::text as version, false as "isGone"`

async function dueAssignments({ client, stream, related }: Backlog, limit: number, mostAgainNow: number) {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return []
  const key = pg.escapeIdentifier(tableSchema.key.name)
  const waiting = `select ${pickedSql(tableSchema)}, mine._synced_at as at
      from ${qualified(stream)} as mine
      left join tidemark.related_fetch as known on known.source = $6 and known.assignment_id = mine.${key}
      where mine._deleted_at is null`
  return await queryRows<Picked>(
    client,
    `with gone as (
       select known.assignment_id::text as "assignmentId", '' as hash, null::text as version, true as "isGone"
       from tidemark.related_fetch as known
       left join ${qualified(stream)} as mine on mine.${key} = known.assignment_id and mine._deleted_at is null
       -- Tidemark removes no row: one that is missing was removed by somebody else, and comes again if its assignment is still there.
       where known.source = $6 and mine.${key} is null and (${isReadWhole} or exists (
         select from ${qualified(stream)} as marked where marked.${key} = known.assignment_id
       ))
       limit $1
     ), news as (
       ${waiting} and known.assignment_id is null order by at desc limit $1
     ), again as (
       -- What changed last is what people look at first.
       select * from (${waiting} and known.assignment_id is not null and ${isDue} order by at desc limit $3) as newest
       union
       select * from (${waiting} and known.assignment_id is not null and ${isDue} order by at limit $4) as oldest
     ), spread as (
       select *, row_number() over (order by at desc) / (1 - $5::float8) as place, false as "isAgain" from news
       union all
       select *, row_number() over (order by at desc), true from again
     )
     select "assignmentId", hash, version, "isGone", false as "isAgain" from gone
     union all
     (select "assignmentId", hash, version, "isGone", "isAgain" from spread order by place)
     limit $1`,
    [
      limit,
      related.groups,
      mostAgainNow - Math.floor(mostAgainNow * oldestShare),
      Math.floor(mostAgainNow * oldestShare),
      oldestShare,
      sourceIn(stream.name),
    ],
  )
}

/** Whether every assignment has a row here. */
const isReadWhole = `(
  select first_read_through_at is not null and not ${isLocallyChangedSql} from tidemark.stream as known where name = case when $6 = '' then '' else $6 || '.' end || 'assignment'
)`

/** Due again: its row has changed since it was read, a group that is wanted now was not read, or it was set aside long enough. */
const isDue = `(known.hash <> mine._hash or known.retry_at <= now()
  or (known.problem is null and not known.groups @> $2::text[]))`

/** Runs come this often, and reading everything again takes half of the time in which it gets old. */
const agedEveryMs = 10_000
const fewestAged = 10

/** Those that were read longest ago come first. */
async function agedAssignments({ client, stream, related }: Backlog): Promise<readonly Due[]> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema || related.refreshMs === null) return []
  const key = pg.escapeIdentifier(tableSchema.key.name)
  return await queryRows<Due>(
    client,
    `select ${pickedSql(tableSchema)}
     from tidemark.related_fetch as known
     join ${qualified(stream)} as mine on mine.${key} = known.assignment_id and mine._deleted_at is null
     where known.source = $4 and known.fetched_at < now() - make_interval(secs => $1::float8 / 1000) and known.problem is null
     order by known.fetched_at
     limit greatest($2, (select ceil(2 * $3::float8 / $1 * count(*)) from tidemark.related_fetch where source = $4)::int)`,
    [related.refreshMs, fewestAged, agedEveryMs, sourceIn(stream.name)],
  )
}

const otherRead = (client: ClientBase, source: string, besides: readonly string[]) =>
  queryValue<string>(
    client,
    `select assignment_id::text as id from tidemark.related_fetch
     where source = $2 and problem is null and fetched_at is not null and assignment_id <> all ($1::bigint[])
     order by assignment_id desc limit 1`,
    [besides, source],
  )

async function noteRead(
  client: ClientBase,
  { source, groups }: Pick<RelatedOptions, 'groups'> & { readonly source: string },
  {
    families,
    aside,
    pickedAt,
  }: { readonly families: readonly Family[]; readonly aside: readonly SetAside[]; readonly pickedAt: string },
): Promise<void> {
  const read = families.filter(({ due: { isGone } }) => !isGone)
  await client.query(
    `with forgotten as (
       delete from tidemark.related_fetch where source = $7 and assignment_id = any ($4::bigint[])
     )
     insert into tidemark.related_fetch as known (source, assignment_id, hash, groups, fetched_at)
     select $7, id, decode(hash, 'hex'), $3, now() from unnest($1::bigint[], $2::text[]) as read (id, hash)
     on conflict (source, assignment_id) do update set
       hash = excluded.hash, groups = excluded.groups, fetched_at = excluded.fetched_at, problem = null,
       attempts = case when known.assignment_id = any ($6::bigint[]) then known.attempts else 0 end,
       retry_at = case when known.retry_at between $5 and clock_timestamp() then known.retry_at end`,
    [
      read.map(({ due }) => due.assignmentId),
      read.map(({ due }) => due.hash),
      groups,
      families.flatMap(({ due }) => (due.isGone ? [due.assignmentId] : [])),
      pickedAt,
      aside.map(({ due }) => due.assignmentId),
      source,
    ],
  )
}

async function setAside(client: ClientBase, source: string, aside: readonly SetAside[]): Promise<void> {
  if (aside.length === 0) return
  await client.query(
    `insert into tidemark.related_fetch as known (source, assignment_id, hash, groups, problem, attempts, retry_at)
     select $4, id, decode(hash, 'hex'), '{}', problem, 1, now() + ${delaySql(backoff.related, '1')}
     from unnest($1::bigint[], $2::text[], $3::text[]) as given (id, hash, problem)
     on conflict (source, assignment_id) do update set
       hash = excluded.hash, problem = excluded.problem, attempts = known.attempts + 1,
       retry_at = now() + ${delaySql(backoff.related, 'known.attempts + 1')}`,
    [
      aside.map(({ due }) => due.assignmentId),
      aside.map(({ due }) => due.hash),
      aside.map(({ problem }) => problem),
      source,
    ],
  )
}

/**
 * Notes how current the groups are. They are as old as the oldest reading among the assignments whose records may have changed since,
 * set aside or not; one that was never read counts from when its row first came. And they are no more current than the assignments
 * themselves: a change that nobody has seen yet may have changed related records as well.
 */
async function noteEnd({ client, stream, related }: Backlog, runId: string, isDone: boolean): Promise<void> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return
  const key = pg.escapeIdentifier(tableSchema.key.name)
  await client.query(
    `with behind as (
       select min(coalesce(known.fetched_at, mine._first_seen_at)) as since, bool_or(known.fetched_at is null) as is_unread
       from ${qualified(stream)} as mine
       left join tidemark.related_fetch as known on known.source = $5 and known.assignment_id = mine.${key}
       where mine._deleted_at is null
         and (known.assignment_id is null or known.problem is not null or known.fetched_at is null
           or known.hash <> mine._hash or not known.groups @> $1::text[])
     ), current as (
       select least(run.started_at, behind.since, assignment.read_through_at) as at, run.started_at,
         coalesce(behind.is_unread, false) or assignment.read_through_at is null as is_unread,
         assignment.read_through_at is null as is_unknown,
         -- After damage, until each assignment that had such records was read again.
         exists (select from tidemark.related_fetch where source = $5 and retry_at is not null and problem is null) as is_damaged
       from behind, tidemark.run, tidemark.stream as assignment where run.id = $2 and assignment.name = $4
     )
     insert into tidemark.stream (name, last_success_at, read_through_at, first_read_through_at)
     select name, case when $3 then started_at end, case when not is_unread then at end,
       case when not is_unread and not is_damaged then now() end
     from unnest($1::text[]) as wanted (name), current
     on conflict (name) do update set
       last_success_at = coalesce(excluded.last_success_at, stream.last_success_at),
       -- Before everything was read once, nothing is known of the whole.
       read_through_at = case when (select is_unknown from current) then null
         when stream.first_read_through_at is null and excluded.first_read_through_at is null
         then stream.read_through_at else (select at from current) end,
       first_read_through_at = coalesce(stream.first_read_through_at, excluded.first_read_through_at)`,
    [related.groups, runId, isDone, stream.name, sourceIn(stream.name)],
  )
}
