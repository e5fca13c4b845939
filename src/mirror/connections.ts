// Connections that are held for longer than one query. One that breaks meanwhile fails its next query instead of ending
// the program, and is never given back to the pool.

import type { Pool, PoolClient } from 'pg'

export type Connection = {
  readonly client: PoolClient
  /** It broke while nobody asked it anything. */
  isBroken(): boolean
  /** With an error, or after one, the connection is closed instead of being reused. */
  release(error?: unknown): void
}

export async function takeConnection(pool: Pool): Promise<Connection> {
  const client = await pool.connect()
  let failure: unknown
  const onError = (error: Error) => {
    failure = error
  }
  client.on('error', onError)
  return {
    client,
    isBroken: () => failure !== undefined,
    release(error) {
      client.off('error', onError)
      client.release(Boolean(error ?? failure))
    },
  }
}

/** For as long as the work takes. After an error nobody knows what state it is in. */
export async function withConnection<Result>(
  pool: Pool,
  work: (client: PoolClient) => Promise<Result>,
): Promise<Result> {
  const connection = await takeConnection(pool)
  try {
    const result = await work(connection.client)
    connection.release()
    return result
  } catch (error) {
    connection.release(error)
    throw error
  }
}
