// Tokens of people and programs, and the sessions of browsers. Here are only hashes: what was given is hashed before it comes here.

import { desc, eq, getTableColumns, sql } from 'drizzle-orm'
import { queryRow, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { accessTokenTable, sessionTable } from '../tables/people.ts'
import { ask, asText } from './ask.ts'

const { hash: _, ...shownOfToken } = getTableColumns(accessTokenTable)
const { hash: __, proof: ___, token: ____, ...shownOfSession } = getTableColumns(sessionTable)
export type AccessToken = Readonly<Omit<typeof accessTokenTable.$inferSelect, 'hash'>>
export type KeptSession = Readonly<Omit<typeof sessionTable.$inferSelect, 'id' | 'begunAt' | 'seenAt'>>

export const readTokens = (client: Queryable): Promise<readonly AccessToken[]> =>
  ask(client, (db) => db.select(shownOfToken).from(accessTokenTable).orderBy(accessTokenTable.name))

/** In place of one of the same name that has ended. False: there is one that has not. */
export async function addToken(
  client: Queryable,
  token: Pick<typeof accessTokenTable.$inferSelect, 'name' | 'hash' | 'role' | 'createdBy' | 'endsAt'>,
): Promise<boolean> {
  const hasEnded = sql`${accessTokenTable.endsAt} <= now()`
  const set = { ...token, createdAt: sql`now()`, lastUsedAt: null }
  const added = await ask(client, (db) =>
    db
      .insert(accessTokenTable)
      .values(token)
      .onConflictDoUpdate({ target: accessTokenTable.name, set, setWhere: hasEnded })
      .returning({ name: accessTokenTable.name }),
  )
  return added.length > 0
}

/** With the sessions that began with it. False: there was none. */
export async function removeToken(client: Queryable, name: string): Promise<boolean> {
  const removed = await ask(client, (db) =>
    db
      .delete(accessTokenTable)
      .where(eq(accessTokenTable.name, name))
      .returning({ name: accessTokenTable.name }),
  )
  return removed.length > 0
}

/** Null: there is none, or it has ended. */
export const useToken = (client: Queryable, hash: string) =>
  queryRow<Pick<AccessToken, 'name' | 'role' | 'endsAt'>>(
    client,
    `with taken as (
       select name, role, ends_at, last_used_at from tidemark.access_token
       where hash = $1 and coalesce(ends_at > now(), true)
     ), used as (
       update tidemark.access_token as its set last_used_at = now() from taken
       where its.name = taken.name and coalesce(taken.last_used_at < now() - interval '1 minute', true)
     )
     select name, role, ends_at as "endsAt" from taken`,
    [hash],
  )

/** Of each person at each address (P10). */
const mostSessions = 100

/** Those that are over go, and so do the oldest of somebody who has very many. */
export async function saveSession(client: Queryable, session: KeptSession): Promise<void> {
  await ask(client, (db) =>
    db.insert(sessionTable).values(session).onConflictDoNothing({ target: sessionTable.hash }),
  )
  await client.query(
    `delete from tidemark.session where ends_at <= now() or id in (
       select id from tidemark.session where who = $1 and address = $2 order by id desc offset ${mostSessions}
     )`,
    [session.who, session.address],
  )
}

export const readSession = (client: Queryable, hash: string) =>
  queryRow<KeptSession>(
    client,
    `with seen as (
       update tidemark.session set seen_at = now() where hash = $1 and seen_at < now() - interval '1 minute'
     )
     select hash, who, role, token, proof, address, ends_at as "endsAt" from tidemark.session where hash = $1`,
    [hash],
  )

export async function endSession(client: Queryable, hash: string): Promise<void> {
  await ask(client, (db) => db.delete(sessionTable).where(eq(sessionTable.hash, hash)))
}

export type SessionLine = Awaited<ReturnType<typeof readSessions>>[number]

/** Those that are not over, the newest first. */
export const readSessions = (client: Queryable) =>
  ask(client, (db) =>
    db
      .select({ ...shownOfSession, id: asText(sessionTable.id) })
      .from(sessionTable)
      .where(sql`${sessionTable.endsAt} > now()`)
      .orderBy(desc(sessionTable.id)),
  )

/** Null: there is none with this cookie. */
export async function readSessionId(client: Queryable, hash: string): Promise<string | null> {
  const found = await ask(client, (db) =>
    db
      .select({ id: asText(sessionTable.id) })
      .from(sessionTable)
      .where(eq(sessionTable.hash, hash)),
  )
  return found[0]?.id ?? null
}

/** One, or all of them. Returns how many that were not over. */
export const endSessions = async (client: Queryable, id: string | null) =>
  (await queryValue<number>(
    client,
    `with ended as (delete from tidemark.session where $1::bigint is null or id = $1 returning ends_at)
     select count(*) filter (where ends_at > now())::float8 from ended`,
    [id],
  )) ?? 0
