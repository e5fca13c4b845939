// Changing a table waits for whoever reads it, and everybody who comes later waits behind the change. So a change waits
// only briefly, steps back to let the others pass, and tries again.

import { setTimeout as wait } from 'node:timers/promises'
import pg, { type ClientBase } from 'pg'

const lockTimeoutMs = 400
const firstPauseMs = 100
const longestPauseMs = 1_000
// A program that is told to stop has ten seconds for the page in hand.
const patienceMs = 8_000

/** Puts a limit on how long the rest of the transaction waits for locks. */
export async function limitLockWaits(client: ClientBase): Promise<void> {
  await client.query(`set local lock_timeout = '${lockTimeoutMs}ms'`)
}

/** Repeats a transaction that met a lock in its way. It must have rolled back before it throws. */
export async function withPatience<Result>(what: string, attempt: () => Promise<Result>): Promise<Result> {
  const deadline = Date.now() + patienceMs
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return await attempt()
    } catch (cause) {
      if (!(cause instanceof pg.DatabaseError && cause.code === '55P03')) throw cause
      if (Date.now() + pauseMs > deadline)
        throw new Error(
          `${what} had to wait too long for a query that reads the table; it is tried again by the next run`,
          {
            cause,
          },
        )
    }
    await wait(pauseMs)
  }
}
