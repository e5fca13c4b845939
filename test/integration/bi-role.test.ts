// What the role that people query the mirror with can reach, read from Postgres' own catalogue and tried as an attacker would (P9).

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { openDatabase } from '../../src/store/server/connect.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'

describe.skipIf(!hasPostgres)('types of new tables and views', () => {
  const database = createTestDatabase()
  it('are open to nobody from the moment they are made', async () => {
    const { rows } = await database.pool.query(
      `select oid::regtype::text as name from pg_type
       where typnamespace::regnamespace::text in ('mirror', 'bi') and typelem = 0 and has_type_privilege('public', oid, 'usage')`,
    )
    expect(rows).toEqual([])
  })
})

describe.skipIf(!hasPostgres)('the role of the analysts', () => {
  const database = createTestDatabase()
  let role = ''
  let analyst: pg.Client
  const rows = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const migrated = () => migrateDatabase({ database, streams, biRole: role, log: quietLog })

  beforeAll(async () => {
    role = `${database.name}_bi`
    await database.pool.query(`create role ${role} login password 'secret-of-the-role'`)
    await migrated()
    // Whoever could make tables of their own would go further.
    await database.pool.query(`grant temporary on database ${database.name} to ${role}`)
    const url = Object.assign(new URL(database.url), { username: role, password: 'secret-of-the-role' })
    analyst = new pg.Client(url.href)
    await analyst.connect()
  })
  afterAll(async () => {
    await analyst?.end()
    await database.pool.query(`drop owned by ${role}; drop role ${role}`)
  })

  it('cannot run code with the rights of the worker, by a trigger of its own on the function that notes changes', async () => {
    await analyst.query(`
      create temp table whose (name text);
      create function pg_temp.taken() returns boolean language plpgsql as $$
        begin insert into pg_temp.whose values (current_user); return true; end $$;
      create temp view gone as select now() as _observed_at where pg_temp.taken();
      create temp table bait (id int); insert into bait values (1)`)
    const attack = analyst.query(`
      create trigger bait after delete on bait for each statement
        execute function tidemark.note_local_change('assignment_history');
      delete from bait`)
    await expect(attack).rejects.toThrow(/permission denied for function .*note_local_change/)
    expect((await analyst.query('select name from whose')).rows).toEqual([])
  })

  it('gets nowhere either when it was granted the function: what is no table of the mirror is not looked at', async () => {
    const before = await rows('select count(*) from tidemark.local_change')
    await database.pool.query(`grant execute on function tidemark.note_local_change() to ${role}`)
    await analyst.query(`
      drop table if exists bait; drop table if exists whose; drop view if exists gone;
      create temp table whose (name text);
      create or replace function pg_temp.taken() returns boolean language plpgsql as $$
        begin insert into pg_temp.whose values (current_user); return true; end $$;
      create temp view gone as select now() as _observed_at where pg_temp.taken();
      create temp table bait (id int); insert into bait values (1);
      create trigger bait after delete on bait for each statement
        execute function tidemark.note_local_change('assignment_history');
      delete from bait`)
    expect((await analyst.query('select name from whose')).rows).toEqual([])
    expect(await rows('select count(*) from tidemark.local_change')).toEqual(before)
    await database.pool.query(`revoke execute on function tidemark.note_local_change() from ${role}`)
  })

  it('reaches nothing in schema tidemark but freshness, rows in doubt, the table of fields, and what says whether a moment is final', async () => {
    const reached = await rows(
      `select 'relation' as what, relname::text as name from pg_class
       where relnamespace = 'tidemark'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f', 'S') and (
         has_table_privilege($1, oid, 'select, insert, update, delete, truncate, references, trigger')
         or (relkind <> 'S' and has_any_column_privilege($1, oid, 'select, insert, update, references'))
       )
       union all
       select 'function', proname from pg_proc
       where pronamespace = 'tidemark'::regnamespace and has_function_privilege($1, oid, 'execute')
       union all
       select 'type', typname from pg_type
       where typnamespace in ('tidemark'::regnamespace, 'mirror'::regnamespace, 'bi'::regnamespace) and typelem = 0 and has_type_privilege($1, oid, 'usage')`,
      [role],
    )
    const named = (wanted: string) =>
      reached.flatMap(({ what, name }) => (what === wanted ? [name] : [])).toSorted()
    expect(named('relation')).toEqual(['field', 'freshness', 'in_doubt', 'label'])
    expect(named('function')).toEqual(['feed_position', 'is_final', 'not_final_because'])
    expect(named('type')).toEqual([])
    expect(
      await rows(
        `select oid::regprocedure::text as name from pg_proc
         where prosecdef and has_function_privilege('public', oid, 'execute') and pronamespace <> 'pg_catalog'::regnamespace`,
      ),
    ).toEqual([])
  })

  it('has no right to what is made later either, and no column of its own can hold a row of the mirror, which would keep columns from changing', async () => {
    await database.pool.query(`
      create function tidemark.later() returns int language sql security definer as 'select 1';
      create table tidemark.later_table (id int)`)
    for (const statement of [
      'select tidemark.later()',
      'select * from tidemark.later_table',
      'create temp table mine (line mirror.assignment)',
      'create temp table mine (line bi.assignment)',
    ])
      await expect(analyst.query(statement)).rejects.toThrow('permission denied')
    await database.pool.query('drop function tidemark.later(); drop table tidemark.later_table')
  })

  it('gives nothing a name that the worker takes for one of Postgres, where somebody let it create', async () => {
    await database.pool.query(`grant create on schema public to ${role}`)
    await analyst.query(`create function public.hashtextextended(text, integer) returns bigint language sql as 'select 1::bigint';
      grant execute on function public.hashtextextended(text, integer) to public`)
    const opened = await openDatabase({ url: database.url, log: quietLog })
    const found = await opened.pool.query(`select hashtextextended('a', 0) as hash`)
    await opened.close()
    expect(found.rows).toEqual([{ hash: expect.not.stringMatching(/^1$/) }])
  })
})
