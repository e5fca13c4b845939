// What nobody is told of, because somebody said so: muted until a time, or acknowledged until it is over or gets worse.

import { eq, getTableColumns, sql } from 'drizzle-orm'
import { queryColumn } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { silenceTable } from '../tables/problems.ts'
import { ask, overwritten } from './ask.ts'

const { seenAt: _, size: __, ...shown } = getTableColumns(silenceTable)
export type Silence = Readonly<Omit<typeof silenceTable.$inferSelect, 'seenAt' | 'size'>>

/** Those that hold now, the newest first. */
export const readSilences = (client: Queryable): Promise<readonly Silence[]> =>
  ask(client, (db) =>
    db
      .select(shown)
      .from(silenceTable)
      .where(sql`coalesce(${silenceTable.until} > now(), true)`)
      .orderBy(sql`${silenceTable.at} desc`),
  )

/** Instead of what was said of it before. */
export async function noteSilence(client: Queryable, silence: Omit<Silence, 'at'>): Promise<void> {
  await ask(client, (db) =>
    db
      .insert(silenceTable)
      .values(silence)
      .onConflictDoUpdate({
        target: silenceTable.target,
        set: {
          ...overwritten(silenceTable, ['until', 'by', 'reason', 'size']),
          at: sql`now()`,
          seenAt: sql`now()`,
        },
      }),
  )
}

/** Null: there was none. */
export async function endSilence(client: Queryable, target: string): Promise<Silence | null> {
  const [ended] = await ask(client, (db) =>
    db.delete(silenceTable).where(eq(silenceTable.target, target)).returning(shown),
  )
  return ended ?? null
}

/** The keys of the problems that workers have seen and that are not over. */
export const readOpenKeys = (client: Queryable) =>
  queryColumn<string>(
    client,
    `select key from tidemark.problem_history where ended_at is null
     union select key from tidemark.problem where gone_since is null order by 1`,
  )

/** Of an acknowledged problem: so many times what it was then counts as worse. */
const worse = 2

/**
 * What is over or got worse is acknowledged no more, and mutes end. Of what got worse everybody is told again. Whoever sees only some of
 * the problems ends none: see `noteProblems`.
 */
export async function noteSilenced(
  client: Queryable,
  seen: readonly {
    readonly key: string
    readonly size?: number | null
    readonly hides?: readonly string[]
  }[],
  { seesAll }: { readonly seesAll: boolean },
): Promise<void> {
  const all = seen.flatMap(({ key, size = null, hides = [] }) => [
    { key, size },
    ...hides.map((hidden) => ({ key: hidden, size: null })),
  ])
  await client.query(
    `with seen as (select * from jsonb_to_recordset($1) as seen (key text, size real)
     ), known as (
       update tidemark.silence set seen_at = now(), size = coalesce(silence.size, seen.size)
       from seen where target = seen.key and until is null and coalesce(seen.size < ${worse} * silence.size, true)
     ), worse as (
       delete from tidemark.silence using seen
       where target = seen.key and until is null and seen.size >= ${worse} * silence.size returning target
     ), told as (
       update tidemark.problem set is_worse = true from worse where key = target and told_at is not null
     )
     delete from tidemark.silence
     where $2 and (until <= now() or (until is null and seen_at < now() - interval '50 seconds'
       and not exists (select from seen where key = target)))`,
    [JSON.stringify(all), seesAll],
  )
}
