// What a worker makes for a named source is made once: the next worker, and the same one after a restart, changes nothing of it (P19).

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { dropSource } from '../../src/store/schema/drop-source.ts'
import { prepareSource } from '../../src/store/schema/migrate.ts'
import { inTransaction, takeTurn, withConnection } from '../../src/store/server/session.ts'
import { catalogueOf } from '../../src/streams/catalog.ts'
import { SourceGone } from '../../src/util/errors.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'

describe.skipIf(!hasPostgres)('the schemas of a named source', () => {
  const database = createTestDatabase()
  const prepare = async (source: string) => {
    await database.pool.query(
      `insert into tidemark.source_config (name, settings, tags, generation, changed_by) values ($1, '{}', '{}', 0, '')
       on conflict do nothing`,
      [source],
    )
    const streams = catalogueOf([], undefined, source)
    await prepareSource({ database, source, streams, biRole: null, log: quietLog })
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

  it('are not made of a source that is gone, nor dropped while a worker makes them', async () => {
    await prepare('leaving')
    await database.pool.query(`update tidemark.source_config set gone_at = now() where name = 'leaving'`)
    await expect(prepare('leaving')).rejects.toThrow(SourceGone)
    let isDropped = false
    let dropping = Promise.resolve()
    await withConnection(database.pool, (client) =>
      inTransaction(client, async () => {
        await takeTurn(client, 'schemas leaving')
        dropping = dropSource(database.pool, 'leaving').then(() => {
          isDropped = true
        })
        await wait(500)
        expect(isDropped).toBe(false)
      }),
    )
    await dropping
    const streams = catalogueOf([], undefined, 'leaving')
    const given = { database, source: 'leaving', streams, biRole: null, log: quietLog }
    await expect(prepareSource(given)).rejects.toThrow(SourceGone)
    const { rows } = await database.pool.query(
      `select nspname as name from pg_namespace where starts_with(nspname, 'leaving')
       union all select name from tidemark.stream where starts_with(name, 'leaving.')`,
    )
    expect(rows).toEqual([])
  })
})
