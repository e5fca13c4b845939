// Two roles instead of one: an owner, as whom only `tidemark migrate` runs, and that of the workers, who can do their work and nothing that
// would hide what was done. An administrator makes both, also where one superuser did everything before.

import pg from 'pg'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { exitCodeOf } from '../../src/cli/exit.ts'
import { probePostgres } from '../../src/cli/probe-checks.ts'
import { loadConfig } from '../../src/config/load.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark } from '../support/program.ts'
import { differences } from '../support/same-as-source.ts'
import { callVerb } from '../support/verbs.ts'
import { startTestWorker } from '../support/worker.ts'

const password = 'secret-of-the-role'

describe.skipIf(!hasPostgres || inject('redisUrl') === null)('a worker that is not the owner', () => {
  const database = createTestDatabase({ isMigrated: false, forEach: true })
  const roles = () => ({
    OWNER_ROLE: `${database.name}_owner`,
    WORKER_ROLE: `${database.name}_worker`,
    BI_ROLE: `${database.name}_bi`,
  })
  /** A role that made everything before there were two. */
  const earlier = () => `${database.name}_earlier`
  const given = () => ({ ...roles(), WORKER_PASSWORD: password, BI_PASSWORD: 'another-secret' })
  const as = (username: string, key = password) =>
    Object.assign(new URL(database.url), { username, password: key }).href
  const run = (sql: string, values: readonly unknown[] = []) => database.pool.query(sql, [...values])
  const migrate = async (more: Readonly<Record<string, string>> = given(), url = database.url) => {
    const { code, error, logged } = await callVerb(['migrate'], { DATABASE_URL: url, ...more })
    return error === null ? { code, stderr: logged } : { code: exitCodeOf(error), stderr: String(error) }
  }
  async function connected<Result>(
    url: string,
    work: (client: pg.Client) => Promise<Result>,
  ): Promise<Result> {
    const client = new pg.Client(url)
    await client.connect()
    try {
      return await work(client)
    } finally {
      await client.end()
    }
  }
  const start = (
    simulator: Simulator,
    url = as(roles().WORKER_ROLE),
    more: Readonly<Record<string, string | undefined>> = {},
  ) =>
    startTestWorker(
      simulator,
      { url },
      {
        ...{ STREAMS: 'assignment,assignment_note', RELATED: 'true', HISTORY: 'assignment' },
        ...{ SCHEDULE_ASSIGNMENT: '1s', SCHEDULE_RECONCILE: '2s', BI_ROLE: roles().BI_ROLE },
        REDIS_URL: inject('redisUrl') ?? undefined,
        ...more,
      },
    )
  const isReconciled = async () =>
    (await run(`select last_reconcile_at from tidemark.stream where name = 'assignment'`)).rows[0]
      ?.last_reconcile_at !== null

  afterEach(async () => {
    await run(`alter database ${database.name} owner to current_user`)
    for (const name of [...Object.values(roles()), earlier()])
      if ((await run('select from pg_roles where rolname = $1', [name])).rowCount === 1)
        await run(`drop owned by ${name} cascade; drop role ${name}`)
  })

  it('can do all that a worker does, and cannot change what it is: no table, function or line of the record', async () => {
    expect(await runTidemark(['migrate'], { DATABASE_URL: database.url, ...given() })).toMatchObject({
      code: 0,
    })
    await using simulator = await startSimulator({ assignments: 30, notes: 20 })
    const worker = await start(simulator)
    try {
      for (const stream of ['assignment', 'assignment_note'] as const)
        await expect.poll(() => differences(database.pool, simulator, stream)).toEqual([])
      simulator.source.change('assignment', 3, { NewOfTheDay: 'x' })
      await expect
        .poll(async () => (await run('select count(new_of_the_day)::int as n from bi.assignment')).rows)
        .toEqual([{ n: 1 }])
      await expect
        .poll(async () => (await run('select from mirror.assignment_history')).rowCount)
        .toBeGreaterThan(0)
      await expect.poll(isReconciled).toBe(true)
      expect(
        worker.logged().filter((line) => /permission denied|must be owner|"level":[56]0/.test(line)),
      ).toEqual([])
    } finally {
      await worker.stop()
    }
    await connected(as(roles().WORKER_ROLE), async (client) => {
      await client.query(`insert into tidemark.action_log (who, door, address, action, target, result, told)
        values ('', 'console', '', 'pause', 'assignment', 'done', '')`)
      for (const attempt of [
        `update tidemark.action_log set who = 'x'`,
        'truncate tidemark.action_log',
        'drop table tidemark.action_log',
        'alter table tidemark.action_log disable trigger all',
        `create or replace function tidemark.keep_action() returns trigger language plpgsql as 'begin return old; end'`,
        'delete from tidemark.migration',
        'alter table tidemark.stream add column x int',
        'create schema another',
        'drop schema tidemark cascade',
        `set role ${roles().OWNER_ROLE}`,
        `copy (select 1) to program 'true'`,
        `select pg_read_file('/etc/passwd')`,
      ])
        await expect(client.query(attempt), attempt).rejects.toThrow(/permission denied|must be owner/)
      await expect(client.query('delete from tidemark.action_log')).rejects.toThrow('are not changed')
      const { rows } = await client.query(
        `select rolsuper or rolcreaterole or rolcreatedb or rolbypassrls as is_mighty from pg_roles where rolname = current_user`,
      )
      expect(rows).toEqual([{ is_mighty: false }])
      // It ends readers that hold up a new column, and sees for how long they have.
      const reader = new pg.Client(as(roles().BI_ROLE, 'another-secret'))
      reader.on('error', () => {})
      await reader.connect()
      await reader.query('begin; select from bi.assignment')
      const { rows: ended } = await client.query(
        'select pg_terminate_backend(pid) as ended from pg_stat_activity where usename = $1 and xact_start is not null',
        [roles().BI_ROLE],
      )
      expect(ended).toEqual([{ ended: true }])
    })
    await connected(as(roles().BI_ROLE, 'another-secret'), async (client) => {
      expect((await client.query('select from bi.assignment')).rowCount).toBe(30)
      expect((await client.query('select from tidemark.freshness')).rowCount).toBeGreaterThan(0)
      await expect(client.query('create temp table x (y int)')).rejects.toThrow('permission denied')
    })
  })

  it('works with several hosts in DATABASE_URL, and with the queue in Postgres', async () => {
    const { host } = new URL(database.url)
    const several = database.url.replace(`@${host}/`, `@${host},${host}/`)
    expect(await migrate(given(), several)).toMatchObject({
      code: 0,
      stderr: expect.not.stringContaining('Invalid'),
    })
    const { rows } = await run(
      `select distinct pg_get_userbyid(relowner) as owner from pg_class where relnamespace = 'tidemark'::regnamespace`,
    )
    expect(rows).toEqual([{ owner: roles().OWNER_ROLE }])
    await using simulator = await startSimulator({ assignments: 10, notes: 5 })
    const url = several.replace(/\/\/[^@]*@/, `//${roles().WORKER_ROLE}:${password}@`)
    const worker = await start(simulator, url, { REDIS_URL: undefined })
    try {
      await expect.poll(() => differences(database.pool, simulator, 'assignment')).toEqual([])
    } finally {
      await worker.stop()
    }
  })

  it('goes on where one superuser did everything before, rows, history and record included', async () => {
    await run(`create role ${roles().BI_ROLE} login password 'their-own'`)
    await using simulator = await startSimulator({ assignments: 30, notes: 5 })
    const before = await start(simulator, database.url)
    await expect.poll(() => differences(database.pool, simulator, 'assignment')).toEqual([])
    await before.stop()
    await run('create view bi.of_an_analyst as select assignment_id from bi.assignment')
    expect(await migrate()).toMatchObject({ code: 0 })
    // Again, as at each start of compose: nothing more is to be done.
    expect(await migrate()).toMatchObject({ code: 0 })
    const worker = await start(simulator)
    try {
      simulator.source.change('assignment', 3, { NewOfTheDay: 'x' })
      await expect.poll(() => differences(database.pool, simulator, 'assignment')).toEqual([])
      await expect
        .poll(
          async () =>
            (
              await run(
                'select count(*)::int as n from mirror.assignment_history where new_of_the_day is not null',
              )
            ).rows,
        )
        .toEqual([{ n: 1 }])
      expect(
        worker.logged().filter((line) => /permission denied|must be owner|"level":[56]0/.test(line)),
      ).toEqual([])
    } finally {
      await worker.stop()
    }
    const { rows: owners } = await run(
      `select distinct nspname, rolname from pg_class join pg_namespace on pg_namespace.oid = relnamespace join pg_roles on pg_roles.oid = relowner
       where nspname in ('mirror', 'bi', 'tidemark') and relkind in ('r', 'p', 'v') and relname not like '%_history_20%' order by 1`,
    )
    expect(owners).toEqual([
      { nspname: 'bi', rolname: roles().WORKER_ROLE },
      { nspname: 'mirror', rolname: roles().WORKER_ROLE },
      { nspname: 'tidemark', rolname: roles().OWNER_ROLE },
    ])
    // The role was there, and keeps its password.
    expect(
      (
        await connected(as(roles().BI_ROLE, 'their-own'), (client) =>
          client.query('select from bi.assignment'),
        )
      ).rowCount,
    ).toBe(30)
  })

  const ownersSql = `select distinct nspname, rolname from pg_class join pg_namespace on pg_namespace.oid = relnamespace join pg_roles on pg_roles.oid = relowner
    where nspname in ('mirror', 'bi', 'tidemark', 'bullmq') and relkind in ('r', 'p', 'v') and relname not like '%_history_20%' order by 1`

  it.each([
    ['the role that the workers keep', 'a superuser', () => roles().WORKER_ROLE],
    ['the role that the workers keep', 'the owner', () => roles().WORKER_ROLE],
    ['a third role', 'a superuser', earlier],
    ['a third role', 'the owner', earlier],
  ])('is made of %s, by %s: what it owned is shared out, also a second time', async (_, by, roleOf) => {
    const [before, { OWNER_ROLE: owner, WORKER_ROLE: name }] = [roleOf(), roles()]
    await run(
      `create role ${before} login password '${password}'; alter database ${database.name} owner to ${before}`,
    )
    expect(await migrate({}, as(before))).toMatchObject({ code: 0 })
    await using simulator = await startSimulator({ assignments: 5, notes: 5 })
    const worker = await start(simulator, as(before), { REDIS_URL: undefined, BI_ROLE: undefined })
    await expect.poll(() => differences(database.pool, simulator, 'assignment')).toEqual([])
    await worker.stop()
    if (by === 'the owner')
      await run(`create role ${owner} login password '${password}'; ${before === name ? '' : `create role ${name} login password '${password}';`}
        alter database ${database.name} owner to ${owner}; grant ${name} to ${owner}`)
    const share = () =>
      by === 'the owner'
        ? migrate({ WORKER_ROLE: name }, as(owner))
        : migrate({ ...roles(), BI_ROLE: '', WORKER_PASSWORD: password })
    if (by === 'the owner' && before !== name) {
      expect(await share()).toMatchObject({
        code: 4,
        stderr: expect.stringContaining(`grant ${before} to ${owner}`),
      })
      await run(`grant ${before} to ${owner}`)
    }
    for (let time = 0; time < 2; time++) expect(await share()).toMatchObject({ code: 0 })
    expect((await run(ownersSql)).rows).toEqual([
      ...['bi', 'bullmq', 'mirror'].map((nspname) => ({ nspname, rolname: name })),
      { nspname: 'tidemark', rolname: owner },
    ])
    const config = loadConfig(environmentFor(simulator, { url: as(name) }))
    const probed = await probePostgres(config, quietLog)
    expect(probed.map((check) => check.name)).toContain('postgres sessions')
    expect(probed.map((check) => check.name)).not.toContain('postgres role')
    await connected(as(name), async (client) => {
      for (const attempt of [
        'drop table tidemark.action_log',
        'alter table tidemark.action_log disable trigger all',
      ])
        await expect(client.query(attempt), attempt).rejects.toThrow('must be owner')
    })
  })

  it('works where an administrator who is no superuser makes the roles by hand, as the guide says', async () => {
    const { OWNER_ROLE: owner, WORKER_ROLE: name, BI_ROLE: bi } = roles()
    await run(`create role ${owner} login password '${password}'; create role ${name} login password '${password}';
      create role ${bi} login password '${password}'; grant ${name} to ${owner};
      grant pg_signal_backend, pg_read_all_stats to ${name}; alter database ${database.name} owner to ${owner}`)
    expect(await migrate({ WORKER_ROLE: 'nobody' }, as(owner))).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('WORKER_ROLE is nobody, but this Postgres has no such role'),
    })
    for (let time = 0; time < 2; time++)
      expect(await migrate({ WORKER_ROLE: name, BI_ROLE: bi }, as(owner))).toMatchObject({ code: 0 })
    await using simulator = await startSimulator({ assignments: 10, notes: 5 })
    const worker = await start(simulator)
    try {
      await expect.poll(() => differences(database.pool, simulator, 'assignment')).toEqual([])
      expect(
        worker.logged().filter((line) => /permission denied|must be owner|"level":[56]0/.test(line)),
      ).toEqual([])
    } finally {
      await worker.stop()
    }
    const queued = await start(simulator, as(name), { REDIS_URL: undefined, BI_ROLE: undefined })
    try {
      simulator.source.change('assignment', 3, { Title: 'read by a run from the queue in Postgres' })
      await expect.poll(() => differences(database.pool, simulator, 'assignment')).toEqual([])
    } finally {
      await queued.stop()
    }
    await connected(as(bi), async (client) => {
      expect((await client.query('select from bi.assignment')).rowCount).toBe(10)
      // The owner of the database may see to this.
      await expect(client.query('create temp table x (y int)')).rejects.toThrow('permission denied')
    })
  })

  it('is told who has to migrate, and an administrator what is missing', async () => {
    expect(await migrate()).toMatchObject({ code: 0 })
    await run(`alter role ${roles().WORKER_ROLE} superuser`)
    expect(await migrate()).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('Choose a role that is no superuser'),
    })
    await run(`alter role ${roles().WORKER_ROLE} nosuperuser`)
    await run('delete from tidemark.migration where id = (select max(id) from tidemark.migration)')
    await run('drop table tidemark.role_limit; drop view tidemark.action')
    expect(await migrate({}, as(roles().WORKER_ROLE))).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('Run `tidemark migrate` as the role that owns the schema tidemark.'),
    })
    expect(await migrate({ ...given(), WORKER_ROLE: '' })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('WORKER_ROLE'),
    })
    expect(await migrate(given(), as(roles().WORKER_ROLE))).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('OWNER_ROLE is for a superuser of Postgres'),
    })
  })
})
