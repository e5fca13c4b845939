// What the pages of a listing showed: the counts that prove it complete (P6).

import { describe, expect, it } from 'vitest'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { begin, done, storeOf } from '../support/runs.ts'

describe.skipIf(!hasPostgres)('what a listing showed', () => {
  const database = createTestDatabase()

  it('counts keys that were seen both by a page and after it', async () => {
    const run = await begin(storeOf(database), 'tracker_object', 'list')
    await run.seen.add(1, ['a', 'b'])
    await run.seen.add(2, ['c'])
    expect(await run.seen.countAround(2)).toBe(0)
    await run.seen.add(3, ['a', 'd'])
    await run.seen.add(4, ['c'])
    expect(await run.seen.countAround(1)).toBe(1)
    expect(await run.seen.countAround(2)).toBe(2)
    expect(await run.seen.countAround(3)).toBe(1)
    await run.finish(done)
  })

  it('is forgotten when another listing begins, in the same run or a later one', async () => {
    const store = storeOf(database)
    const run = await begin(store, 'tracker_object', 'list')
    await run.seen.add(1, ['a'])
    await run.seen.add(2, ['a'])
    await run.seen.add(1, ['b'])
    await run.seen.add(2, ['a'])
    expect(await run.seen.countAround(1)).toBe(0)
    await run.finish(done)
    const later = await begin(store, 'tracker_object', 'list')
    expect(await later.seen.countAround(1)).toBe(0)
    await later.finish(done)
  })
})
