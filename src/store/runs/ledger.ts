// The run ledger: a line for each run, and who has a stream's lane. Runs in a row that change nothing share one line, so
// that polling an idle upstream fills nothing (P10).

import { hostname } from 'node:os'
import type { ClientBase } from 'pg'
import type { RunKind } from '../../streams/catalog.ts'
import type { Belief, RunEnd, StreamState } from '../../sync/ports/store.ts'
import type { Lease } from './lease.ts'

type Place = { readonly stream: string; readonly kind: RunKind }

const lockSql = `hashtextextended('tidemark run ' || $1 || ' ' || $2, 0)`

/**
 * Returns the new epoch of the lane (P2), or null when somebody else has it. The lock is held by the connection until it is
 * given back or closed: a killed program gives it back by dying, one that is silent for too long loses it (P8).
 */
export async function takeLease(
  client: ClientBase,
  { stream, kind }: Place,
  silenceMs: number,
): Promise<string | null> {
  // A last commit of the run before holds its epoch; this waits for it, so that what is read afterwards includes it.
  const { rows } = await client.query<{ epoch: string }>(
    `with lock as materialized (
       select is_mine, case when is_mine then set_config('idle_session_timeout', $3, false) end,
         case when is_mine then set_config('idle_in_transaction_session_timeout', $3, false) end
       from (select pg_try_advisory_lock(${lockSql}) as is_mine) as tried
     )
     insert into tidemark.lease (stream, lane, epoch) select $1, $2, 1 from lock where is_mine
     on conflict (stream, lane) do update set epoch = lease.epoch + 1
     returning epoch`,
    [stream, kind, `${silenceMs}ms`],
  )
  return rows[0]?.epoch ?? null
}

export async function giveBackLease(client: ClientBase, { stream, kind }: Place): Promise<void> {
  await client.query(`select pg_advisory_unlock(${lockSql})`, [stream, kind])
  // Whoever gets the connection next may be silent for longer, while the upstream keeps it waiting.
  await client.query('reset idle_session_timeout; reset idle_in_transaction_session_timeout')
}

/** Who has the lane, in words. */
export async function whoHasLease(client: ClientBase, { stream, kind }: Place): Promise<string> {
  const { rows } = await client.query<{ host: string; pid: number; started_at: Date }>(
    `select host, pid, started_at from tidemark.run
     where stream = $1 and kind = $2 and status = 'running' order by id desc limit 1`,
    [stream, kind],
  )
  const [owner] = rows
  if (!owner) return 'another program, which has only just begun'
  return `process ${owner.pid} on ${owner.host}, since ${owner.started_at.toISOString()}`
}

type Begun = {
  readonly run_id: string
  readonly position: string
  readonly position_reached_at: Date | null
  readonly key_field: string | null
  readonly lookback_ms: string | null
  readonly lookback_reason: string | null
  readonly stopped_reason: string | null
  readonly last_lookback_at: Date | null
  readonly beliefs: readonly { name: string; value: string; evidence: string; tested_at: string }[]
}

/** The ledger's line of a run, and what is known of its stream. */
export async function beginRun(
  client: ClientBase,
  place: Place,
): Promise<{ runId: string; state: StreamState }> {
  const { rows } = await client.query<Begun>(
    `with ended as (
       -- The lane was free, so whoever left this line is gone.
       update tidemark.run set status = 'failed', finished_at = now(), error = 'the program was ended'
       where stream = $1 and kind = $2 and status = 'running'
     ), state as (
       select position, position_reached_at, key_field, lookback_ms, lookback_reason, stopped_reason, last_lookback_at
       from tidemark.stream where name = $1
     ), begun as (
       insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to)
       select $1, $2, 'running', $3, $4, position, position from state
       returning id
     )
     select begun.id as run_id, state.*,
       (select coalesce(jsonb_agg(jsonb_build_object('name', name, 'value', value, 'evidence', evidence, 'tested_at', tested_at)), '[]')
        from tidemark.belief where stream = $1) as beliefs
     from begun, state`,
    [place.stream, place.kind, hostname(), process.pid],
  )
  const [begun] = rows
  if (!begun) throw new Error(`the database does not know stream ${place.stream}; run: tidemark migrate`)
  return {
    runId: begun.run_id,
    state: {
      position: BigInt(begun.position),
      positionReachedAt: begun.position_reached_at,
      keyField: begun.key_field,
      lookbackMs: begun.lookback_ms === null ? null : Number(begun.lookback_ms),
      lookbackReason: begun.lookback_reason,
      stoppedReason: begun.stopped_reason,
      lastLookbackAt: begun.last_lookback_at,
      beliefs: begun.beliefs.map(toBelief),
    },
  }
}

const toBelief = (row: Begun['beliefs'][number]): Belief => ({
  name: row.name,
  value: row.value,
  evidence: row.evidence,
  testedAt: new Date(row.tested_at),
})

/** What the writes of a run came to. */
export type RunTotals = {
  inserted: number
  updated: number
  unchanged: number
  rescued: number
  quarantined: number
  newlyQuarantined: number
  markedDeleted: number
  position: bigint
}

export async function endRun(
  client: Pick<ClientBase, 'query'>,
  lease: Lease,
  totals: RunTotals,
  end: RunEnd & { readonly isIdle: boolean },
): Promise<void> {
  await client.query(
    `with previous as (
       select id, status, is_idle, note from tidemark.run
       where stream = $1 and kind = $2 and id < $3 order by id desc limit 1
     ), shared as (
       update tidemark.run as known
       set polls = known.polls + 1, finished_at = now(), requests = known.requests + $4, bytes = known.bytes + $5,
           unchanged = known.unchanged + $6, rescued = $7, quarantined = $8
       from previous
       where known.id = previous.id and $9 and previous.is_idle and previous.status = 'done'
         and previous.note is not distinct from $10
       returning known.id
     ), erased as (
       delete from tidemark.run where id = $3 and exists (select from shared)
     ), ended as (
       -- A run that lost its lane was over when the next one began, whenever it hears of that.
       update tidemark.run
       set status = $11, finished_at = coalesce(finished_at, now()), is_idle = $9, requests = $4, bytes = $5, unchanged = $6, rescued = $7,
           quarantined = $8, note = $10, error = $12, error_code = $19, inserted = $13, updated = $14, marked_deleted = $15, position_to = $16
       where id = $3 and not exists (select from shared)
     )
     update tidemark.stream as known
     -- A run that had nothing to ask for has read nothing.
     set last_success_at = case when $4 > 0 then now() else known.last_success_at end,
         read_through_at = case
           -- An upstream that shows nothing shows no changes either: complete is what was seen before.
           when $20 then least(known.read_through_at, greatest(known.last_lookback_at, known.position_reached_at))
           when $2 = 'incremental' and $17 and known.hidden_since is null then begun.started_at
           else known.read_through_at end,
         hidden_since = case when $20 then coalesce(known.hidden_since, now())
                             when not $20 then null else known.hidden_since end,
         first_read_through_at = case when $2 = 'incremental' and $17 then coalesce(known.first_read_through_at, now())
                                  else known.first_read_through_at end,
         last_reconcile_at = case when $2 = 'reconcile' and $17 then begun.started_at else known.last_reconcile_at end,
         last_lookback_at = case when $2 = 'lookback' and $17 then begun.started_at else known.last_lookback_at end
     from tidemark.run as begun, tidemark.lease as mine
     where known.name = $1 and begun.id = $3 and $11 = 'done'
       and mine.stream = $1 and mine.lane = $2 and mine.epoch = $18`,
    [
      lease.stream,
      lease.kind,
      lease.runId,
      end.requests,
      end.bytes,
      totals.unchanged,
      totals.rescued,
      totals.quarantined,
      end.isIdle,
      holdableText(end.note),
      end.status,
      holdableText(end.error),
      totals.inserted,
      totals.updated,
      totals.markedDeleted,
      totals.position.toString(),
      end.isComplete,
      lease.epoch,
      end.errorCode,
      end.isHidden ?? null,
    ],
  )
}

/** Names of fields and the like come from the upstream, and Postgres holds no NUL. */
const holdableText = (text: string | null): string | null => text?.replaceAll('\0', '\\0') ?? null

// What the ledger and the history forget: checkpoints thin out with age, old runs and late arrivals go. Rewinds stay.
/** Cheap enough for the end of a run that changed something; all it looks at is found by index. */
export async function thinHistory(client: Pick<ClientBase, 'query'>, stream: string): Promise<void> {
  await client.query(
    `with aged as (
       -- Every checkpoint for a day, the last of each hour for a month, then the last of each day.
       select id, row_number() over (
         partition by case when reached_at < now() - interval '30 days'
                           then date_trunc('day', reached_at) else date_trunc('hour', reached_at) end
         order by reached_at desc, id desc
       ) as rank
       from tidemark.checkpoint
       where stream = $1 and reason is null and reached_at < date_trunc('hour', now() - interval '1 day')
     ), thinned as (
       delete from tidemark.checkpoint using aged where checkpoint.id = aged.id and aged.rank > 1
     ), forgotten as (
       delete from tidemark.run
       where stream = $1 and status <> 'running' and started_at < now() - interval '90 days'
     )
     delete from tidemark.late_arrival where stream = $1 and found_at < now() - interval '90 days'`,
    [stream],
  )
}
