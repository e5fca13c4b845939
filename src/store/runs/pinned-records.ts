// Pinned records: which rows are looked at again and again, what the looks showed, and how a new epoch begins when they show that
// the upstream went back (P14). Which of them are looked at, and what is believed, is decided by src/sync/changes/pinned-records.ts.

import pg, { type ClientBase } from 'pg'
import { isAssignments, sourceIn } from '../../streams/names.ts'
import type { Pin, PinnedRecords, WentBack } from '../../sync/ports/store.ts'
import { qualified, sourceSql } from '../schema/places.ts'
import { distrustedHash, type TableSchema } from '../schema/table-schema.ts'
import { arraysOf, queryRow, queryRows } from '../server/query.ts'
import { isRewoundSql } from '../writing/difference-sql.ts'
import { fenceRuns, type Lease } from './lease.ts'
import { isLivingSql, isShownSql, readFromBeginning } from './positions.ts'
import type { RunParts } from './run.ts'

/** A table that has rows with one row version, and what is asked of it in SQL. */
type Pinnable = NonNullable<ReturnType<typeof pinnableOf>>

function pinnableOf(tableSchema: TableSchema | null) {
  const [column, another] = tableSchema?.versions ?? []
  if (!tableSchema || !column || another) return null
  return {
    tableSchema,
    table: qualified(tableSchema.stream),
    key: `mine.${pg.escapeIdentifier(tableSchema.key.name)}`,
    version: `mine.${pg.escapeIdentifier(column.name)}`,
    /** Of a row `mine`: the upstream served its record in this version last, perhaps marked as deleted. */
    isKnown: `${isShownSql} and ${isRewoundSql(tableSchema, 'mine')} is not true`,
  }
}

export function pinnedRecordsOf(parts: RunParts): PinnedRecords {
  const { session } = parts
  const { client, lease, fenced } = session
  const { stream } = lease
  const withTable = <Result>(otherwise: Result, work: (table: Pinnable) => Promise<Result>) =>
    fenced(async () => {
      const table = pinnableOf(await parts.tableSchema())
      return table ? await work(table) : otherwise
    })
  return {
    // Not fenced: a pin whose row went on tells nothing, whoever finds that.
    known: () =>
      session.alone(async () => {
        const table = pinnableOf(await parts.tableSchema())
        return table ? await knownPins(client, stream, table) : { pins: [], top: null }
      }),
    pinWithin: (ranges) =>
      withTable(undefined, async ({ table, key, version, isKnown }) => {
        const newest = (isWanted: string) =>
          `(select ${key}::text as key, ${version}::bigint as version, ${isLivingSql} as is_living from ${table} as mine
            where ${version} > range.above and ${version} <= range.up_to and ${isWanted}
            order by ${version} desc limit 1)`
        await client.query(
          `insert into tidemark.pinned_record (stream, key, version)
           select $1, found.key, found.version
           from unnest($2::bigint[], $3::bigint[]) as range (above, up_to)
           cross join lateral (
             select key, version from (${newest(`${isKnown} and ${isLivingSql}`)} union all ${newest(isKnown)}) as newest
             order by is_living desc limit 1
           ) as found
           order by found.key
           on conflict do nothing`,
          [stream, ...arraysOf(ranges, 'above', 'upTo')],
        )
      }),
    pinNext: (rows, beside) =>
      withTable(undefined, async ({ tableSchema, table, key, version, isKnown }) => {
        const neighbours = (order: string, isBeyond: string) =>
          `(select ${key}::text as key, ${version}::bigint as version from ${table} as mine
            where ${version} ${isBeyond} wanted.version and ${isKnown} order by ${version} ${order} limit $4)`
        await client.query(
          `insert into tidemark.pinned_record (stream, key, version, looked_at)
           select distinct $1, found.key, found.version, null::timestamptz
           from unnest($2::text[], $3::bigint[]) as wanted (key, version)
           join ${table} as mine on ${key} = wanted.key::${tableSchema.key.type} and ${version} = wanted.version and ${isKnown}
           cross join lateral (
             select wanted.key, wanted.version
             union all ${neighbours('desc', '<')} union all ${neighbours('asc', '>')}
           ) as found
           order by found.key
           on conflict do nothing`,
          [stream, ...arraysOf(rows, 'key', 'version'), beside],
        )
      }),
    note: async (looked) => {
      if (looked.length > 0) await fenced(() => note(client, stream, looked))
    },
    invalidateRows: (pins) =>
      withTable(undefined, async ({ tableSchema, table, key, version }) => {
        await client.query(
          `update ${table} as mine set _hash = ${distrustedHash}
           from unnest($1::${tableSchema.key.type}[], $2::bigint[]) as pinned (key, version)
           where ${key} = pinned.key and ${version} = pinned.version`,
          arraysOf(pins, 'key', 'version'),
        )
      }),
    async beginEpoch(found) {
      await session.afterWrites(parts.noteLine)
      await session.fencedAfterWrites(() => beginEpoch(client, lease, found))
    },
    shownByAnother: (shownForMs) => fenced(() => epochOfAnother(client, stream, shownForMs)),
  }
}

/** Only epochs that began by what their own stream showed: otherwise two streams would begin epochs for each other for ever. */
const epochOfAnother = (client: ClientBase, stream: string, shownForMs: number) =>
  queryRow<{ stream: string; evidence: string }>(
    client,
    `select epoch.stream, epoch.evidence
     from tidemark.epoch
     where epoch.stream <> $1 and ${sourceSql('epoch.stream')} = ${sourceSql('$1')} and epoch.lost > 0
       and epoch.began_at > (
         select coalesce(max(reached_at) filter (where position = 0), min(reached_at)) from tidemark.checkpoint
         where stream = $1
       )
       and epoch.began_at - $2::bigint * interval '1 ms'
         > coalesce((select max(began_at) from tidemark.epoch where stream = $1), '-infinity')
     order by epoch.began_at desc limit 1`,
    [stream, shownForMs],
  )

async function knownPins(client: ClientBase, stream: string, table: Pinnable) {
  const { key, version, isKnown, tableSchema } = table
  type Found = Pick<Pin, 'lookedAt' | 'lostSince' | 'isMarked'> & {
    readonly key: string | null
    readonly version: string
    readonly top: string | null
  }
  const rows = await queryRows<Found>(
    client,
    `with known as materialized (
       select pinned.key, pinned.version, looked_at as "lookedAt", lost_since as "lostSince", not ${isLivingSql} as "isMarked"
       from tidemark.pinned_record as pinned
       join ${table.table} as mine on ${key} = pinned.key::${tableSchema.key.type} and ${version} = pinned.version and ${isKnown}
       where stream = $1
     ), gone as (
       delete from tidemark.pinned_record as pinned
       where stream = $1 and not exists (select from known where known.key = pinned.key and known.version = pinned.version)
     )
     select known.key, known.version::text as version, "lookedAt", "lostSince", "isMarked", top.version::text as top
     from (values (true)) as always
     left join (
       select ${version} as version from ${table.table} as mine
       where ${version} is not null and ${isKnown} order by ${version} desc limit 1
     ) as top on true
     left join known on true
     order by known.version desc`,
    [stream],
  )
  const pins = rows.flatMap(({ key, version, top: _, ...pin }) =>
    key === null ? [] : [{ key, version: BigInt(version), ...pin }],
  )
  const top = rows[0]?.top ?? null
  return { pins, top: top === null ? null : BigInt(top) }
}

const note = (
  client: ClientBase,
  stream: string,
  looked: readonly (Pin & { readonly isReleased: boolean })[],
) =>
  client.query(
    `with looked as (
       select * from unnest($2::text[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::boolean[])
         as looked (key, version, looked_at, lost_since, is_released)
     ), released as (
       delete from tidemark.pinned_record as pinned using looked
       where pinned.stream = $1 and pinned.key = looked.key and pinned.version = looked.version and is_released
     )
     update tidemark.pinned_record as pinned set looked_at = looked.looked_at, lost_since = looked.lost_since
     from looked where pinned.stream = $1 and pinned.key = looked.key and pinned.version = looked.version and not is_released`,
    [stream, ...arraysOf(looked, 'key', 'version', 'lookedAt', 'lostSince', 'isReleased')],
  )

/** Forgets what was learnt and kept in versions of the epoch before: they say nothing about this one. Within a fenced transaction. */
async function beginEpoch(client: ClientBase, lease: Lease, found: WentBack): Promise<void> {
  const { stream, lane, runId } = lease
  await fenceRuns(client, [stream], { but: lane })
  await client.query(
    `insert into tidemark.epoch (stream, run_id, position, looked, lost, evidence)
     select name, $2, position, $3, $4, $5 from tidemark.stream where name = $1`,
    [stream, runId, found.looked, found.lost, found.evidence],
  )
  await readFromBeginning(
    client,
    lease,
    `the upstream went back to an older state, so everything is read again: ${found.evidence}`,
  )
  await client.query(
    `update tidemark.stream
     set unguarded_above = 0, unguarded_before = clock_timestamp(), inconclusive_runs = 0, inconclusive_since = null
     where name = $1`,
    [stream],
  )
  await client.query(
    `update tidemark.backfill
     set status = 'cancelled', finished_at = now(), note = 'the upstream went back, so everything is read again'
     where stream = $1 and status in ('waiting', 'running')`,
    [stream],
  )
  await client.query(
    `delete from tidemark.belief where stream = $1 and name not in ('version_field', 'contract')`,
    [stream],
  )
  await client.query('delete from tidemark.pinned_record where stream = $1', [stream])
  // Related records may have gone back even where the assignment itself is as before.
  if (isAssignments(stream))
    await client.query('update tidemark.related_fetch set retry_at = now() where source = $1', [
      sourceIn(stream),
    ])
}
