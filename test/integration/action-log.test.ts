// The record of who did what: nobody changes a line unnoticed, and what changes nothing is in it too.

import { userInfo } from 'node:os'
import { describe, expect, it } from 'vitest'
import { actions } from '../../src/operator/actions.ts'
import { openBackgroundTasks } from '../../src/operator/background-tasks.ts'
import { performRecorded } from '../../src/operator/record-action.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import {
  checkActions,
  forgetOldActions,
  noteAction,
  noteResult,
  readActions,
} from '../../src/store/book/actions.ts'
import { openBrowsing } from '../support/browsing.ts'
import { openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { inFreshDirectory } from '../support/program.ts'
import { viewerToken } from '../support/served-actions.ts'
import { runHere } from '../support/verbs.ts'
import { adminToken, startTestWorker } from '../support/worker.ts'

const deed = (target: string) => ({
  ...{ who: 'ops-1', door: 'console', address: '127.0.0.1', action: 'pause', target },
  ...{ stream: null, reason: 'a "reason" – ø', confirmed: null, before: { paused: false } },
})

describe.skipIf(!hasPostgres)('the record of who did what', () => {
  const database = createTestDatabase({ forEach: true })
  const run = (sql: string) => database.pool.query(sql)
  /** As somebody would who owns the table. */
  const tamper = (sql: string) =>
    run(`alter table tidemark.action_log disable trigger all; ${sql};
      alter table tidemark.action_log enable always trigger chained, enable always trigger kept, enable always trigger kept_whole`)
  const write = async (many: number) => {
    const ids: string[] = []
    for (let n = 0; n < many; n++) {
      const id = await noteAction(database.pool, deed(`stream ${n}`))
      await noteResult(database.pool, id, { result: 'done', told: 'It is paused.', after: { paused: true } })
      ids.push(id)
    }
    return ids
  }
  const brokenLines = async (kept: string | null = null) => {
    const { broken, hasKept } = await checkActions(database.pool, kept)
    return { broken: broken.map(({ id, missing }) => [id, missing]), hasKept }
  }

  it('shows an action and what came of it as one, and takes no change of it', async () => {
    await write(2)
    const shown = await readActions(database.pool, { stream: null, before: null, limit: 9 })
    expect(shown).toMatchObject([
      { id: '3', target: 'stream 1', result: 'done', told: 'It is paused.', after: { paused: true } },
      { id: '1', target: 'stream 0', result: 'done', before: { paused: false } },
    ])
    for (const change of [
      `update tidemark.action_log set told = 'x' where id = 2`,
      'delete from tidemark.action_log where id = 2',
      'truncate tidemark.action_log',
      `set session_replication_role = replica; delete from tidemark.action_log`,
    ])
      await expect(run(change), change).rejects.toThrow('are not changed, and not removed')
    // Nor one that says it is older, or has another number.
    await run(
      `insert into tidemark.action_log (id, at, hash, result, told) values (1, '2001-01-01', 'x', 'done', '')`,
    )
    const { rows } = await run(
      `select id::int, at > now() - interval '1 minute' as "isNew" from tidemark.action_log order by id desc limit 1`,
    )
    expect(rows).toEqual([{ id: 5, isNew: true }])
    expect(await brokenLines()).toEqual({ broken: [], hasKept: null })
  })

  it('is one chain, however many write at once', async () => {
    await Promise.all(Array.from({ length: 10 }, () => write(5)))
    expect(await checkActions(database.pool, null)).toMatchObject({ lines: '100', from: '1', broken: [] })
  })

  it.each([
    ['a line was changed', `update tidemark.action_log set reason = 'another' where id = 3`, [['3', '0']]],
    [
      'a line was changed with its hash',
      `update tidemark.action_log set told = 'x', hash = tidemark.action_hash(jsonb_populate_record(action_log, '{"told": "x"}'), (select hash from tidemark.action_log where id = 3)) where id = 4`,
      [['5', '0']],
    ],
    ['lines were removed', 'delete from tidemark.action_log where id in (3, 4)', [['5', '2']]],
    ['the first lines were removed', 'delete from tidemark.action_log where id < 3', [['3', '0']]],
  ])('tells that %s', async (_what, change, broken) => {
    await write(4)
    await tamper(change)
    expect(await brokenLines()).toEqual({ broken, hasKept: null })
  })

  it('tells that the newest lines are gone, or all is written anew, by a hash that was kept elsewhere', async () => {
    await write(2)
    const { newest } = await checkActions(database.pool, null)
    expect(await brokenLines(newest)).toEqual({ broken: [], hasKept: true })
    await tamper('delete from tidemark.action_log where id = 4')
    expect(await brokenLines()).toEqual({ broken: [], hasKept: null })
    expect(await brokenLines(newest)).toEqual({ broken: [], hasKept: false })
  })

  it('goes after two years, and stays one chain', async () => {
    await write(3)
    await forgetOldActions(database.pool, 'here')
    expect((await checkActions(database.pool, null)).lines).toBe('6')
    // As if the first four lines had been written then.
    await tamper(`
      update tidemark.action_log set at = at - interval '3 years' where id < 5;
      do $$ declare line tidemark.action_log; last text := ''; begin
        for line in select * from tidemark.action_log order by id loop
          last := tidemark.action_hash(line, last);
          update tidemark.action_log set hash = last where id = line.id;
        end loop;
      end $$`)
    await Promise.all([forgetOldActions(database.pool, 'here'), forgetOldActions(database.pool, 'there')])
    expect(await checkActions(database.pool, null)).toMatchObject({ from: '5', broken: [] })
    const [forgot] = await readActions(database.pool, { stream: null, before: null, limit: 1 })
    expect(forgot).toMatchObject({
      action: 'forget',
      door: 'worker',
      told: expect.stringContaining('up to 4'),
    })
    await tamper('delete from tidemark.action_log where id = 5')
    expect((await brokenLines()).broken).toEqual([['6', '0']])
  })

  it('is checked at the terminal: exit 1 when a line was changed, and the hash to keep', async () => {
    const tidemark = (...words: string[]) => runHere(words, { DATABASE_URL: database.url })
    await write(2)
    const { newest } = await checkActions(database.pool, null)
    const fine = await tidemark('actions', 'verify')
    expect(fine).toMatchObject({ code: 0, stdout: expect.stringContaining('4 lines since') })
    expect(fine.stdout).toContain(`The newest hash is ${newest}.`)
    await tamper(`update tidemark.action_log set who = 'somebody else' where id = 3`)
    const kept = '0'.repeat(64)
    const changed = await tidemark('actions', 'verify', '--kept', kept)
    expect(changed).toMatchObject({ code: 1, stdout: expect.stringContaining('Line 3 (') })
    expect(changed.stdout).toContain(`No line has the hash ${kept}`)
    expect(await tidemark('actions', 'verify', '--kept', `${newest}0`)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--kept takes a whole hash'),
    })
    const asJson = await tidemark('actions', 'verify', '--json')
    expect([asJson.code, JSON.parse(asJson.stdout)]).toMatchObject([
      1,
      { intact: false, broken: [{ id: '3' }] },
    ])
  })
})

describe.skipIf(!hasPostgres)('what goes on after the answer', () => {
  const database = createTestDatabase()

  it('is recorded with what came of it; what was refused was tried, and not done (P18)', async () => {
    const { pool, url } = database
    await using simulator = await startSimulator({ assignments: 1, notes: 0 })
    await using sync = await openTestContext(database, simulator)
    const tasks = openBackgroundTasks({ timeoutMs: 20, log: quietLog })
    const context = {
      ...{ pool, streams: sync.streams, sync, tasks, log: quietLog, sendTestAlert: null },
      ...{
        settings: () => expect.unreachable(),
        alerting: () => expect.unreachable(),
        requestRun: async () => {},
      },
    }
    const order = {
      ...{ fields: {}, by: 'ops-1', who: 'ops-1', address: '127.0.0.1' },
      ...{ door: 'console' as const, target: 'all' },
    }
    const lines = async () =>
      (await pool.query('select action, result, told from tidemark.action order by id')).rows
    const holder = await pool.connect()
    await holder.query('begin; lock table tidemark.quarantine')
    const answer = await performRecorded(context, ['retryQuarantine', actions.retryQuarantine], order)
    expect(answer.text).toContain('has begun')
    expect(await lines()).toEqual([{ action: 'retryQuarantine', result: 'begun', told: '' }])
    const shown = async () => (await runHere(['actions'], { DATABASE_URL: url })).stdout
    expect(await shown()).toMatch(/tried again, in quarantine: all: begun\. It is not over, or/)
    await holder.query('commit')
    holder.release()
    await tasks.stop()
    expect(await lines()).toEqual([
      { action: 'retryQuarantine', result: 'done', told: 'The quarantine is empty.' },
    ])
    await expect(
      performRecorded(context, ['cancelBackfill', actions.cancelBackfill], { ...order, target: '77' }),
    ).rejects.toThrow('There is no backfill 77')
    expect(await shown()).toMatch(/tried to stop backfill 77: refused\. There is no backfill 77\./)
  })
})

describe.skipIf(!hasPostgres)('what changes nothing here', () => {
  const database = createTestDatabase()

  it('is recorded as well: sign-ins, lock-outs, sign-outs, downloads, queries and writes to the upstream', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment',
      SCHEDULE_ASSIGNMENT: '1h',
      VIEWER_TOKEN: viewerToken,
    })
    try {
      await worker.live
      await expect.poll(async () => (await database.pool.query('select from bi.assignment')).rowCount).toBe(5)
      const browsing = openBrowsing(worker.url)
      await browsing.signIn(adminToken)
      for (const path of [
        '/streams/assignment/rows.csv',
        '/streams/assignment/rows.csv?q=Jane+Doe',
        '/actions.ndjson',
        // Once more within a minute by the same person: that is one line.
        ...Array<string>(30).fill('/streams/assignment/rows.csv'),
      ])
        expect((await browsing.get(path)).status).toBe(200)
      await browsing.submit('/sign-out')
      for (let time = 0; time < 25; time++) await browsing.signIn(viewerToken)
      for (let time = 0; time < 7; time++) await browsing.signIn('not-the-token')
      const environment = environmentFor(simulator, database)
      expect((await runHere(['sql', `select 'Jane Doe'`], environment)).code).toBe(0)
      const written = await runHere(
        [
          'api',
          'POST',
          '/api/Assignment/Id/3/attachment',
          '--form',
          'Description=Jane Doe',
          '--form',
          'FileData=QQ==',
        ],
        environment,
      )
      expect(written).toMatchObject({ code: 0 })
      const lines = async () =>
        (
          await database.pool.query(
            'select who, door, action, target, result, told from tidemark.action order by id',
          )
        ).rows
      await expect.poll(async () => (await lines()).length).toBe(28)
      const [console, here] = [
        { who: 'ADMIN_TOKEN', door: 'console' },
        { who: userInfo().username, door: 'terminal' },
      ]
      const viewing = { who: 'VIEWER_TOKEN', door: 'console', action: 'signIn', target: 'viewer' }
      expect(await lines()).toEqual([
        { ...console, action: 'signIn', target: 'admin', result: 'done', told: 'Signed in.' },
        {
          ...console,
          action: 'download',
          target: 'assignment',
          result: 'done',
          told: 'Rows as CSV, all of them.',
        },
        {
          ...console,
          action: 'download',
          target: 'assignment',
          result: 'done',
          told: 'Rows as CSV, those of a search or in an order.',
        },
        {
          ...console,
          action: 'download',
          target: 'who did what',
          result: 'done',
          told: 'All lines as NDJSON.',
        },
        { ...console, action: 'signOut', target: 'admin', result: 'done', told: 'Signed out.' },
        // The last five of them are in the log only.
        ...Array(20).fill({ ...viewing, result: 'done', told: 'Signed in.' }),
        {
          ...{ who: '', door: 'console' },
          action: 'lockedOut',
          target: 'sign-in',
          result: 'refused',
          told: expect.stringContaining('Five tokens'),
        },
        { ...here, action: 'sql', target: 'tidemark sql', result: 'done', told: 'A query.' },
        {
          ...here,
          action: 'api',
          target: 'POST /api/Assignment/Id/3/attachment',
          result: 'done',
          told: expect.any(String),
        },
      ])
      expect(await checkActions(database.pool, null)).toMatchObject({ broken: [] })
    } finally {
      await worker.stop()
    }
  })

  it('is recorded of each person and program, also of those that come from one address', async () => {
    await using simulator = await startSimulator({ assignments: 2 })
    const worker = await startTestWorker(simulator, database, {
      ...{ STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1h', VIEWER_TOKEN: viewerToken },
    })
    try {
      await worker.live
      for (const token of [adminToken, viewerToken, viewerToken]) {
        const headers = { authorization: `Bearer ${token}` }
        expect((await fetch(`${worker.url}/actions.ndjson`, { headers })).status).toBe(200)
      }
      const { rows } = await database.pool.query(
        `select who from tidemark.action where action = 'download' and door = 'HTTP' order by id`,
      )
      expect(rows).toEqual([{ who: 'ADMIN_TOKEN' }, { who: 'VIEWER_TOKEN' }])
    } finally {
      await worker.stop()
    }
  })

  it('holds a write to the upstream while no program uses the embedded Postgres', async () => {
    await using simulator = await startSimulator({ assignments: 5, notes: 0 })
    const fresh = inFreshDirectory()
    const environment = environmentFor(simulator, null)
    const attach = ['api', 'POST', '/api/Assignment/Id/3/attachment', '--form', 'FileData=QQ==']
    // Without a mirror there is nothing to record it in, and none is made.
    expect(await fresh.run(attach, environment)).toMatchObject({ code: 0 })
    expect(await fresh.run(['status'], environment)).toMatchObject({ code: 2 })
    expect(await fresh.run(['migrate'], environment)).toMatchObject({ code: 0 })
    expect(await fresh.run(attach, environment)).toMatchObject({
      code: 0,
      stderr: expect.not.stringContaining('recorded'),
    })
    const { stdout } = await fresh.run(
      ['sql', `select target from tidemark.action where action = 'api'`],
      environment,
    )
    expect(stdout).toContain('POST /api/Assignment/Id/3/attachment')
  })
})
