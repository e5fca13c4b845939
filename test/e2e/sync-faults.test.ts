// The real program against an upstream that is down, and one that fails in every way it can: the mirror ends equal to it (P6, P8).

import { describe, expect, it } from 'vitest'
import { mildMix } from '../../src/simulator/faults.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { positionOf } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark } from '../support/program.ts'
import { seededRandom } from '../support/random.ts'
import { differences } from '../support/same-as-source.ts'

describe.skipIf(!hasPostgres)('a sync from an upstream that is down', () => {
  const database = createTestDatabase()
  it('fails with exit 3 where it was, and goes on the next time', { timeout: 120_000 }, async () => {
    await using simulator = await startSimulator({ assignments: 3000 })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '500', REQUEST_TIMEOUT: '1s' })
    // Down from the first question for what lies behind the first pages.
    let isDown = false
    simulator.faults.add({
      kind: 400,
      path: 'neworchanged',
      while: ({ path }) => {
        isDown ||= Number(path.split('/').at(-1)) > 1500
        return isDown
      },
    })
    const failed = await runTidemark(['sync', 'assignment'], environment)
    expect(failed.code).toBe(3)
    expect(failed.stdout).toMatch(/^assignment: failed\. .*400.*\n {2}Stored before that: [\d,]+ new/)
    const position = await positionOf(database.pool)
    expect(position).toBeGreaterThan(0)
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
      expect([0, 1, 3], stderr).toContain(code)
    }
    expect(simulator.faults.struck).toBeGreaterThan(0)
    simulator.faults.clear()
    stopChanging()
    for (const kind of ['incremental', 'incremental', 'lookback'])
      expect((await runTidemark(['sync', 'assignment', '--kind', kind], environment)).code).toBe(0)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
  })
})
