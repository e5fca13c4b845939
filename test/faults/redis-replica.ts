// A Redis primary becomes a replica of another one and keeps its connections. Later the address leads to the new primary.

import { startForwarder } from '../support/forwarder.ts'
import { begunWell, type Fault, tryFault } from './stage.ts'

export const redisReplica: Fault = {
  name: 'redis becomes a replica (READONLY)',
  needs: ['redis-server'],
  async try(stage) {
    const [postgres, before, after] = [
      await stage.startPostgres(),
      await stage.startRedis(),
      await stage.startRedis(),
    ]
    const [oldPort, newPort] = [before, after].map(({ url }) => Number(new URL(url).port)) as [number, number]
    const forwarder = await startForwarder(oldPort)
    stage.defer(() => forwarder[Symbol.asyncDispose]())
    const databaseUrl = postgres.url
    const worker = await stage.startWorker({
      DATABASE_URL: databaseUrl,
      REDIS_URL: `redis://127.0.0.1:${forwarder.port}`,
    })
    await begunWell(stage, { worker, databaseUrl })
    return await tryFault(stage, {
      ...{ worker, databaseUrl },
      begin: () => before.tell('REPLICAOF', '127.0.0.1', String(newPort)),
      end: async () => forwarder.lead(newPort),
      sentence: /^The queue/,
    })
  },
}
