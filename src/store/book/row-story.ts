// Everything the mirror knows of one row: its values, when it came and last changed, how it changed, and what was noted about its key.

import pg from 'pg'
import { kinds, type MirroredStream } from '../../streams/catalog.ts'
import { assignmentsBeside, isAssignments, sourceIn } from '../../streams/names.ts'
import { isComposite, keyParts, typedKey } from '../../streams/record.ts'
import { qualified, sourceSql } from '../schema/places.ts'
import { historyOf, readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { queryColumn, queryRow, queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import type { differenceTable } from '../tables/findings.ts'
import { keyCheck } from '../types/table.ts'
import type { QuarantineEntry } from './quarantine.ts'
import type { RunLine } from './runs.ts'

export type RowStory = {
  readonly firstSeenAt: Date
  readonly syncedAt: Date
  readonly deletedAt: Date | null
  readonly deletedReason: string | null
  /** The whole row as JSON text; numbers exactly. */
  readonly text: string
  /** The run that wrote it; several when that was not noted, and these wrote rows of the table at that time. */
  readonly runs: readonly StoryRun[]
}
type StoryRun = Pick<RunLine, 'id' | 'kind' | 'startedAt' | 'finishedAt'>
export type KeyNotes = {
  readonly missingSince: Date | null
  readonly evidence: string | null
  readonly lateArrivals: readonly { version: string; lateMs: number; foundAt: string; run: string | null }[]
  readonly missedRows: readonly { run: string; foundAt: string }[]
}

export type StoryTable = { readonly tableSchema: TableSchema; readonly takesKey: (key: string) => boolean }

/** Null while the table does not exist. */
export async function storyTable(client: Queryable, stream: MirroredStream): Promise<StoryTable | null> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return null
  return { tableSchema, takesKey: keyCheck(tableSchema.key.type) }
}

/** Of these, the first whose history is there without its table: somebody dropped that, and it was not read again yet. */
export async function pastAlone<One extends Pick<MirroredStream, 'name'>>(
  client: Queryable,
  streams: readonly One[],
): Promise<One | undefined> {
  const areAlone = await queryColumn<boolean>(
    client,
    `select to_regclass(its) is null and to_regclass(past) is not null
     from unnest($1::text[], $2::text[]) with ordinality as asked (its, past, number) order by number`,
    [streams.map((one) => qualified(one)), streams.map((one) => qualified(historyOf(one)))],
  )
  return streams.find((_one, index) => areAlone[index])
}

export async function readRow(client: Queryable, { tableSchema }: StoryTable, key: string) {
  const { stream } = tableSchema
  const row = await queryRow<Omit<RowStory, 'runs'>>(
    client,
    `select _first_seen_at as "firstSeenAt", _synced_at as "syncedAt", _deleted_at as "deletedAt",
       _deleted_reason as "deletedReason", row_to_json(mine)::text as text
     from ${qualified(stream)} as mine where mine.${pg.escapeIdentifier(tableSchema.key.name)} = $1`,
    [key],
  )
  if (!row) return null
  const runs = await queryRows<StoryRun>(
    client,
    // Compared in Postgres: a Date has no microseconds.
    `with mine as (
       select _synced_at, _deleted_reason from ${qualified(stream)} where ${pg.escapeIdentifier(tableSchema.key.name)} = $2
     ), noted as (
       select page.run_id from tidemark.page, mine where page."table" = $1 and page.written_at = mine._synced_at
     )
     select id::text, kind, started_at as "startedAt", finished_at as "finishedAt"
     from tidemark.run where id in (
       select run_id from noted
       union all
       -- Not noted: rows that were marked, and those of before it was. Runs of a kind come one after the other.
       select run.id from mine cross join unnest($4::text[]) as wanted (kind)
       cross join lateral (
         select * from tidemark.run
         where run.stream = $3 and run.kind = wanted.kind and run.started_at <= mine._synced_at
         order by run.started_at desc limit 1
       ) as run
       where not exists (select from noted) and coalesce(run.finished_at, 'infinity') >= mine._synced_at
         and case when mine._deleted_reason = 'absent' then run.marked_deleted else run.inserted + run.updated end > 0
     ) order by run.id`,
    [
      stream.name,
      key,
      stream.kind === 'related' ? assignmentsBeside(stream.name) : stream.name,
      kinds.filter((kind) => (kind === 'related') === (stream.kind === 'related')),
    ],
  )
  return { ...row, runs }
}

/** Assignments that had this related record when they were last read, the newest first. */
export const assignmentsWith = (client: Queryable, stream: string, key: string, limit: number) =>
  queryColumn<string>(
    client,
    `select assignment_id::text as id from tidemark.related_link
     where stream = $1 and key = $2 order by assignment_id desc limit $3`,
    [stream, key, limit],
  )

export async function readKeyNotes(client: Queryable, stream: string, key: string): Promise<KeyNotes> {
  const notes = await queryRow<KeyNotes>(
    client,
    `select
       (select missing_since from tidemark.suspect where stream = $1 and key = $2) as "missingSince",
       (select evidence from tidemark.suspect where stream = $1 and key = $2) as evidence,
       (
         select coalesce(jsonb_agg(
           jsonb_build_object('version', version::text, 'lateMs', late_ms, 'foundAt', found_at, 'run', run_id::text) order by id
         ), '[]')
         from tidemark.late_arrival where stream = $1 and key = $2
       ) as "lateArrivals",
       (
         select coalesce(jsonb_agg(jsonb_build_object('run', run_id::text, 'foundAt', found_at) order by id), '[]')
         from tidemark.missed_rows
         where stream = $1 and samples @> jsonb_build_array(jsonb_build_object('key', $2::text))
       ) as "missedRows"`,
    [stream, key],
  )
  return notes ?? { missingSince: null, evidence: null, lateArrivals: [], missedRows: [] }
}

// What else happened to a key: what reconciles found, and records of it that could not be stored.
export type KeyDifference = Readonly<
  Pick<typeof differenceTable.$inferSelect, 'cause' | 'fields' | 'foundAt' | 'cure'>
> & { readonly runId: string }
export type KeyQuarantine = Pick<QuarantineEntry, 'id' | 'reason' | 'firstSeenAt' | 'timesSeen'> & {
  readonly droppedAt: Date | null
}
export type KeyEvents = {
  readonly differences: readonly KeyDifference[]
  readonly quarantine: readonly KeyQuarantine[]
  /** Records that an assignment carries. */
  readonly related: readonly { readonly stream: string; readonly key: string }[]
}

const mostEvents = 50

/** The newest first. */
export async function readKeyEvents(client: Queryable, { tableSchema }: StoryTable, key: string) {
  const { stream } = tableSchema
  const { field } = tableSchema.key
  const differences = await queryRows<KeyDifference>(
    client,
    `select cause, fields, found_at as "foundAt", run_id::text as "runId", cure
     from tidemark.difference where stream = $1 and key = $2 order by id desc limit ${mostEvents}`,
    [stream.name, key],
  )
  const quarantine = await queryRows<KeyQuarantine>(
    client,
    `select id::text, reason, first_seen_at as "firstSeenAt", times_seen::float8 as "timesSeen", dropped_at as "droppedAt"
     from tidemark.quarantine as kept
     -- The upstream may write the names of its fields otherwise than its description does.
     where stream = $1 and jsonb_typeof(record) = 'object' and coalesce($3::jsonb, to_jsonb(array[$2::text])) = (
       select jsonb_agg(case when $3::jsonb is null then to_jsonb(value #>> '{}') else value end order by array_position($4, lower(name)))
       from jsonb_each(record) as own (name, value) where lower(name) = any ($4::text[])
     )
     order by kept.id desc limit ${mostEvents}`,
    [
      stream.name,
      key,
      isComposite(field) && typedKey(field, key) === key ? key : null,
      keyParts(field).map((part) => part.toLowerCase()),
    ],
  )
  const related = isAssignments(stream.name)
    ? await queryRows<{ stream: string; key: string }>(
        client,
        `select stream, key from tidemark.related_link where assignment_id = $1 and ${sourceSql('stream')} = $2 order by stream, key limit ${mostEvents}`,
        [key, sourceIn(stream.name)],
      )
    : []
  return { differences, quarantine, related }
}
