// Connections for those who only look: the pages, searches and downloads of people. They are few and apart from those of the runs, so that
// nobody who looks slows a run down. Each query may take so long at most and changes nothing, and Postgres ends those that nobody waits
// for any more.

import type { ClientBase, Pool } from 'pg'
import type { Logger } from '../../log.ts'
import { openPlaces } from '../../util/places.ts'
import { type Database, openPool } from './connect.ts'
import { type Queryable, takeConnection } from './session.ts'
import { settleSession } from './settings.ts'

export const readingConnections = 4
const connectTimeoutMs = 5_000

type Options = {
  readonly database: Pick<Database, 'connection'>
  readonly longestQueryMs: number
  readonly log: Logger
}

export function openReadingPool({ database, longestQueryMs, log }: Options): Pool {
  const settle = async (client: ClientBase) => {
    await settleSession(client)
    await client.query(
      `set default_transaction_read_only = on; set timezone = 'UTC'; set statement_timeout = ${longestQueryMs}`,
    )
    // How soon Postgres notices that a client is gone. Not every system can.
    await client.query(`set client_connection_check_interval = '250ms'`).catch(() => {})
  }
  return openPool({
    ...database.connection,
    max: readingConnections,
    connectionTimeoutMillis: connectTimeoutMs,
    application_name: 'tidemark console',
    settle,
    onBroken: (error) => log.debug({ err: error }, 'an idle connection of the pages to Postgres broke'),
  })
}

/** Who reads, and when they are gone. */
export type Reader = { readonly who: unknown; readonly gone: AbortSignal }

/** Queries of all readers have their turns here: one who asks for much keeps no connection from others. */
const turns = {
  inAll: readingConnections,
  ofOne: 2,
  waitingInAll: 2_000,
  waitingOfOne: 200,
  longestWaitMs: 10_000,
}

export type Readings = ReturnType<typeof openReadings>

export function openReadings(pool: Pool) {
  const places = openPlaces(turns)
  return {
    /** A query that runs when its reader goes is given up, together with its connection. */
    for({ who, gone }: Reader): Queryable {
      const query = async (text: string, values?: unknown[]) => {
        const leave = await places.take(who, gone)
        gone.throwIfAborted()
        if (leave === null) throw new Error('too many queries of pages wait for a connection to Postgres')
        try {
          return await queryUntil(gone, pool, text, values)
        } finally {
          leave()
        }
      }
      return { query: query as ClientBase['query'] }
    },
  }
}

async function queryUntil(gone: AbortSignal, pool: Pool, text: string, values?: unknown[]) {
  const connection = await takeConnection(pool)
  let isHeld = true
  const release = (error?: unknown) => {
    if (isHeld) connection.release(error)
    isHeld = false
  }
  const giveUp = () => release(gone.reason)
  gone.addEventListener('abort', giveUp, { once: true })
  try {
    gone.throwIfAborted()
    return await connection.client.query(text, values)
  } finally {
    gone.removeEventListener('abort', giveUp)
    release()
  }
}
