// A group of related records that the upstream suddenly shows of no assignment: its records are kept, because that proves nothing.

import { describe, expect, it } from 'vitest'
import { openStore } from '../../src/store/runs/open-store.ts'
import { relatedStreams, knownStreams as streams } from '../../src/streams/catalog.ts'
import type { Source } from '../../src/sync/ports/source.ts'
import { readRelated } from '../../src/sync/related/read-related.ts'
import { neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { assignments, writeAll } from '../support/runs.ts'

const notOffered = async () => {
  throw new Error('the test does not offer it')
}

describe.skipIf(!hasPostgres)('related records of a group', () => {
  const database = createTestDatabase()

  it('are kept while the upstream shows the group of no assignment, and gone when it shows it of others (P7)', async () => {
    const store = openStore({
      ...{ database, streams, sourceTimezone: 'UTC', log: quietLog },
      related: { groups: ['assignment_product'], refreshMs: null },
    })
    const products = new Map([1, 2, 3, 4, 5, 6].map((id) => [String(id), [10 * id]]))
    let mayRead = true
    const source: Source = {
      sortedBy: () => source,
      changes: notOffered,
      list: notOffered,
      listHasPages: false,
      lookup: async (id) => {
        const shown = mayRead ? (products.get(id) ?? []) : []
        return {
          found: {
            AssignmentId: Number(id),
            AssignmentProduct: shown.map((product) => ({ AssignmentProductId: product })),
          },
        }
      },
    }
    let version = 0
    async function changeAndRead(...ids: number[]) {
      const changed = ids.map((id) => ({ AssignmentId: id, RowVersion: ++version }))
      await writeAll(store, 'assignment', assignments(...changed))
      const wanted = relatedStreams.filter(({ name }) => name === 'assignment_product')
      return await readRelated({ store, source, streams: wanted, now: () => new Date(), signal })
    }
    const living = async () =>
      (
        await database.pool.query(
          'select assignment_product_id::int as id from bi.assignment_product order by 1',
        )
      ).rows.map(({ id }) => id)

    await changeAndRead(1, 2, 3, 4, 5, 6, 7, 8, 9)
    expect(await living()).toEqual([10, 20, 30, 40, 50, 60])

    mayRead = false
    expect(await changeAndRead(1, 2, 9)).toMatchObject({
      status: 'done',
      note: expect.stringContaining('2 assi'),
    })
    expect(await living()).toEqual([10, 20, 30, 40, 50, 60])
    const { rows } = await database.pool.query(
      'select assignment_id::int as id, problem from tidemark.related_fetch where problem is not null order by 1',
    )
    const problem = expect.stringContaining('shows no assignment_product of any assignment')
    expect(rows).toEqual([
      { id: 1, problem },
      { id: 2, problem },
    ])

    mayRead = true
    products.delete('1')
    await changeAndRead(1, 2)
    expect(await living()).toEqual([20, 30, 40, 50, 60])
    // Alone with its loss: others are asked.
    products.delete('2')
    await changeAndRead(2)
    expect(await living()).toEqual([30, 40, 50, 60])
    // The last of all are believed when they are few.
    for (const id of ['3', '4', '5']) products.delete(id)
    await changeAndRead(3, 4, 5)
    products.delete('6')
    await changeAndRead(6)
    expect(await living()).toEqual([])
  })
})
