// What a pooler before Postgres gives to a program: a session of its own for each connection, and enough of them.

import type { Client } from 'pg'
import { DatabaseError, messageOf, TimedOut } from '../../util/errors.ts'
import { plural, sentence } from '../../util/text.ts'
import { unlessTimedOut, withTimeout } from '../../util/waiting.ts'

/** It passes when others give sessions back, or when the pooler gets more of them. */
class TooFewSessions extends DatabaseError {
  /** As Postgres says it when it has no session left. */
  readonly code = '53300'
}

/** Somebody who gets no session waits, and is told nothing. */
const sessionMs = 5_000
/** More than one, because other clients may use the pooler between two looks. */
const looks = 3

/** The process of Postgres that serves a connection. */
async function processOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]?.pid ?? 0
}

/** Postgres itself says at the sign-in which process serves the connection. A pooler says something else. */
const isPooled = (client: Client, pid: number): boolean => 'processID' in client && client.processID !== pid

export type Sessions = {
  readonly needed: number
  /** How many of them there are at the moment. */
  readonly got: number
  readonly isPooled: boolean
  /** Why there are no more. */
  readonly cause: unknown
}

/**
 * A pooler in transaction mode gives one session to many: their locks hold nobody off, their temporary tables are one table, and a
 * lock that nobody gives back holds up all others for ever. One in session mode lets a connection wait for a session for ever.
 */
export async function countSessions(options: {
  readonly client: Client
  /** Another connection of the same kind, not opened yet. */
  readonly another: () => Client
  readonly needed: number
  readonly where: string
}): Promise<Sessions> {
  const { client, another, needed, where } = options
  const pid = await withTimeout(sessionMs, processOf(client)).catch(unlessTimedOut)
  if (pid === null) return { needed, got: 0, isPooled: true, cause: null }
  const pooled = isPooled(client, pid)
  const others = Array.from({ length: pooled ? needed - 1 : 1 }, another)
  const open = async (other: Client) => {
    await other.connect()
    return await processOf(other)
  }
  try {
    const opened = await Promise.allSettled(others.map((other) => withTimeout(sessionMs, open(other))))
    const pids = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const refused = opened.find((one) => one.status === 'rejected')
    if (new Set([pid, ...pids]).size <= pids.length || (await moves(client, pid, others, pids)))
      throw new DatabaseError(
        `Postgres at ${where} is behind a pooler that shares sessions between clients (PgBouncer with pool_mode = transaction?). Tidemark needs sessions of its own. Set DATABASE_URL to the address of Postgres itself, or set pool_mode = session.`,
      )
    if (refused && !pooled) throw refused.reason
    return { needed, got: pids.length + 1, isPooled: pooled, cause: refused?.reason ?? null }
  } finally {
    await Promise.all(others.map((one) => one.end().catch(() => {})))
  }
}

/** Whether a connection is served by one session now and by another one later. */
async function moves(client: Client, pid: number, others: readonly Client[], pids: readonly number[]) {
  const [other] = others
  if (!other || pids.length < others.length) return false
  for (let look = 0; look < looks; look++) {
    // Twice, in case the pooler takes its sessions in turn.
    if ((await processOf(client)) !== pid || (await processOf(client)) !== pid) return true
    if ((await processOf(other)) !== pids[0]) return true
  }
  return false
}

export function expectEnough({ needed, got, isPooled, cause }: Sessions, where: string): void {
  if (!isPooled || got >= needed) return
  throw new TooFewSessions(
    `${tooFewText({ needed, got }, where)}${cause instanceof TimedOut || cause === null ? '' : ` It says: ${sentence(messageOf(cause))}`}`,
    { cause },
  )
}

export const tooFewText = ({ needed, got }: Pick<Sessions, 'needed' | 'got'>, where: string): string =>
  `The pooler at ${where} has ${plural(got, 'session')} of Postgres for Tidemark, which needs ${needed} at once. Let it have more (PgBouncer: default_pool_size, or pool_size of the database), or set DATABASE_URL to the address of Postgres itself.`
