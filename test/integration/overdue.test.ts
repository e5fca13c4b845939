// Streams are read when Postgres says that they are due, whatever the queue remembers of another database.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readDueState } from '../../src/store/book/due.ts'
import { overduePolls } from '../../src/worker/look.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { hasBackend, redisUrlOf } from '../support/queues.ts'
import { dynamicIn } from '../support/settings.ts'
import { streamOf } from '../support/streams.ts'
import { startTestWorker } from '../support/worker.ts'

describe.skipIf(!hasBackend('redis'))('a database that was made anew, with the Redis of the old one', () => {
  const database = createTestDatabase()

  it('has its hourly lists read within seconds', async () => {
    await using simulator = await startSimulator({ assignments: 5, trackers: 7 })
    const settings = { STREAMS: 'assignment,tracker_object', REDIS_URL: redisUrlOf('redis') ?? undefined }
    const rows = () =>
      database.pool.query('select from mirror.tracker_object').then(
        ({ rowCount }) => rowCount,
        () => null,
      )
    const inTime = { timeout: 20_000, interval: 200 }
    const first = await startTestWorker(simulator, database, settings)
    try {
      await expect.poll(rows, inTime).toBe(7)
    } finally {
      await first.stop()
    }
    await database.pool.query('drop schema mirror, bi, tidemark cascade')
    const second = await startTestWorker(simulator, database, settings)
    try {
      await expect.poll(rows, inTime).toBe(7)
    } finally {
      await second.stop()
    }
  })
})

describe.skipIf(!hasPostgres)('what is overdue', () => {
  const database = createTestDatabase({ forEach: true })
  const settings = dynamicIn({ SCHEDULE_TRACKER_OBJECT: '0 3 * * *' }).now()
  const now = new Date()
  async function asked(): Promise<readonly string[]> {
    const streams = [streamOf('assignment'), streamOf('tracker_object')]
    const names = streams.map(({ name }) => name)
    const { streams: known } = await readDueState(database.pool, names)
    const overdue = await overduePolls(
      { pool: database.pool, settingsOf: () => settings },
      streams,
      known,
      now,
    )
    return overdue.toSorted()
  }
  const readThrough = (stream: string, secondsAgo: number) =>
    database.pool.query(
      `update tidemark.stream set read_through_at = $2::timestamptz - $3::float8 * interval '1 second' where name = $1`,
      [stream, now, secondsAgo],
    )
  const run = (status: string, secondsAgo: number) =>
    database.pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to, started_at, finished_at)
       select 'assignment', 'incremental', $1, 'there', 1, 0, 0, at, at
       from (select now() - $2::float8 * interval '1 second' as at) as moment`,
      [status, secondsAgo],
    )

  it('is what was never read, and what was read before its last slot, with a minute for the plan', async () => {
    expect(await asked()).toEqual(['assignment', 'tracker_object'])
    await readThrough('assignment', 80)
    await readThrough('tracker_object', 26 * 3600)
    expect(await asked()).toEqual(['tracker_object'])
    await readThrough('assignment', 100)
    await readThrough('tracker_object', 0)
    expect(await asked()).toEqual(['assignment'])
  })

  it('is not what is paused, has no schedule, or was tried a moment ago', async () => {
    await run('failed', 60)
    expect(await asked()).toEqual(['tracker_object'])
    await database.pool.query(
      `update tidemark.stream set paused_at = now(), paused_by = 'me' where name = 'tracker_object'`,
    )
    expect(await asked()).toEqual([])
    await database.pool.query(`update tidemark.run set finished_at = now() - interval '1 hour'`)
    expect(await asked()).toEqual(['assignment'])
  })
})
