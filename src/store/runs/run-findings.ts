// What a run writes down besides rows: beliefs about the upstream, late arrivals, missed rows, and what is remembered of the
// stream. Fenced like the pages (P2): a run that lost its lease to a rewind must not stop the stream that the rewind started.

import type { ClientBase } from 'pg'
import type { Arrival, Belief, LateArrival, RunFindings } from '../../sync/ports/store.ts'
import type { RunLease, RunSession } from './lease.ts'

export function openFindings(
  { client, lease, fenced }: RunSession,
  onKeyField: (field: string) => void,
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
       value = excluded.value, evidence = excluded.evidence, tested_at = excluded.tested_at,
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
