// The faults of the soak, and the places of its Postgres and its queue in which they can happen.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import type { Simulator } from '../../src/simulator/simulator.ts'
import { startForwarder } from '../support/forwarder.ts'
import type { SmallDisk } from '../support/small-disk.ts'
import type { PartFault } from './faults.ts'
import { type PostgresWorld, type RedisWorld, startRedis } from './worlds.ts'

/** Two that take turns at one address, and a user for the workers. */
export type MovingRedis = RedisWorld & {
  /** The one that the address leads to becomes a replica of the other. */
  demote(): Promise<unknown>
  /** The address leads to the other one. */
  follow(): void
  current(): RedisWorld
}

const portOf = ({ url }: { readonly url: string }): number => Number(new URL(url).port)

export async function startMovingRedis(directory: string): Promise<MovingRedis> {
  const both = [await startRedis(`${directory}-1`), await startRedis(`${directory}-2`)] as const
  const forwarder = await startForwarder(portOf(both[0]))
  let index: 0 | 1 = 0
  const current = () => both[index]
  const other = () => both[index === 0 ? 1 : 0]
  return {
    url: `redis://app:sesame@127.0.0.1:${forwarder.port}`,
    current,
    async demote() {
      await other().tell('REPLICAOF', 'NO', 'ONE')
      await current().tell('REPLICAOF', '127.0.0.1', String(portOf(other())))
    },
    follow() {
      index = index === 0 ? 1 : 0
      forwarder.lead(portOf(current()))
    },
    cut: (awayMs) => current().cut(awayMs),
    start: () => current().start(),
    flush: () => current().flush(),
    tell: (command, ...words) => current().tell(command, ...words),
    async stop() {
      await Promise.all(both.map((redis) => redis.stop()))
      await forwarder[Symbol.asyncDispose]()
    },
  }
}

const queueDoesNot = /^The queue does not work/
const postgresDoesNot = /^Postgres does not work/
const serviceDoesNot = /^The assignment service of the upstream does not work/

export function redisFaults(redis: MovingRedis): readonly PartFault[] {
  const sentence = queueDoesNot
  const pauseQueues = async () => {
    const [key = ''] = (await redis.tell('KEYS', '*:tidemark-polls:meta')) as string[]
    const [prefix = ''] = key.split(':')
    const connection = new Redis(redis.current().url, { maxRetriesPerRequest: null })
    for (const name of ['tidemark-polls', 'tidemark-loads'])
      await new Queue(name, { connection, prefix }).pause()
    connection.disconnect()
  }
  return [
    {
      ...{ name: 'redis becomes a replica', sentence },
      begin: redis.demote,
      // The old one stays a replica: a worker that keeps its connection to it can write nothing.
      end: async () => redis.follow(),
    },
    {
      ...{ name: 'redis takes away the right to evalsha', sentence },
      begin: () => redis.tell('ACL', 'SETUSER', 'app', '-evalsha', '-eval'),
      end: () => redis.tell('ACL', 'SETUSER', 'app', '+@all'),
    },
    {
      ...{ name: 'the queue is paused', sentence, healsItself: true },
      begin: pauseQueues,
      end: async () => {},
    },
    {
      ...{ name: 'redis is away', sentence },
      begin: () => redis.current().stop(),
      end: () => redis.current().start(),
    },
  ]
}

export function postgresFaults(postgres: PostgresWorld, disk: SmallDisk | null): readonly PartFault[] {
  const sentence = postgresDoesNot
  const faults: PartFault[] = [
    { ...{ name: 'postgres is away', sentence }, begin: postgres.stop, end: postgres.start },
    {
      ...{ name: 'postgres is read-only', sentence },
      async begin() {
        await postgres.stop()
        writeFileSync(join(postgres.data, 'standby.signal'), '')
        await postgres.start()
      },
      end: () => postgres.control('promote'),
    },
  ]
  if (disk)
    faults.push({
      ...{ name: 'the disk of postgres is full', sentence },
      begin: async () => disk.fill(),
      async end() {
        disk.makeRoom()
        await postgres.control('status').catch(() => postgres.start())
      },
    })
  return faults
}

export function upstreamFaults({ faults }: Simulator): readonly PartFault[] {
  let take = () => {}
  return [
    {
      ...{ name: 'the upstream is down', sentence: serviceDoesNot, staysReady: true },
      async begin() {
        take = faults.add({ kind: 503, path: '/api/' })
      },
      end: async () => take(),
    },
  ]
}
