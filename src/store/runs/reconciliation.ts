// What a reconcile and a verification do besides writing pages: what a listing lacked, what is marked as gone, and rows that are
// looked at again. Keys are kept in temporary tables of the run's own connection, so that memory does not grow (P10).

import pg from 'pg'
import type { AuditRun, Difference, Gone, Run, Shortfall } from '../../sync/ports/store.ts'
import { recordMissedRows } from '../admin/streams.ts'
import { livePosition } from '../queries/positions.ts'
import { storeBlockedDeletions } from '../queries/symptoms.ts'
import { keepingSql } from '../schema/row-history.ts'
import { qualified, readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { distrustedHash } from '../writing/merge-sql.ts'
import { startComparison } from './comparison.ts'
import { withinLease } from './lease.ts'
import type { RunParts } from './run.ts'
import { seenKeysTable } from './seen-keys.ts'

const absentTable = 'pg_temp.tidemark_absent'
const suspectTable = 'pg_temp.tidemark_suspect'

// What was written since the run began is not what its listing is to be compared with.
const isOlderThanRun = 'mine._synced_at < (select started_at from tidemark.run where id = $1)'

export function auditing(parts: RunParts): Omit<AuditRun, keyof Run> {
  const { client, lease, stream, seenKeys } = parts
  const comparison = startComparison(parts)
  let hasSuspects = false

  /** The row's key as text, for joining with what was seen. */
  const keyText = (tableSchema: TableSchema) => `mine.${pg.escapeIdentifier(tableSchema.key.name)}::text`
  const within = <Result>(work: () => Promise<Result>) =>
    parts.afterWrites(() => withinLease(client, lease, work))

  async function gatherAbsent(): Promise<Shortfall> {
    const tableSchema = await readTableSchema(client, stream)
    await seenKeys.analyze()
    await client.query(
      `drop table if exists ${absentTable}; create temporary table tidemark_absent (key text primary key, asked_at timestamptz not null default now(), evidence text)`,
    )
    if (!tableSchema) return { living: 0, missing: 0, seen: 0 }
    await client.query(
      `insert into ${absentTable} (key)
       select ${keyText(tableSchema)} from ${qualified(stream)} as mine
       left join ${seenKeysTable} as seen on seen.key = ${keyText(tableSchema)}
       where mine._deleted_at is null and seen.key is null and ${isOlderThanRun}`,
      [lease.runId],
    )
    const { rows } = await client.query<Shortfall>(
      `select (select count(*) from ${qualified(stream)} where _deleted_at is null)::float8 as living,
              (select count(*) from ${absentTable})::float8 as missing,
              (select count(*) from ${seenKeysTable})::float8 as seen`,
    )
    return rows[0] ?? { living: 0, missing: 0, seen: 0 }
  }

  async function keysOf(table: string, after: string | null, limit: number): Promise<readonly string[]> {
    const { rows } = await client.query<{ key: string }>(
      `select key from ${table} where $1::text is null or key > $1 order by key limit $2`,
      [after, limit],
    )
    return rows.map(({ key }) => key)
  }

  /** The records of these keys are asked for after this. */
  async function absentKeys(after: string | null, limit: number): Promise<readonly string[]> {
    const keys = await keysOf(absentTable, after, limit)
    await client.query(`update ${absentTable} set asked_at = clock_timestamp() where key = any ($1)`, [keys])
    return keys
  }

  async function markGone(): Promise<number> {
    const tableSchema = await readTableSchema(client, stream)
    if (!tableSchema) return 0
    const { rowCount } = await client.query(
      `with gone as materialized (
         -- All writers take their row locks in the same order.
         select mine.ctid, absent.* from ${qualified(stream)} as mine, ${absentTable} as absent
         where absent.evidence is not null and absent.key = ${keyText(tableSchema)} and mine._deleted_at is null
           and ${isOlderThanRun}
         order by mine.${pg.escapeIdentifier(tableSchema.key.name)} for update of mine
       ), marked as (
         update ${qualified(stream)} as mine
         -- What was read of it before the look is older than the proof.
         set _deleted_at = gone.asked_at, _deleted_reason = 'absent', _synced_at = now()
         from gone where mine.ctid = gone.ctid
         returning gone.key, gone.evidence, mine as written
       )${keepingSql(tableSchema, 'marked')}
       insert into tidemark.suspect (stream, key, evidence) select $2, key, evidence from marked
       on conflict (stream, key) do update set missing_since = now(), evidence = excluded.evidence`,
      [lease.runId, stream.name],
    )
    parts.onMarked(rowCount ?? 0)
    return rowCount ?? 0
  }

  async function suspect(found: readonly Difference[]): Promise<void> {
    if (!hasSuspects)
      await client.query(
        `drop table if exists ${suspectTable}; create temporary table tidemark_suspect (key text primary key, record text)`,
      )
    hasSuspects = true
    await client.query(
      `insert into ${suspectTable} as known (key, record)
       select distinct on (key) * from unnest($1::text[], $2::text[]) as found (key, record)
       on conflict (key) do update set record = excluded.record`,
      [found.map(({ key }) => key), found.map(({ record }) => record)],
    )
  }

  async function confirm(found: readonly Difference[]): Promise<ReadonlySet<string>> {
    if (!hasSuspects || found.length === 0) return new Set()
    const { rows } = await client.query<{ key: string }>(
      `delete from ${suspectTable} as known using unnest($1::text[], $2::text[]) as found (key, record)
       where known.key = found.key and known.record = found.record returning known.key`,
      [found.map(({ key }) => key), found.map(({ record }) => record)],
    )
    return new Set(rows.map(({ key }) => key))
  }

  async function distrust(keys: readonly string[]): Promise<void> {
    const tableSchema = await readTableSchema(client, stream)
    if (!tableSchema) return
    const key = pg.escapeIdentifier(tableSchema.key.name)
    await client.query(
      `update ${qualified(stream)} set _hash = ${distrustedHash} where ${key} = any ($1::${tableSchema.key.type}[])`,
      [keys],
    )
  }

  async function randomKeys(limit: number): Promise<readonly string[]> {
    const tableSchema = await readTableSchema(client, stream)
    if (!tableSchema) return []
    const { rows } = await client.query<{ key: string }>(
      `select ${keyText(tableSchema)} as key from ${qualified(stream)} as mine
       where mine._deleted_at is null order by random() limit $1`,
      [limit],
    )
    return rows.map(({ key }) => key)
  }

  return {
    gatherAbsent: () => parts.afterWrites(gatherAbsent),
    absentKeys: (after, limit) => parts.afterWrites(() => absentKeys(after, limit)),
    noteGone: (gone: readonly Gone[]) =>
      parts.afterWrites(async () => {
        await client.query(
          `update ${absentTable} as absent set evidence = gone.evidence
           from unnest($1::text[], $2::text[]) as gone (key, evidence) where gone.key = absent.key`,
          [gone.map(({ key }) => key), gone.map(({ evidence }) => evidence)],
        )
      }),
    markGone: () => within(markGone),
    hold: (shortfall) => within(() => storeBlockedDeletions(client, stream.name, shortfall)),
    recordMissedRows: (rows, samples) => within(() => recordMissedRows(client, lease, rows, samples)),
    guardAgain: () =>
      within(async () => {
        await client.query(
          `update tidemark.stream set unguarded_above = null, unguarded_before = null
           where name = $1 and unguarded_before < (select started_at from tidemark.run where id = $2)`,
          [stream.name, lease.runId],
        )
      }),
    compare: (page) => parts.afterWrites(() => comparison.compare(page)),
    suspect: (found) => parts.afterWrites(() => suspect(found)),
    confirm: (found) => parts.afterWrites(() => confirm(found)),
    spareShown: () =>
      parts.afterWrites(async () => {
        await client.query(
          `delete from ${absentTable} as absent using ${seenKeysTable} as seen where seen.key = absent.key`,
        )
      }),
    suspects: (after, limit) =>
      parts.afterWrites(async () => (hasSuspects ? await keysOf(suspectTable, after, limit) : [])),
    distrust: (keys) => within(() => distrust(keys)),
    randomKeys: (limit) => parts.afterWrites(() => randomKeys(limit)),
    currentPosition: () => parts.afterWrites(() => livePosition(client, stream.name)),
  }
}
