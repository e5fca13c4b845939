// What a worker makes for a named source is made once: the next worker, and the same one after a restart, changes nothing of it (P19).

import { describe, expect, it } from 'vitest'
import { prepareSource } from '../../src/store/schema/migrate.ts'
import { catalogueOf } from '../../src/streams/catalog.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'

describe.skipIf(!hasPostgres)('the schemas of a named source', () => {
  const database = createTestDatabase()
  const prepare = (source: string) => {
    const streams = catalogueOf([], undefined, source)
    return prepareSource({ database, source, streams, biRole: null, log: quietLog })
  }
  /** Which transaction wrote each line of the catalogue about them. */
  const written = async () =>
    (
      await database.pool.query(
        `select what, xmin::text from (
           select 'relation ' || relname as what, xmin, relnamespace as place from pg_class
           union all select 'function ' || proname, xmin, pronamespace from pg_proc
         ) as made where place::regnamespace::text in ('acme', 'acme_mirror', 'acme_past') order by 1`,
      )
    ).rows

  it('are written once, and anew where something of them is missing or became another', async () => {
    await prepare('acme')
    const before = await written()
    expect(before.map(({ what }) => what)).toEqual(
      expect.arrayContaining([
        'relation freshness',
        'relation in_doubt',
        'function history_reaches',
        'relation assignment',
      ]),
    )
    await prepare('acme')
    expect(await written()).toEqual(before)
    await database.pool.query('drop view acme.in_doubt')
    await prepare('acme')
    expect((await written()).map(({ what }) => what)).toEqual(before.map(({ what }) => what))
    await database.pool.query('alter table tidemark.label add column another int')
    await prepare('acme')
    expect((await database.pool.query('select another from acme.label')).rows).toEqual([])
  })

  it('have a table made again that somebody dropped, and keep what has the name of a history without being one', async () => {
    await prepare('acme')
    await database.pool.query('create view acme_mirror.assignment_note_history as select 1 as one')
    await database.pool.query('drop table acme_mirror.assignment cascade')
    await prepare('acme')
    const { rows } = await database.pool.query(
      `select to_regclass('acme_mirror.assignment') is not null as made,
         (select operation from tidemark.local_change where stream = 'acme.assignment') as noted,
         (select history_from from tidemark.stream where name = 'acme.assignment_note') as history`,
    )
    expect(rows).toEqual([{ made: true, noted: 'drop', history: null }])
  })

  it('are made for several at once, and by several workers at once', async () => {
    await Promise.all(['one', 'two', 'one', 'two', 'three'].map(prepare))
    const { rows } = await database.pool.query(
      `select count(*)::int as views from pg_views where viewname = 'freshness' and schemaname in ('one', 'two', 'three')`,
    )
    expect(rows).toEqual([{ views: 3 }])
  })
})
