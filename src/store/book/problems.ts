// Problems: what people were told of them, so that several workers tell it once; those there were, with what ended them; and notices of
// problems that no table shows by itself.

import type { Pool } from 'pg'
import { inTurn, type Queryable } from '../server/session.ts'

export type Alert = {
  readonly key: string
  readonly kind: string
  readonly stream: string | null
  readonly what: string
  readonly whatToDo: string
  /** When it was first seen. */
  readonly since: Date
  /** Since when it is no longer seen; null while it stands. */
  readonly goneSince: Date | null
  /** When people were told that it began. */
  readonly toldAt: Date | null
  /** How often it could not be sent. */
  readonly attempts: number
  readonly retryAt: Date | null
}
export type AlertBook = {
  read(): Promise<readonly Alert[]>
  write(alerts: readonly Alert[]): Promise<void>
  forget(keys: readonly string[]): Promise<void>
}

/** Does nothing while another worker is at it. */
export const withAlertBook = (pool: Pool, work: (book: AlertBook) => Promise<void>): Promise<void> =>
  inTurn(pool, 'alerts', () => work(bookOf(pool)))

const bookOf = (client: Queryable): AlertBook => ({
  async read() {
    const { rows } = await client.query<Alert>(
      `select key, kind, stream, what, what_to_do as "whatToDo", since, gone_since as "goneSince", told_at as "toldAt",
         attempts, retry_at as "retryAt"
       from tidemark.problem order by since, key`,
    )
    return rows
  },
  async write(alerts) {
    await client.query(
      `insert into tidemark.problem
         (key, kind, stream, what, what_to_do, since, gone_since, told_at, attempts, retry_at)
       select key, kind, stream, what, "whatToDo", since, "goneSince", "toldAt", attempts, "retryAt"
       from jsonb_to_recordset($1) as given (
         key text, kind text, stream text, what text, "whatToDo" text, since timestamptz, "goneSince" timestamptz,
         "toldAt" timestamptz, attempts int, "retryAt" timestamptz
       )
       on conflict (key) do update
       set what = excluded.what, what_to_do = excluded.what_to_do, gone_since = excluded.gone_since,
           told_at = excluded.told_at, attempts = excluded.attempts, retry_at = excluded.retry_at`,
      [JSON.stringify(alerts)],
    )
  },
  async forget(keys) {
    await client.query('delete from tidemark.problem where key = any ($1)', [keys])
  },
})

export type SeenProblem = {
  readonly key: string
  readonly kind: string
  readonly stream: string | null
  readonly what: string
  readonly since: Date | null
}

/** Three looks long nobody saw it: workers look every 15 seconds, and not all see the same. */
const goneFor = '50 seconds'
const outages = ['service_down', 'part_down']
const keptFor = '90 days'

export async function noteProblems(client: Queryable, seen: readonly SeenProblem[]): Promise<void> {
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
      [JSON.stringify(seen), outages],
    )
  await client.query(
    `update tidemark.problem_history set ended_at = seen_at
     where ended_at is null and seen_at < now() - interval '${goneFor}'`,
  )
}

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
    [key, kind, what, since],
  )
}

export async function forgetOldProblems(client: Queryable): Promise<void> {
  await client.query(`delete from tidemark.problem_history where ended_at < now() - interval '${keptFor}'`)
}

export type ClosedProblem = {
  readonly kind: string
  readonly stream: string | null
  readonly what: string
  readonly since: Date
  readonly endedAt: Date
  /** What somebody did about it shortly before; null: it ended by itself. */
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
export async function readClosedProblems(
  client: Queryable,
  limit: number,
): Promise<readonly ClosedProblem[]> {
  const { rows } = await client.query<ClosedProblem>(
    `select kind, stream, what, since, ended_at as "endedAt", ended_by as by
     from tidemark.problem_history as over
     left join lateral (
       select jsonb_build_object('action', action, 'who', who, 'door', door) as ended_by
       from tidemark.action as deed
       where deed.stream = over.stream and result in ('done', 'begun')
         and deed.at between over.since and over.ended_at + interval '1 minute'
         and $2::jsonb -> over.kind ? action
       order by deed.id desc limit 1
     ) as last on true
     where ended_at > now() - interval '7 days'
     order by ended_at desc, over.id desc limit $1`,
    [limit, JSON.stringify(endedBy)],
  )
  return rows
}

export type Notice = {
  /** The same as long as it is the same problem. */
  readonly key: string
  readonly what: string
  readonly since: Date
}

/** If the problem is noted already, it keeps the time at which it began. */
export async function noteProblem(pool: Pool, { key, what }: Omit<Notice, 'since'>): Promise<void> {
  await pool.query(
    `insert into tidemark.notice (key, what) values ($1, $2)
     on conflict (key) do update set what = excluded.what where notice.what <> excluded.what`,
    [key, what],
  )
}

export async function forgetProblem(pool: Pool, key: string): Promise<void> {
  await pool.query('delete from tidemark.notice where key = $1', [key])
}

export async function readNotices(pool: Queryable): Promise<readonly Notice[]> {
  const { rows } = await pool.query<Notice>(
    'select key, what, since from tidemark.notice order by since, key',
  )
  return rows
}
