// What people were told, and what they are still to be told: kept in Postgres, so that several workers tell it once and a restart
// forgets nothing. Whoever has the turn tells.

import type { Pool } from 'pg'
import { inTurn } from '../server/session.ts'

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

const bookOf = (client: Pick<Pool, 'query'>): AlertBook => ({
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
