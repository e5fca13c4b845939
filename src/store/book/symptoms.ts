// What Postgres tells about the health of streams: how complete they are, what failed since when, what is put aside, what changed
// lately. Read-only; what of it needs a person is decided elsewhere.

import { beliefs } from '../../streams/beliefs.ts'
import { queryRows } from '../server/query.ts'
import { plannedOnce, type Queryable } from '../server/session.ts'
import type { streamTable } from '../tables/state.ts'
import { isHeldSql, latestRunsSql } from './runs.ts'

// Deletions that are blocked until an operator approves them, as they are stored with their stream. Older versions and people may
// have written them: what is no number or no time is not known, and they are blocked all the same.
export type BlockedDeletions = {
  readonly missing: number | null
  /** A search has counted them: perhaps more are missing. */
  readonly isLeast?: boolean
  readonly living: number | null
  readonly seen: number | null
  /** So many were marked within the day before; null: these are too many by themselves. */
  readonly marked?: number | null
  readonly at: Date | null
  /** An operator keeps the rows: nothing is to be done until a listing lacks other ones. */
  readonly rejected: Rejection | null
}
export type Rejection = { readonly at: Date | null; readonly by: string; readonly reason: string | null }

/** Differences between the list and the rows that no look has explained yet. */
export type Unexplained = { readonly since: string; readonly differences: number }

/** Of a line of `stream`: whether deletions are not known through a later time because of them. */
export const isUnexplainedSql =
  "coalesce(deletions_known_at < (unexplained ->> 'since')::timestamptz, unexplained is not null)"

/** Null when nothing is blocked. */
export function blockedDeletionsOf(stored: unknown): BlockedDeletions | null {
  if (stored === null || stored === undefined) return null
  const fields: Partial<Record<keyof BlockedDeletions, unknown>> = typeof stored === 'object' ? stored : {}
  return {
    missing: countOf(fields.missing),
    isLeast: fields.isLeast === true,
    living: countOf(fields.living),
    // A search lists nothing.
    seen: fields.isLeast === true ? null : countOf(fields.seen),
    marked: countOf(fields.marked),
    at: momentOf(fields.at),
    rejected: rejectionOf(fields.rejected),
  }
}

function rejectionOf(value: unknown): Rejection | null {
  if (typeof value !== 'object' || value === null) return null
  const { at, by, reason }: Partial<Record<keyof Rejection, unknown>> = value
  return {
    at: momentOf(at),
    by: typeof by === 'string' ? by : 'somebody',
    reason: typeof reason === 'string' ? reason : null,
  }
}

const countOf = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null

function momentOf(value: unknown): Date | null {
  const moment = new Date(typeof value === 'string' ? value : Number.NaN)
  return Number.isNaN(moment.getTime()) ? null : moment
}

const toldElsewhere = Object.entries(beliefs).flatMap(([name, kind]) =>
  'isToldElsewhere' in kind ? [name] : [],
)

type Failing = {
  readonly kind: string
  /** Runs in a row that failed. */
  readonly failures: number
  readonly since: Date
  readonly lastAt: Date
  readonly error: string | null
  readonly code: string | null
}
type Flip = {
  readonly name: string
  readonly value: string
  readonly previousValue: string | null
  readonly evidence: string
  readonly changedAt: Date
}
type Drift = {
  readonly field: string
  readonly change: 'new' | 'without a column' | 'widened' | 'another type' | 'values do not fit'
  readonly at: Date
  /** What the upstream's description of itself said instead; null: it did not contradict. */
  readonly said?: string | null
}
/** What was found out lately to change by itself. */
type VolatileField = { readonly field: string; readonly evidence: string; readonly at: Date }
/** What somebody else did to its table. */
type LocalChange = {
  readonly operation: string
  readonly rows: number | null
  readonly role: string | null
  readonly application: string | null
  readonly at: Date
  /** When a run found it, which may be days after; now, as long as none has. */
  readonly foundAt: Date
  /** The run that began to mend it; null: the next one will. */
  readonly runId: number | null
  /** The change was made to the history table, and not to the stream's own. */
  readonly isHistory: boolean
  /** When the earliest and the latest of the rows that are lost had been seen, as text; null: not known, or none is. */
  readonly lostFrom: string | null
  readonly lostThrough: string | null
}
/** The upstream went back to an older state. */
type Epoch = {
  readonly at: Date
  readonly runId: number
  readonly position: string
  readonly evidence: string
  /** Everything was read again since. */
  readonly isRead: boolean
}
export type StreamSymptoms = Readonly<
  Pick<
    typeof streamTable.$inferSelect,
    | 'readThroughAt'
    | 'firstReadThroughAt'
    | 'settledThroughAt'
    | 'lastSuccessAt'
    | 'hiddenSince'
    | 'deletionsKnownAt'
    | 'inconclusiveRuns'
    | 'inconclusiveSince'
    | 'stuckRuns'
    | 'stuckSince'
  >
> & {
  readonly stream: string
  readonly isPaused: boolean
  /** While it is not read through again since its position was moved back: when that was. */
  readonly movedBackAt: Date | null
  /** What the last stuck run said. */
  readonly stuckNote: string | null
  /** The last reconciles that could not list everything, as far as the last three lines of the ledger tell. */
  readonly partialReconciles: number
  readonly partialSince: Date | null
  readonly partialNote: string | null
  readonly blockedDeletions:
    | (Pick<BlockedDeletions, 'missing' | 'isLeast' | 'living' | 'at' | 'marked'> &
        Partial<Pick<BlockedDeletions, 'rejected'>>)
    | null
  /** Since when a reconcile runs; null: none does. */
  readonly reconcilingSince: Date | null
  readonly quarantined: number
  readonly quarantinedSince: Date | null
  /** The setting that would tell records apart which have one key, such as `KEY_CUSTOMER=Id,Client`. */
  readonly keyAdvice: string | null
  readonly missedRows: number
  readonly missedSince: Date | null
  readonly failing: readonly Failing[]
  readonly flippedBeliefs: readonly Flip[]
  readonly drift: readonly Drift[]
  readonly localChanges: readonly LocalChange[]
  readonly epochs: readonly Epoch[]
  readonly volatileFields: readonly VolatileField[]
}

/** As Postgres tells it: inside jsonb, dates are text. */
type Row<Item> = { readonly [Name in keyof Item]: Item[Name] extends Date ? string : Item[Name] }
type Found = {
  readonly [Name in keyof StreamSymptoms]: StreamSymptoms[Name] extends readonly (infer Item)[]
    ? readonly Row<Item>[]
    : StreamSymptoms[Name]
}

/** The last successful run of the kind that is looked at. */
const lastSuccess = latestRunsSql('wanted.name', { ofKinds: 'array[last.kind]', where: `status = 'done'` })

// $1 are the streams, $2 how long they are told of what happened once, $3 beliefs that are told elsewhere.
const symptomsSql = plannedOnce(
  `with recently as materialized (select now() - $2 * interval '1 millisecond' as began)
     select stream.name as stream,
       read_through_at as "readThroughAt", first_read_through_at as "firstReadThroughAt",
       case when read_through_at is null and first_read_through_at is not null then (
         select max(reached_at) from tidemark.checkpoint where checkpoint.stream = wanted.name and reason is not null
       ) end as "movedBackAt",
       settled_through_at as "settledThroughAt", last_success_at as "lastSuccessAt", paused_at is not null as "isPaused",
       hidden_since as "hiddenSince", deletions_known_at as "deletionsKnownAt", inconclusive_runs as "inconclusiveRuns",
       inconclusive_since as "inconclusiveSince", stuck_runs as "stuckRuns", stuck_since as "stuckSince",
       (
         select note from ${latestRunsSql('wanted.name', { ofKinds: `array['incremental', 'list']`, where: `status <> 'running'` })} as latest
         order by id desc limit 1
       ) as "stuckNote",
       partial.runs as "partialReconciles", partial.since as "partialSince", partial.note as "partialNote",
       blocked_deletions as "blockedDeletions",
       (
         select min(started_at) from tidemark.run
         where run.stream = wanted.name and kind = 'reconcile' and status = 'running' and ${isHeldSql('wanted.name', 'whole')}
       ) as "reconcilingSince",
       aside.records as quarantined, aside.since as "quarantinedSince", aside.advice as "keyAdvice",
       missed.rows as "missedRows", missed.since as "missedSince",
       failing.kinds as failing, flipped.beliefs as "flippedBeliefs", drifted.fields as drift, changed.tables as "localChanges",
       begun.epochs, volatile.fields as "volatileFields"
     from unnest($1) with ordinality as wanted (name, place)
     join tidemark.stream on stream.name = wanted.name
     cross join recently
     cross join lateral (
       -- Runs that came to the same are one line.
       select coalesce(sum(polls), 0)::int as runs, min(started_at) as since, (array_agg(note order by id desc))[1] as note
       from ${latestRunsSql('wanted.name', { ofKinds: `array['reconcile']`, where: `status in ('done', 'inconclusive')`, limit: 3 })} as latest
       where started_at > greatest(last_reconcile_at, first_read_through_at)
     ) as partial
     cross join lateral (
       select count(*)::int as records, min(first_seen_at) as since,
         min(substring(reason from '; (KEY_[A-Z0-9_]+=.*) tells them apart$')) as advice
       from tidemark.quarantine where stream = wanted.name and dropped_at is null
     ) as aside
     cross join lateral (
       select coalesce(sum(rows), 0)::float8 as rows, min(found_at) as since
       from tidemark.missed_rows where stream = wanted.name and acknowledged_at is null
     ) as missed
     cross join lateral (
       select coalesce(jsonb_agg(jsonb_build_object(
         'kind', last.kind, 'failures', failures, 'since', since,
         'lastAt', last.finished_at, 'error', last.error, 'code', last.error_code
       ) order by last.kind), '[]') as kinds
       from ${latestRunsSql('wanted.name', { where: `status <> 'running'` })} as last
       cross join lateral (
         select count(*)::int as failures, min(finished_at) as since
         from tidemark.run
         where run.stream = wanted.name and run.kind = last.kind and status = 'failed'
           and id > coalesce((select id from ${lastSuccess} as well), 0)
       ) as in_a_row
       where last.status = 'failed'
         -- Nobody tries one again that was cancelled.
         and (last.kind <> 'backfill' or exists (
           select from tidemark.backfill as asked where asked.stream = wanted.name and asked.status in ('waiting', 'running')
         ))
     ) as failing
     cross join lateral (
       select coalesce(jsonb_agg(jsonb_build_object(
         'name', name, 'value', value, 'previousValue', previous_value, 'evidence', evidence, 'changedAt', changed_at
       ) order by name), '[]') as beliefs
       -- An answer larger than those before is no change of behaviour; some changes have a problem of their own.
       from tidemark.belief
       where stream = wanted.name and changed_at > began and name <> all ($3)
     ) as flipped
     cross join lateral (
       select coalesce(jsonb_agg(
         jsonb_build_object('field', source_name, 'change', change, 'at', at, 'said', said) order by at, source_name
       ), '[]') as fields
       from tidemark.field
       cross join lateral (
         values (case when column_name is null then 'without a column' else 'new' end, first_seen_at),
                (case when column_type in ('bigint', 'numeric') then 'widened' else 'another type' end, widened_at), ('values do not fit', rescued_since)
       ) as changed (change, at)
       cross join lateral (
         select case
           when change in ('widened', 'another type', 'values do not fit') then described_as
           when change = 'new' and records_seen > nulls_seen and exists (
             select from tidemark.field as other where other.stream = wanted.name and other.described_as is not null
           ) then 'nothing'
         end as said
       ) as contract
       where field.stream = wanted.name and at > began
         -- What the first row of a stream brings that was empty until then is not new: nobody could know it. The key is known from the
         -- time when the table was made.
         and (said is not null or (at > first_read_through_at and at > (
           select first_seen_at from tidemark.field as known
           where known.stream = wanted.name order by first_seen_at offset 1 limit 1
         )))
         -- One that is described is told when the description names it.
         and not (change = 'new' and (described_as is not null or exists (
           select from tidemark.contract_change as gone
           where gone.stream = wanted.name and gone.change = 'field gone' and lower(gone.subject) like '%.' || folded
         )))
         -- One that was only ever null has no column yet.
         and (change <> 'without a column' or note is not null)
         -- Values of a field without a column are rescued from its first one on.
         and (change <> 'values do not fit' or column_name is not null)
     ) as drifted
     cross join lateral (
       select coalesce(jsonb_agg(jsonb_build_object(
         'operation', operation, 'rows', rows, 'role', role, 'application', application, 'at', noted_at,
         'foundAt', found_at, 'runId', run_id,
         'isHistory', stream <> wanted.name, 'lostFrom', lost_from, 'lostThrough', lost_through
       ) order by noted.id), '[]') as tables
       from tidemark.local_change as noted
       cross join lateral (
         select case when run_id is null then now()
           else greatest(noted_at, (select started_at from tidemark.run where id = run_id)) end as found_at
       ) as finding
       -- A statement that met no row changed none.
       where noted.stream in (wanted.name, wanted.name || '_history') and found_at > began and rows is distinct from 0
     ) as changed
     cross join lateral (
       select coalesce(jsonb_agg(jsonb_build_object(
         'at', began_at, 'runId', run_id, 'position', position::text, 'evidence', evidence,
         'isRead', coalesce(first_read_through_at > began_at, false)
       ) order by began_at), '[]') as epochs
       from tidemark.epoch where epoch.stream = wanted.name and began_at > began
     ) as begun
     cross join lateral (
       select coalesce(jsonb_agg(jsonb_build_object(
         'field', source_name, 'evidence', volatile_evidence, 'at', volatile_since
       ) order by source_name), '[]') as fields
       from tidemark.field where field.stream = wanted.name and volatile_since > began
     ) as volatile
     order by wanted.place`,
  ['text[]', 'float8', 'text[]'],
)

/** Events that happened once are symptoms for `recentMs`. */
export async function readSymptoms(client: Queryable, streams: readonly string[], recentMs: number) {
  const rows = await queryRows<Found>(client, {
    name: 'tidemark_symptoms',
    text: symptomsSql,
    values: [streams, recentMs, toldElsewhere],
  })
  return rows.map((row) => ({
    ...row,
    blockedDeletions: blockedDeletionsOf(row.blockedDeletions),
    failing: row.failing.map((one) => ({ ...one, since: new Date(one.since), lastAt: new Date(one.lastAt) })),
    flippedBeliefs: row.flippedBeliefs.map((one) => ({ ...one, changedAt: new Date(one.changedAt) })),
    drift: row.drift.map(withDate),
    epochs: row.epochs.map(withDate),
    volatileFields: row.volatileFields.map(withDate),
    localChanges: row.localChanges.map((one) => ({ ...withDate(one), foundAt: new Date(one.foundAt) })),
  }))
}

const withDate = <Item extends { readonly at: string }>(item: Item) => ({ ...item, at: new Date(item.at) })
