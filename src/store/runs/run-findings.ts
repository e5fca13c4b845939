// What a run writes down besides rows: beliefs about the upstream, late arrivals, missed rows, and what is remembered of the
// stream. Fenced like the pages (P2): what a run found that lost its lease to a rewind says nothing about what is read after it.

import pg, { type ClientBase } from 'pg'
import { beliefKind, ruleOf } from '../../streams/beliefs.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import type { Arrival, CausedDifference, VolatileField } from '../../sync/ports/audits.ts'
import type { Belief, LateArrival, RunFindings } from '../../sync/ports/store.ts'
import { foldName } from '../schema/column-names.ts'
import { qualified, tableSql } from '../schema/places.ts'
import { arraysOf, queryAny, queryColumn, queryCount, queryRows, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { fenceRuns, type Lease, type RunSession } from './lease.ts'

export function openFindings(
  { client, lease, fenced }: RunSession,
  mirrored: MirroredStream,
  onKeyField: (field: string) => void,
  onVersionField: (field: string) => void,
): RunFindings {
  const { stream } = lease
  return {
    async learn(beliefs) {
      if (beliefs.length === 0) return
      await fenced(async () => {
        await takeBackBackfills(client, lease, beliefs)
        await learn(client, stream, beliefs)
      })
    },
    async wantReconcile() {
      await fenced(() =>
        client.query(
          `update tidemark.stream set reconcile_wanted_at = case
             when reconcile_wanted_at > coalesce(last_reconcile_at, '-infinity') then reconcile_wanted_at else now() end
           where name = $1`,
          [stream],
        ),
      )
    },
    async setKeyField(field) {
      await fenced(() =>
        client.query('update tidemark.stream set key_field = $2 where name = $1', [stream, field]),
      )
      onKeyField(field)
    },
    async setVersionField(field, evidence) {
      const beginsAnew = await fenced(() => setVersionField(client, lease, field, evidence))
      onVersionField(field)
      return beginsAnew
    },
    async invalidate(name, evidence) {
      await fenced(() =>
        client.query(
          'update tidemark.belief set expires_at = now(), evidence = $3 where stream = $1 and name = $2',
          [stream, name, evidence],
        ),
      )
    },
    async recordLateArrivals(arrivals) {
      if (arrivals.length > 0) await fenced(() => recordLateArrivals(client, lease, arrivals))
    },
    async setLookback(lookbackMs, reason, from) {
      await fenced(() =>
        client.query(
          `update tidemark.stream set lookback_ms = $2, lookback_reason = $3
           where name = $1 and (lookback_ms is not distinct from $4 or lookback_ms < $2)`,
          [stream, Math.round(lookbackMs), reason, from === null ? null : Math.round(from)],
        ),
      )
    },
    async recordDifferences(found) {
      if (found.length > 0) await fenced(() => recordDifferences(client, lease, found))
    },
    async setVolatile(fields, evidence) {
      // If the operator has chosen the volatile fields, no others are added.
      if (fields.length === 0 || ('volatileFields' in mirrored && mirrored.volatileFields)) return []
      return await fenced(() => setVolatile(client, stream, fields.map(foldName), evidence))
    },
  }
}

/** A half-done backfill rests on the order of answers. If that belief falls, the backfill begins anew, and its run is fenced out. */
async function takeBackBackfills(client: ClientBase, { stream, lane }: Lease, beliefs: readonly Belief[]) {
  const fallen = await queryCount(
    client,
    `select from unnest($2::text[], $3::text[]) as learnt (name, value)
     left join tidemark.belief as known on known.stream = $1 and known.name = learnt.name
     where (learnt.name = 'sorting' and learnt.value <> 'proven' and known.value = 'proven')
       or (learnt.name = 'sorted_before_cut' and learnt.value = 'no' and known.value is distinct from 'no')`,
    [stream, ...arraysOf(beliefs, 'name', 'value')],
  )
  if (fallen === 0) return
  await fenceRuns(client, [stream], { only: 'backfill', but: lane })
  await client.query(
    `update tidemark.backfill set position = position_from, unread = null
     where stream = $1 and status in ('waiting', 'running') and position > position_from`,
    [stream],
  )
}

export async function learn(client: ClientBase, stream: string, beliefs: readonly Belief[]): Promise<void> {
  // A reading in ranges rests on the order.
  if (beliefs.some(({ name, value }) => name === 'sorting' && value !== 'proven'))
    await client.query(
      `with forgotten as (
         update tidemark.stream set unread = null where name = $1 and unread is not null
       )
       update tidemark.backfill set unread = null where stream = $1 and unread is not null`,
      [stream],
    )
  // One statement cannot write a row twice; of two beliefs of one name the later one holds.
  const newest = [...new Map(beliefs.map((belief) => [belief.name, belief])).values()]
  for (const belief of newest) await takeBack(client, stream, belief)
  await client.query(
    `insert into tidemark.belief as known
       (stream, name, value, evidence, first_at, tested_at, version_field, rule, rests_since, rests_from)
     select $1, learnt.name, value, evidence, tested_at, tested_at, ${versionFieldSql}, rule, case when is_relied_on then tested_at end,
       case when is_relied_on then stream.position end
     from unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::boolean[], $7::int[])
       as learnt (name, value, evidence, tested_at, is_relied_on, rule)
     join tidemark.stream on stream.name = $1
     on conflict (stream, name) do update set
       value = excluded.value, evidence = excluded.evidence, tested_at = excluded.tested_at, expires_at = null,
       version_field = excluded.version_field, rule = excluded.rule,
       previous_value = case when known.value <> excluded.value then known.value else known.previous_value end,
       changed_at = case when known.value <> excluded.value then excluded.tested_at else known.changed_at end,
       -- Until it is taken back, what rested on it first counts.
       rests_since = coalesce(known.rests_since, excluded.rests_since),
       rests_from = coalesce(known.rests_from, excluded.rests_from)`,
    [
      stream,
      ...arraysOf(newest, 'name', 'value', 'evidence', 'testedAt'),
      newest.map(({ name, value }) => movesPosition(name, value)),
      newest.map(({ name }) => ruleOf(name)),
    ],
  )
}

/** The field of the row version of stream $1 as it is known. */
const versionFieldSql = `(
  select value from tidemark.belief where stream = $1 and name = 'version_field' and expires_at is null
)`

/** Whether runs may rely on this belief when they move the position. */
function movesPosition(name: string, value: string): boolean {
  const { rests, holdsAs } = beliefKind(name) ?? {}
  return rests === 'position' && holdsAs?.includes(value) === true
}

/** Takes back what "settled" and "deletions known" owed to a belief that fell. The position is taken back by the run that moves it. */
async function takeBack(client: ClientBase, stream: string, { name, value }: Belief): Promise<void> {
  const { rests, holdsAs = null } = beliefKind(name) ?? {}
  if ((rests !== 'settled' && rests !== 'deletions') || holdsAs === null || holdsAs.includes(value)) return
  await client.query(
    `with fallen as (
       select coalesce(changed_at, first_at) as since from tidemark.belief
       where stream = $1 and name = $2 and value = any ($3)
     )
     update tidemark.stream as known
     set settled_through_version = case when not $4 then known.settled_through_version end,
         settled_through_at = case when not $4 then known.settled_through_at end,
         deletions_known_at = least(
           known.deletions_known_at,
           -- A reconcile finds them without ranks.
           case when $4 then fallen.since else greatest(fallen.since, known.last_reconcile_at) end
         ),
         ranks_agreed_at = null
     from fallen where known.name = $1`,
    [stream, name, [...holdsAs], rests === 'settled'],
  )
}

/** A position is a value of one field. If the row version is another field, the position means nothing, and everything is read again. */
async function setVersionField(
  client: ClientBase,
  { stream, lane, runId }: Lease,
  field: string,
  evidence: string,
): Promise<boolean> {
  const known = await queryValue<string>(
    client,
    `select value from tidemark.belief where stream = $1 and name = 'version_field'`,
    [stream],
  )
  await learn(client, stream, [{ name: 'version_field', value: field, evidence, testedAt: new Date() }])
  if (known === field || (known === null && (await isPositionOf(client, stream, field)))) return false
  // Runs of other kinds go by the old field. What was learnt and kept in values of that field goes.
  await fenceRuns(client, [stream], { but: lane })
  await client.query(
    `delete from tidemark.belief
     where stream = $1 and name in ('sorting', 'paging', 'largest_answer', 'first_top')`,
    [stream],
  )
  await client.query('delete from tidemark.checkpoint where stream = $1', [stream])
  await client.query(
    `update tidemark.backfill set status = 'cancelled', finished_at = now(), note = 'the row version is another field now'
     where stream = $1 and status in ('waiting', 'running')`,
    [stream],
  )
  // What the rows have in that field was no row version when they were written, so it keeps no record out.
  await client.query(
    'update tidemark.stream set unguarded_above = -1, unguarded_before = clock_timestamp() where name = $1',
    [stream],
  )
  return await queryAny(
    client,
    `with moved as (
       update tidemark.stream
       set position = 0, position_reached_at = now(), unread = null, read_through_at = null, first_read_through_at = null,
           settled_through_version = null, settled_through_at = null
       where name = $1 and (position > 0 or unread is not null)
       returning position
     )
     insert into tidemark.checkpoint (stream, position, run_id, reason) select $1, position, $2, $3 from moved`,
    [stream, runId, `the row version is ${field}: ${evidence}`],
  )
}

/** For a database of an earlier version, which did not note the field: whether a row has the position as its version in this field. */
async function isPositionOf(client: ClientBase, stream: string, field: string): Promise<boolean> {
  const isRead = `select from tidemark.stream where name = $1 and position > 0`
  // Where nothing was read there is no number of another field.
  if ((await queryCount(client, isRead, [stream])) === 0) return true
  const found = await queryValue<string>(
    client,
    `select column_name from tidemark.field
     where stream = $1 and folded = $2 and column_name is not null and to_regclass(${tableSql('stream')}) is not null`,
    [stream, foldName(field)],
  )
  if (found === null) return false
  const column = pg.escapeIdentifier(found)
  return await queryAny(
    client,
    `select from ${qualified({ name: stream })} as mine, tidemark.stream
     where stream.name = $1 and mine.${column}::text = stream.position::text limit 1`,
    [stream],
  )
}

const recordLateArrivals = (client: ClientBase, { stream, runId }: Lease, arrivals: readonly LateArrival[]) =>
  client.query(
    `insert into tidemark.late_arrival (stream, run_id, key, version, distance, late_ms)
     select $1, $2, * from unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[])`,
    [
      stream,
      runId,
      ...arraysOf(arrivals, 'key', 'version', 'distance'),
      arrivals.map(({ lateMs }) => Math.round(lateMs)),
    ],
  )

const recordDifferences = (
  client: ClientBase,
  { stream, runId }: Lease,
  found: readonly CausedDifference[],
) =>
  client.query(
    `insert into tidemark.difference
       (stream, run_id, key, cause, version_here, version_there, fields, cure, cured_at)
     select $1, $2, key, cause, version_here, version_there,
       array(select jsonb_array_elements_text(fields)), cure, case when is_cured then now() end
     from unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::boolean[], $9::jsonb[])
       as found (key, cause, version_here, version_there, cure, is_cured, fields)`,
    [
      stream,
      runId,
      ...arraysOf(found, 'key', 'cause', 'mirrored', 'version', 'cure', 'isCured'),
      found.map(({ columns }) => JSON.stringify(columns)),
    ],
  )

/** Every writer of the table notices before its next commit. Within a fenced transaction. Returns the names of the new ones. */
export const setVolatile = (client: Queryable, stream: string, folded: readonly string[], evidence: string) =>
  queryRows<VolatileField>(
    client,
    `with found as (
       update tidemark.field set volatile_since = now(), volatile_evidence = $3, steady_runs = 0, steady_sample = null
       where stream = $1 and folded = any ($2) and volatile_since is null
       returning source_name as field, coalesce(column_name, '_rescued.' || source_name) as column
     ), changed as (
       update tidemark.stream set columns_version = columns_version + 1
       where name = $1 and exists (select from found)
     )
     select * from found`,
    [stream, folded, evidence],
  )

/** Fields that are volatile no more. Rows get hashes with them as they are read again. Within a fenced transaction. Returns their names. */
export const compareAgain = (client: Queryable, stream: string, folded: readonly string[]) =>
  queryColumn<string>(
    client,
    `with fallen as (
       update tidemark.field
       set volatile_since = null, volatile_evidence = null, silent_runs = 0, steady_runs = 0, steady_sample = null
       where stream = $1 and folded = any ($2)
       returning source_name as field
     ), changed as (
       update tidemark.stream set columns_version = columns_version + 1 where name = $1
     )
     select field from fallen order by field`,
    [stream, folded],
  )

/** Rows that only a reconcile found: one line a run, shown until somebody acknowledges them. Within a fenced transaction. */
export async function recordMissedRows(
  client: Queryable,
  { stream, runId }: Lease,
  rows: number,
  samples: readonly Arrival[],
): Promise<void> {
  const told = samples.map(({ key, version, kind }) => ({
    key,
    version: version?.toString() ?? null,
    isNew: kind === 'missing',
  }))
  await client.query(
    `insert into tidemark.missed_rows (stream, run_id, rows, samples) values ($1, $2, $3, $4)
     on conflict (stream, run_id) do update set rows = excluded.rows, samples = excluded.samples`,
    [stream, runId, rows, JSON.stringify(told)],
  )
}
