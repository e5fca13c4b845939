// Somebody pauses both queues in Redis, as BullMQ's tools offer it: everything answers, and no job is taken. The worker resumes them by itself.

import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { begunWell, type Fault, tryFault } from './stage.ts'

export const queuePaused: Fault = {
  name: 'the queue is paused in redis',
  needs: ['redis-server'],
  async try(stage) {
    const [postgres, redis] = [await stage.startPostgres(), await stage.startRedis()]
    const databaseUrl = postgres.url
    const worker = await stage.startWorker({ DATABASE_URL: databaseUrl, REDIS_URL: redis.url })
    await begunWell(stage, { worker, databaseUrl })
    const keys = (await redis.tell('KEYS', '*:tidemark-polls:meta')) as string[]
    const prefix = keys[0]?.split(':')[0] ?? ''
    const connection = new Redis(redis.url, { maxRetriesPerRequest: null })
    const queues = ['tidemark-polls', 'tidemark-loads'].map((name) => new Queue(name, { connection, prefix }))
    stage.defer(async () => connection.disconnect())
    return await tryFault(stage, {
      ...{ worker, databaseUrl, healsItself: true },
      begin: () => Promise.all(queues.map((queue) => queue.pause())),
      async end() {
        const paused = await Promise.all(queues.map((queue) => queue.isPaused()))
        if (paused.includes(true)) throw new Error('the worker has not resumed both queues')
      },
      sentence: /^The queue/,
    })
  },
}
