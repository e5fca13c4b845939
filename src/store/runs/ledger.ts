// The run ledger: a line for each run. Runs in a row that change nothing share one line, so that polling an idle upstream fills
// nothing (P10). So those that mostly find nothing get a line only when there is something to tell: until then the lease tells of them.

import { hostname } from 'node:os'
import type { ClientBase } from 'pg'
import { isOutdated } from '../../streams/beliefs.ts'
import { kinds, type RunKind } from '../../streams/catalog.ts'
import type { RunStep } from '../../streams/run-steps.ts'
import type { Belief, RunEnd, StreamState } from '../../sync/ports/store.ts'
import { holdableJson, holdableText } from '../../util/text.ts'
import { isReadAgainSql } from '../book/checkpoints.ts'
import { isAliveSql } from '../book/runs.ts'
import { isLocallyChangedSql } from '../schema/watch-table.ts'
import { queryRow, queryValue } from '../server/query.ts'
import { plannedOnce, type Queryable } from '../server/session.ts'
import { kindsBeside, type Lease } from './lease.ts'
import { readUnread } from './unread.ts'

type BeliefRow = Pick<Belief, 'name' | 'value' | 'evidence'> & {
  readonly testedAt: string
  readonly expiresAt: string | null
  readonly restsFrom: string | null
  readonly versionField: string | null
  readonly rule: number
}
/** Postgres hands out whole numbers, and what stands in JSON, as text. */
type Begun = Omit<StreamState, 'position' | 'settledThrough' | 'versionField' | 'beliefs'> & {
  readonly startedExactly: string
  readonly position: string
  readonly settledThrough: string | null
  readonly unread: unknown
  /** As `zonesOf` has them. */
  readonly readZones: string | null
  /** The stream was never read whole. */
  readonly isFirst: boolean
  readonly isReadAgain: boolean
  /** A run before was killed, and the ledger does not say so yet. */
  readonly hasLeft?: boolean
  readonly beliefs: readonly BeliefRow[]
}

/** These runs come again every few seconds, and are over soon. */
const frequent: readonly RunKind[] = ['incremental', 'list', 'lookback', 'deletions']

/** The line of a run. */
export type RunLine = ReturnType<typeof lineOf>

function lineOf(lease: Lease, startedAt: string, positionFrom: bigint) {
  let noted: Promise<unknown> | null = frequent.includes(lease.kind) ? null : Promise.resolve()
  return {
    /** As Postgres writes it: no date of this program is as exact. */
    startedAt,
    positionFrom,
    /** Makes the line, if it is not there: before something is written that belongs to the run, or when it takes long. */
    async note(client: Queryable) {
      noted ??= client.query({
        name: 'tidemark_note_run',
        text: noteSql,
        values: [
          ...[lease.stream, lease.kind, lease.runId, startedAt, hostname(), process.pid, positionFrom],
          ...[lease.lane, lease.epoch],
        ],
      })
      await noted.catch((error) => {
        noted = null
        throw error
      })
    },
  }
}

/** Not of a run that lost its lease: nobody would end that line. */
const noteSql = `
  insert into tidemark.run (id, stream, kind, status, started_at, host, pid, position_from, position_to) overriding system value
  select $3::bigint, $1, $2, 'running', $4::timestamptz, $5, $6::int, $7::bigint, $7::bigint
  where exists (select from tidemark.lease where stream = $1 and lane = $8 and epoch = $9)
  on conflict (id) do nothing`

/** Makes the ledger's line of a run, unless it comes again soon, and tells what is known of its stream. `from`: where it begins; null: at the live position. */
export async function beginRun(client: ClientBase, lease: Lease, from: bigint | null) {
  const known = [lease.stream, lease.kind, kindsBeside(lease.kind), lease.runBefore]
  const isFrequent = frequent.includes(lease.kind)
  const ask = (name: string, text: string, more: readonly unknown[] = []) =>
    queryRow<Begun>(client, { name, text, values: [...known, ...more] })
  const looked = isFrequent ? await ask('tidemark_look_at_run', lookSql) : null
  const line = [hostname(), process.pid, from, lease.runId, !isFrequent]
  const begun = looked && !looked.hasLeft ? looked : await ask('tidemark_begin_run', beginSql, line)
  if (!begun) throw new Error(`The database does not know the stream ${lease.stream}. Run: tidemark migrate`)
  const { startedExactly, hasLeft: _, unread, readZones, isFirst, isReadAgain, ...state } = begun
  const versionField = versionFieldOf(state.beliefs)
  return {
    line: lineOf(lease, startedExactly, from ?? BigInt(state.position)),
    unread: readUnread(unread),
    readZones,
    isFirst,
    isReadAgain,
    state: {
      ...state,
      position: BigInt(state.position),
      settledThrough: state.settledThrough === null ? null : BigInt(state.settledThrough),
      versionField,
      beliefs: state.beliefs.map((row) => toBelief(row, versionField)),
    },
  }
}

// $1 is the stream, $2 the kind, $3 the kinds beside it, $4 the run that had the lease before.
const stateSql = `
  select position, position_reached_at as "positionReachedAt", unread, key_field as "keyField", lookback_ms::float8 as "lookbackMs",
    lookback_reason as "lookbackReason", last_lookback_at as "lastLookbackAt", inconclusive_runs as "inconclusiveRuns",
    read_zones as "readZones",
    -- What is read again, although it is settled, is not read yet.
    case when settled_through_version <= position then settled_through_version end as "settledThrough",
    first_read_through_at is null as "isFirst",
    first_read_through_at is null and ${isReadAgainSql('$1')} as "isReadAgain",
    (
      select finished_at from tidemark.run
      where run.stream = $1 and kind = $2 and status = 'done' order by id desc limit 1
    ) as "lastRunAt",
    ${isLocallyChangedSql} as "isLocallyChanged",
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'name', name, 'value', value, 'evidence', evidence, 'testedAt', tested_at,
        'expiresAt', expires_at, 'restsFrom', rests_from::text, 'versionField', version_field, 'rule', rule
      )), '[]')
      from tidemark.belief where stream = $1
    ) as beliefs
  from tidemark.stream as known where name = $1`
/** The lease was free, so whoever left such a line is gone. */
const leftSql = `stream = $1 and kind = any ($3) and status = 'running'`
/** The run before, if the ledger does not tell how it ended. */
const killedSql = `jsonb_to_record($4::jsonb) as before (id bigint, kind text, at timestamptz, host text, pid int)
    -- Lines of runs that began earlier are gone by now.
    where $4 is not null and before.at > now() - interval '90 days' and not exists (
      select from (
        select id, last_id from tidemark.run
        where run.stream = $1 and run.kind = before.kind and run.id <= before.id order by id desc limit 1
      ) as last where before.id in (last.id, last.last_id)
    )`

/** Mostly the runs before have ended well, and there is nothing to write. */
const lookSql = plannedOnce(
  `select now() as "startedAt", now()::text as "startedExactly", state.*,
     exists (select from tidemark.run where ${leftSql}) or exists (select from ${killedSql}) as "hasLeft"
   from (${stateSql}) as state`,
  ['text', 'text', 'text[]', 'text'],
)

// Whoever was killed had ended when this run took the lease.
const beginSql = `
  with taken as (
    select (run ->> 'at')::timestamptz as at from tidemark.lease where stream = $1 and (run ->> 'id')::bigint = $8::bigint
  ), ended as (
    update tidemark.run
    set status = 'failed', finished_at = greatest(started_at, coalesce((select at from taken), now())), error = 'its program was killed or lost its connection'
    where ${leftSql}
  ), state as (${stateSql}), killed as (
    insert into tidemark.run (id, stream, kind, status, started_at, finished_at, host, pid, position_from, position_to, error)
    overriding system value
    select before.id, $1, before.kind, 'failed', before.at, coalesce((select at from taken), now()), before.host, before.pid, position, position,
      'its program was killed or lost its connection'
    from state, ${killedSql}
    on conflict (id) do nothing
  ), begun as (
    insert into tidemark.run (id, stream, kind, status, host, pid, position_from, position_to) overriding system value
    select $8::bigint, $1, $2, 'running', $5, $6, coalesce($7, position), coalesce($7, position) from state where $9
  )
  select now() as "startedAt", now()::text as "startedExactly", state.* from state`

function toBelief({ name, value, evidence, ...row }: BeliefRow, fieldNow: string | null): Belief {
  const testedAt = new Date(row.testedAt)
  const expiresAt = row.expiresAt === null ? null : new Date(row.expiresAt)
  return {
    name,
    value,
    evidence,
    testedAt,
    expiresAt: isOutdated(name, row, fieldNow) ? testedAt : expiresAt,
    restsFrom: row.restsFrom === null ? null : BigInt(row.restsFrom),
  }
}

/** The field of the row version; null if it is doubted, and another one may have to be found. */
function versionFieldOf(beliefs: readonly BeliefRow[]): string | null {
  const known = beliefs.find(({ name }) => name === 'version_field')
  return !known || known.expiresAt !== null || isOutdated(known.name, known, null) ? null : known.value
}

/** What the writes of a run came to. */
export type RunTotals = ReturnType<typeof noTotals>

export const noTotals = (position: bigint) => ({
  /** Streams of which a page changed rows. */
  changed: new Set<string>(),
  inserted: 0,
  updated: 0,
  unchanged: 0,
  rescued: 0,
  quarantined: 0,
  newlyQuarantined: 0,
  markedDeleted: 0,
  position,
})

/**
 * Ends the run's line, or adds it to that of the run before if neither changed anything, and notes how fresh the stream is. Returns whether
 * rows of it are in doubt.
 */
export async function endRun(
  client: Queryable,
  lease: Lease,
  line: RunLine,
  totals: RunTotals,
  end: RunEnd & { readonly isIdle: boolean; readonly steps: readonly RunStep[] | null },
): Promise<boolean> {
  const values = [
    lease.stream,
    lease.kind,
    lease.runId,
    end.requests,
    end.bytes,
    totals.unchanged,
    totals.rescued,
    totals.quarantined,
    end.isIdle,
    end.note && holdableText(end.note),
    end.status,
    end.error && holdableText(end.error),
    totals.inserted,
    totals.updated,
    totals.markedDeleted,
    totals.position,
    end.isComplete,
    lease.epoch,
    end.errorCode,
    end.isHidden,
    lease.lane,
    end.settled?.version,
    end.settled?.at,
    end.knowsDeletions ?? false,
    end.differences ? JSON.stringify(end.differences) : null,
    end.isCutShort ?? false,
    end.steps && holdableJson(end.steps),
    ...[line.startedAt, line.positionFrom, hostname(), process.pid],
  ]
  return (await queryValue<boolean>(client, { name: 'tidemark_end_run', text: endSql, values })) ?? false
}

/**
 * In SQL, of a line `known` of tidemark.stream: that moment, or when a run began that was reading at it and wrote. Its answer may be older than
 * the moment and have been written after it: then it brings back a record that had vanished by then, and whoever looked did not see that.
 */
export const beforeAnswersSql = (moment: string, ownRun: string): string => `least(${moment}, (
  select min(reading.started_at) from unnest(array['${kinds.join("', '")}']) as of (kind)
  cross join lateral (
    select started_at, finished_at from tidemark.run
    where stream = known.name and run.kind = of.kind and started_at < ${moment} and not is_idle
    order by started_at desc limit 1
  ) as reading
  where reading.finished_at > ${moment}
), (
  select min((held.run ->> 'at')::timestamptz) from tidemark.lease as held
  where held.stream = known.name and held.run ->> 'id' is distinct from ${ownRun} and (held.run ->> 'at')::timestamptz < ${moment}
    and ${isAliveSql}
))`

const endSql = plannedOnce(
  `with previous as (
    select id, status, is_idle, note from tidemark.run
    where stream = $1 and kind = $2 and id < $3 order by id desc limit 1
  ), shared as (
    update tidemark.run as known
    set polls = known.polls + 1, finished_at = now(), requests = known.requests + $4, bytes = known.bytes + $5,
        unchanged = known.unchanged + $6, rescued = $7, quarantined = $8, steps = $27, last_id = greatest(known.last_id, $3)
    from previous
    where known.id = previous.id and $9 and previous.is_idle and previous.status = 'done'
      and previous.note is not distinct from $10
    returning known.id
  ), erased as (
    delete from tidemark.run where id = $3 and exists (select from shared)
  ), begun as (
    -- Reading from the beginning again changes where a run began.
    select $28::timestamptz as started_at, coalesce((select position_from from tidemark.run where id = $3), $29::bigint) as position_from
  ), ended as (
    insert into tidemark.run as known (
      id, stream, kind, status, started_at, finished_at, host, pid, position_from, is_idle, requests, bytes, inserted, updated,
      unchanged, rescued, quarantined, marked_deleted, position_to, note, error, error_code, differences, steps
    ) overriding system value
    select $3::bigint, $1, $2, $11, started_at, now(), $30, $31::int, position_from, $9, $4, $5, $13, $14,
      $6, $7, $8, $15, $16::bigint, $10, $12, $19, $25::jsonb, $27::jsonb
    from begun where not exists (select from shared)
    on conflict (id) do update
    -- A run that lost its lease was over when the next one began, whenever it hears of that.
    set status = excluded.status, finished_at = coalesce(known.finished_at, excluded.finished_at), is_idle = excluded.is_idle,
        requests = excluded.requests, bytes = excluded.bytes, inserted = excluded.inserted, updated = excluded.updated,
        unchanged = excluded.unchanged, rescued = excluded.rescued, quarantined = excluded.quarantined,
        marked_deleted = excluded.marked_deleted, position_to = excluded.position_to, note = excluded.note, error = excluded.error,
        error_code = excluded.error_code, differences = excluded.differences, steps = excluded.steps
  ), mine as materialized (
    -- Whoever takes the lease away is waited for.
    select from tidemark.lease where stream = $1 and lane = $21 and epoch = $18 for share
  ), compared as (
    -- Whatever was in doubt when the whole list began has been compared with it. Streams without leases are those of related records.
    delete from tidemark.doubt using begun
    where since < begun.started_at and $17 and $11 = 'done' and (
        $2 in ('reconcile', 'list') and $24 and doubt.stream = $1
        or $2 = 'related' and not exists (select from tidemark.lease as other where other.stream = doubt.stream)
      ) and exists (select from mine)
      -- What somebody changed, and no run has looked at, may have been changed after it was compared.
      and not exists (select from tidemark.local_change where local_change.stream = doubt.stream and run_id is null)
  )
  update tidemark.stream as known
  -- A run that had nothing to ask for has read nothing.
  set last_success_at = case when $4 > 0 and $11 = 'done' then now() else known.last_success_at end,
      -- What showed nothing that is known proved nothing (P11).
      inconclusive_runs = case
        when $11 = 'inconclusive' then known.inconclusive_runs + 1
        when $2 = 'incremental' and $17 then 0
        else known.inconclusive_runs end,
      inconclusive_since = case
        when $11 = 'inconclusive' then coalesce(known.inconclusive_since, begun.started_at)
        when $2 = 'incremental' and $17 then null
        else known.inconclusive_since end,
      -- Whatever the reason is. One that was told to end goes on where it was.
      stuck_runs = case
        when $2 not in ('incremental', 'list') or $26 then known.stuck_runs
        when $17 or $16::bigint > begun.position_from then 0
        else known.stuck_runs + 1 end,
      stuck_since = case
        when $2 not in ('incremental', 'list') or $26 then known.stuck_since
        when $17 or $16::bigint > begun.position_from then null
        else coalesce(known.stuck_since, begun.started_at) end,
      read_through_at = case
        -- An upstream that shows nothing shows no changes either: complete is what was seen before.
        when $20 and known.read_through_at is null then null
        when $20 then least(known.read_through_at, greatest(known.last_lookback_at, known.position_reached_at))
        when $2 in ('incremental', 'list') and $17 and known.hidden_since is null then begun.started_at
        else known.read_through_at end,
      hidden_since = case
        when $20 then coalesce(known.hidden_since, now())
        when not $20 then null
        else known.hidden_since end,
      first_read_through_at = case
        when $2 in ('incremental', 'list') and $17 then coalesce(known.first_read_through_at, now())
        else known.first_read_through_at end,
      last_reconcile_at = case when $2 = 'reconcile' and $17 then begun.started_at else known.last_reconcile_at end,
      settled_through_version = greatest(known.settled_through_version, $22),
      -- A time that is still to come is that of a clock which was put back since.
      settled_through_at = greatest(case when known.settled_through_at <= now() then known.settled_through_at end, $23),
      -- A list is compared whole: what had vanished when the run began is marked.
      deletions_known_at = greatest(
        case when known.deletions_known_at <= now() then known.deletions_known_at end,
        case when $24 and $2 = 'list' then begun.started_at
          when $24 then ${beforeAnswersSql('begun.started_at', '$3::bigint::text')} end),
      last_lookback_at = case when $2 = 'lookback' and $17 then begun.started_at else known.last_lookback_at end
  from begun
  where known.name = $1 and $11 <> 'failed' and exists (select from mine)
  returning exists (select from tidemark.doubt where stream = $1) as has_doubts`,
  [
    ...['text', 'text', 'bigint', 'bigint', 'bigint', 'bigint', 'bigint', 'bigint', 'boolean', 'text'],
    ...['text', 'text', 'bigint', 'bigint', 'bigint', 'bigint', 'boolean', 'bigint', 'text', 'boolean'],
    ...[
      'text',
      'bigint',
      'timestamptz',
      'boolean',
      'jsonb',
      'boolean',
      'jsonb',
      'timestamptz',
      'bigint',
      'text',
      'int',
    ],
  ],
)

// Thins the ledger and the history: checkpoints become fewer with age, old runs and late arrivals go. Rewinds stay.
/** Cheap enough for the end of a run that changed something; all it looks at is found by index. */
export const thinHistory = (client: Queryable, stream: string) =>
  client.query(
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
       where stream = $1 and status <> 'running' and coalesce(finished_at, started_at) < now() - interval '90 days'
       returning id
     ), pages as (
       delete from tidemark.page using forgotten where page.run_id = forgotten.id
     ), mended as (
       delete from tidemark.local_change
       where stream = $1 and run_id is not null and noted_at < now() - interval '90 days'
     ), compared as (
       delete from tidemark.difference
       where stream = $1 and (
         found_at < now() - interval '90 days'
         or id <= (select id from tidemark.difference where stream = $1 order by id desc offset 10000 limit 1)
       )
     )
     delete from tidemark.late_arrival where stream = $1 and found_at < now() - interval '90 days'`,
    [stream],
  )
