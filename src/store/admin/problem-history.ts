// Keeps which problems there were and when they ended, whichever worker looks. What comes and goes within a look or two is one problem.

import type { Pool } from 'pg'

type Queryable = Pick<Pool, 'query'>

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
