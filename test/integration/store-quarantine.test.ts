// Records that cannot be rows, as the mirror keeps them.

import { describe, expect, it } from 'vitest'
import { hasPostgres } from '../support/database.ts'
import { createGrowingTable } from '../support/growing-table.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'

describe.skipIf(!hasPostgres)('a page', () => {
  const { database, query, write } = createGrowingTable()

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

  const leftOutBy = {
    'a trigger that drops new rows': `create trigger odd before insert on mirror.assignment for each row when (new.amount >= 500) execute function leave_out()`,
    'a trigger that drops changes': `create trigger odd before update on mirror.assignment for each row when (new.amount >= 500) execute function leave_out()`,
  }
  it.each(Object.entries(leftOutBy))(
    'sends a record to quarantine that %s of somebody left out in silence, and keeps the rest of its page (P1, P5)',
    async (_what, leaves) => {
      await query(
        `create or replace function leave_out() returns trigger language plpgsql as $$ begin return null; end $$`,
      )
      const many = (amountOf: (id: number) => number) =>
        Array.from({ length: 20 }, (_, id) => ({ AssignmentId: id, Amount: amountOf(id) }))
      await write(...many((id) => id))
      await query(leaves)
      const isNew = !leaves.includes('before update')
      const changed = many((id) => (id === 13 ? 500 : id + 1)).map((one) => ({
        ...one,
        AssignmentId: one.AssignmentId + (isNew ? 100 : 0),
      }))
      const written = isNew ? { inserted: 19, updated: 0 } : { inserted: 0, updated: 19 }
      expect(await write(...changed)).toMatchObject({ ...written, quarantined: 1 })
      expect(await query('select reason, record from tidemark.quarantine')).toEqual([
        {
          reason: 'left out by a trigger on mirror.assignment',
          record: expect.objectContaining({ AssignmentId: isNew ? 113 : 13, Amount: 500 }),
        },
      ])
      await query('drop trigger if exists odd on mirror.assignment;')
      expect(await write(...changed)).toMatchObject({ quarantined: 0 })
      expect(
        await query(`select amount from mirror.assignment where assignment_id = ${isNew ? 113 : 13}`),
      ).toEqual([{ amount: '500' }])
    },
  )

  it('of a first load is looked at too: what a trigger leaves out of a COPY goes to quarantine (P1, P5)', async () => {
    await write({ AssignmentId: 0, Amount: 1 })
    await query(`
      create or replace function leave_out() returns trigger language plpgsql as $$ begin return null; end $$;
      create trigger odd before insert on mirror.assignment for each row when (new.amount >= 500) execute function leave_out()`)
    const run = await begin(storeOf(database))
    const pageOf = (first: number) =>
      assignments(
        ...Array.from({ length: 50 }, (_, index) => ({
          AssignmentId: first + index,
          RowVersion: first + index,
          Amount: first + index === 130 ? 500 : 1,
        })),
      )
    const written = []
    for (const first of [1, 51, 101, 151])
      written.push(await run.pages.commit(pageOf(first), BigInt(first + 49)))
    await run.finish(done)
    expect(written.map(({ inserted, quarantined }) => [inserted, quarantined])).toEqual([
      [50, 0],
      [50, 0],
      [49, 1],
      [50, 0],
    ])
    expect(await query('select reason from tidemark.quarantine')).toMatchObject([
      { reason: 'left out by a trigger on mirror.assignment' },
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
