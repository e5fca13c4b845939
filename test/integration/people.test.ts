// Named tokens, what each role may do, and sessions that outlive a worker: real workers on one Postgres, and the terminal beside them.

import { createHash } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { sessions, token } from '../../src/cli/token.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { UsageError } from '../../src/util/errors.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { callCommand } from '../support/verbs.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const inTime = { timeout: 20_000, interval: 100 }

describe.skipIf(!hasPostgres)('people', () => {
  const database = createTestDatabase()
  const adminFile = join(mkdtempSync(join(inject('scratch'), 'people-')), 'admin')
  let simulator: Simulator
  let worker: TestWorker
  const rows = async (sql: string, values: unknown[] = []) => (await database.pool.query(sql, values)).rows
  const start = () =>
    startTestWorker(simulator, database, {
      ...{ STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1h', SCHEDULE_DELETIONS: '1h' },
      ...{ ADMIN_TOKEN: undefined, ADMIN_TOKEN_FILE: adminFile },
    })
  const tidemark = (verb: 'token' | 'sessions', ...words: readonly string[]) =>
    callCommand({ token, sessions }[verb], words, environmentFor(simulator, database))
  const make = async (name: string, role: string, ...more: readonly string[]) => {
    const made = await tidemark('token', 'create', name, '--role', role, ...more)
    expect(made).toMatchObject({ code: 0, logged: expect.stringContaining(`The token ${name} was made.`) })
    expect(made.stdout).toMatch(/^tidemark_[\w-]{43}\n$/)
    return made.stdout.trim()
  }
  const call = async (path: string, token: string, at = worker.url) => {
    const answer = await fetch(at + path, { method: 'POST', headers: { authorization: `Bearer ${token}` } })
    return [answer.status, await answer.text()] as const
  }
  const isSignedIn = async (browsing: Browsing) =>
    (await (await browsing.get('/')).text()).includes('Sign out')

  beforeAll(async () => {
    writeFileSync(adminFile, adminToken)
    simulator = await startSimulator({ assignments: 5 })
    worker = await start()
    await worker.live
  })
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  it('get tokens of their own, which are shown once and kept as hashes, and act under their name', async () => {
    const token = await make('ola', 'operator', '--for', '90d')
    expect(await rows(`select name, hash, role, last_used_at from tidemark.access_token`)).toEqual([
      {
        name: 'ola',
        hash: createHash('sha256').update(token).digest('hex'),
        role: 'operator',
        last_used_at: null,
      },
    ])
    expect(await call('/streams/assignment/pause', token)).toMatchObject([200, expect.anything()])
    const browsing = openBrowsing(worker.url)
    expect((await browsing.signIn(token)).status).toBe(303)
    expect(await (await browsing.get('/')).text()).toContain('Signed in as <bdi>token:ola</bdi> (operator)')
    await browsing.submit('/streams/assignment/resume')
    expect(
      await rows(
        `select who, door, action, target, told from tidemark.action
         where action in ('createToken', 'pause', 'signIn', 'resume') order by id`,
      ),
    ).toEqual([
      expect.objectContaining({ door: 'terminal', action: 'createToken', target: 'ola' }),
      expect.objectContaining({ who: 'token:ola', door: 'HTTP', action: 'pause' }),
      expect.objectContaining({ who: 'token:ola', door: 'console', action: 'signIn', target: 'operator' }),
      expect.objectContaining({ who: 'token:ola', door: 'console', action: 'resume' }),
    ])
    const listed = JSON.parse((await tidemark('token', 'list', '--json')).stdout)
    expect(listed).toEqual([
      expect.objectContaining({ name: 'ola', role: 'operator', last_used_at: expect.any(String) }),
    ])
    // P9: what was made is nowhere but with who asked.
    const everywhere = JSON.stringify([
      worker.logged(),
      listed,
      await rows('select * from tidemark.action_log'),
      await rows('select * from tidemark.access_token'),
      await rows('select * from tidemark.session'),
      await (await browsing.get('/people')).text(),
    ])
    expect(everywhere).not.toContain(token.slice('tidemark_'.length))
    // Nor is what a browser has.
    expect(everywhere).not.toContain(browsing.cookies().split('=')[1])
  })

  it('write down that a token is used once a minute', async () => {
    const token = await make('often', 'viewer')
    const used = async () =>
      (await rows(`select xmin::text, last_used_at from tidemark.access_token where name = 'often'`))[0]
    const read = () =>
      fetch(`${worker.url}/actions.ndjson`, { headers: { authorization: `Bearer ${token}` } })
    // Also where the pages are open to everybody on this machine.
    expect((await read()).status).toBe(200)
    for (let time = 0; time < 2; time++) expect((await call('/streams/assignment/pause', token))[0]).toBe(403)
    const before = await used()
    await call('/streams/assignment/pause', token)
    expect(await used()).toEqual(before)
    await rows(
      `update tidemark.access_token set last_used_at = now() - interval '2 minutes' where name = 'often'`,
    )
    await call('/streams/assignment/pause', token)
    expect((await used()).last_used_at.getTime()).toBeGreaterThan(Date.now() - 30_000)
    // Nor is it used by somebody who is refused with it, because it has ended.
    await rows(
      `update tidemark.access_token set last_used_at = '2026-01-01', ends_at = now() - interval '1 s' where name = 'often'`,
    )
    expect((await call('/streams/assignment/pause', token))[0]).toBe(401)
    expect((await used()).last_used_at).toEqual(new Date('2026-01-01'))
  })

  it('may do what their role may, and are told what it lacks', async () => {
    const [viewer, operator, admin] = [
      await make('looks', 'viewer'),
      await make('runs', 'operator'),
      await make('decides', 'admin'),
    ]
    expect(await call('/streams/assignment/resume', viewer)).toEqual([
      403,
      expect.stringContaining(
        'signed in as token:looks with the role viewer, and this needs the role operator',
      ),
    ])
    expect((await call('/streams/assignment/resume', operator))[0]).toBe(200)
    for (const path of ['/quarantine/1/drop', '/tokens/runs/revoke', '/sessions/1/end', '/sessions/end'])
      for (const token of [viewer, operator])
        expect([path, (await call(path, token))[0]]).toEqual([path, 403])
    // Right, and refused for another reason.
    for (const path of ['/quarantine/1/drop', '/tokens/nobody/revoke', '/sessions/999999/end'])
      expect([path, (await call(path, admin))[0]]).toEqual([path, 400])
    const browsing = openBrowsing(worker.url)
    await browsing.signIn(operator)
    const page = await (await browsing.get('/people')).text()
    expect(page).toContain('token:runs')
    expect(page).not.toMatch(/action="\/(?:sessions|tokens)/)
    expect((await browsing.submit('/tokens/looks/revoke')).status).toBe(403)
  })

  it('are refused with a token that ended or was revoked, at once and with its sessions', async () => {
    const [ended, revoked] = [await make('ends', 'operator', '--for', '2m'), await make('goes', 'operator')]
    const [one, other] = [openBrowsing(worker.url), openBrowsing(worker.url)]
    await one.signIn(ended)
    await other.signIn(revoked)
    expect(
      await rows(
        `select ends_at <= now() + interval '2 minutes' as "endsSoon" from tidemark.session where who = 'token:ends'`,
      ),
    ).toEqual([{ endsSoon: true }])
    await rows(`update tidemark.access_token set ends_at = now() where name = 'ends'`)
    expect((await call('/streams/assignment/resume', ended))[0]).toBe(401)
    const admin = openBrowsing(worker.url)
    await admin.signIn(adminToken)
    expect((await admin.submit('/tokens/goes/revoke')).headers.get('location')).toBe('/people')
    expect(await (await admin.get('/people')).text()).toContain('The token goes is revoked')
    const refused = await call('/streams/assignment/resume', revoked)
    expect(refused).toEqual([401, expect.stringContaining('it is wrong, has ended or was revoked')])
    // Where nobody needs a token to read, the page says so (P18).
    expect((await fetch(`${worker.url}/api/v1/streams`)).status).toBe(200)
    expect(await (await admin.get('/people')).text()).toContain('Reading needs no token.')
    expect(await isSignedIn(other)).toBe(false)
    // Made in the console, shown once, and refused also where nobody needs a token.
    const made = await admin.submit('/tokens/create', { target: 'report', role: 'viewer' })
    const [report = 'none'] = /tidemark_[\w-]{43}/.exec(await made.text()) ?? []
    const headers = { authorization: `Bearer ${report}` }
    const reads = async () => (await fetch(`${worker.url}/api/v1/status`, { headers })).status
    expect([made.status, await reads()]).toEqual([200, 200])
    const page = await (await admin.get('/people')).text()
    expect(page).not.toContain(report)
    expect(page.split('(this is you, here)')).toHaveLength(2)
    await admin.submit('/tokens/report/revoke')
    expect(await reads()).toBe(401)
    // The name of one that ended can be given again; one that has not ended keeps it.
    await make('ends', 'viewer')
    await expect(tidemark('token', 'create', 'ends', '--role', 'viewer')).rejects.toThrow(
      'there is a token ends',
    )
    for (const words of [
      ['create', 'ADMIN_TOKEN', '--role', 'admin'],
      ['create', 'x', '--role', 'root'],
      ['create', 'x'],
      ['create', 'x', '--role', 'viewer', '--until', '2020-01-01'],
      ['create', 'x', '--role', 'viewer', '--for', 'long'],
      ['revoke', 'nobody'],
    ])
      await expect(tidemark('token', ...words), words.join(' ')).rejects.toThrow(UsageError)
  })

  it('stay signed in over a restart, with every worker, until somebody ends it', async () => {
    const [stays, leaves, sent] = [1, 2, 3].map(() => openBrowsing(worker.url))
    if (!stays || !leaves || !sent) throw new Error('there are three')
    for (const browsing of [stays, leaves, sent]) await browsing.signIn(adminToken)
    const before = worker
    const second = await start()
    try {
      await second.live
      const elsewhere = (browsing: Browsing, path = '/') =>
        fetch(second.url + path, { headers: { cookie: browsing.cookies(), accept: 'text/html' } })
      const page = await (await elsewhere(stays, '/streams/assignment')).text()
      expect(page).toContain('Sign out')
      // A form that one worker made is good for the other.
      const [, csrf = ''] = /name="csrf" value="([^"]+)"/.exec(await (await stays.get('/')).text()) ?? []
      const pressed = await fetch(`${second.url}/streams/assignment/resume`, {
        ...{ method: 'POST', redirect: 'manual', body: new URLSearchParams({ csrf }) },
        headers: { cookie: stays.cookies(), origin: second.url },
      })
      expect(pressed.status).toBe(303)
      await leaves.submit('/sign-out')
      const listed = JSON.parse((await tidemark('sessions', 'list', '--json')).stdout)
      expect(listed[0]).toMatchObject({ who: 'ADMIN_TOKEN', role: 'admin', address: '127.0.0.1' })
      expect(await tidemark('sessions', 'end', listed[0].id)).toMatchObject({ code: 0 })
      await before.stop()
      worker = second
      for (const [browsing, isIn] of [
        [stays, true],
        [leaves, false],
        [sent, false],
      ] as const)
        await expect
          .poll(async () => (await (await elsewhere(browsing)).text()).includes('Sign out'), inTime)
          .toBe(isIn)
    } finally {
      if (worker !== second) await second.stop()
    }
  })

  it('go on while Postgres is away, and a sign-out of then holds afterwards', async () => {
    const [stays, leaves] = [openBrowsing(worker.url), openBrowsing(worker.url)]
    await stays.signIn(adminToken)
    await leaves.signIn(adminToken)
    const copied = leaves.cookies()
    await rows('alter table tidemark.session rename to session_away')
    const begins = openBrowsing(worker.url)
    await begins.signIn(adminToken)
    await leaves.submit('/sign-out')
    for (const browsing of [stays, begins]) expect(await isSignedIn(browsing)).toBe(true)
    await rows('alter table tidemark.session_away rename to session')
    for (const browsing of [stays, begins]) await expect.poll(() => isSignedIn(browsing), inTime).toBe(true)
    const copy = await fetch(worker.url, { headers: { cookie: copied } })
    expect(await copy.text()).not.toContain('Sign out')
    const kept = () =>
      rows(`select count(*)::int from tidemark.session where hash = any ($1)`, [
        [stays, begins].map((one) => hashOf(one.cookies())).concat(hashOf(copied)),
      ])
    // What began meanwhile is written down, what ended is gone.
    await expect
      .poll(async () => (await isSignedIn(begins)) && (await kept()), inTime)
      .toEqual([{ count: 2 }])
  })

  it('are signed out when the token of the setting changes, and those of other people are not', async () => {
    const browsing = openBrowsing(worker.url)
    await browsing.signIn(adminToken)
    const named = openBrowsing(worker.url)
    await named.signIn(await make('stays', 'viewer'))
    writeFileSync(adminFile, `${adminToken}-2`)
    await worker.stop()
    worker = await start()
    await worker.live
    const shows = async (one: Browsing) =>
      (await (await fetch(worker.url, { headers: { cookie: one.cookies() } })).text()).includes('Sign out')
    expect([await shows(browsing), await shows(named)]).toEqual([false, true])
  })

  it('cannot fill the table: sessions that are over go, and of one person at one address a hundred stay (P10)', async () => {
    await rows(
      `insert into tidemark.session (hash, who, role, address, ends_at)
       select 'old' || n, 'ADMIN_TOKEN', 'admin', '127.0.0.1', now() + interval '1 hour' from generate_series(1, 120) as n
       union all select 'over', 'oidc:ola', 'viewer', '192.0.2.1', now() - interval '1 second'
       union all select 'other', 'oidc:ola', 'viewer', '192.0.2.1', now() + interval '1 hour'`,
    )
    await openBrowsing(worker.url).signIn(`${adminToken}-2`)
    expect(
      await rows(
        `select count(*) filter (where who = 'ADMIN_TOKEN' and address = '127.0.0.1')::int as own,
           array_agg(hash) filter (where who = 'oidc:ola') as others from tidemark.session`,
      ),
    ).toEqual([{ own: 100, others: ['other'] }])
  })
})

const hashOf = (cookies: string) =>
  createHash('sha256')
    .update(cookies.split('=')[1] ?? '')
    .digest('hex')
