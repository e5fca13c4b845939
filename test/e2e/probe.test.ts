// What the probe says about a sound installation, and about what can be wrong with one.

import { describe, expect, it } from 'vitest'
import type { BeliefReport } from '../../src/cli/probe-beliefs.ts'
import type { Environment } from '../../src/config/load.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runHere } from '../support/verbs.ts'

type Told = { name: string; fine: boolean; says: string }

async function probe(environment: Environment) {
  const { code, stdout } = await runHere(['probe', '--json'], environment)
  const { checks, beliefs }: { checks: Told[]; beliefs: BeliefReport[] } = JSON.parse(stdout)
  const of = (name: string) => checks.find((check) => check.name === name)
  return { code, wrong: checks.filter(({ fine }) => !fine), of, beliefs }
}

describe.skipIf(!hasPostgres)('the probe', () => {
  const database = createTestDatabase({ isMigrated: false })

  it('finds nothing wrong with what is right, tells what the upstream is like, and writes nothing', async () => {
    await using simulator = await startSimulator({
      assignments: 300,
      trackers: 3,
      behaviour: { pageCap: 50, inclusive: true, order: 'id' },
    })
    simulator.requests.start()
    const { code, wrong, of, beliefs } = await probe(environmentFor(simulator, database))
    expect(wrong).toEqual([])
    expect(code).toBe(0)
    expect(of('sign-in assignment')?.says).toContain('a token')
    expect(of('stream assignment')?.says).toMatch(
      /^readable, answered in \d+ ms$|^readable, answered in [\d.]+ s$/,
    )
    expect(of('stream assignment_note')?.says).toContain('it has no records, or CLIENT_GUID is not yours')
    expect(of('clock assignment')?.says).toContain('agrees')
    expect(of('assignment sorting')?.says).toMatch(
      /^holds: neworchanged sorts by row version .* ascending from/,
    )
    const verdicts = new Map(beliefs.map(({ name, verdict }) => [name, verdict]))
    expect(verdicts.get('key_order')).toBe('holds')
    expect(verdicts.get('versions_rise')).toBe('could not be told')
    expect(beliefs.every(({ claim, evidence }) => claim !== '' && evidence !== '')).toBe(true)
    expect(of('assignment inclusive')?.says).toMatch(
      /^>=: neworchanged\/\{v\} returns version v itself and all above it\. Neworchanged\/(\d+) showed version \1\./,
    )
    expect(of('assignment order')?.says).toContain('by key')
    expect(of('assignment cap')?.says).toBe('pages hold 50 records at most')
    expect(of('assignment time zone')?.says).toContain('date-times')
    const { rows } = await database.pool.query(
      `select nspname from pg_namespace where nspname in ('tidemark', 'mirror', 'bi')`,
    )
    expect(rows).toEqual([])
    expect(
      simulator.requests.entries.every(({ method, path }) => method === 'GET' || path.includes('Token')),
    ).toBe(true)
  })

  it('says what is wrong, and whose fault it is by its exit status', async () => {
    await using simulator = await startSimulator({ assignments: 3 })
    const right = environmentFor(simulator, database)
    const [noConfig, badKey, noHost, badDatabase] = await Promise.all([
      probe({ ...right, CLIENT_GUID: 'x', API_KEY: '' }),
      probe({ ...right, API_KEY: 'another-key-of-nobody' }),
      probe({ ...right, ASSIGNMENT_BASE_URL: 'http://127.0.0.1:9', TRACKING_BASE_URL: '' }),
      probe({ ...right, DATABASE_URL: 'postgres://nobody:secret-of-mine@127.0.0.1:9/nothing' }),
    ])
    expect(noConfig).toMatchObject({ code: 2 })
    expect(noConfig.wrong.map(({ says }) => says.split(' ')[0]).sort()).toEqual(['API_KEY', 'CLIENT_GUID'])
    expect(badKey).toMatchObject({ code: 3 })
    expect(badKey.of('sign-in assignment')).toMatchObject({ fine: false })
    expect(noHost).toMatchObject({ code: 3 })
    expect(noHost.wrong.map(({ name }) => name)).toEqual(['tcp 127.0.0.1:9'])
    expect(badDatabase).toMatchObject({ code: 4 })
    expect(badDatabase.of('postgres')).toMatchObject({ fine: false })
    expect(JSON.stringify(badDatabase)).not.toContain('secret-of-mine')
  })

  it('tests what runs rely on against the rows that are stored, and says what it means when it falls', async () => {
    await using simulator = await startSimulator({ assignments: 300, trackers: 3 })
    const environment = environmentFor(simulator, database)
    expect((await runHere(['sync', 'assignment'], environment)).code).toBe(0)
    simulator.behaviour.sorts = 'ignored'
    simulator.behaviour.order = 'id'
    simulator.source.bulkUpdate('assignment')
    await database.pool.query(
      'update mirror.assignment set row_version = row_version + 100000 where assignment_id = 7',
    )
    const { code, beliefs } = await probe(environment)
    expect(code).toBe(0)
    const of = (name: string) => beliefs.find((one) => one.stream === 'assignment' && one.name === name)
    expect(of('sorting')).toMatchObject({
      verdict: 'does not hold',
      value: 'ignored',
      recorded: { value: 'proven' },
      means: expect.stringContaining('in repeated passes'),
    })
    expect(of('tables_untouched')).toMatchObject({ verdict: 'does not hold', recorded: { value: 'yes' } })
    expect(of('versions_rise')).toMatchObject({
      verdict: 'does not hold',
      evidence: expect.stringContaining('record 7'),
    })
    expect(of('ranks')).toMatchObject({ verdict: 'could not be told', testedAt: null })
    const { rows } = await database.pool.query(`select value from tidemark.belief where name = 'sorting'`)
    // The next run relies on what was seen now.
    expect(rows).toEqual([{ value: 'ignored' }])
  })
})
