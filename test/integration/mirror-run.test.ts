// A run of the mirror against a real Postgres: what it writes, and what it leaves behind.

import { describe, expect, it } from 'vitest'
import { openMirror } from '../../src/mirror/mirror.ts'
import { readRecords } from '../../src/record.ts'
import { streams } from '../../src/streams.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'

describe.skipIf(!hasPostgres)('a run', () => {
  const database = createTestDatabase()

  it('writes rows and the position together (P1)', async () => {
    const mirror = openMirror({ database, streams, sourceTimezone: 'UTC', log: quietLog })
    const run = await mirror.startRun('assignment', 'head')
    if ('busy' in run) throw new Error(run.busy)
    const page = readRecords(
      [{ AssignmentId: 1, RowVersion: 5, Name: 'x', At: '2024-01-01T00:00:00.1234567Z', N: 1.5 }],
      ['AssignmentId'],
      ['RowVersion'],
    )
    const written = await run.write(page, 5n)
    expect(written).toMatchObject({ inserted: 1, updated: 0, unchanged: 0 })
    expect(await run.write(page, 5n)).toMatchObject({ inserted: 0, updated: 0, unchanged: 1 })
    await run.finish({ status: 'done', error: null, note: null, requests: 1, bytes: 10 })
  })
})
