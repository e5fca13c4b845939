// The record of what people did: noted before it is done, and what came of it afterwards, so that nothing is done unrecorded.

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

/** Returns the id of its line. What is older than two years goes. */
export async function noteAction(client: Queryable, noted: NotedAction): Promise<string> {
  await client.query(`delete from tidemark.action where at < now() - interval '2 years'`)
  const { who, door, address, action, target, stream, reason, before } = noted
  const confirmed = /^\d{1,18}$/.test(noted.confirmed ?? '') ? noted.confirmed : null
  const { rows } = await client.query<{ id: string }>(
    `insert into tidemark.action (who, door, address, action, target, stream, reason, confirmed, before, result, told)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'begun', '') returning id::text`,
    [
      who,
      door,
      address,
      action,
      target.slice(0, 200),
      stream,
      reason,
      confirmed,
      before && JSON.stringify(before),
    ],
  )
  const [stored] = rows
  if (!stored) throw new Error('The action could not be recorded, so nothing was done. Try again.')
  return stored.id
}

export async function noteResult(
  client: Queryable,
  id: string,
  given: { readonly result: string; readonly told: string; readonly after: object | null },
): Promise<void> {
  await client.query('update tidemark.action set result = $2, told = $3, after = $4 where id = $1', [
    id,
    given.result,
    given.told,
    given.after && JSON.stringify(given.after),
  ])
}
