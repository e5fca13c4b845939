// Problems that no table shows by itself, noted by whoever met them and forgotten when they are over, so that every worker and every
// command tells them.

import type { Pool } from 'pg'

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

export async function readNotices(pool: Pick<Pool, 'query'>): Promise<readonly Notice[]> {
  const { rows } = await pool.query<Notice>(
    'select key, what, since from tidemark.notice order by since, key',
  )
  return rows
}
