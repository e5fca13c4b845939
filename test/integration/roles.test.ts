// Who may look and who may act, and that what is done is recorded: in front of the real worker, on this machine and on an address that
// others reach.

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { viewerToken } from '../support/served-actions.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const html = { accept: 'text/html' }
const paths = ['/', '/streams/assignment/rows', '/records/assignment/1', '/actions', '/quarantine']
const lists = ['/streams/assignment/rows.csv', '/actions.ndjson']
/** What leads to other pages, or says what may be seen there. */
const elsewhere = /class="nav"|class="find"|You can view everything/

describe.skipIf(!hasPostgres)('roles', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let worker: TestWorker
  const rows = async (sql: string) => (await database.pool.query(sql)).rows
  const start = (more: Readonly<Record<string, string | undefined>>) =>
    startTestWorker(simulator, database, {
      STREAMS: 'assignment',
      SCHEDULE_ASSIGNMENT: '1h',
      SCHEDULE_DELETIONS: '1h',
      ...more,
    })

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 20 })
    worker = await start({ VIEWER_TOKEN: viewerToken })
    await worker.live
    await vi.waitFor(async () => {
      expect(await rows('select from tidemark.stream where read_through_at is not null')).toHaveLength(1)
    }, 15_000)
  })
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  it('show nothing to strangers once there is a token for viewers', async () => {
    for (const path of paths) {
      const answer = await fetch(worker.url + path, { headers: html, redirect: 'manual' })
      expect([path, answer.status, answer.headers.get('location')]).toEqual([
        path,
        303,
        `/sign-in?${new URLSearchParams({ to: path })}`,
      ])
    }
    for (const path of lists) expect([path, (await fetch(worker.url + path)).status]).toEqual([path, 401])
    for (const path of ['/healthz', '/metrics']) expect((await fetch(worker.url + path)).status).toBe(200)
  })

  it('let a viewer look at everything, and act on nothing', async () => {
    const browsing = openBrowsing(worker.url)
    expect((await browsing.signIn(viewerToken)).status).toBe(303)
    expect(await (await browsing.get('/people')).text()).not.toContain('Reading needs no token.')
    for (const path of [...paths, ...lists])
      expect([path, (await browsing.get(path)).status]).toEqual([path, 200])
    const page = await (await browsing.get('/streams/assignment')).text()
    expect(page).toContain('<button disabled>Read now</button>')
    expect(page).toContain('tidemark sync assignment')
    expect(page).not.toMatch(/method="post"[^>]*action="\/streams\//)
    for (const path of ['/streams/assignment/pause', '/quarantine/1/drop', '/records/assignment/1/compare']) {
      expect([path, (await browsing.submit(path, { reason: 'x' })).status]).toEqual([path, 403])
      const headers = { authorization: `Bearer ${viewerToken}` }
      expect([path, (await fetch(worker.url + path, { method: 'POST', headers })).status]).toEqual([
        path,
        403,
      ])
    }
    expect(await rows('select from tidemark.stream where paused_at is not null')).toEqual([])
    expect(await rows(`select from tidemark.action where action not in ('signIn', 'download')`)).toEqual([])
  })

  it('take the token of a script for reading too', async () => {
    const get = (token: string) =>
      fetch(`${worker.url}/streams/assignment/rows.csv`, { headers: { authorization: `Bearer ${token}` } })
    expect([
      (await get(viewerToken)).status,
      (await get(adminToken)).status,
      (await get('x')).status,
    ]).toEqual([200, 200, 401])
  })

  it('record what an operator does: who, from where, why, and how it stood before and afterwards', async () => {
    const browsing = openBrowsing(worker.url)
    const body = new URLSearchParams({ token: adminToken, name: 'what somebody calls themselves' })
    const answer = await fetch(`${worker.url}/sign-in`, { method: 'POST', body, redirect: 'manual' })
    expect(answer.headers.getSetCookie()[0]).not.toContain(adminToken)
    await browsing.signIn(adminToken)
    await browsing.submit('/streams/assignment/pause', { reason: 'vendor maintenance' })
    await browsing.submit('/streams/assignment/resume')
    await browsing.submit('/streams/assignment/approve', { rows: '5', reason: 'an archive job' })
    const noted = await rows(
      `select who, door, address, action, target, stream, reason, confirmed::int, before -> 'paused' as before,
         after -> 'paused' as after, result, told from tidemark.action where action not in ('signIn', 'download') order by id`,
    )
    const common = {
      who: 'ADMIN_TOKEN',
      door: 'console',
      address: '127.0.0.1',
      target: 'assignment',
      stream: 'assignment',
    }
    expect(noted).toEqual([
      {
        ...common,
        action: 'pause',
        reason: 'vendor maintenance',
        confirmed: null,
        before: false,
        after: true,
        result: 'done',
        told: expect.stringContaining('is paused'),
      },
      {
        ...common,
        action: 'resume',
        reason: null,
        confirmed: null,
        before: true,
        after: false,
        result: 'done',
        told: expect.stringContaining('is read again'),
      },
      {
        ...common,
        action: 'approve',
        reason: 'an archive job',
        confirmed: 5,
        before: false,
        after: false,
        result: 'refused',
        told: 'No deletions of assignment are blocked.',
      },
    ])
    const list = (await (await browsing.get('/actions.ndjson')).text()).trimEnd().split('\n')
    expect(list.map((line) => JSON.parse(line).action)).toEqual(
      expect.arrayContaining(['approve', 'resume', 'pause', 'signIn', 'download']),
    )
  })

  it('refuse to drop when it is another number of records than was confirmed', async () => {
    await rows(
      `insert into tidemark.quarantine (stream, reason, record, fingerprint, times_seen)
       select 'assignment', 'no key', '{}', n::text, 1 from generate_series(1, 3) as n`,
    )
    const browsing = openBrowsing(worker.url)
    await browsing.signIn(adminToken)
    const page = await (await browsing.get('/quarantine?stream=assignment')).text()
    const [, through = ''] = /name="through" value="(\d+)"/.exec(page) ?? []
    const open = () => rows('select from tidemark.quarantine where dropped_at is null')
    await browsing.submit('/quarantine/assignment/drop', { reason: 'x', through, records: '2' })
    expect(await (await browsing.get('/quarantine')).text()).toContain('3 records would go, and 2 was typed')
    expect(await open()).toHaveLength(3)
    await browsing.submit('/quarantine/assignment/drop', { reason: 'x', through, records: '3' })
    expect(await open()).toHaveLength(0)
  })

  it('let an admin end all sessions, which is recorded, and a viewer none', async () => {
    const [operator, viewer, other] = [1, 2, 3].map(() => openBrowsing(worker.url))
    await Promise.all([operator?.signIn(adminToken), viewer?.signIn(viewerToken), other?.signIn(viewerToken)])
    expect(await (await operator?.get('/people'))?.text()).toContain('action="/sessions/end"')
    expect(await (await viewer?.get('/people'))?.text()).not.toContain('/sessions/')
    expect((await viewer?.submit('/sessions/end'))?.status).toBe(403)
    expect((await other?.get('/actions'))?.status).toBe(200)
    const ended = await operator?.submit('/sessions/end')
    const next = ended?.headers.get('location') ?? ''
    expect([ended?.status, next]).toEqual([303, '/sign-in?to=/people&ended=all'])
    expect(await (await operator?.get(next))?.text()).toContain('All sessions have ended, yours too.')
    for (const browsing of [operator, viewer, other])
      expect((await browsing?.get('/actions'))?.status).toBe(401)
    const [noted] = await rows(
      `select door, target, result, told from tidemark.action where action = 'endSessions'`,
    )
    expect(noted).toEqual({
      ...{ door: 'console', target: 'all sessions', result: 'done' },
      told: expect.stringMatching(/^\d+ sessions ended\./),
    })
  })

  it('show whoever has to sign in no way to pages that stay closed', async () => {
    const [outside, viewer] = [openBrowsing(worker.url), openBrowsing(worker.url)]
    expect(await (await outside.get('/sign-in')).text()).not.toMatch(elsewhere)
    await viewer.signIn(viewerToken)
    expect(await (await viewer.get('/sign-in')).text()).toMatch(elsewhere)
  })

  it('close the pages on an address that others reach, until there is a token', async () => {
    const open = await start({ HTTP_HOST: '0.0.0.0', ADMIN_TOKEN: undefined })
    try {
      await open.live
      const url = open.url.replace('0.0.0.0', '127.0.0.1').replace('localhost', '127.0.0.1')
      const page = await fetch(url, { headers: html })
      const text = await page.text()
      expect([page.status, text]).toEqual([200, expect.stringContaining('tidemark token create')])
      expect(text).not.toMatch(elsewhere)
      for (const path of lists) expect([path, (await fetch(url + path)).status]).toEqual([path, 401])
      expect((await fetch(`${url}/healthz`)).status).toBe(200)
    } finally {
      await open.stop()
    }
  })
})
