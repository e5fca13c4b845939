// What a session that Postgres ended says, whenever it is asked: that passes, and a worker that is starting waits for it.

import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { isPassingFailure } from '../../src/worker/failures.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'

describe.skipIf(!hasPostgres)('a session that Postgres ended', () => {
  const database = createTestDatabase()

  async function session() {
    const client = new pg.Client(database.url)
    const broke = new Promise((resolve) => client.on('error', resolve))
    await client.connect()
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    const end = () => database.pool.query('select pg_terminate_backend($1)', [rows[0]?.pid])
    return { client, broke, end }
  }
  const failureOf = (work: Promise<unknown>) =>
    work.then(
      () => null,
      (error: unknown) => error,
    )

  it('in the middle of a statement is in trouble that passes', async () => {
    const { client, end } = await session()
    const failure = failureOf(client.query('select pg_sleep(60)'))
    await end()
    expect(isPassingFailure(await failure)).toBe(true)
  })

  it('between two statements is in trouble that passes', async () => {
    const { client, broke, end } = await session()
    await end()
    await broke
    expect(isPassingFailure(await failureOf(client.query('select 1')))).toBe(true)
  })

  it('is not what a wrong statement is about', async () => {
    expect(isPassingFailure(await failureOf(database.pool.query('select nothing')))).toBe(false)
  })
})
