// What the pages of a listing showed: the counts that prove it complete (P6).

import fc from 'fast-check'
import type { ClientBase } from 'pg'
import { describe, expect, it } from 'vitest'
import { openSeenKeysTable } from '../../src/store/runs/seen-keys.ts'
import { withConnection } from '../../src/store/server/session.ts'
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

  it('stays in memory while it is short, however often it is read', async () => {
    await withConnection(database.pool, async (client) => {
      const seen = openSeenKeysTable(client, 10)
      for (let page = 1; page <= 9; page++) await seen.add(page, ['a', 'b', 'c', 'd'])
      expect((await seen.since(1)).value).toEqual(['a', 'b', 'c', 'd'])
      await seen.add(10, ['e', 'f', 'g', 'h', 'i', 'j', 'k'])
      expect((await seen.since(1)).value).toBe(1)
      await seen.empty()
    })
  })

  it('is nothing of a run before that ended without a word and left its table to the session', async () => {
    await withConnection(database.pool, async (client) => {
      await openSeenKeysTable(client, 0).add(1, ['a', 'b'])
      const seen = openSeenKeysTable(client, 0)
      await seen.add(1, ['c'])
      const since = await seen.since(1)
      const { rows } = await client.query(`select key from ${since.sql(1)} as seen`, [since.value])
      expect(rows).toEqual([{ key: 'c' }])
      await seen.empty()
    })
  })

  it('is the same in memory, in a table, and when it moves from one to the other', async () => {
    const pages = fc.array(
      fc.record({
        begins: fc.constantFrom('on', 'on', 'on', 'pass', 'listing'),
        records: fc.uniqueArray(fc.tuple(fc.constantFrom(...'abcdef'), fc.constantFrom('1', '2')), {
          selector: ([key]) => key,
        }),
        hasContents: fc.boolean(),
      }),
      { maxLength: 8 },
    )
    const check = async (client: ClientBase, listing: Pages) => {
      const kept = [0, 3, 1_000].map((most) => openSeenKeysTable(client, most))
      const told = []
      for (const one of kept) {
        told.push(await toldOf(client, one, listing))
        await one.empty()
      }
      expect(told[1]).toEqual(told[0])
      expect(told[2]).toEqual(told[0])
    }
    type Pages = typeof pages extends fc.Arbitrary<infer Listing> ? Listing : never
    async function toldOf(client: ClientBase, seen: ReturnType<typeof openSeenKeysTable>, listing: Pages) {
      let [number, passBegan] = [0, 1]
      const told: unknown[] = []
      for (const { begins, records, hasContents } of listing) {
        if (begins === 'listing') number = 0
        number += 1
        if (begins !== 'on') passBegan = number
        const fingerprints = records.map(([, content]) => content)
        await seen.add(
          number,
          records.map(([key]) => key),
          hasContents ? { fingerprints, passBegan } : undefined,
        )
        const since = await seen.since(passBegan)
        const { rows } = await client.query(`select key from ${since.sql(1)} as seen order by key`, [
          since.value,
        ])
        told.push(rows, await seen.twice(3), await seen.countAround(number - 1))
      }
      return told
    }
    await withConnection(database.pool, (client) =>
      fc.assert(
        fc.asyncProperty(pages, (listing) => check(client, listing)),
        { numRuns: 60 },
      ),
    )
  })
})
