// How the database is reached, checked and migrated before anybody relies on it.

import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { openDatabase } from '../../src/store/server/connect.ts'
import { delaySql } from '../../src/store/server/session.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { backoff, delayAfter } from '../../src/util/backoff.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { startSharingPooler } from '../support/sharing-pooler.ts'

const open = (url: string) => openDatabase({ url, log: quietLog })

describe.skipIf(!hasPostgres)('a database', () => {
  const database = createTestDatabase({ isMigrated: false, forEach: true })
  const migrated = (pool: pg.Pool, biRole: string | null = null) =>
    migrateDatabase({ database: { pool }, streams, biRole, log: quietLog })
  const withRole = (role: string) => {
    const url = new URL(database.url)
    url.username = role
    url.password = 'secret-of-the-role'
    return url.href
  }

  it.each([
    ['backfill', backoff.backfill],
    ['related', backoff.related],
  ])('waits after a failure as long as the back-off says: %s', async (_name, policy) => {
    const failures = [1, 2, 3, 12, 1_000]
    const { rows } = await database.pool.query(
      `select (extract(epoch from ${delaySql(policy, 'failures')}) * 1000)::float8 as ms
       from unnest($1::int[]) with ordinality as given (failures, place) order by place`,
      [failures],
    )
    expect(rows.map(({ ms }) => ms)).toEqual(failures.map((count) => delayAfter(policy, count)))
  })

  it('is migrated by any number of programs at once, once', async () => {
    const programs = await Promise.all(Array.from({ length: 4 }, () => open(database.url)))
    const applied = await Promise.all(programs.map((program) => migrated(program.pool)))
    await Promise.all(programs.map((program) => program.close()))
    expect(applied.toSorted()).toEqual([0, 0, 0, Math.max(...applied)])
    expect(Math.max(...applied)).toBeGreaterThan(0)
    const { rows } = await database.pool.query(`select to_regclass('bi.assignment') is not null as has_view`)
    expect(rows).toEqual([{ has_view: true }])
  })

  it('is refused when a newer program has changed what this one needs, and not when that has only added to it', async () => {
    const { pool } = database
    await migrated(pool)
    await pool.query(`insert into tidemark.migration (hash, created_at) values ('later', 9999999999999)`)
    const { rows } = await pool.query(`select obj_description('tidemark.migration_id_seq'::regclass) as note`)
    expect(await migrated(pool)).toBe(0)
    await pool.query(`comment on sequence tidemark.migration_id_seq is 'needs 9999999999999'`)
    await expect(migrated(pool)).rejects.toThrow('newer Tidemark')
    await pool.query(`comment on sequence tidemark.migration_id_seq is '${rows[0].note}'`)
    await pool.query(`delete from tidemark.migration where hash = 'later'`)
  })

  it('stops the program when it cannot be migrated, and is left as it was', async () => {
    const other = `${database.name}_broken`
    await database.pool.query(`create database ${other} template template0`)
    const url = new URL(database.url)
    url.pathname = `/${other}`
    const broken = await open(url.href)
    await broken.pool.query('create schema tidemark; create table tidemark.run (mine int)')
    await expect(migrated(broken.pool)).rejects.toThrow(/cannot be migrated: relation "run" already exists/)
    const { rows } = await broken.pool.query(
      `select count(*)::int as tables from pg_tables where schemaname = 'tidemark' and tablename <> 'migration'`,
    )
    expect(rows).toEqual([{ tables: 1 }])
    await broken.close()
    await database.pool.query(`drop database ${other} with (force)`)
  })

  it('may have schemas that somebody else made and lent', async () => {
    const role = `${database.name}_guest`
    await database.pool.query(`
      create role ${role} login password 'secret-of-the-role';
      grant create, temporary on database ${database.name} to ${role};
      create schema bi; create schema mirror; create schema tidemark;
      grant all on schema bi, mirror, tidemark to ${role}`)
    const guest = await open(withRole(role))
    try {
      expect(await migrated(guest.pool)).toBeGreaterThan(0)
    } finally {
      await guest.close()
      await database.pool.query(`drop owned by ${role}; drop role ${role}`)
    }
  })

  it('says which Postgres it is in, to every role that may know', async () => {
    const role = `${database.name}_stranger`
    await database.pool.query(`
      create role ${role} login password 'secret-of-the-role';
      grant create, temporary on database ${database.name} to ${role}`)
    const clusterFor = async (url: string) => {
      const opened = await open(url)
      await opened.close()
      return opened.cluster
    }
    expect(database.cluster).toMatch(/^\d+$/)
    expect(await clusterFor(withRole(role))).toBe(database.cluster)
    await database.pool.query('revoke execute on function pg_control_system() from public')
    expect(await clusterFor(withRole(role))).toBe(null)
    await database.pool.query(`drop owned by ${role}; drop role ${role}`)
  })

  it('gives long statements their time, whatever its own limit for statements is', async () => {
    await database.pool.query(`alter database ${database.name} set statement_timeout = 50`)
    const limited = await open(database.url)
    await expect(limited.pool.query('select pg_sleep(0.2)')).resolves.toMatchObject({ rowCount: 1 })
    await limited.close()
    await database.pool.query(`alter database ${database.name} reset statement_timeout`)
  })

  it('is worked with in the same way, whatever it sets for everybody: how times are written, what a transaction sees, and what everybody may put beside its functions (P1, P4)', async () => {
    await database.pool.query(`
      alter database ${database.name} set datestyle = 'German';
      alter database ${database.name} set default_transaction_isolation = 'serializable';
      alter database ${database.name} set array_nulls = off;
      alter database ${database.name} set extra_float_digits = -15;
      create schema aside;
      create function aside.now() returns timestamptz language sql as $$ select timestamptz '2001-01-01T00:00:00Z' $$;
      alter database ${database.name} set search_path = aside, public, pg_catalog;
      grant create on schema public to public;
      create function public.hashtextextended(text, integer) returns bigint language sql as 'select 1::bigint'`)
    const other = await open(database.url)
    const { rows } = await other.pool.query(
      `select timestamptz '2024-05-06T07:08:09Z' as at, current_setting('transaction_isolation') as isolation,
         cardinality(array_remove($1::text[], null)) as texts, hashtextextended('a', 0) as hash,
         1711846800.25::float8 as seconds, now() > timestamptz '2002-01-01T00:00:00Z' as "isNow"`,
      [[null, 'a']],
    )
    await other.close()
    expect(rows).toEqual([
      {
        at: new Date('2024-05-06T07:08:09Z'),
        isolation: 'read committed',
        texts: 1,
        hash: expect.not.stringMatching(/^1$/),
        seconds: 1_711_846_800.25,
        isNow: true,
      },
    ])
  })

  it('is refused behind a pooler that lets programs share a session: locks would hold nobody off (P2)', async () => {
    const { hostname, port } = new URL(database.url)
    await using pooler = await startSharingPooler({ host: hostname, port: Number(port) })
    const behind = Object.assign(new URL(database.url), { hostname: '127.0.0.1', port: String(pooler.port) })
    behind.searchParams.set('sslmode', 'disable')
    await expect(open(behind.href)).rejects.toThrow(
      /pooler .*\. Set DATABASE_URL to the address of Postgres itself/,
    )
  })

  it('is refused in plain words when it is missing, not UTF-8, read-only or closed to the role, without the password (P9)', async () => {
    const name = database.name
    await database.pool.query(`
      create role ${name}_guest login password 'secret-of-the-role';
      alter role ${name}_guest set default_transaction_read_only = off`)
    await database.pool.query(`create database ${name}_latin encoding 'LATIN1' locale 'C' template template0`)
    const at = (path: string) => Object.assign(new URL(database.url), { pathname: `/${path}` }).href
    await expect(open(at(`${name}_absent`))).rejects.toThrow(
      /cannot be reached: .*does not exist\. Check DATABASE_URL/,
    )
    await expect(open(at(`${name}_latin`))).rejects.toThrow(/has the encoding LATIN1\. .*: create database/)
    await expect(open(withRole(`${name}_guest`))).rejects.toThrow(`role ${name}_guest may not create schemas`)
    await database.pool.query(`alter role ${name}_guest set default_transaction_read_only = on`)
    await expect(open(withRole(`${name}_guest`))).rejects.toThrow('is read-only')
    await database.pool.query(`alter role ${name}_guest connection limit 0`)
    await expect(open(withRole(`${name}_guest`))).rejects.toThrow(
      /too many connections .*\. End sessions that nobody needs/,
    )
    await database.pool.query(`alter role ${name}_guest connection limit -1`)
    const wrong = withRole(`${name}_guest`).replace('secret-of-the-role', 'wrong-secret')
    const failure = await open(wrong).catch((error: Error) => error)
    expect(String(failure)).toContain('password authentication failed')
    expect(String(failure)).not.toContain('wrong-secret')
    await database.pool.query(`drop database ${name}_latin`)
    await database.pool.query(`drop role ${name}_guest`)
  })

  it('says so when nobody listens', async () => {
    await expect(open('postgres://nobody:pass-word@127.0.0.1:1/x')).rejects.toThrow(
      /127\.0\.0\.1:1\/x cannot be reached: .*ECONNREFUSED/,
    )
  })

  it('lets the BI role read the mirror, later tables too, and nothing else', async () => {
    const role = `${database.name}_bi`
    await expect(migrated(database.pool, role)).rejects.toThrow(`Create it: create role "${role}" login`)
    await database.pool.query(`create role ${role} login password 'secret-of-the-role'`)
    await migrated(database.pool, role)
    await database.pool.query(
      'create table mirror.later (id int); create view bi.later as select id from mirror.later',
    )
    const reader = new pg.Client(withRole(role))
    await reader.connect()
    for (const relation of [
      'mirror.assignment',
      'bi.assignment',
      'tidemark.freshness',
      'mirror.later',
      'bi.later',
    ])
      await reader.query(`select * from ${relation}`)
    for (const statement of [
      'select * from tidemark.quarantine',
      'select * from tidemark.stream',
      'delete from mirror.assignment',
      'create table mirror.mine (id int)',
    ])
      await expect(reader.query(statement)).rejects.toThrow('permission denied')
    await reader.end()
    await database.pool.query(`drop view bi.later; drop table mirror.later; drop owned by ${role}`)
    await database.pool.query(`drop role ${role}`)
  })

  it('starts with a BI role while another program changes a table', async () => {
    // A name that must be quoted.
    const role = `${database.name} BI`
    const quoted = pg.escapeIdentifier(role)
    await database.pool.query(`create role ${quoted}`)
    await migrated(database.pool, role)
    const growing = await database.pool.connect()
    await growing.query('begin; alter table mirror.assignment add column grown int')
    await migrated(database.pool, role)
    await growing.query('rollback')
    growing.release()
    await database.pool.query(`drop owned by ${quoted}`)
    await database.pool.query(`drop role ${quoted}`)
  })
})
