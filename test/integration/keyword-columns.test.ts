// Fields that are called like Postgres' own words: the values are those of the upstream, in every statement that names them (P4).

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { rowTable, sqlOf } from '../../src/store/book/rows.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

describe.skipIf(!hasPostgres)('columns that are called like a key word of Postgres', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let worker: TestWorker
  let browsing: Browsing
  let words: readonly string[] = []
  const page = async (path: string) => await (await browsing.get(path)).text()

  beforeAll(async () => {
    const { rows } = await database.pool.query<{ word: string }>('select word from pg_get_keywords()')
    words = rows.map(({ word }) => word)
    const halves = [words.filter((_, at) => at % 2 === 0), words.filter((_, at) => at % 2 === 1)]
    const named = (half: readonly string[] = []) =>
      Object.fromEntries(half.map((word) => [word, `told by ${word}`]))
    simulator = await startSimulator({ assignments: 3, notes: 3 })
    simulator.source.change('assignment', 2, named(halves[0]))
    simulator.source.change('assignment_note', 2, named(halves[1]))
    worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment,assignment_note',
      SCHEDULE_DELETIONS: '1h',
    })
    await worker.live
    browsing = openBrowsing(worker.url)
    await browsing.signIn(adminToken)
    await vi.waitFor(async () => {
      const read = await database.pool.query('select from tidemark.stream where read_through_at is not null')
      expect(read.rowCount).toBe(2)
    }, 30_000)
  })
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  it.each(['assignment', 'assignment_note'] as const)(
    'are read as columns, one by one and all together: %s',
    async (name) => {
      const table = await rowTable(database.pool, streamOf(name))
      if (!table) throw new Error('there is no table')
      const columns = table.columns.filter(({ name, field }) => name === field && words.includes(name))
      expect(columns.length).toBeGreaterThan(200)
      const search = { text: 'told by', deleted: 'shown' } as const
      const { rows } = await database.pool.query(sqlOf(table, columns, search, 10))
      expect(rows).toEqual([
        expect.objectContaining(Object.fromEntries(columns.map((one) => [one.name, `told by ${one.name}`]))),
      ])
      for (const column of columns) {
        const asked = { ...search, text: '', field: { column: column.name, value: `told by ${column.name}` } }
        const found = await database.pool.query(sqlOf(table, [], asked, 10))
        expect([column.name, found.rowCount]).toEqual([column.name, 1])
      }
    },
  )

  it('are found and shown on the pages', async () => {
    for (const [stream, word] of [
      ['assignment', 'user'],
      ['assignment_note', 'user'],
      ['assignment', 'select'],
      ['assignment_note', 'select'],
    ] as const) {
      const table = await rowTable(database.pool, streamOf(stream))
      if (!table?.columns.some(({ name }) => name === word)) continue
      const query = new URLSearchParams({ field: word, value: `told by ${word}`, column: word })
      expect(await page(`/streams/${stream}/rows?${query}`)).toContain(`told by ${word}`)
      const csv = await page(`/streams/${stream}/rows.csv?${query}`)
      expect(csv).toContain(`told by ${word}`)
      expect(await page(`/find?${new URLSearchParams({ q: `told by ${word}` })}`)).toContain(
        `/records/${stream}/2`,
      )
    }
  })
})
