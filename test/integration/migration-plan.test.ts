// `tidemark migrate --plan` says which locks each statement takes. Here each is run on a database of an early version, and Postgres asked.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeEach, describe, expect, it } from 'vitest'
import { migrate } from '../../src/cli/migrate.ts'
import { probePostgres } from '../../src/cli/probe-checks.ts'
import { loadConfig } from '../../src/config/load.ts'
import {
  dueMigrations,
  expectMigrated,
  migrateDatabase,
  migrateFrom,
} from '../../src/store/schema/migrate.ts'
import { locksOf } from '../../src/store/schema/migration-plan.ts'
import { withConnection } from '../../src/store/server/session.ts'
import { knownStreams } from '../../src/streams/catalog.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { complete } from '../support/settings.ts'
import { callCommand } from '../support/verbs.ts'

const ascending = [
  ...[
    'row exclusive',
    'share update exclusive',
    'share',
    'share row exclusive',
    'exclusive',
    'access exclusive',
  ],
]
/** `share row exclusive` for `ShareRowExclusiveLock`. */
const worded = (mode: string) =>
  mode
    .replace(/Lock$/, '')
    .replace(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase()

describe.skipIf(!hasPostgres)('tidemark migrate --plan', () => {
  const database = createTestDatabase({ isMigrated: false, forEach: true })
  beforeEach(async () => {
    await database.pool.query(
      readFileSync(new URL('../fixtures/early-database.sql', import.meta.url), 'utf8'),
    )
  })

  it('says what is due and who must wait, and changes nothing', async () => {
    const environment = { DATABASE_URL: database.url }
    const { code, stdout } = await callCommand(migrate, ['--plan', '--json'], environment)
    const { due, statements } = JSON.parse(stdout)
    expect([code, due[0]]).toEqual([0, '0003_paused-streams'])
    expect(statements[0].locks).toEqual([
      { table: 'tidemark.stream', lock: 'access exclusive', rows: expect.any(Number) },
    ])
    const again = await callCommand(migrate, ['--plan'], environment)
    expect(again.stdout).toContain(`${due.length} migrations due.`)
    expect(again.stdout).toMatch(
      /^0003 +access exclusive +tidemark\.stream +\d+ +reads and writes +alter table/m,
    )
  })

  it('is done while others read how fresh the mirror is, who wait for it without holding it up', async () => {
    let isOver = false
    let reads = 0
    const reading = async () => {
      while (!isOver) {
        await database.pool.query('select * from tidemark.freshness')
        reads++
      }
    }
    const readers = [reading(), reading(), reading()]
    await withConnection(database.pool, (client) =>
      migrateFrom(client, fileURLToPath(new URL('../../migrations', import.meta.url))),
    )
    isOver = true
    await Promise.all(readers)
    expect(reads).toBeGreaterThan(3)
  })

  it('names every lock that Postgres then takes', async () => {
    const astray = await withConnection(database.pool, async (client) => {
      const found: string[] = []
      for (const { name, statements } of await dueMigrations(client))
        for (const statement of statements) {
          const { rows: there } = await client.query(
            `select oid, oid::regclass::text as name from pg_class where relkind in ('r', 'p', 'v')
               and relnamespace in (select oid from pg_namespace where nspname in ('tidemark', 'mirror', 'bi'))`,
          )
          const names = new Map(there.map((row) => [row.oid, row.name]))
          await client.query('begin')
          await client.query(statement)
          const { rows: taken } = await client.query(
            `select relation, mode from pg_locks where pid = pg_backend_pid() and relation is not null`,
          )
          await client.query('commit')
          const planned = locksOf(statement)
          for (const { relation, mode } of taken) {
            const [table, lock] = [names.get(relation), worded(mode)]
            const said = planned
              .filter((one) => one.table === table || one.table === 'mirrored tables')
              .map((one) => ascending.indexOf(one.lock))
            if (table !== undefined && ascending.indexOf(lock) > Math.max(-1, ...said))
              found.push(`${name}: ${lock} on ${table} by ${statement.trim().slice(0, 200)}`)
          }
        }
      return found
    })
    expect(astray).toEqual([])
  })
})

describe.skipIf(!hasPostgres)('a database that a newer version has migrated', () => {
  const database = createTestDatabase({ forEach: true })
  const migrateNow = () => migrateDatabase({ database, streams: knownStreams, biRole: null, log: quietLog })
  const newer = async (needs: number | null) => {
    await database.pool.query(
      `insert into tidemark.migration (hash, created_at) values ('of a later version', 9999999999999)`,
    )
    if (needs !== null)
      await database.pool.query(`comment on sequence tidemark.migration_id_seq is 'needs ${needs}'`)
  }

  it('can be gone on with where that version only added something, as this one notes for the one before it', async () => {
    const { rows } = await database.pool.query<{ note: string; newest: string }>(
      `select obj_description('tidemark.migration_id_seq'::regclass) as note, max(created_at) as newest from tidemark.migration`,
    )
    const needs = Number(/^needs (\d+)$/.exec(rows[0]?.note ?? '')?.[1])
    expect(needs).toBeLessThanOrEqual(Number(rows[0]?.newest))
    await newer(needs)
    expect(await migrateNow()).toBe(0)
    await expectMigrated({ pool: database.pool, address: 'here' })
  })

  it.each([9_999_999_999_999, null])('is refused where it needs more (%s)', async (needs) => {
    await newer(needs)
    if (needs === null) await database.pool.query('comment on sequence tidemark.migration_id_seq is null')
    await expect(migrateNow()).rejects.toThrow('A newer Tidemark than this one has migrated the database')
    const [check] = await probePostgres(loadConfig({ ...complete, DATABASE_URL: database.url }), quietLog)
    expect(check).toMatchObject({ name: 'postgres', isFine: false })
    expect(check?.says).toContain('A newer Tidemark than this one has migrated the database')
  })
})

describe('the locks of a statement', () => {
  it.each([
    [
      'create table "tidemark"."a" ("b" bigint references "tidemark"."stream"("name"))',
      'share row exclusive',
    ],
    ['CREATE UNIQUE INDEX "one_on" ON ONLY "tidemark"."stream" USING btree ("name")', 'share'],
    ['with gone as (delete from tidemark.stream returning name) select from gone', 'row exclusive'],
    ['-- alter table tidemark.run\n  ALTER TABLE tidemark.stream add column a text', 'access exclusive'],
  ])('are read from %s', (statement, lock) => {
    expect(locksOf(statement)).toEqual([{ table: 'tidemark.stream', lock }])
  })
})
