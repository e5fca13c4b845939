// The record of what people did: a line before it is done, so that nothing is done unrecorded, and a line for what came of it. Lines are
// only added; triggers in Postgres number and chain them.

import type { ClientBase } from 'pg'

type Queryable = Pick<ClientBase, 'query'>

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
  const { rows } = await client.query<{ id: string }>(
    `insert into tidemark.action_log (who, door, address, action, target, stream, reason, confirmed, before, result, told)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning id::text`,
    [
      ...[who, door, address, action, target.slice(0, 200), stream, reason, confirmed],
      ...[before && JSON.stringify(before), result, told],
    ],
  )
  const [stored] = rows
  if (!stored) throw new Error('The action could not be recorded, so nothing was done. Try again.')
  return stored.id
}

export async function noteResult(
  client: Queryable,
  id: string,
  given: Result & { readonly after: object | null },
): Promise<void> {
  await client.query('insert into tidemark.action_log (ends, result, told, after) values ($1, $2, $3, $4)', [
    ...[id, given.result, given.told, given.after && JSON.stringify(given.after)],
  ])
}

/** A month more, so that lines go together and seldom: each time is a line too. */
const isDueSql = `exists (select from tidemark.action_log where at < now() - interval '2 years 1 month')`

/**
 * Removes lines that are older than two years. The line that says so keeps the hash of the last of them, on which the chain goes on. One
 * statement, like all here: a program that is frozen in the middle of a transaction would hold up everybody who acts.
 */
export async function forgetOldActions(client: Queryable, address: string): Promise<void> {
  await client.query(
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
}
