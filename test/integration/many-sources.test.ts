// Two sources in one database, whose records have equal keys: the rows, the state and the readers of one have nothing to do with those of
// the other (P19).

import { describe, expect, it } from 'vitest'
import { noAlertFile } from '../../src/config/alert-file.ts'
import { loadConfig } from '../../src/config/load.ts'
import { environmentOf } from '../../src/config/of-source.ts'
import { openContext, type SyncContext } from '../../src/context.ts'
import { readProblems } from '../../src/problems/find-problems.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { dropSource } from '../../src/store/schema/drop-source.ts'
import { withConnection } from '../../src/store/server/session.ts'
import type { Stream } from '../../src/streams/catalog.ts'
import { baseOf, sourceIn } from '../../src/streams/names.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { dynamicIn } from '../support/settings.ts'

const otherGuid = '00000000-0000-4000-8000-0000000000aa'

describe.skipIf(!hasPostgres)('two sources in one database', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows

  const open = (simulator: Simulator, source: string, more: Readonly<Record<string, string>> = {}) =>
    openContext({
      config: loadConfig(
        environmentOf(
          source,
          environmentFor(simulator, database, {
            ...{ REQUEST_TIMEOUT: '2s', RELATED: 'true', HISTORY: 'all' },
            ...more,
          }),
        ),
      ),
      log: quietLog,
    })
  const streamIn = (context: SyncContext, base: string): Stream => {
    const found = context.streams.find(({ name }) => baseOf(name) === base)
    if (!found) throw new Error(`no ${base}`)
    return found
  }
  const readAll = async (context: SyncContext) => {
    for (const stream of context.streams)
      expect(await context.read(stream, 'incremental', { signal })).toMatchObject({ status: 'done' })
    await context.readRelated({ signal })
  }
  /** All rows of all tables of a source, and all state of its streams. */
  const allOf = async (source: string): Promise<string> => {
    const tables = await query(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = $1 order by 1`,
      [source === '' ? 'mirror' : `${source}_mirror`],
    )
    const parts: unknown[] = []
    for (const { name } of tables)
      parts.push([
        name,
        (await query(`select mine::text from ${name} as mine order by 1`)).map(String),
        await query(
          `select md5(string_agg(mine::text, '' order by mine::text)) as all, count(*) from ${name} as mine`,
        ),
      ])
    const prefix = source === '' ? '' : `${source}.`
    const state = await query(
      `select format('%I', table_name) as name, column_name as stream from information_schema.columns
       where table_schema = 'tidemark' and column_name in ('stream', 'table')
         and table_name not in ('freshness', 'in_doubt', 'minute', 'private_field') order by 1`,
    )
    for (const { name, stream } of state)
      parts.push([
        name,
        await query(
          `select md5(string_agg(mine::text, '' order by mine::text)) as all, count(*) from tidemark.${name} as mine
           where case when $1 = '' then strpos("${stream}", '.') = 0 else starts_with("${stream}", $1) end`,
          [prefix],
        ),
      ])
    parts.push(
      await query(
        `select md5(string_agg(mine::text, '' order by mine::text)) as all, count(*) from tidemark.related_fetch as mine where source = $1`,
        [source],
      ),
    )
    parts.push(
      await query(
        `select name, position, table_oid from tidemark.stream
        where case when $1 = '' then strpos(name, '.') = 0 else starts_with(name, $1) end order by name`,
        [prefix],
      ),
    )
    return JSON.stringify(parts, null, 1)
  }
  const start = () => startSimulator({ assignments: 20, notes: 10, objects: 3 })
  /** Its keys are those of the first one, and its records are others. */
  const startOther = () =>
    startSimulator({
      seed: 2,
      assignments: 25,
      notes: 10,
      objects: 3,
      credentials: { clientGuid: otherGuid },
    })

  it('keep their rows apart, whatever is read, deleted, compared or damaged in one (P19)', async () => {
    await using simulator = await start()
    await using otherSimulator = await startOther()
    await using unnamed = await open(simulator, '')
    await using acme = await open(otherSimulator, 'acme')
    await readAll(unnamed)
    const before = await allOf('')
    await readAll(acme)
    expect(await allOf('')).toBe(before)
    const subjects = async (schema: string) =>
      (await query(`select assignment_id::int as id, subject from ${schema}.assignment order by 1`)).map(
        ({ id, subject }) => [id, subject],
      )
    const truth = (source: Simulator['source']) =>
      source.records('assignment').map((one) => [one.AssignmentId, one.Subject])
    expect(await subjects('bi')).toEqual(truth(simulator.source))
    expect(await subjects('acme')).toEqual(truth(otherSimulator.source))

    const other = otherSimulator.source
    for (const id of [1, 2, 3]) other.change('assignment', id, { Subject: `acme ${id}` })
    other.remove('assignment', 5, 'hard')
    await query(`delete from acme_mirror.assignment where assignment_id = 7`)
    await readAll(acme)
    const assignment = streamIn(acme, 'assignment')
    if (assignment.kind !== 'changes') throw new Error('assignments have row versions')
    const contextOf = { ...acme.contextOf(assignment), signal }
    await findDeletions(contextOf)
    await reconcileStream({ ...contextOf, approved: 0 })
    await readAll(acme)
    expect(await subjects('acme')).toEqual(truth(other))
    expect(
      await query(`select operation from tidemark.local_change where stream = 'acme.assignment'`),
    ).toEqual([{ operation: 'delete' }])
    expect(await allOf('')).toBe(before)
    expect(
      await query(
        `select stream, source, base from tidemark.freshness where base = 'assignment' order by stream`,
      ),
    ).toEqual([
      { stream: 'acme.assignment', source: 'acme', base: 'assignment' },
      { stream: 'assignment', source: '', base: 'assignment' },
    ])
    expect(
      await query(`select count(*)::int as lines from acme.assignment_history where subject = 'acme 1'`),
    ).toEqual([{ lines: 1 }])
    expect(await query(`select count(*)::int as rows from acme.assignment_at(now())`)).toEqual([{ rows: 24 }])

    // Each is late by what it says itself.
    const settings = { '': dynamicIn({ STALE_AFTER: '1m' }), acme: dynamicIn({ STALE_AFTER: '1h' }) }
    const lateIn = async (minutes: number) =>
      (
        await readProblems({
          ...{ pool: database.pool, streams: [...unnamed.streams, ...acme.streams], view: { parts: [] } },
          config: { dynamic: settings[''], alertFile: noAlertFile },
          settingsOf: (stream) => settings[sourceIn(stream) as keyof typeof settings].now(),
          now: new Date(Date.now() + minutes * 60_000),
        })
      ).flatMap(({ kind, stream }) => (kind === 'stale' && stream?.endsWith('assignment') ? stream : []))
    expect(await lateIn(10)).toEqual(['assignment'])
    expect((await lateIn(120)).toSorted()).toEqual(['acme.assignment', 'assignment'])
  })

  it('show each role its own source, and nothing of another one or of the state (P19)', async () => {
    const roles = { '': `${database.name}_one`, acme: `${database.name}_two` }
    for (const role of Object.values(roles)) await query(`create role ${role} login`)
    try {
      await using simulator = await start()
      await using otherSimulator = await startOther()
      await using unnamed = await open(simulator, '', { BI_ROLE: roles[''] })
      await using acme = await open(otherSimulator, 'acme', { BI_ROLE: roles.acme })
      await readAll(unnamed)
      await readAll(acme)
      const readable = async (role: string) =>
        (
          await query(
            `select nspname as schema, count(*)::int as objects from pg_class join pg_namespace on pg_namespace.oid = relnamespace
             where relkind in ('r', 'p', 'v') and nspname not in ('pg_catalog', 'information_schema')
               and has_schema_privilege($1, nspname, 'usage') and has_table_privilege($1, pg_class.oid, 'select')
             group by 1 order by 1`,
            [role],
          )
        ).map(({ schema }) => schema)
      expect(await readable(roles.acme)).toEqual(['acme', 'acme_mirror'])
      expect(await readable(roles[''])).toEqual(['bi', 'mirror', 'tidemark'])
      const asRole = (sql: string) =>
        withConnection(database.pool, async (client) => {
          await client.query(`set role ${roles.acme}`)
          await client.query(sql).finally(() => client.query('reset role'))
        })
      for (const sql of [
        'select * from acme.assignment',
        'select * from acme.assignment_history',
        'select * from acme.assignment_at(now())',
        'select * from acme.freshness',
        'select * from acme.dictionary',
        'select * from acme.assignment_customer',
      ])
        await asRole(sql)
      for (const sql of [
        'select * from bi.assignment',
        'select * from tidemark.freshness',
        'select * from tidemark.label',
      ])
        await expect(asRole(sql)).rejects.toThrow('permission denied')
      // Whoever gives rights again takes none of the other role.
      await using again = await open(simulator, '', { BI_ROLE: roles.acme })
      expect(await readable(roles.acme)).toEqual(['acme', 'acme_mirror', 'bi', 'mirror', 'tidemark'])
      expect(again.streams.length).toBeGreaterThan(0)
      // After a drop, a source of that name is a new one: also for its readers. One with a name that is like it stays.
      await query(
        `insert into tidemark.notice (key, what) values ('related_off:acmes.x', ''), ('related_off:acme_.x', '')`,
      )
      await query(`insert into tidemark.source_config (name, settings, tags, generation, changed_by, gone_at)
        values ('acme', '{}', '{}', 0, '', now())`)
      await dropSource(database.pool, 'acme')
      expect(await query(`select key from tidemark.notice order by 1`)).toHaveLength(2)
      await using anew = await open(otherSimulator, 'acme', { BI_ROLE: roles.acme })
      expect(anew.streams.length).toBeGreaterThan(0)
      expect(await readable(roles.acme)).toContain('acme')
    } finally {
      for (const role of Object.values(roles)) await query(`drop owned by ${role}; drop role ${role}`)
    }
  })
})
