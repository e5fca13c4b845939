// What the upstream says of itself is believed stream by stream, for each source when it is opened: what is known of others is not read for that.

import type { Pool } from 'pg'
import { describe, expect, it } from 'vitest'
import { believeDescriptions } from '../../src/openapi/descriptions.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

describe.skipIf(!hasPostgres)('the belief about a description', () => {
  const database = createTestDatabase()

  it('asks for what is known of its own streams, however many others there are (P19)', async () => {
    await database.pool.query(
      `insert into tidemark.belief (stream, name, value, evidence, first_at, tested_at)
       select format('s%s.assignment', number), 'contract', 'as described', 'it said so', now(), now() from generate_series(1, 300) as number`,
    )
    let rows = 0
    const counting = new Proxy(database.pool, {
      get: (pool, name: keyof Pool) =>
        name === 'query'
          ? async (...asked: Parameters<Pool['query']>) => {
              const found = (await pool.query(...asked)) as unknown as { rows: unknown[] }
              rows += found.rows.length
              return found
            }
          : pool[name],
    })
    await believeDescriptions(counting, [], new Map(), [streamOf('assignment')])
    expect(rows).toBeLessThan(10)
  })
})
