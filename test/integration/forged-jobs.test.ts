// Jobs in the queue that no Tidemark has put there: whoever can write to a shared Redis can put any. They keep no run from being done.

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type OpenDriver, placed, Queue } from '../../src/worker/queue/driver.ts'
import { planName } from '../../src/worker/queue/planner.ts'
import { nameInDriver } from '../../src/worker/queue/requests.ts'
import { createTestDatabase } from '../support/database.ts'
import { hasBackend, openTestQueue, redisUrlOf } from '../support/queues.ts'
import { startTestWorker, type TestWorker } from '../support/worker.ts'

const forged = [
  ...[null, 'text', {}, { stream: 'assignment' }, { stream: {}, kind: [] }],
  ...['constructor', '__proto__', 'toString', 'no such kind'].map((kind) => ({ stream: 'assignment', kind })),
  { stream: 'constructor', kind: 'incremental' },
]

describe.skipIf(!hasBackend('redis'))('jobs that others put into the queue', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let worker: TestWorker
  let queue: OpenDriver

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 20, notes: 5 })
    const often = { SCHEDULE_ASSIGNMENT: '1s', STREAMS: 'assignment' }
    worker = await startTestWorker(simulator, database, { ...often, REDIS_URL: redisUrlOf('redis') ?? '' })
    await worker.live
    queue = await openTestQueue('redis', database)
  })
  afterAll(async () => {
    await queue?.close()
    await worker?.stop()
    await simulator?.close()
  })

  it('hold up no run, whatever is in them', { timeout: 60_000 }, async () => {
    const runs = new Queue(nameInDriver('polls'), placed(queue.driver))
    for (const [index, data] of forged.entries())
      await runs.add('run', data as never, { removeOnFail: true, jobId: `forged-${index}` })
    await runs.add(planName, {} as never, { removeOnFail: true, jobId: 'forged-plan' })
    const plan = await runs.getJob(planName)
    await plan?.updateData({ throughMs: 'soon', late: { constructor: {} }, database: [] } as never)
    await vi.waitFor(async () => expect((await runs.getJobCounts('waiting')).waiting).toBe(0), {
      timeout: 10_000,
    })
    await runs.close()
    const { live } = worker
    expect((await live).jobs.breaker.outageOf('database')).toBe(null)
    expect((await live).jobs.breaker.waits()).toEqual([])
    simulator.source.change('assignment', 3, { Description: 'after the forged jobs' })
    await vi.waitFor(
      async () => {
        const { rows } = await database.pool.query(
          'select description from mirror.assignment where assignment_id = 3',
        )
        expect(rows).toEqual([{ description: 'after the forged jobs' }])
      },
      { timeout: 10_000, interval: 100 },
    )
  })
})
