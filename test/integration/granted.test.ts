// What the owner of the database decides stays: a right that was taken back, narrowed or set otherwise is never given again.

import { globSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'
import { runHere } from '../support/verbs.ts'

const secret = 'secret-of-the-role'

describe.skipIf(!hasPostgres)('the rights of the role that reads', () => {
  const database = createTestDatabase({ forEach: true })
  let role = ''
  const run = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const migrated = (biSchemas?: readonly string[]) =>
    migrateDatabase({ database, streams, biRole: role, ...(biSchemas && { biSchemas }), log: quietLog })
  const url = () => Object.assign(new URL(database.url), { username: role, password: secret }).href
  const mayRead = async (object: string) =>
    (await run('select has_table_privilege($1, $2, $3) as may', [role, object, 'select']))[0].may
  const mayUse = async (schema: string) =>
    (await run('select has_schema_privilege($1, $2, $3) as may', [role, schema, 'usage']))[0].may
  const columns = async (object: string) =>
    (
      await run(
        `select array_agg(attname::text order by attname) as names from pg_attribute
         where attrelid = $1::regclass and attnum > 0 and not attisdropped and has_column_privilege($2, attrelid, attnum, 'select')`,
        [object, role],
      )
    )[0].names
  const optionsOf = async (view: string) =>
    (await run('select reloptions from pg_class where oid = $1::regclass', [view]))[0].reloptions

  beforeEach(async () => {
    role = `${database.name}_bi`
    await run(`create role ${role} login password '${secret}'`)
  })
  afterEach(async () => {
    await run(`drop owned by ${role}; drop role ${role}`)
  })

  const reading = async (
    work: (read: () => Promise<void>, change: (fields: object) => void) => Promise<void>,
  ) => {
    await using simulator = await startSimulator({ assignments: 5 })
    const open = () => openTestContext(database, simulator, { BI_ROLE: role, HISTORY: 'assignment' })
    const read = async () => {
      await using context = await open()
      await context.read(streamOf('assignment'), 'incremental', { signal: neverAborted })
    }
    await read()
    await work(read, (fields) => simulator.source.change('assignment', 1, fields as never))
  }

  it('stay taken back when Tidemark migrates and starts again, and columns are not widened to their table', () =>
    reading(async (read) => {
      expect([await mayRead('mirror.assignment'), await mayRead('bi.assignment')]).toEqual([true, true])
      await run(`revoke select on mirror.assignment, bi.assignment, mirror.assignment_note from ${role};
        grant select (assignment_id, sys_row_version) on mirror.assignment to ${role};
        revoke usage on schema bi from ${role}`)
      for (let time = 0; time < 2; time++) {
        await migrated()
        await read()
        expect(await mayRead('mirror.assignment')).toBe(false)
        expect(await columns('mirror.assignment')).toEqual(['assignment_id', 'sys_row_version'])
        expect(await mayRead('bi.assignment')).toBe(false)
        expect(await mayUse('bi')).toBe(false)
        expect(await mayRead('mirror.assignment_note')).toBe(false)
        expect(await mayRead('mirror.assignment_history')).toBe(true)
      }
      await run(`alter default privileges in schema mirror revoke select on tables from ${role}`)
      await migrated()
      await run('create table mirror.later (id int)')
      expect(await mayRead('mirror.later')).toBe(false)
      // New: given once, here when Tidemark starts.
      await migrated()
      expect(await mayRead('mirror.later')).toBe(true)
    }))

  it('survive new columns and other types of columns, with the options of the view', () =>
    reading(async (read, change) => {
      await run(`revoke select on bi.assignment from ${role};
        grant select (assignment_id) on bi.assignment to ${role};
        alter view bi.assignment set (security_invoker = true, security_barrier = true);
        alter view bi.assignment_history set (security_barrier = true)`)
      change({ Fresh: 5 })
      await read()
      const holds = async () => {
        expect(await optionsOf('bi.assignment')).toEqual(['security_invoker=true', 'security_barrier=true'])
        expect(await optionsOf('bi.assignment_history')).toEqual(['security_barrier=true'])
        expect(await mayRead('bi.assignment')).toBe(false)
        expect(await columns('bi.assignment')).toEqual(['assignment_id'])
        expect(await mayRead('bi.assignment_history')).toBe(true)
      }
      expect(await run('select fresh from bi.assignment where fresh is not null')).toEqual([{ fresh: '5' }])
      await holds()
      change({ Fresh: 5.5 })
      await read()
      expect(await run('select fresh from bi.assignment where fresh is not null')).toEqual([{ fresh: '5.5' }])
      await holds()
      await migrated()
      await holds()
    }))

  it('do not come back with a table that is made anew under its name, unless the role had them', () =>
    reading(async (read) => {
      await run(`revoke select on mirror.assignment, bi.assignment from ${role}`)
      await migrated()
      await run(
        'drop view bi.assignment; drop table mirror.assignment; drop table mirror.assignment_note cascade',
      )
      await read()
      expect(await run('select count(*)::int as n from bi.assignment')).toEqual([{ n: 5 }])
      expect([await mayRead('mirror.assignment'), await mayRead('bi.assignment')]).toEqual([false, false])
      expect([await mayRead('mirror.assignment_note'), await mayRead('bi.assignment_note')]).toEqual([
        true,
        true,
      ])
    }))

  it('are given anew to a role that was dropped and made anew', async () => {
    await migrated()
    await run(`drop owned by ${role}; drop role ${role}; create role ${role} login password '${secret}'`)
    await migrated()
    expect([await mayRead('mirror.assignment'), await mayUse('tidemark')]).toEqual([true, true])
  })

  it('end where BI_SCHEMAS ends, and begin again where it begins again', async () => {
    await migrated(['bi'])
    expect([await mayUse('bi'), await mayUse('mirror'), await mayRead('mirror.assignment')]).toEqual([
      true,
      false,
      false,
    ])
    expect(await mayRead('tidemark.freshness')).toBe(true)
    await migrated()
    expect([await mayUse('mirror'), await mayRead('mirror.assignment')]).toEqual([true, true])
    await migrated(['bi'])
    await run('create table mirror.later (id int); create table bi.later (id int)')
    expect([await mayUse('mirror'), await mayRead('mirror.assignment')]).toEqual([false, false])
    expect([await mayRead('mirror.later'), await mayRead('bi.later')]).toEqual([false, true])
    await migrated(['bi', 'mirror'])
    expect([await mayUse('mirror'), await mayRead('mirror.later')]).toEqual([true, true])
  })

  it('are enough for the past of a stream without those to its tables', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const variables = { BI_ROLE: role, BI_SCHEMAS: 'bi', HISTORY: 'assignment' }
    await using context = await openTestContext(database, simulator, variables)
    await context.read(streamOf('assignment'), 'incremental', { signal: neverAborted })
    const asked = 'select count(*) from bi.assignment_at(clock_timestamp())'
    expect((await runHere(['sql', '--json', asked], { DATABASE_URL: url() })).stdout).toContain('"5"')
    expect(await mayRead('mirror.assignment')).toBe(false)
  })

  it('that were taken back before the upgrade stay so: what there is counts as given', async () => {
    await migrated()
    await run(`revoke select on mirror.assignment from ${role}; grant select (assignment_id) on mirror.assignment to ${role};
      revoke select on tidemark.field from ${role}`)
    // As an earlier version left it, which the migration finds.
    await run('drop table tidemark.granted')
    for (const file of globSync('migrations/*_granted-once.sql')) await run(readFileSync(file, 'utf8'))
    for (let time = 0; time < 2; time++) {
      await migrated()
      expect([await mayRead('mirror.assignment'), await columns('mirror.assignment')]).toEqual([
        false,
        ['assignment_id'],
      ])
      expect([await mayRead('bi.assignment'), await mayRead('tidemark.field')]).toEqual([true, true])
    }
    // A role that no earlier version knew gets everything.
    const other = `${role}_2`
    await run(`create role ${other}`)
    await migrateDatabase({ database, streams, biRole: other, log: quietLog })
    expect(
      await run(`select has_table_privilege($1, 'mirror.assignment', 'select') as may`, [other]),
    ).toEqual([{ may: true }])
    await run(`drop owned by ${other}; drop role ${other}`)
  })

  it('include no limit that somebody set and took back', async () => {
    await run(`alter role ${role} set statement_timeout = '5min'`)
    await migrated()
    const timeouts = () =>
      run(
        `select setting from pg_db_role_setting, unnest(setconfig) as setting
         where setrole = (select oid from pg_roles where rolname = $1) and setting like 'statement_timeout%'`,
        [role],
      )
    expect(await timeouts()).toEqual([{ setting: 'statement_timeout=5min' }])
    await run(`alter role ${role} reset statement_timeout; alter role ${role} connection limit -1`)
    await migrated()
    expect(await timeouts()).toEqual([])
    expect(await run('select rolconnlimit as n from pg_roles where rolname = $1', [role])).toEqual([
      { n: -1 },
    ])
  })

  it('are enough for `tidemark schema` and `tidemark sql`', () =>
    reading(async () => {
      const as = { DATABASE_URL: url() }
      for (const words of [[], ['--json']])
        expect(await runHere(['schema', 'assignment', ...words], as)).toMatchObject({
          ...{ code: 0, stderr: '' },
          stdout: expect.stringContaining('assignment_id'),
        })
      expect(await runHere(['sql', 'select count(*) from bi.assignment'], as)).toMatchObject({
        ...{ code: 0, stderr: '' },
        stdout: expect.stringMatching(/ 5\n[\s\S]*assignment: not settled yet/),
      })
      expect(
        await runHere(
          ['sql', '--csv', "select stream from tidemark.freshness where stream = 'assignment'"],
          as,
        ),
      ).toMatchObject({
        ...{ code: 0, stdout: 'stream\nassignment\n' },
      })
    }))
})
