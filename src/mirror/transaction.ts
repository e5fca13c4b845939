// A transaction on a connection that is held: all of the work, or nothing of it.

import type { ClientBase } from 'pg'

export async function inTransaction<Result>(
  client: ClientBase,
  work: () => Promise<Result>,
): Promise<Result> {
  await client.query('begin')
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    // When the connection is gone, so is the transaction; the first error is the one to tell.
    await client.query('rollback').catch(() => {})
    throw error
  }
}
