// The database is made anew while the Redis stays: its queue holds schedules of a mirror that is gone. Everything has to be read again
// at once, also what is read only once an hour.

import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { begunWell, type Fault, seconds, untilWell } from './stage.ts'

const longestMs = 120_000
const hourly = ['tracker_object', 'assignment_object'] as const

export const newDatabase: Fault = {
  name: 'a new database with the same redis',
  needs: ['redis-server'],
  async try(stage) {
    const [postgres, redis] = [await stage.startPostgres(), await stage.startRedis()]
    const databaseUrl = postgres.url
    const slow = { SCHEDULE_TRACKER_OBJECT: '1h', SCHEDULE_ASSIGNMENT_OBJECT: '1h' }
    const settings = { DATABASE_URL: databaseUrl, REDIS_URL: redis.url, ...slow }
    const first = await stage.startWorker(settings)
    await begunWell(stage, { worker: first, databaseUrl })
    await untilRead(databaseUrl, performance.now())
    await first.stop()
    const admin = new pg.Client(Object.assign(new URL(databaseUrl), { pathname: '/postgres' }).href)
    await admin.connect()
    await admin.query('drop database tidemark with (force)')
    await admin.query('create database tidemark')
    await admin.end()
    const startedMs = performance.now()
    const worker = await stage.startWorker(settings)
    const listsMs = await untilRead(databaseUrl, startedMs)
    const wellMs = await untilWell(stage, { worker, databaseUrl }, startedMs)
    return `well ${seconds(wellMs)} after the start, hourly lists read after ${seconds(listsMs)}, 0 differences`
  },
}

async function untilRead(url: string, sinceMs: number): Promise<number> {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  pool.on('error', () => {})
  try {
    for (;;) {
      const counts = hourly.map((name) =>
        pool.query(`select from mirror.${name} limit 1`).then(
          ({ rowCount }) => rowCount ?? 0,
          () => 0,
        ),
      )
      if ((await Promise.all(counts)).every((count) => count > 0)) return performance.now() - sinceMs
      if (performance.now() - sinceMs > longestMs)
        throw new Error(`${hourly.join(' and ')} are not read ${seconds(longestMs)} after the start`)
      await wait(250)
    }
  } finally {
    await pool.end()
  }
}
