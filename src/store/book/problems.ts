// Problems: what people were told of them, so that several workers tell it once; those there were, with what was done about them; and notices of
// problems that no table shows by itself.

import { and, eq, getTableColumns, inArray, ne } from 'drizzle-orm'
import type { Pool } from 'pg'
import { holdableJson, holdableText } from '../../util/text.ts'
import { sourceSql } from '../schema/places.ts'
import { queryRows } from '../server/query.ts'
import { inTurn, type Queryable } from '../server/session.ts'
import { noticeTable, type problemHistoryTable, problemTable } from '../tables/problems.ts'
import { ask, overwritten } from './ask.ts'

const { receiver: _, ...shown } = getTableColumns(problemTable)
export type Alert = Readonly<Omit<typeof problemTable.$inferSelect, 'receiver'>>
export type AlertBook = ReturnType<typeof openAlertBook>

export const openAlertBook = (pool: Pool, receiver: string) => ({
  /** Nobody else plans meanwhile. Does nothing while another worker is at it. */
  inTurn: (work: () => Promise<void>) => inTurn(pool, `alerts to ${receiver}`, work),
  read: (): Promise<readonly Alert[]> =>
    ask(pool, (db) =>
      db
        .select(shown)
        .from(problemTable)
        .where(eq(problemTable.receiver, receiver))
        .orderBy(problemTable.since, problemTable.key),
    ),
  async write(alerts: readonly Alert[]) {
    if (alerts.length > 0)
      await ask(pool, (db) =>
        db
          .insert(problemTable)
          .values(alerts.map((alert) => ({ ...alert, receiver })))
          .onConflictDoUpdate({
            target: [problemTable.receiver, problemTable.key],
            set: overwritten(problemTable, [
              'what',
              'whatToDo',
              'since',
              'goneSince',
              'toldAt',
              'attempts',
              'retryAt',
              'isWorse',
            ]),
          }),
      )
  },
  async forget(keys: readonly string[]) {
    await ask(pool, (db) =>
      db
        .delete(problemTable)
        .where(and(eq(problemTable.receiver, receiver), inArray(problemTable.key, [...keys]))),
    )
  },
})

export type SeenProblem = Pick<ClosedProblem, 'kind' | 'stream' | 'what'> & {
  readonly key: string
  readonly since: Date | null
  /** What this one is shown instead of is not over. */
  readonly hides?: readonly string[]
}

/** So long nobody saw it: whoever sees it looks again after 15 seconds, and not all see the same; sources are opened one after the other. */
const goneFor = '50 seconds'
const outages = ['service_down', 'part_down']
const keptFor = '90 days'

/** `seesAll`: what is not among them is over soon. Whoever sees only some of them ends none: while the worker that sees all is frozen, they last. */
export async function noteProblems(
  client: Queryable,
  seen: readonly SeenProblem[],
  { seesAll = true }: { readonly seesAll?: boolean } = {},
): Promise<void> {
  if (seen.length > 0)
    await client.query(
      `insert into tidemark.problem_history as known (key, kind, stream, what, since, seen_at)
       select key, kind, stream, what, coalesce(since, now()), now()
       from jsonb_to_recordset($1) as seen (key text, kind text, stream text, what text, since timestamptz)
       -- Who looked before the end of an outage did not see another one.
       where not (kind = any ($2) and exists (
         select from tidemark.problem_history as over where over.key = seen.key and over.ended_at > seen.since
       ))
       order by key
       on conflict (key) where ended_at is null
       do update set what = excluded.what, since = least(known.since, excluded.since), seen_at = now()`,
      [holdableJson(seen), outages],
    )
  if (!seesAll) return
  await client.query(
    `update tidemark.problem_history set ended_at = case when kind = any ($2) then seen_at else now() end
     where ended_at is null and key <> all ($1) and seen_at < now() - interval '${goneFor}'`,
    [seen.flatMap(({ key, hides = [] }) => [key, ...hides]), outages],
  )
}

/** In SQL: the problems that there are. Without a worker nobody knows. What stands in a notice is over with that. */
export const openProblemsSql = `(
  select key, kind, stream, what, since from tidemark.problem_history as seen
  where ended_at is null and seen_at > now() - interval '5 minutes' and (
    kind not in ('source_stopped', 'dictionary', 'private_fields', 'related_off')
    or exists (select from tidemark.notice where notice.key = seen.key)
  )
) as problem`

/** In SQL: the source that one of these is of. */
export const problemSourceSql = `case when kind in ('source_stopped', 'dictionary') then split_part(key, ':', 2)
  else ${sourceSql(`coalesce(stream, split_part(key, ':', 2))`)} end`

/** Those of sources that have names. */
export const readProblemsOfNamed = (client: Queryable) =>
  queryRows<SeenProblem>(
    client,
    `select key, kind, stream, what, since from ${openProblemsSql} where ${problemSourceSql} <> '' order by since, key`,
  )

/** At once, and not when nobody has seen it for a while; also if nobody could note that it began. */
export async function noteEnd(client: Queryable, ended: Omit<SeenProblem, 'stream'>): Promise<void> {
  const { key, kind, what, since } = ended
  await client.query(
    `with closed as (
       update tidemark.problem_history set ended_at = now(), seen_at = now() where key = $1 and ended_at is null returning id
     )
     insert into tidemark.problem_history (key, kind, what, since, seen_at, ended_at)
     select $1, $2, $3, $4, now(), now() where not exists (select from closed)
       and not exists (select from tidemark.problem_history where key = $1 and ended_at > $4)`,
    [key, kind, holdableText(what), since],
  )
}

export const forgetOldProblems = (client: Queryable) =>
  client.query(`delete from tidemark.problem_history where ended_at < now() - interval '${keptFor}'`)

export type ClosedProblem = Pick<
  typeof problemHistoryTable.$inferSelect,
  'kind' | 'stream' | 'what' | 'since'
> & {
  readonly endedAt: Date
  /** What somebody did about it last while it lasted; null: nothing that is known to help. */
  readonly by: { readonly action: string; readonly who: string; readonly door: string } | null
}

/** By kind of problem. */
const endedBy: Readonly<Record<string, readonly string[]>> = {
  deletions_blocked: ['approve', 'reject'],
  deletions_frozen: ['approve', 'lookAgain'],
  quarantine: ['retryQuarantine', 'dropQuarantine'],
  missed_rows: ['acknowledge'],
  stale: ['resume', 'sync', 'rewind'],
  failing: ['sync'],
  stuck: ['sync', 'rewind'],
  inconclusive: ['sync', 'rewind'],
}

/** Of the last seven days, the newest first. */
export const readClosedProblems = (client: Queryable, limit: number) =>
  queryRows<ClosedProblem>(
    client,
    `select kind, stream, what, since, ended_at as "endedAt", ended_by as by
     from tidemark.problem_history as over
     left join lateral (
       select jsonb_build_object('action', action, 'who', who, 'door', door) as ended_by
       from tidemark.action as deed
       where deed.stream = over.stream and result in ('done', 'begun')
         and deed.at between over.since and over.ended_at
         and $2::jsonb -> over.kind ? action
       order by deed.id desc limit 1
     ) as last on true
     where ended_at > now() - interval '7 days'
     order by ended_at desc, over.id desc limit $1`,
    [limit, JSON.stringify(endedBy)],
  )

export type Notice = Readonly<typeof noticeTable.$inferSelect>

/** If the problem is noted already, it keeps the time at which it began. */
export async function noteProblem(client: Queryable, { key, ...told }: Omit<Notice, 'since'>): Promise<void> {
  const what = holdableText(told.what)
  await ask(client, (db) =>
    db
      .insert(noticeTable)
      .values({ key, what })
      .onConflictDoUpdate({ target: noticeTable.key, set: { what }, setWhere: ne(noticeTable.what, what) }),
  )
}

export async function forgetProblem(client: Queryable, key: string): Promise<void> {
  await ask(client, (db) => db.delete(noticeTable).where(eq(noticeTable.key, key)))
}

export const readNotices = (client: Queryable): Promise<readonly Notice[]> =>
  ask(client, (db) => db.select().from(noticeTable).orderBy(noticeTable.since, noticeTable.key))
