// A queue that answers and whose jobs nobody takes: noticed by what goes through it, repaired where that can be done, and told.

import { randomUUID } from 'node:crypto'
import { PassThrough } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { openLog } from '../../src/log.ts'
import { watchQueue } from '../../src/worker/queue/canary.ts'
import { openDriver, placed, Queue } from '../../src/worker/queue/driver.ts'
import { type Jobs, startJobs } from '../../src/worker/queue/jobs.ts'
import { nameInDriver } from '../../src/worker/queue/requests.ts'
import { createTestDatabase, quietLog, type TestDatabase } from '../support/database.ts'
import { plannedBy } from '../support/planned.ts'
import { hasBackend, redisUrlOf } from '../support/queues.ts'

const canaries = { everyMs: 100, rhythmMs: 1_000 }
const inTime = { timeout: 15_000, interval: 50 }

/** Jobs whose runs are kept, and what was seen of their queue. */
async function startWatched(
  database: Pick<TestDatabase, 'connection' | 'address' | 'cluster'>,
  redisUrl: string | null,
  everyMs = 300,
  rhythms = canaries,
) {
  const stream = new PassThrough()
  const logged: string[] = []
  stream.on('data', (line) => logged.push(String(line)))
  const seen: { workedMs: number; failures: unknown[] } = { workedMs: 0, failures: [] }
  const runs: string[] = []
  const jobs: Jobs = await startJobs({
    queue: await openDriver({ redisUrl, database, log: quietLog }),
    ...plannedBy([{ stream: 'assignment', kind: 'incremental', schedule: { everyMs } }]),
    async run({ stream, kind }) {
      runs.push(stream)
      return {
        ...{
          stream,
          kind,
          status: 'done',
          runId: '1',
          note: null,
          error: null,
          isComplete: true,
          yielded: false,
        },
        tally: { inserted: 0, updated: 0, unchanged: 0, rescued: 0, quarantined: 0, requests: 1, bytes: 0 },
      }
    },
    failureScope: () => null,
    serviceOf: () => 'assignment',
    onOutcome: () => {},
    onWork(agoMs) {
      seen.workedMs = performance.now() - agoMs
    },
    onFailure: (error) => void seen.failures.push(error),
    canaries: rhythms,
    log: openLog({ level: 'info', stream }),
  })
  const hasWorkedSince = (ms: number) => () => seen.workedMs > ms
  return { jobs, seen, runs, logged, hasWorkedSince }
}

describe('a worker that stops while tables of the queue are made', () => {
  it('begins to take no more jobs', async () => {
    const missing = Object.assign(new Error('relation "jobs" does not exist'), { code: '42P01' })
    const { promise: made, resolve: make } = Promise.withResolvers<void>()
    const calls: string[] = []
    const call = (name: string) => () => void calls.push(name)
    const queue = {
      add: call('add'),
      getJob: call('getJob'),
      isPaused: async () => false,
      resume: call('resume'),
    }
    const watch = watchQueue({
      consumers: [
        {
          ...{
            name: 'runs',
            tookMs: () => null,
            isFull: () => false,
            leave: call('leave'),
            begin: call('begin'),
          },
          queue: queue as never,
        },
      ],
      ping: () => Promise.reject(missing),
      keep: async () => true,
      prepare: () => made,
      onWork: call('worked'),
      onFailure: call('failed'),
      log: quietLog,
    })
    await expect.poll(() => calls).toEqual(['failed', 'leave'])
    watch.close()
    make()
    await wait(50)
    expect(calls).toEqual(['failed', 'leave'])
  })
})

describe.skipIf(!hasBackend('postgres'))('a queue in Postgres', () => {
  const database = createTestDatabase()

  it('whose schema was dropped is made anew, with its plan', async () => {
    const { jobs, seen, runs, logged, hasWorkedSince } = await startWatched(database, null)
    try {
      await expect.poll(hasWorkedSince(0), inTime).toBe(true)
      await expect.poll(() => runs.length, inTime).toBeGreaterThan(1)
      // The queue locks the same tables, in an order of its own.
      const isDropped = () =>
        database.pool.query('drop schema if exists bullmq cascade').then(Boolean, () => false)
      await expect.poll(isDropped, inTime).toBe(true)
      const droppedMs = performance.now()
      await expect.poll(() => seen.failures.length, inTime).toBeGreaterThan(0)
      await expect.poll(hasWorkedSince(droppedMs), inTime).toBe(true)
      const before = runs.length
      await expect.poll(() => runs.length, inTime).toBeGreaterThan(before + 1)
      expect(logged.join('')).toContain('Tidemark has made them anew')
    } finally {
      await jobs.stop()
    }
  })
})

describe.skipIf(!hasBackend('redis'))('a queue in Redis', () => {
  const mirror = () => ({ connection: {}, address: randomUUID(), cluster: null })

  it('that was paused there is resumed, and the log says so', async () => {
    const database = mirror()
    const { jobs, runs, logged, hasWorkedSince } = await startWatched(database, redisUrlOf('redis'))
    const other = await openDriver({ redisUrl: redisUrlOf('redis'), database, log: quietLog })
    const queue = new Queue(nameInDriver('polls'), placed(other.driver))
    try {
      await expect.poll(hasWorkedSince(0), inTime).toBe(true)
      await queue.pause()
      const [pausedMs, before] = [performance.now() + 100, runs.length]
      await expect.poll(hasWorkedSince(pausedMs), inTime).toBe(true)
      await expect.poll(() => runs.length, inTime).toBeGreaterThan(before + 1)
      expect(logged.join('')).toContain('The queue of polls was paused, by another program')
    } finally {
      await queue.close()
      await other.close()
      await jobs.stop()
    }
  })

  it('whose user lost the right to wait for jobs is down although they can be added, and works again when it has it', async () => {
    const admin = new Redis(redisUrlOf('redis') ?? '')
    const name = `tidemark_test_${randomUUID()}`
    const allow = (...rules: string[]) => admin.call('ACL', 'SETUSER', name, ...rules)
    await allow('on', '>sesame', '~*', '&*', '+@all')
    const url = new URL(redisUrlOf('redis') ?? '')
    Object.assign(url, { username: name, password: 'sesame' })
    const { jobs, seen, logged, hasWorkedSince } = await startWatched(mirror(), url.href, 60_000)
    try {
      await expect.poll(hasWorkedSince(0), inTime).toBe(true)
      await allow('-bzpopmin')
      await expect.poll(() => String(seen.failures), inTime).toContain('no worker has taken one for')
      expect(String(seen.failures)).toContain('bzpopmin')
      await expect
        .poll(() => logged.join(''), inTime)
        .toContain('Tidemark has made the consumer of this queue anew')
      await allow('+bzpopmin')
      const allowedMs = performance.now()
      await expect.poll(hasWorkedSince(allowedMs), inTime).toBe(true)
    } finally {
      await jobs.stop()
      await admin.call('ACL', 'DELUSER', name)
      admin.disconnect()
    }
  })

  it('of which one worker takes nothing while another does is down for that worker, and works again when it takes', async () => {
    const admin = new Redis(redisUrlOf('redis') ?? '')
    const name = `tidemark_test_${randomUUID()}`
    const allow = (...rules: string[]) => admin.call('ACL', 'SETUSER', name, ...rules)
    await allow('on', '>sesame', '~*', '&*', '+@all')
    const url = new URL(redisUrlOf('redis') ?? '')
    Object.assign(url, { username: name, password: 'sesame' })
    const [database, quick] = [mirror(), { everyMs: 50, rhythmMs: 200 }]
    const other = await startWatched(database, redisUrlOf('redis'), 60_000)
    const { jobs, seen, logged, hasWorkedSince } = await startWatched(database, url.href, 60_000, quick)
    try {
      await expect.poll(hasWorkedSince(0), inTime).toBe(true)
      await allow('-bzpopmin')
      const passedOver = 'Other workers take jobs from the queue of'
      await expect.poll(() => String(seen.failures), inTime).toContain(passedOver)
      await expect
        .poll(() => logged.join(''), inTime)
        .toMatch(/Other workers take jobs.*made the consumer of this queue anew/)
      await allow('+bzpopmin')
      const allowedMs = performance.now()
      await expect.poll(hasWorkedSince(allowedMs), inTime).toBe(true)
      expect(other.seen.failures).toEqual([])
    } finally {
      await Promise.all([jobs.stop(), other.jobs.stop()])
      await admin.call('ACL', 'DELUSER', name)
      admin.disconnect()
    }
  })

  it('whose user lost the right to run scripts is down, says which right, and works again when it has it', async () => {
    const admin = new Redis(redisUrlOf('redis') ?? '')
    const name = `tidemark_test_${randomUUID()}`
    const allow = (...rules: string[]) => admin.call('ACL', 'SETUSER', name, ...rules)
    await allow('on', '>sesame', '~*', '&*', '+@all')
    const url = new URL(redisUrlOf('redis') ?? '')
    Object.assign(url, { username: name, password: 'sesame' })
    const { jobs, seen, runs, hasWorkedSince } = await startWatched(mirror(), url.href)
    try {
      await expect.poll(hasWorkedSince(0), inTime).toBe(true)
      await allow('-evalsha', '-eval')
      await expect.poll(() => String(seen.failures), inTime).toContain('NOPERM')
      expect(String(seen.failures)).toContain('evalsha')
      await allow('+evalsha', '+eval')
      const allowedMs = performance.now()
      await expect.poll(hasWorkedSince(allowedMs), inTime).toBe(true)
      const before = runs.length
      // A plan that was under way when the right was lost is held until its lock has run out.
      await expect.poll(() => runs.length, { ...inTime, timeout: 30_000 }).toBeGreaterThan(before + 1)
    } finally {
      await jobs.stop()
      await admin.call('ACL', 'DELUSER', name)
      admin.disconnect()
    }
  })
})
