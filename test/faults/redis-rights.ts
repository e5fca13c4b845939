// The role of the worker in Redis loses the right to run BullMQ's scripts, and gets it back: pings go on being answered.

import { begunWell, type Fault, tryFault } from './stage.ts'

export const redisRights: Fault = {
  name: 'redis takes away the right to evalsha',
  needs: ['redis-server'],
  async try(stage) {
    const [postgres, redis] = [await stage.startPostgres(), await stage.startRedis()]
    const allow = (...rules: string[]) => redis.tell('ACL', 'SETUSER', 'app', ...rules)
    await allow('on', '>sesame', '~*', '&*', '+@all')
    const databaseUrl = postgres.url
    const url = Object.assign(new URL(redis.url), { username: 'app', password: 'sesame' })
    const worker = await stage.startWorker({ DATABASE_URL: databaseUrl, REDIS_URL: url.href })
    await begunWell(stage, { worker, databaseUrl })
    return await tryFault(stage, {
      ...{ worker, databaseUrl },
      begin: () => allow('-evalsha', '-eval'),
      end: () => allow('+@all'),
      sentence: /^The queue/,
    })
  },
}
