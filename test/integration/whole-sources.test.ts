// Of sources that a worker has opened before it is seen with a few statements that they have all that they need. Whatever somebody did to
// one of them meanwhile, that one is prepared again, and no other (P15, P19).

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { environmentOf } from '../../src/config/of-source.ts'
import { openContext, type SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { noteWhole, wholeSources } from '../../src/whole-sources.ts'
import { neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { fileOfSources } from '../support/kept-sources.ts'
import { startTestWorker } from '../support/worker.ts'

const names = ['acme', 'other']

describe.skipIf(!hasPostgres)('sources that were opened before', () => {
  const database = createTestDatabase()
  const query = async (sql: string) => (await database.pool.query(sql)).rows
  let simulator: Simulator
  let first: SyncContext
  let role: string

  const configOf = (source: string, more: Readonly<Record<string, string>> = {}) =>
    loadConfig(
      environmentOf(source, environmentFor(simulator, database, { HISTORY: 'all', BI_ROLE: role, ...more })),
    )
  const whole = async (more?: Readonly<Record<string, string>>, version = '1.0.0') => [
    ...(await wholeSources(
      first.database,
      names.map((name) => configOf(name, more)),
      { version, log: quietLog },
    )),
  ]
  const open = async (source: string, more?: Readonly<Record<string, string>>) => {
    const config = configOf(source, more)
    const isWhole = (await whole(more)).includes(source)
    const context = await openContext({
      ...{ config, database: first.database, log: quietLog, descriptionAgeMs: 0, isWhole },
    })
    if (context.descriptions.isWhole()) await noteWhole(first.database, config, '1.0.0')
    return context
  }
  /** That one is prepared, and the other one is not; afterwards neither is. */
  const expectNoticed = async (what: string, more?: Readonly<Record<string, string>>) => {
    expect([what, await whole(more)]).toEqual([what, ['other']])
    await using context = await open('acme', more)
    expect(context.descriptions.isWhole()).toBe(true)
    // The next run would act upon it.
    await query('delete from tidemark.local_change')
    expect([what, (await whole(more)).toSorted()]).toEqual([what, names])
  }

  beforeAll(async () => {
    role = `${database.name}_bi`
    await query(`create role ${role}`)
    simulator = await startSimulator({ assignments: 5, notes: 3 })
    first = await openContext({ config: configOf(''), log: quietLog })
    for (const name of names) {
      await query(
        `insert into tidemark.source_config (name, settings, tags, generation, changed_by) values ('${name}', '{}', '{}', 0, '')`,
      )
      await using context = await open(name)
      for (const stream of context.streams)
        if (stream.name.endsWith('.assignment')) await context.read(stream, 'incremental', { signal })
    }
  })
  afterAll(async () => {
    await query(`drop owned by ${role}; drop role ${role}`)
    await first[Symbol.asyncDispose]()
    await simulator.close()
  })

  it('need nothing, also when their first rows have brought columns and histories', async () => {
    for (const name of names) await (await open(name))[Symbol.asyncDispose]()
    expect((await whole()).toSorted()).toEqual(names)
    // Nothing is asked of the upstream, and nothing is made.
    simulator.requests.start()
    const made = `select count(*)::int as count from pg_class where xmin::text::bigint > (select max(xmin::text::bigint) from tidemark.source_config)`
    const before = await query(made)
    await (await open('acme'))[Symbol.asyncDispose]()
    expect(await query(made)).toEqual(before)
    expect(simulator.requests.entries).toEqual([])
  })

  it.each([
    ['a table is dropped', 'drop table acme_mirror.assignment_note cascade'],
    ['a column is dropped', 'alter table acme_mirror.assignment drop column subject cascade'],
    ['the key is dropped', 'alter table acme_mirror.assignment drop constraint assignment_pkey cascade'],
    [
      'a table is not watched any more',
      'alter table acme_mirror.assignment disable trigger tidemark_local_delete',
    ],
    [
      'a table is another one, as after a part of a backup was restored',
      `alter table acme_mirror.assignment_note rename to aside;
       create table acme_mirror.assignment_note (like acme_mirror.aside including all)`,
    ],
    ['a view of its state is dropped', 'drop view acme.in_doubt'],
    ['its dictionary is dropped', 'drop view acme.dictionary'],
    ['a schema is dropped', 'drop schema acme_past cascade'],
    [
      'its past is not shown',
      `update tidemark.stream set history_from = null where name = 'acme.assignment'`,
    ],
    ['a stream is not known', `delete from tidemark.stream where name = 'acme.assignment_object'`],
    ['it is not noted whose rows they are', `delete from tidemark.source where name = 'acme'`],
    [
      'its readers were not given a view',
      `create view acme.another as select 1 as one; revoke select on acme.another from BI`,
    ],
    [
      'another version has made it',
      `update tidemark.source_config set made_by = 'another' where name = 'acme'`,
    ],
  ])('are prepared anew when %s', async (what, sql) => {
    await query(sql.replaceAll('BI', role))
    await expectNoticed(what)
  })

  it.each([
    ['somebody wrote rows', `update acme_mirror.assignment set _synced_at = now()`, 'local_change'],
    [
      'a worker told that it is not read',
      `insert into tidemark.notice (key, what) values ('source_stopped:acme', 'not read')`,
      'notice',
    ],
    [
      'the description of the upstream cannot be used',
      `insert into tidemark.contract_check (service, problem) values ('acme.assignment', 'no JSON')`,
      'contract_check',
    ],
  ])('are prepared until it is over that %s', async (_what, sql, table) => {
    await query(sql)
    expect(await whole()).toEqual(['other'])
    await query(`delete from tidemark.${table}`)
    expect((await whole()).toSorted()).toEqual(names)
  })

  it('are prepared anew after a run has made a table again without what the description said', async () => {
    await using context = await open('acme')
    const stream = context.streams.find(({ name }) => name === 'acme.assignment_note')
    if (!stream) throw new Error('no acme.assignment_note')
    await context.read(stream, 'incremental', { signal })
    expect((await whole()).toSorted()).toEqual(names)
    await query('drop table acme_mirror.assignment_note cascade')
    await context.read(stream, 'incremental', { signal })
    expect(
      await query(`select count(*)::int as open from tidemark.local_change where run_id is null`),
    ).toEqual([{ open: 0 }])
    await expectNoticed('a run has made a table again')
  })

  it('have noted what their readers were given and what was taken from them, without being prepared', async () => {
    await query(`create view acme.given as select 1 as one; revoke select on acme.freshness from ${role}`)
    expect((await whole()).toSorted()).toEqual(names)
    expect(
      await query(
        `select object, revoked_at is null as "isHeld" from tidemark.granted
         where role = '${role}' and object in ('acme.given', 'acme.freshness') order by 1`,
      ),
    ).toEqual([
      { object: 'acme.freshness', isHeld: false },
      { object: 'acme.given', isHeld: true },
    ])
  })

  it('are prepared when settings, the role of readers or the version are others, and when what is behind their views is', async () => {
    expect(await whole({}, '2.0.0')).toEqual([])
    expect(await whole({ KEY_TRACKER_OBJECT: 'another' })).toEqual([])
    expect(await whole({ CONTRACT: '/nowhere/description.json' })).toEqual([])
    expect(await whole({ ASSIGNMENT_BASE_URL: 'https://another.example/assignment' })).toEqual([])
    expect(await whole({ BI_SCHEMAS: 'bi' })).toEqual([])
    expect(await whole({ BI_ROLE: `${role}_2` })).toEqual([])
    await query(`drop owned by ${role}; drop role ${role}; create role ${role}`)
    expect(await whole()).toEqual([])
    for (const name of names) await (await open(name))[Symbol.asyncDispose]()
    expect((await whole()).toSorted()).toEqual(names)
    await query('alter table tidemark.label add column another int')
    expect(await whole()).toEqual([])
  })

  it('are none while Postgres does not tell', async () => {
    await query('alter table tidemark.source_config rename to aside')
    expect(await whole()).toEqual([])
    await query('alter table tidemark.aside rename to source_config')
  })
})

describe.skipIf(!hasPostgres)('a worker that is started again', () => {
  const database = createTestDatabase()

  it('reads a source that was opened before without asking its upstream how it describes itself', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    await using acme = await startSimulator({
      ...{ seed: 2, assignments: 6 },
      credentials: { clientGuid: '00000000-0000-4000-8000-000000000001' },
    })
    const { assignmentUrl, authUrl, credentials } = acme
    const { path } = fileOfSources({
      sources: {
        acme: {
          ...{ assignment_base_url: assignmentUrl, auth_url: authUrl, streams: 'assignment' },
          ...{ client_guid: credentials.clientGuid, subject_id: credentials.subjectId },
          ...{ api_key: 'env:ACME_KEY', schedule_assignment: '1s' },
        },
      },
    })
    acme.requests.start()
    const asked = () => acme.requests.entries.filter(({ path }) => /openapi|swagger/i.test(path)).length
    const count = async () =>
      (await database.pool.query('select count(*)::int as rows from acme.assignment')).rows[0].rows
    for (const rows of [6, 7]) {
      const worker = await startTestWorker(simulator, database, {
        ...{ SOURCES_FILE: path, STREAMS: 'assignment', ACME_KEY: credentials.apiKey },
      })
      try {
        const soon = { timeout: 60_000, interval: 200 }
        await expect.poll(() => worker.logged().join(' '), soon).toContain('A source is read from now on')
        await expect.poll(count, soon).toBe(rows)
        expect(asked() > 0).toBe(rows === 6)
      } finally {
        await worker.stop()
      }
      acme.requests.clear()
      acme.source.insert('assignment')
    }
  })
})
