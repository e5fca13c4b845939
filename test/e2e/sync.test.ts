// The real program against the stand-in and a real Postgres: killed at random moments, started twice, told to stop, and with
// an upstream that fails in every way it can. The mirror ends equal to the source, row by row, value by value (P1, P6, P8).

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { mildMix } from '../../src/simulator/fault-text.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark, startTidemark } from '../support/program.ts'
import { seededRandom } from '../support/random.ts'
import { differences } from '../support/same-as-source.ts'
import { positionOf } from '../support/workplace.ts'

type Asked = { readonly path: string }
const isForChanges = ({ path }: Asked): boolean => path.includes('neworchanged')

/** Resolves when the changes have been asked for that often. */
function untilAsked(simulator: Simulator, times: number): Promise<void> {
  return new Promise((resolve) => {
    let asked = 0
    const stop = simulator.onRequest((request) => {
      if (!isForChanges(request) || ++asked < times) return
      stop()
      resolve()
    })
  })
}

describe.skipIf(!hasPostgres)('a sync that is killed 25 times', () => {
  const database = createTestDatabase()
  it('ends equal to the source, and repeats nothing that was committed (P1, P8)', {
    timeout: 180_000,
  }, async () => {
    const random = seededRandom(20_261_120)
    await using simulator = await startSimulator({ assignments: 50_000 })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '500' })
    let position = 0n
    for (let kill = 0; kill < 25; kill++) {
      const asked = untilAsked(simulator, 1 + random.integer(6))
      const program = startTidemark(['sync', 'assignment'], environment)
      await Promise.race([asked.then(() => wait(random.integer(40))), program.ended])
      program.child.kill('SIGKILL')
      await program.ended
      const reached = await positionOf(database.pool)
      expect(reached).toBeGreaterThanOrEqual(position)
      position = reached
    }
    const last = await runTidemark(['sync', 'assignment', '--json'], environment)
    expect(last.code, last.stderr).toBe(0)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    expect(await positionOf(database.pool)).toBe(simulator.source.highestVersion('assignment'))
    const { rows } = await database.pool.query(
      `select count(*)::int as left_running from tidemark.run where status = 'running'`,
    )
    expect(rows[0].left_running).toBe(0)
  })
})

describe.skipIf(!hasPostgres)('a sync that is started twice', () => {
  const database = createTestDatabase()
  it('runs once; the other says who is running (P2)', async () => {
    await using simulator = await startSimulator({ assignments: 3000, notes: 10 })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '100' })
    const asked = untilAsked(simulator, 1)
    const isOver = Promise.withResolvers<void>()
    const stopWaiting = simulator.onRequest((request) => (isForChanges(request) ? isOver.promise : undefined))
    const first = startTidemark(['sync', 'assignment'], environment)
    await asked
    const second = await runTidemark(['sync', 'assignment'], environment)
    expect(second.code).toBe(0)
    expect(second.stdout).toMatch(new RegExp(`^assignment: skipped, process ${first.child.pid} on `))
    stopWaiting()
    isOver.resolve()
    expect((await first.ended).code).toBe(0)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
  })
})

describe.skipIf(!hasPostgres)('a sync that is told to stop', () => {
  const database = createTestDatabase()
  it('commits the page in hand and ends well', async () => {
    await using simulator = await startSimulator({ assignments: 3000 })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '100' })
    const asked = untilAsked(simulator, 8)
    const program = startTidemark(['sync', 'assignment'], environment)
    await asked
    const toldAt = performance.now()
    program.child.kill('SIGTERM')
    const { code, stdout } = await program.ended
    expect(code).toBe(0)
    expect(stdout).toContain('assignment: stopped')
    expect(performance.now() - toldAt).toBeLessThan(10_000)
    const position = await positionOf(database.pool)
    expect(position).toBeGreaterThan(0n)
    expect(position).toBeLessThan(simulator.source.highestVersion('assignment') ?? 0n)
    expect((await runTidemark(['sync', 'assignment'], environment)).code).toBe(0)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
  })
})

describe.skipIf(!hasPostgres)('a sync', () => {
  const database = createTestDatabase()

  it('says in one line what is wrong with what it was told', async () => {
    await using simulator = await startSimulator()
    const environment = environmentFor(simulator, database)
    for (const [words, more, code, message] of [
      [['asignment'], {}, 2, /^There is no stream "asignment"; did you mean assignment\?[^\n]*\n$/],
      [['--lane', 'tail'], {}, 2, /^There is no lane "tail"[^\n]*\n$/],
      [['--lan', 'head'], {}, 2, /did you mean --lane\?\n$/],
      [
        [],
        { DATABASE_URL: 'postgres://nobody:pw@127.0.0.1:1/none' },
        2,
        /^Postgres at 127\.0\.0\.1:1\/none[^\n]*DATABASE_URL[^\n]*\n$/,
      ],
    ] as const) {
      const ended = await runTidemark(['sync', ...words], { ...environment, ...more })
      expect(ended.stderr).toMatch(message)
      expect(ended.code).toBe(code)
    }
  })
})

describe.skipIf(!hasPostgres)('a sync from an upstream that is down', () => {
  const database = createTestDatabase()
  it('fails with exit 1 where it was, and goes on the next time', { timeout: 120_000 }, async () => {
    await using simulator = await startSimulator({ assignments: 3000 })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '1000', REQUEST_TIMEOUT: '1s' })
    simulator.faults.add({ kind: 400, path: 'neworchanged', while: ({ path }) => !path.endsWith('/0') })
    const failed = await runTidemark(['sync', 'assignment'], environment)
    expect(failed.code).toBe(1)
    expect(failed.stdout).toMatch(/^assignment: failed: .*400/)
    const position = await positionOf(database.pool)
    simulator.faults.clear()
    const next = await runTidemark(['sync', 'assignment', '--json'], environment)
    expect(next.code, next.stderr).toBe(0)
    expect(await positionOf(database.pool)).toBeGreaterThan(position)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
  })
})

describe.skipIf(!hasPostgres)('a sync from an upstream with every fault', () => {
  const database = createTestDatabase()
  it('ends equal to it once it has recovered (P6, P8)', { timeout: 180_000 }, async () => {
    await using simulator = await startSimulator({ assignments: 8000, faults: mildMix })
    const random = seededRandom(4)
    const stopChanging = simulator.onRequest(() => {
      simulator.source.change('assignment', 1 + random.integer(8000))
      simulator.source.insert('assignment')
    })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '250', REQUEST_TIMEOUT: '2s' })
    for (let round = 0; round < 4; round++) {
      const { code, stderr } = await runTidemark(['sync', 'assignment'], environment)
      expect([0, 1], stderr).toContain(code)
    }
    expect(simulator.faults.struck).toBeGreaterThan(0)
    simulator.faults.clear()
    stopChanging()
    for (const lane of ['head', 'head', 'trailing'])
      expect((await runTidemark(['sync', 'assignment', '--lane', lane], environment)).code).toBe(0)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
  })
})
