// What a reconcile and a verification do besides writing pages and finding absent rows: missed rows, and rows that are looked at
// again. Suspects are kept in a temporary table of the run's own connection, so that memory does not grow (P10).

import pg, { type ClientBase } from 'pg'
import type {
  Difference,
  FieldLook,
  MissingLook,
  Reconciliation,
  Verification,
  WatchedField,
} from '../../sync/ports/audits.ts'
import { livePosition } from '../book/checkpoints.ts'
import { type MissingEvidence, markedWithinDay } from '../book/deletions.ts'
import { qualified } from '../schema/places.ts'
import { distrustedHash, readTableSchema, versionSql } from '../schema/table-schema.ts'
import { arraysOf, queryColumn, queryRow, queryRows } from '../server/query.ts'
import { emptyTableSql } from '../server/session.ts'
import { absentTable, keysAfter } from './absences.ts'
import { isRejected, noteApproved, storeBlockedDeletions } from './blocked-deletions.ts'
import { type Comparison, startComparison } from './comparison.ts'
import { spreadOf } from './missing-rows.ts'
import type { RunParts } from './run.ts'
import { compareAgain, recordMissedRows, setVolatile } from './run-findings.ts'
import { blockingOf } from './shown-rows.ts'

export function reconciliationOf(parts: RunParts): Reconciliation {
  const { session, stream } = parts
  const { client, lease, fenced, fencedAfterWrites } = session
  return {
    ...comparisonOf(parts),
    markedBefore: () => session.alone(() => markedWithinDay(client, stream.name)),
    noteMended: (stillFallen) =>
      fenced(async () => {
        await client.query(
          `update tidemark.difference set cured_at = now(), cure = 'mended after a second look'
           where stream = $1 and cause = 'fell back' and cured_at is null and run_id <> $2 and key <> all ($3)`,
          [stream.name, lease.runId, stillFallen],
        )
      }),
    cure: (cause, how) =>
      fenced(async () => {
        await client.query(
          `update tidemark.difference set cured_at = now(), cure = $4
           where stream = $1 and run_id = $2 and cause = $3 and cured_at is null`,
          [stream.name, lease.runId, cause, how],
        )
      }),
    noteSilent: (columns) => fenced(() => noteSilent(parts, columns)),
    volatileFields: () => session.alone(() => volatileFields(parts)),
    noteSteady: (looks) =>
      looks.length === 0 ? Promise.resolve([]) : fenced(() => noteSteady(parts, looks)),
    block: (shortfall, looks) =>
      fencedAfterWrites(async () => {
        const evidence = shortfall && looks && (await evidenceOf(parts, looks))
        await storeBlockedDeletions(
          client,
          stream.name,
          shortfall && { ...shortfall, ...(evidence && { evidence }) },
        )
      }),
    isRejected: (shortfall) => session.alone(() => isRejected(client, stream.name, shortfall)),
    noteApproved: () => fenced(() => noteApproved(client, stream.name)),
    recordMissedRows: (rows, samples) =>
      fencedAfterWrites(() => recordMissedRows(client, lease, rows, samples)),
    guardAgain: () =>
      fencedAfterWrites(async () => {
        await client.query(
          `update tidemark.stream set unguarded_above = null, unguarded_before = null
           where name = $1 and unguarded_before < (select started_at from tidemark.run where id = $2)`,
          [stream.name, lease.runId],
        )
      }),
  }
}

async function evidenceOf({ session, stream, log }: RunParts, looks: readonly MissingLook[]) {
  const tableSchema = await readTableSchema(session.client, stream)
  const spread = tableSchema && (await spreadOf(session.client, tableSchema, absentTable, log))
  const asked = { at: new Date().toISOString(), looks }
  const known = looks.length === 0 ? await looksBefore(session.client, stream.name) : null
  return { ...asked, ...known, runId: session.lease.runId, spread }
}

/** What earlier looks said of rows that are still missing. */
const looksBefore = (client: ClientBase, stream: string) =>
  queryRow<Pick<MissingEvidence, 'at' | 'looks'>>(
    client,
    `select blocked_deletions->'evidence'->>'at' as at, jsonb_agg(look order by place) as looks
     from tidemark.stream, jsonb_path_query(blocked_deletions, '$.evidence.looks[*]') with ordinality as looks (look, place)
     join ${absentTable} as absent on absent.key = look->>'key'
     where name = $1 group by 1`,
    [stream],
  )

const silentRunsThatCount = 3
const oftenSilent = `it differed at the same row version in at least half of the rows, in ${silentRunsThatCount} reconciles in a row`

async function noteSilent({ session, stream }: RunParts, columns: readonly string[]) {
  const { client } = session
  const silent = await queryColumn<string>(
    client,
    `with counted as (
       update tidemark.field
       set silent_runs = case
         when column_name = any ($2) or '_rescued.' || source_name = any ($2) then silent_runs + 1 else 0 end
       where stream = $1 and (silent_runs > 0 or column_name = any ($2) or '_rescued.' || source_name = any ($2))
       returning folded, silent_runs
     )
     select folded from counted where silent_runs >= ${silentRunsThatCount}`,
    [stream.name, columns],
  )
  if (silent.length === 0 || ('volatileFields' in stream && stream.volatileFields)) return []
  return await setVolatile(client, stream.name, silent, oftenSilent)
}

async function volatileFields({ session, stream }: RunParts): Promise<readonly WatchedField[]> {
  if ('volatileFields' in stream && stream.volatileFields) return []
  return await queryRows<WatchedField>(
    session.client,
    `select folded as field, steady_sample as sample from tidemark.field
     where stream = $1 and volatile_since is not null order by folded`,
    [stream.name],
  )
}

const steadyRunsThatCount = 3

async function noteSteady({ session, stream }: RunParts, looks: readonly FieldLook[]) {
  const steady = await queryColumn<string>(
    session.client,
    `with looked as (
       update tidemark.field
       set steady_runs = case outcome when 'steady' then steady_runs + 1 when 'changed' then 0 else steady_runs end,
         steady_sample = sample::jsonb
       from unnest($2::text[], $3::text[], $4::text[]) as look (field, outcome, sample)
       where stream = $1 and folded = look.field and volatile_since is not null
       returning folded, steady_runs
     )
     select folded as field from looked where steady_runs >= ${steadyRunsThatCount}`,
    [stream.name, ...arraysOf(looks, 'field', 'outcome'), looks.map(({ sample }) => JSON.stringify(sample))],
  )
  return steady.length === 0 ? [] : await compareAgain(session.client, stream.name, steady)
}

export const comparisonOf = (parts: RunParts): Comparison => {
  const comparison = startComparison({ ...parts, client: parts.session.client })
  return { compare: (page) => parts.session.afterWrites(() => comparison.compare(page)) }
}

const suspectTable = 'pg_temp.tidemark_suspect'

export function verificationOf(parts: RunParts): Verification {
  const { session, stream } = parts
  const { client, afterWrites, fencedAfterWrites } = session
  let hasSuspects = false
  return {
    ...comparisonOf(parts),
    beforehand: blockingOf(parts).beforehand,
    suspect: (found) =>
      afterWrites(async () => {
        if (!hasSuspects) await client.query(emptyTableSql(suspectTable, 'key text primary key, record text'))
        hasSuspects = true
        await noteSuspects(client, found)
      }),
    confirm: (found) =>
      afterWrites(async () =>
        hasSuspects && found.length > 0 ? await takeConfirmed(client, found) : new Set(),
      ),
    suspects: (after, limit) =>
      afterWrites(async () => (hasSuspects ? await keysAfter(client, suspectTable, after, limit) : [])),
    invalidateRows: (found) => fencedAfterWrites(() => invalidateRows(parts, found)),
    randomKeys: (limit) => afterWrites(() => randomKeys(parts, limit)),
    currentPosition: () => afterWrites(() => livePosition(client, stream.name)),
  }
}

const noteSuspects = (client: ClientBase, found: readonly Difference[]) =>
  client.query(
    `insert into ${suspectTable} as known (key, record)
     select distinct on (key) * from unnest($1::text[], $2::text[]) as found (key, record)
     on conflict (key) do update set record = excluded.record`,
    arraysOf(found, 'key', 'record'),
  )

const takeConfirmed = async (client: ClientBase, found: readonly Difference[]) =>
  new Set(
    await queryColumn<string>(
      client,
      `delete from ${suspectTable} as known using unnest($1::text[], $2::text[]) as found (key, record)
     where known.key = found.key and known.record = found.record
     returning known.key`,
      arraysOf(found, 'key', 'record'),
    ),
  )

async function invalidateRows(
  { session, stream }: RunParts,
  found: Parameters<Verification['invalidateRows']>[0],
): Promise<void> {
  const { client } = session
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return
  const key = pg.escapeIdentifier(tableSchema.key.name)
  await client.query(
    `update ${qualified(stream)} as mine set _hash = ${distrustedHash}
     from unnest($1::${tableSchema.key.type}[], $2::bigint[]) as found (key, mirrored)
     where mine.${key} = found.key and ${versionSql(tableSchema, 'mine') ?? 'null'} is not distinct from found.mirrored`,
    arraysOf(found, 'key', 'mirrored'),
  )
}

async function randomKeys({ session, stream }: RunParts, limit: number): Promise<readonly string[]> {
  const { client } = session
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return []
  return await queryColumn<string>(
    client,
    `select ${pg.escapeIdentifier(tableSchema.key.name)}::text as key from ${qualified(stream)}
     where _deleted_at is null order by random() limit $1`,
    [limit],
  )
}
