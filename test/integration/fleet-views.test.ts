// The views over several sources: what they show, that they follow the sources, who may read them, and that they are in nobody's way.

import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { environmentOf } from '../../src/config/of-source.ts'
import { openContext, type SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { renewUnions, unionsStamp } from '../../src/store/book/fleet-views.ts'
import { dropSource } from '../../src/store/schema/drop-source.ts'
import { withConnection } from '../../src/store/server/session.ts'
import { neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'

describe.skipIf(!hasPostgres)('views over several sources', () => {
  const database = createTestDatabase()
  const roleName = () => `${database.name}_fleet`
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const asReader = (sql: string) =>
    withConnection(database.pool, async (client) => {
      await client.query(`set role ${roleName()}`)
      return (await client.query(sql).finally(() => client.query('reset role'))).rows
    })
  const open = (simulator: Simulator, source: string) =>
    openContext({
      config: loadConfig(
        environmentOf(source, environmentFor(simulator, database, { STREAMS: 'assignment' })),
      ),
      log: quietLog,
    })
  const read = async (context: SyncContext) => {
    for (const stream of context.streams)
      expect(await context.read(stream, 'incremental', { signal })).toMatchObject({ status: 'done' })
  }
  const renew = (groups: Readonly<Record<string, readonly string[]>> = {}) =>
    renewUnions(
      database.pool,
      { groups: new Map(Object.entries(groups)), fleetBiRole: roleName(), sourceTimezone: 'UTC' },
      quietLog,
    )
  const columnsOf = async (view: string): Promise<Readonly<Record<string, string>>> =>
    Object.fromEntries(
      (
        await query(
          `select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
           where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
          [view],
        )
      ).map(({ name, type }) => [name, type]),
    )
  const counts = async (view: string) =>
    Object.fromEntries(
      (await query(`select source, count(*)::int as rows from ${view} group by 1 order by 1`)).map(
        ({ source, rows }) => [source, rows],
      ),
    )

  it('show what the views of all sources show, follow them, and hold none of them up (P19, P20)', async () => {
    const role = roleName()
    await query(`create role ${role} login`)
    try {
      await using simulator = await startSimulator({ assignments: 20 })
      await using other = await startSimulator({
        ...{ seed: 2, assignments: 25 },
        credentials: { clientGuid: '00000000-0000-4000-8000-0000000000aa' },
      })
      for (const id of [1, 2]) simulator.source.change('assignment', id, { Weight: 5, Both: 'a text' })
      for (const id of [3, 4]) other.source.change('assignment', id, { Own: true, Weight: 7, Both: 12 })
      await using unnamed = await open(simulator, '')
      await using acme = await open(other, 'acme')
      await read(unnamed)
      await read(acme)
      expect(await renew({ production: ['acme'] })).toEqual({ remarks: [], isWhole: true })
      expect(await counts('fleet.assignment')).toEqual({ acme: 25, environment: 20 })
      expect(await counts('fleet_production.assignment')).toEqual({ acme: 25 })
      const columns = await columnsOf('fleet.assignment')
      expect(Object.keys(columns)[0]).toBe('source')
      expect(columns).toMatchObject({ own: 'boolean', weight: 'bigint', both: 'text' })
      const shown = new Set(
        Object.keys({ ...(await columnsOf('bi.assignment')), ...(await columnsOf('acme.assignment')) }),
      )
      expect(Object.keys(columns).filter((name) => name !== 'source' && !shown.has(name))).toEqual([])
      const stamp = await unionsStamp(database.pool)
      await renew({ production: ['acme'] })
      expect(await unionsStamp(database.pool)).toBe(stamp)

      // Who reads the fleet reads nothing else.
      expect(await asReader('select count(*)::int as rows from fleet.assignment')).toEqual([{ rows: 45 }])
      expect(
        await asReader(`select source, state from fleet.freshness where stream = 'assignment' order by 1`),
      ).toMatchObject([{ source: 'acme' }, { source: 'environment' }])
      for (const table of [
        'acme.assignment',
        'acme_mirror.assignment',
        'bi.assignment',
        'tidemark.freshness',
      ])
        await expect(asReader(`select from ${table}`)).rejects.toThrow('permission denied')

      await query(`revoke select on fleet.assignment from ${role}`)
      await renew({ production: ['acme'] })
      await expect(asReader('select from fleet.assignment')).rejects.toThrow('permission denied')
      await query(`grant select on fleet.assignment to ${role}`)

      // A column that outgrows its type is changed although the view shows it, and the view has all rows all the time.
      other.source.change('assignment', 3, { Weight: 1e25, Later: 'new' })
      await read(acme)
      expect(
        await query(`select weight::text from fleet.assignment where source = 'acme' and assignment_id = 3`),
      ).toEqual([{ weight: '10000000000000000000000000' }])
      expect(await columnsOf('acme.assignment')).toMatchObject({ weight: 'numeric' })
      expect(await counts('fleet.assignment')).toEqual({ acme: 25, environment: 20 })
      expect(await unionsStamp(database.pool)).not.toBe(stamp)
      // With the rights that were given.
      expect(await asReader('select count(*)::int as rows from fleet.assignment')).toEqual([{ rows: 45 }])
      await query('create view public.report as select source, assignment_id from fleet.assignment')
      expect(await renew()).toMatchObject({ isWhole: true })
      expect(Object.keys(await columnsOf('fleet.assignment')).at(-1)).toBe('later')
      expect(await query(`select from pg_namespace where nspname = 'fleet_production'`)).toEqual([])
      expect(await asReader('select count(*)::int as rows from fleet.assignment')).toEqual([{ rows: 45 }])

      // A source that is dropped is taken out first. What was built on the view stays.
      await query(`insert into tidemark.source_config (name, settings, tags, generation, changed_by, gone_at)
        values ('acme', '{}', '{}', 0, '', now())`)
      await dropSource(database.pool, 'acme')
      expect(await counts('fleet.assignment')).toEqual({ environment: 20 })
      expect(await query('select count(*)::int as rows from public.report')).toEqual([{ rows: 20 }])
      expect(await renew()).toMatchObject({ isWhole: true })
      expect(await asReader('select count(*)::int as rows from fleet.assignment')).toEqual([{ rows: 20 }])
    } finally {
      await query(`drop view if exists public.report; drop owned by ${role}; drop role ${role}`)
    }
  })

  it('have at most 250 members, and take no schema of somebody else', async () => {
    await query('drop schema if exists fleet cascade; create schema fleet')
    await expect(renew()).rejects.toThrow('needs the schema fleet, and somebody else has one of that name')
    await query('drop schema fleet')
    await query(`do $$ begin for n in 1..251 loop
      execute format('create schema many_%s; create view many_%1$s.thing as select 1 as thing_id;
        create schema many_%1$s_mirror; create table many_%1$s_mirror.thing (thing_id int primary key, again int unique)', n);
      insert into tidemark.stream (name) values (format('many_%s.thing', n));
    end loop; end $$`)
    const role = roleName()
    await query(`create role ${role} login`)
    try {
      expect((await renew()).remarks).toEqual([
        expect.stringContaining('There is no view fleet.thing: 251 sources have that stream'),
      ])
      await query(`delete from tidemark.stream where name = 'many_1.thing'`)
      const [{ room }] = await query(
        `select current_setting('max_locks_per_transaction')::int
           * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) as room`,
      )
      const locks = 'A query of fleet.thing takes 1,001 locks'
      expect(await renew()).toEqual({
        isWhole: true,
        remarks: room < 10_010 ? [expect.stringContaining(locks)] : [],
      })
      expect(await query('select count(*)::int as rows from fleet.thing')).toEqual([{ rows: 250 }])
    } finally {
      await query(`drop owned by ${role}; drop role ${role}`)
    }
  })
})
