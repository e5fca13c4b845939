// `tidemark serve` as a process that is killed in the middle of a run, and the one that comes after it. Most of it is waiting until
// the queue gives up the dead worker's job.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { isForChanges, untilAsked } from '../support/asked.ts'
import { positionOf } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { listening, startTidemark, statusOf } from '../support/program.ts'
import { differences } from '../support/same-as-source.ts'

const inTime = { timeout: 60_000, interval: 250 }
const secret = 'a-webhook-secret-of-the-tests'

describe.skipIf(!hasPostgres)('tidemark serve', () => {
  const database = createTestDatabase()
  it('drains on SIGTERM and ends with 0; what a kill -9 left open is taken up again (P8)', async () => {
    await using simulator = await startSimulator({ assignments: 3_000, notes: 100, trackers: 5, objects: 5 })
    const highest = simulator.source.highestVersion('assignment') ?? 0n
    const environment = environmentFor(simulator, database, {
      ...{ HTTP_PORT: '0', LOG_LEVEL: 'info', WEBHOOK_SECRET: secret, PAGE_SIZE: '50' },
    })
    const isKilled = Promise.withResolvers<void>()
    const asked = untilAsked(simulator, 20)
    let pages = 0
    const stopHolding = simulator.onRequest((request) =>
      isForChanges(request) && ++pages > 20 ? isKilled.promise : undefined,
    )
    const killed = startTidemark(['serve'], environment)
    await asked
    killed.child.kill('SIGKILL')
    await killed.ended
    stopHolding()
    isKilled.resolve()
    expect(await positionOf(database.pool)).toBeLessThan(highest)

    const program = startTidemark(['serve'], environment)
    const url = await listening(program)
    await expect.poll(() => statusOf(`${url}/readyz`), inTime).toBe(200)
    await expect.poll(() => positionOf(database.pool), inTime).toBe(highest)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    const startedMs = performance.now()
    program.child.kill('SIGTERM')
    const { code, stderr } = await program.ended
    expect([code, performance.now() - startedMs < 30_000]).toEqual([0, true])
    expect(stderr).not.toContain(secret)
    expect(stderr).not.toContain('nhandled')
  })
})
