// The worker starts while its Redis or its Postgres is away, and the part comes later.

import { type Fault, tryFault } from './stage.ts'

export const redisAwayAtStart: Fault = {
  name: 'redis is away at the start',
  needs: ['redis-server'],
  async try(stage) {
    const [postgres, redis] = [await stage.startPostgres(), await stage.startRedis()]
    await redis.stop()
    const databaseUrl = postgres.url
    const worker = await stage.startWorker({ DATABASE_URL: databaseUrl, REDIS_URL: redis.url })
    return await tryFault(stage, {
      ...{ worker, databaseUrl },
      begin: async () => {},
      end: redis.start,
      sentence: /^The queue/,
    })
  },
}

export const postgresAwayAtStart: Fault = {
  name: 'postgres is away at the start',
  needs: [],
  async try(stage) {
    const postgres = await stage.startPostgres()
    await postgres.stop()
    const databaseUrl = postgres.url
    const worker = await stage.startWorker({ DATABASE_URL: databaseUrl })
    return await tryFault(stage, {
      ...{ worker, databaseUrl },
      begin: async () => {},
      end: postgres.start,
      sentence: /Postgres does not work/,
    })
  },
}
