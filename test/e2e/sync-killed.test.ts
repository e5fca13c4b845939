// The real program, killed again and again: when the upstream hears a request, and when Postgres is told a statement. The mirror
// ends equal to the source, row by row, value by value (P1, P8).

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { untilAsked } from '../support/asked.ts'
import { positionOf } from '../support/context.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark, startTidemark } from '../support/program.ts'
import { seededRandom } from '../support/random.ts'
import { differences } from '../support/same-as-source.ts'

const words = ['sync', 'assignment']

/** `KILLS=100 npx vitest run test/e2e/sync-killed.test.ts` does it longer. */
const kills = Number(process.env.KILLS ?? 25)

describe.skipIf(!hasPostgres)(`a sync that is killed ${kills} times`, () => {
  const database = createTestDatabase()
  it('ends equal to the source, and repeats nothing that was committed (P1, P8)', {
    timeout: 60_000 + 10_000 * kills,
  }, async () => {
    const random = seededRandom(20_261_120)
    await using simulator = await startSimulator({ assignments: 2_000 * kills })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '500', LOAD_CONNECTIONS: '1' })
    const killAtRequest = async () => {
      const asked = untilAsked(simulator, 1 + random.integer(12))
      const program = startTidemark(words, environment)
      await Promise.race([asked, program.ended])
      program.child.kill('SIGKILL')
      return await program.ended
    }
    const killAtStatement = async () => {
      const cut = { after: random.integer(120), isHeard: random.chance(0.5) }
      const proxy = await startCuttingProxy(database.url, cut, () => program.child.kill('SIGKILL'))
      const program = startTidemark(words, { ...environment, DATABASE_URL: proxy.url })
      const ended = await program.ended
      await proxy.close()
      return ended
    }
    let position = 0n
    for (let kill = 0; kill < kills; kill++) {
      const ended = await (kill % 2 === 0 ? killAtRequest() : killAtStatement())
      expect(ended.code, ended.stderr).toBe(null)
      const reached = await positionOf(database.pool)
      expect(reached).toBeGreaterThanOrEqual(position)
      position = reached
    }
    const highest = simulator.source.highestVersion('assignment')
    expect(position).toBeGreaterThan(0n)
    expect(position).toBeLessThan(highest ?? 0n)
    const last = await runTidemark([...words, '--json'], environment)
    expect(last.code, last.stderr).toBe(0)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    expect(await positionOf(database.pool)).toBe(highest)
    const { rows } = await database.pool.query(
      `select count(*)::int as left_running from tidemark.run where status = 'running'`,
    )
    expect(rows[0].left_running).toBe(0)
  })
})

/** What each step of a page says to Postgres. */
const steps = {
  'rows are copied straight into their table': 'with (format binary)',
  'rows are compared with the table': 'tidemark_probe',
  'rows are merged': 'tidemark_merge',
  'the position is moved': 'tidemark_advance',
  'a page is committed': 'commit',
}

describe.skipIf(!hasPostgres).each(Object.entries(steps))('a sync that is killed when %s', (_step, mark) => {
  const database = createTestDatabase()
  it('loses nothing: neither of a first reading, nor of changes, nor of what was read before (P1, P2, P8)', {
    timeout: 240_000,
  }, async () => {
    const random = seededRandom(20_261_122)
    await using simulator = await startSimulator({ assignments: 6_000 })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '300' })
    const killAt = async (kind: readonly string[], after: number, isHeard: boolean) => {
      const cut = { after, isHeard, mark }
      const proxy = await startCuttingProxy(database.url, cut, () => program.child.kill('SIGKILL'))
      const program = startTidemark([...words, ...kind], { ...environment, DATABASE_URL: proxy.url })
      await program.ended
      const hasCut = proxy.hasCut()
      await proxy.close()
      return hasCut
    }
    let cuts = 0
    let position = 0n
    for (const kind of [[], ['--kind', 'lookback'], []]) {
      for (const isHeard of [true, false]) {
        cuts += Number(await killAt(kind, random.integer(3), isHeard))
        const reached = await positionOf(database.pool)
        expect(reached).toBeGreaterThanOrEqual(position)
        position = reached
      }
      simulator.source.bulkUpdate(
        'assignment',
        Array.from({ length: 400 }, () => 1 + random.integer(6_000)),
      )
    }
    expect(cuts).toBeGreaterThan(2)
    const last = await runTidemark([...words, '--json'], environment)
    expect(last.code, last.stderr).toBe(0)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    expect(await positionOf(database.pool)).toBe(simulator.source.highestVersion('assignment'))
  })
})
