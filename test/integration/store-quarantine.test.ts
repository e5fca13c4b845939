// Records that cannot be rows, as the mirror keeps them.

import { describe, expect, it } from 'vitest'
import { hasPostgres } from '../support/database.ts'
import { createGrowingTable } from '../support/growing-table.ts'

describe.skipIf(!hasPostgres)('a page', () => {
  const { query, write } = createGrowingTable()

  it('sends a record to quarantine that Postgres refuses, and keeps the rest of its page (P5)', async () => {
    await write({ Amount: 1 })
    await query('alter table mirror.assignment add constraint small check (amount < 100)')
    const many = Array.from({ length: 20 }, (_, index) => ({
      AssignmentId: index,
      Amount: index === 13 ? 500 : index,
    }))
    expect(await write(...many)).toMatchObject({ inserted: 18, updated: 1, quarantined: 1 })
    expect(await query('select reason, record from tidemark.quarantine')).toEqual([
      {
        reason: expect.stringContaining('violates check constraint "small"'),
        record: expect.objectContaining({ AssignmentId: 13, Amount: 500 }),
      },
    ])
  })

  it('counts a record once that it quarantines again and again, and keeps it whole (P5, P10)', async () => {
    const junk = { AssignmentId: 'A-17', Text: 'nul \0 and \ud800', Big: JSON.rawJSON('1e400') }
    for (let time = 0; time < 3; time++)
      expect(await write({ ...junk, RowVersion: 1 })).toMatchObject({ quarantined: 1 })
    const [kept, ...others] = await query(
      'select reason, record, record_text, times_seen from tidemark.quarantine',
    )
    expect(others).toEqual([])
    expect(kept).toMatchObject({
      reason: 'the key does not fit column assignment_id (bigint)',
      record: null,
      times_seen: '3',
    })
    expect(JSON.parse(kept.record_text)).toMatchObject({ AssignmentId: 'A-17', Text: 'nul \0 and \ud800' })
    expect(kept.record_text).toContain('1e400')
  })
})
