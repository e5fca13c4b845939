// Sentinel makes another Redis the primary, and the address follows: a name or a load balancer that leads to the primary.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { startForwarder } from '../support/forwarder.ts'
import { begunWell, expectNoSurprise, type Fault, type Stage, seconds, untilWell } from './stage.ts'

const portOf = ({ url }: { readonly url: string }): number => Number(new URL(url).port)

export const redisSentinel: Fault = {
  name: 'redis behind an address that follows sentinel',
  needs: ['redis-server', 'redis-sentinel'],
  async try(stage) {
    const postgres = await stage.startPostgres()
    const [first, second] = [await stage.startRedis(), await stage.startRedis()]
    await second.tell('REPLICAOF', '127.0.0.1', String(portOf(first)))
    const sentinel = await startSentinel(stage, portOf(first))
    const forwarder = await startForwarder(portOf(first))
    stage.defer(() => forwarder[Symbol.asyncDispose]())
    const following = setInterval(() => void sentinel.primary().then(forwarder.lead, () => {}), 500)
    stage.defer(async () => clearInterval(following))
    const databaseUrl = postgres.url
    const worker = await stage.startWorker({
      DATABASE_URL: databaseUrl,
      REDIS_URL: `redis://127.0.0.1:${forwarder.port}`,
    })
    const trial = { worker, databaseUrl }
    await begunWell(stage, trial)

    const askedMs = performance.now()
    await sentinel.failover()
    const promotedMs = await untilMoved(sentinel, portOf(second), askedMs)
    const wellMs = await untilWell(stage, trial, askedMs + promotedMs)
    await first.stop()
    await first.start()
    const killedMs = performance.now()
    await second.stop()
    const againMs = await untilMoved(sentinel, portOf(first), killedMs)
    const wellAgainMs = await untilWell(stage, trial, killedMs + againMs)
    expectNoSurprise(worker)
    return `asked to fail over: well ${seconds(wellMs)} after the promotion (${seconds(promotedMs)}); primary killed: well ${seconds(wellAgainMs)} after it (${seconds(againMs)}), 0 differences`
  },
}

type Sentinel = { primary(): Promise<number>; failover(): Promise<unknown> }

async function untilMoved({ primary }: Sentinel, port: number, sinceMs: number): Promise<number> {
  while ((await primary()) !== port) {
    if (performance.now() - sinceMs > 60_000) throw new Error('Sentinel promotes nobody')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return performance.now() - sinceMs
}

async function startSentinel({ directory, defer }: Stage, primaryPort: number): Promise<Sentinel> {
  const port = await freePort()
  const place = join(directory, 'sentinel')
  mkdirSync(place)
  const file = join(place, 'sentinel.conf')
  writeFileSync(
    file,
    `port ${port}\nbind 127.0.0.1\ndir ${place}\nsentinel monitor it 127.0.0.1 ${primaryPort} 1
sentinel down-after-milliseconds it 1000\nsentinel failover-timeout it 3000\n`,
  )
  const server = spawn('redis-sentinel', [file], { stdio: 'ignore' })
  const redis = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null, retryStrategy: () => 50 })
  redis.on('error', () => {})
  defer(async () => {
    redis.disconnect()
    const ended = once(server, 'exit')
    if (server.kill()) await ended
  })
  const primary = async () => {
    const answer = (await redis.call('SENTINEL', 'get-master-addr-by-name', 'it')) as [string, string]
    return Number(answer[1])
  }
  // It has to know the replica first.
  for (;;) {
    const replicas = (await redis.call('SENTINEL', 'replicas', 'it').catch(() => [])) as unknown[]
    if (replicas.length > 0) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return { primary, failover: () => redis.call('SENTINEL', 'failover', 'it') }
}
