// No secret leaves the program, at any log level, when all goes well and when everything fails (P9).

import { describe, expect, it } from 'vitest'
import type { Fault } from '../../src/simulator/faults.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, databaseOf, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark } from '../support/program.ts'

const apiKey = 'canary-key/with "odd" characters&more'
const databasePassword = 'canary-password'

describe.skipIf(!hasPostgres)('what the program prints', () => {
  const database = createTestDatabase()

  const tokensOf = (simulator: Simulator): string[] =>
    simulator.requests.entries.flatMap(({ headers }) => {
      const token = /^Bearer (.+)$/.exec(String(headers.authorization ?? ''))?.[1]
      return token ? [token] : []
    })

  it('holds no key, token or password', { timeout: 120_000 }, async (test) => {
    await using simulator = await startSimulator({ assignments: 50, trackers: 3, credentials: { apiKey } })
    simulator.requests.start()
    const talkative = { LOG_LEVEL: 'trace', REQUEST_TIMEOUT: '500ms' }
    const good = environmentFor(simulator, database, talkative)
    const broken = new URL(database.url)
    broken.password = databasePassword
    broken.port = '1'
    const printed: string[] = []
    const run = async (
      words: readonly string[],
      environment: Readonly<Record<string, string | undefined>>,
    ) => {
      const { stdout, stderr } = await runTidemark(words, environment)
      printed.push(stdout, stderr)
    }
    const tokens: string[] = []
    /** Against an upstream and a mirror of its own, so that it need not wait for the others. */
    const runWith = async (kind: Fault['kind']) => {
      await using faulty = await startSimulator({ assignments: 50, credentials: { apiKey } })
      faulty.requests.start()
      faulty.faults.add({ kind, path: 'api' })
      await run(['sync', 'assignment'], environmentFor(faulty, await databaseOf(test), talkative))
      tokens.push(...tokensOf(faulty))
    }
    await run(['sync'], good)
    await Promise.all([
      run(['sync', '--json'], { ...good, API_KEY: `${apiKey} that is wrong` }),
      run(['sync'], { ...good, DATABASE_URL: broken.href }),
      run(['sync'], { ...good, DATABASE_URL: `${broken.href}?sslmode=nonsense` }),
      run(['sync'], {
        ...good,
        PAGE_SIZE: 'many',
        ALERT_WEBHOOK_URL: 'ftp://canary.example/canary',
        REDIS_URL: `redis://:${databasePassword}@127.0.0.1:1`,
      }),
      run(['api', 'GET', '/api/Assignment/Id/1'], good),
      ...(['html', 'truncated', 'reset', 403] as const).map(runWith),
    ])
    tokens.push(...tokensOf(simulator))
    expect(tokens.length).toBeGreaterThan(0)
    const everything = printed.join('\n')
    expect(everything.length).toBeGreaterThan(500)
    for (const secret of [
      apiKey,
      'canary',
      databasePassword,
      ...tokens,
      ...tokens.map((token) => token.slice(0, 20)),
    ])
      expect(everything.includes(secret), `printed a secret that begins ${secret.slice(0, 4)}`).toBe(false)
  })
})
