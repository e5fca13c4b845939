// What a run writes down besides rows: beliefs about the upstream, late arrivals, missed rows, and what is remembered of the
// stream. Fenced like the pages (P2): a run that lost its lease to a rewind must not stop the stream that the rewind started.

import pg, { type ClientBase } from 'pg'
import type { Arrival, Belief, LateArrival, RunFindings } from '../../sync/ports/store.ts'
import { foldName } from '../schema/column-types.ts'
import { qualified } from '../schema/table-schema.ts'
import type { RunLease, RunSession } from './lease.ts'

export function openFindings(
  { client, lease, fenced }: RunSession,
  onKeyField: (field: string) => void,
  onVersionField: (field: string) => void,
): RunFindings {
  const { stream } = lease
  return {
    async learn(beliefs) {
      if (beliefs.length > 0) await fenced(() => learn(client, stream, beliefs))
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
    async doubt(name, evidence) {
      await fenced(() =>
        client.query(
          'update tidemark.belief set expires_at = now(), evidence = $3 where stream = $1 and name = $2',
          [stream, name, evidence],
        ),
      )
    },
    async stopStream(reason) {
      await fenced(() =>
        client.query('update tidemark.stream set stopped_reason = $2, stopped_at = now() where name = $1', [
          stream,
          reason,
        ]),
      )
    },
    async recordLateArrivals(arrivals) {
      if (arrivals.length > 0) await fenced(() => recordLateArrivals(client, lease, arrivals))
    },
    async setLookback(lookbackMs, reason) {
      await fenced(() =>
        client.query('update tidemark.stream set lookback_ms = $2, lookback_reason = $3 where name = $1', [
          stream,
          Math.round(lookbackMs),
          reason,
        ]),
      )
    },
  }
}

async function learn(client: ClientBase, stream: string, beliefs: readonly Belief[]): Promise<void> {
  // One statement cannot write a row twice; of two beliefs of one name the later one holds.
  const newest = [...new Map(beliefs.map((belief) => [belief.name, belief])).values()]
  await client.query(
    `insert into tidemark.belief as known (stream, name, value, evidence, first_at, tested_at)
     select $1, name, value, evidence, tested_at, tested_at
     from unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[]) as learnt (name, value, evidence, tested_at)
     on conflict (stream, name) do update set
       value = excluded.value, evidence = excluded.evidence, tested_at = excluded.tested_at, expires_at = null,
       previous_value = case when known.value <> excluded.value then known.value else known.previous_value end,
       changed_at = case when known.value <> excluded.value then excluded.tested_at else known.changed_at end`,
    [
      stream,
      newest.map(({ name }) => name),
      newest.map(({ value }) => value),
      newest.map(({ evidence }) => evidence),
      newest.map(({ testedAt }) => testedAt),
    ],
  )
}

/** A position is a number of one field. That of another one says nothing, so everything is read again. */
async function setVersionField(
  client: ClientBase,
  { stream, lane, runId }: RunLease,
  field: string,
  evidence: string,
): Promise<boolean> {
  const { rows } = await client.query<{ value: string }>(
    `select value from tidemark.belief where stream = $1 and name = 'version_field'`,
    [stream],
  )
  await learn(client, stream, [{ name: 'version_field', value: field, evidence, testedAt: new Date() }])
  if (rows[0]?.value === field || (!rows[0] && (await isPositionOf(client, stream, field)))) return false
  // Runs of other kinds go by the old field: none of them can write after this (P2). What was learnt and kept in its numbers goes.
  await client.query('update tidemark.lease set epoch = epoch + 1 where stream = $1 and lane <> $2', [
    stream,
    lane,
  ])
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
  const { rowCount } = await client.query(
    `with moved as (
       update tidemark.stream
       set position = 0, position_reached_at = now(), read_through_at = null, first_read_through_at = null,
           settled_through_version = null, settled_through_at = null
       where name = $1 and position > 0
       returning position
     )
     insert into tidemark.checkpoint (stream, position, run_id, reason) select $1, position, $2, $3 from moved`,
    [stream, runId, `the row version is ${field}: ${evidence}`],
  )
  return (rowCount ?? 0) > 0
}

/** Of a database that an earlier version left: a row has the position as its version in this field. */
async function isPositionOf(client: ClientBase, stream: string, field: string): Promise<boolean> {
  const isRead = `select from tidemark.stream where name = $1 and position > 0`
  // Where nothing was read there is no number of another field.
  if ((await client.query(isRead, [stream])).rowCount === 0) return true
  const { rows } = await client.query<{ column_name: string }>(
    `select column_name from tidemark.field
     where stream = $1 and folded = $2 and column_name is not null and to_regclass(format('mirror.%I', stream)) is not null`,
    [stream, foldName(field)],
  )
  const [found] = rows
  if (!found) return false
  const column = pg.escapeIdentifier(found.column_name)
  const { rowCount } = await client.query(
    `select from ${qualified({ name: stream })} as mine, tidemark.stream
     where stream.name = $1 and mine.${column}::text = stream.position::text limit 1`,
    [stream],
  )
  return (rowCount ?? 0) > 0
}

async function recordLateArrivals(
  client: ClientBase,
  { stream, runId }: RunLease,
  arrivals: readonly LateArrival[],
): Promise<void> {
  await client.query(
    `insert into tidemark.late_arrival (stream, run_id, key, version, distance, late_ms)
     select $1, $2, * from unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[])`,
    [
      stream,
      runId,
      arrivals.map(({ key }) => key),
      arrivals.map(({ version }) => version.toString()),
      arrivals.map(({ distance }) => distance.toString()),
      arrivals.map(({ lateMs }) => Math.round(lateMs)),
    ],
  )
}

/** Rows that only a reconcile found: one line a run, shown until somebody acknowledges them. Within a fenced transaction. */
export async function recordMissedRows(
  client: Pick<ClientBase, 'query'>,
  { stream, runId }: RunLease,
  rows: number,
  samples: readonly Arrival[],
): Promise<void> {
  const told = samples.map(({ key, version, isNew }) => ({
    key,
    version: version?.toString() ?? null,
    isNew,
  }))
  await client.query(
    `insert into tidemark.missed_rows (stream, run_id, rows, samples) values ($1, $2, $3, $4)
     on conflict (stream, run_id) do update set rows = excluded.rows, samples = excluded.samples`,
    [stream, runId, rows, JSON.stringify(told)],
  )
}
