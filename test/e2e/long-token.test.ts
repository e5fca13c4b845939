// A token that is too long stands nowhere in clear: not in the log, not in what runs left, not in what an operator sees (P9).

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { startServer } from '../support/client.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runHere } from '../support/verbs.ts'

describe.skipIf(!hasPostgres)('an identity provider that hands out a token of 60 kB', () => {
  const database = createTestDatabase()

  it('is refused in words that do not show the token (P9)', { timeout: 120_000 }, async () => {
    await using simulator = await startSimulator({ assignments: 3 })
    const token = `t0ken.${'Ab3_'.repeat(15_000)}`
    await using provider = await startServer(
      () => {},
      (_, response) => response.end(JSON.stringify({ access_token: token })),
    )
    const environment = environmentFor(simulator, database, {
      AUTH_URL: `${provider.url}/auth`,
      LOG_LEVEL: 'trace',
    })
    const sync = await runHere(['sync', 'assignment'], environment)
    expect([sync.code, sync.stdout + sync.stderr]).toEqual([3, expect.stringContaining('more than 8 kB')])
    const status = await runHere(['status', '--json'], environment)
    const { rows } = await database.pool.query(`select row_to_json(run)::text as run from tidemark.run`)
    expect(rows.map(({ run }) => run).join()).toContain('a token of more than 8 kB')
    const everything = JSON.stringify([sync, status, rows])
    expect(everything).not.toMatch(/t0ken|Ab3_/)
  })
})
