// What somebody could try who chooses the names of fields or of roles, and how few rights the worker's own role needs.

import pg from 'pg'
import { describe, expect, it, vi } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { streams } from '../../src/streams/catalog.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { assignments, storeOf, writeAll } from '../support/runs.ts'
import { startTestWorker } from '../support/worker.ts'

const hostileNames = [
  `x"; drop schema tidemark cascade; --`,
  `y'; drop schema tidemark cascade; --`,
  `x" bigint); drop table mirror.assignment; create table evil (y`,
  `z\\'; drop schema tidemark cascade; --`,
  `$$; drop schema bi cascade; $$`,
  `*/ drop schema tidemark cascade; /*`,
  `\u0000`,
  `_deleted_at`,
  `_hash`,
  `ctid`,
  `assignment_id" = 1; --`,
  `%I`,
  `$1`,
  `${'ø'.repeat(200)}`,
]

describe.skipIf(!hasPostgres)('hostile names', () => {
  const database = createTestDatabase()

  it('of fields become harmless columns, and are kept as what they are', async () => {
    const fields = Object.fromEntries(hostileNames.map((name, index) => [name, index]))
    const store = storeOf(database)
    await writeAll(store, 'assignment', assignments({ AssignmentId: 1, RowVersion: 1, ...fields }))
    // Once more, now that their columns are there, with a value that makes each of them wider.
    const wide = Object.fromEntries(hostileNames.map((name) => [name, JSON.rawJSON('9223372036854775808')]))
    await writeAll(store, 'assignment', assignments({ AssignmentId: 1, RowVersion: 2, ...wide }))
    const { rows: columns } = await database.pool.query<{ name: string; comment: string | null }>(
      `select attname as name, col_description(attrelid, attnum) as comment from pg_attribute
       where attrelid = 'mirror.assignment'::regclass and attnum > 0`,
    )
    for (const { name } of columns) expect(name).toMatch(/^_?[\p{L}\p{N}_]+$/u)
    const { rows: known } = await database.pool.query<{ source_name: string; column_name: string | null }>(
      `select source_name, column_name from tidemark.field where stream = 'assignment'`,
    )
    for (const name of hostileNames) {
      const field = known.find(({ source_name }) => source_name === (name === '\0' ? '"\\u0000"' : name))
      expect(field, name).toBeDefined()
      expect(columns.find((column) => column.name === field?.column_name)?.comment).toBe(
        `field ${field?.source_name}`,
      )
    }
    const { rows } = await database.pool.query('select * from bi.assignment')
    expect(rows).toMatchObject([
      { assignment_id: '1', row_version: '2', x_drop_schema_tidemark_cascade: '9223372036854775808' },
    ])
  })

  it('of roles are names', async () => {
    const role = `${database.name}"; drop schema bi cascade; --`.slice(0, 63)
    const quoted = pg.escapeIdentifier(role)
    await database.pool.query(`create role ${quoted}`)
    try {
      await migrateDatabase({ database, streams, biRole: role, log: quietLog })
      const { rows } = await database.pool.query(
        `select has_table_privilege($1, 'bi.assignment', 'select') as reads, has_table_privilege($1, 'tidemark.stream', 'select') as peeks`,
        [role],
      )
      expect(rows).toEqual([{ reads: true, peeks: false }])
    } finally {
      await database.pool.query(`drop owned by ${quoted}; drop role ${quoted}`)
    }
  })
})

describe.skipIf(!hasPostgres)('the worker', () => {
  const database = createTestDatabase({ isMigrated: false })

  it('needs no more of Postgres than to create schemas and temporary tables in its database', async () => {
    const role = `${database.name}_worker`
    await database.pool.query(`
      create role ${role} login nosuperuser nocreatedb nocreaterole nobypassrls password 'secret-of-the-role';
      revoke all on database ${database.name} from public;
      revoke all on schema public from public;
      grant connect, create, temporary on database ${database.name} to ${role}`)
    await using simulator = await startSimulator({ assignments: 5, notes: 5, trackers: 2 })
    const url = Object.assign(new URL(database.url), { username: role, password: 'secret-of-the-role' }).href
    const worker = await startTestWorker(
      simulator,
      { url },
      { SCHEDULE_RECONCILE: '1s', SCHEDULE_ASSIGNMENT: '1s' },
    )
    try {
      await vi.waitFor(
        async () => {
          const { rows } = await database.pool.query(
            `select (select count(*)::int from bi.tracker_object) as trackers,
               (select last_reconcile_at is not null from tidemark.stream where name = 'assignment') as is_counted`,
          )
          expect(rows).toEqual([{ trackers: 2, is_counted: true }])
        },
        { timeout: 30_000, interval: 100 },
      )
      expect(worker.logged().filter((line) => /permission denied|"level":[56]0/.test(line))).toEqual([])
    } finally {
      await worker.stop()
      await database.pool.query(`drop owned by ${role} cascade; drop role ${role}`)
    }
  })
})
