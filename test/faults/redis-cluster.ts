// The slot of the queue moves from node to node of a Redis Cluster while the worker works, and a node is lost and comes back empty.

import { join } from 'node:path'
import { deniedBy, rulesOf, startRedisCluster } from '../support/redis-servers.ts'
import { expectInTime, expectNothingStuck } from './redis-after.ts'
import { begunWell, expectNoSurprise, type Fault, seconds, untilWell } from './stage.ts'

const moves = 4

export const redisCluster: Fault = {
  name: 'redis cluster moves the slot of the queue, and loses a node',
  needs: ['redis-server'],
  async try(stage) {
    const operator = { username: 'default', password: 'of-operators' }
    const settings = [
      ...['user default on >of-operators ~* &* +@all', 'masteruser default', 'masterauth of-operators'],
      `user tidemark ${rulesOf('tidemark')}`,
    ]
    const directory = join(stage.directory, 'cluster')
    const cluster = await startRedisCluster({ directory, nodes: 3, secured: { settings, operator } })
    stage.defer(() => cluster[Symbol.asyncDispose]())
    const { url: databaseUrl } = await stage.startPostgres()
    const places = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')
    const worker = await stage.startWorker({
      DATABASE_URL: databaseUrl,
      REDIS_URL: `redis+cluster://tidemark@${places}`,
      REDIS_PASSWORD: 'word-of-tidemark',
      REQUESTS_PER_SECOND: '50',
      LOG_LEVEL: 'debug',
    })
    const trial = { worker, databaseUrl }
    await begunWell(stage, trial)
    const keys = await Promise.all(cluster.nodes.map((node) => node.tell('KEYS', '{tidemark-*}:*')))
    const key = String(keys.flat()[0])
    const seen: string[] = []
    for (let move = 0; move < moves; move++) {
      await cluster.moveSlot(key, async () => {})
      const wellMs = await untilWell(stage, trial, performance.now())
      await expectInTime(trial)
      seen.push(seconds(wellMs))
    }
    for (const node of cluster.nodes) await expectNothingStuck(node)
    const lost = await cluster.nodeOf(key)
    await lost.kill()
    await new Promise((resolve) => setTimeout(resolve, 10_000))
    await lost.start()
    await cluster.untilWhole()
    const wellMs = await untilWell(stage, trial, performance.now())
    await expectInTime(trial)
    expectNoSurprise(worker)
    const denied = (await Promise.all(cluster.nodes.map(deniedBy))).flat()
    if (denied.length > 0) throw new Error(`refused by Redis: ${denied.join('; ')}`)
    if (/CROSSSLOT|NOPERM/.test(worker.log()))
      throw new Error('the log of the worker tells of CROSSSLOT or NOPERM')
    return `well after the slot moved: ${seen.join(', ')}; after its node was lost for 10 s: ${seconds(wellMs)}; all streams in time, no CROSSSLOT, 0 differences`
  },
}
