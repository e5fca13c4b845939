// The record of what people did: a line before it is done, so that nothing is done unrecorded, and a line for what came of it. Lines are
// only added; triggers in Postgres number and chain them.

import { holdableJson, holdableText } from '../../util/text.ts'
import { queryRow, queryRows, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import type { Within } from './ask.ts'

export type NotedAction = {
  readonly who: string
  readonly door: string
  readonly address: string
  readonly action: string
  readonly target: string
  readonly stream: string | null
  readonly reason: string | null
  /** As it was typed; what is no number is not kept. */
  readonly confirmed: string | null
  readonly before: object | null
}
type Result = { readonly result: string; readonly told: string }

/** Returns the id of its line. With a result, it is over already, and the line is all that is recorded of it. */
export async function noteAction(
  client: Queryable,
  noted: NotedAction,
  { result, told }: Result = { result: 'begun', told: '' },
): Promise<string> {
  const { who, door, address, action, target, stream, reason, before } = noted
  const confirmed = /^\d{1,18}$/.test(noted.confirmed ?? '') ? noted.confirmed : null
  const stored = await queryValue<string>(
    client,
    `insert into tidemark.action_log (who, door, address, action, target, stream, reason, confirmed, before, result, told)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning id::text`,
    [
      ...[who, door, address, action, target.slice(0, 200), stream, reason, confirmed],
      ...[before && holdableJson(before), result, holdableText(told)],
    ],
  )
  if (stored === null) throw new Error('The action could not be recorded, so nothing was done. Try again.')
  return stored
}

export const noteResult = (
  client: Queryable,
  id: string,
  given: Result & { readonly after: object | null },
) =>
  client.query('insert into tidemark.action_log (ends, result, told, after) values ($1, $2, $3, $4)', [
    ...[id, given.result, holdableText(given.told), given.after && holdableJson(given.after)],
  ])

/** A month more, so that lines go together and seldom: each time is a line too. */
const isDueSql = `exists (select from tidemark.action_log where at < now() - interval '2 years 1 month')`

/**
 * Removes lines that are older than two years. The line that says so keeps the hash of the last of them, on which the chain goes on. One
 * statement, like all here: a program that is frozen in the middle of a transaction would hold up everybody who acts.
 */
export const forgetOldActions = (client: Queryable, address: string) =>
  client.query(
    `with through as (
       select id, hash from tidemark.action_log
       where ${isDueSql} and id < (
         select coalesce(min(id), 9223372036854775807) from tidemark.action_log where at >= now() - interval '2 years'
       )
       order by id desc limit 1
     ), noted as (
       insert into tidemark.action_log (who, door, address, action, target, result, told)
       select '', 'worker', $1, 'forget', hash, 'done', 'Lines up to ' || id || ' were older than two years and were removed.'
       from through returning id
     )
     delete from tidemark.action_log where id <= (select id from through) and exists (select from noted)`,
    [address],
  )

export type ActionLine = Omit<NotedAction, 'before'> &
  Result & {
    readonly id: string
    readonly at: Date
    readonly before: Standing | null
    readonly after: Standing | null
  }
export type Standing = Readonly<Record<string, string | number | boolean | null>>

/** The newest first, those with a lower id than `before`; null: of all streams, from the newest. */
export const readActions = (
  client: Queryable,
  {
    stream,
    before,
    limit,
    from = null,
    to = null,
  }: Within & { readonly stream: string | null; readonly before: string | null; readonly limit: number },
) =>
  queryRows<ActionLine>(
    client,
    `select id::text, at, who, door, address, action, target, stream, reason, confirmed::text, before, after, result, told
     from tidemark.action as known
     where ($1::text is null or stream = $1) and ($2::bigint is null or known.id < $2)
       and at >= coalesce($4::timestamptz, '-infinity') and at < coalesce($5::timestamptz, 'infinity')
     order by known.id desc limit $3`,
    [stream, before, limit, from, to],
  )

export type BrokenLine = {
  readonly id: string
  readonly at: Date
  /** How many numbers are missing between it and the line before. */
  readonly missing: string
}
export type ActionChain = {
  readonly lines: string
  /** The number of the oldest line; null: there is none. */
  readonly from: string | null
  readonly since: Date | null
  readonly newest: string | null
  /** The first of the lines whose hash does not follow from them and from the line before. */
  readonly broken: readonly BrokenLine[]
  /** Whether a line has the hash that was asked for; null: none was. */
  readonly hasKept: boolean | null
}

/** Computes the hash of each line of the record again. */
export async function checkActions(client: Queryable, kept: string | null): Promise<ActionChain> {
  const found = await queryRow<ActionChain>(
    client,
    `with chained as (
       select log as line, lag(log.hash) over lines as before, lag(log.id) over lines as number_before
       from tidemark.action_log as log window lines as (order by log.id)
     ), broken as (
       select (line).id, (line).at, coalesce((line).id - number_before - 1, 0) as missing from chained
       where (line).hash <> tidemark.action_hash(line, coalesce(before, ''))
         -- Lines that were old have gone: the chain begins with the hash that the newest note of that says.
         and not (before is null and (line).hash is not distinct from tidemark.action_hash(line, (
           select target from tidemark.action_log where action = 'forget' and door = 'worker' order by id desc limit 1
         )))
       order by 1 limit 20
     )
     select count(*)::text as lines, min(id)::text as from, min(at) as since,
       (select hash from tidemark.action_log order by id desc limit 1) as newest,
       case when $1::text is not null then coalesce(bool_or(hash = $1), false) end as "hasKept",
       (select coalesce(jsonb_agg(jsonb_build_object('id', id::text, 'at', at, 'missing', missing::text)), '[]') from broken) as broken
     from tidemark.action_log`,
    [kept],
  )
  if (!found) throw new Error('Postgres did not answer about the record of actions.')
  return { ...found, broken: found.broken.map((one) => ({ ...one, at: new Date(one.at) })) }
}

/** Null when there is no such stream. */
export const readStanding = (client: Queryable, stream: string) =>
  queryValue<Standing>(
    client,
    `select jsonb_build_object(
       'paused', paused_at is not null,
       'position', position::text,
       'deletions blocked', blocked_deletions -> 'missing',
       'deletions rejected', coalesce(blocked_deletions ? 'rejected', false),
       'in quarantine', (
         select count(*) from tidemark.quarantine as kept where kept.stream = name and dropped_at is null
       ),
       'missed rows', (
         select coalesce(sum(rows), 0) from tidemark.missed_rows as missed
         where missed.stream = name and acknowledged_at is null
       ),
       'unfinished backfills', (
         select count(*) from tidemark.backfill as asked where asked.stream = name and status in ('waiting', 'running')
       )
     ) as standing
     from tidemark.stream where name = $1`,
    [stream],
  )
