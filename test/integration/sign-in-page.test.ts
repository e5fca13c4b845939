// Signing in to the status page, and who may act there: sessions, forms of other sites, guesses.

import { afterEach, describe, expect, it } from 'vitest'
import { type Actions, actionRoutes, type Order } from '../../src/web/actions.ts'
import { readAssets } from '../../src/web/assets.ts'
import { openAttempts } from '../../src/web/attempts.ts'
import { type HttpServer, startHttpServer } from '../../src/web/http-server.ts'
import { pageRoutes } from '../../src/web/page-routes.ts'
import { sessionMs } from '../../src/web/sessions.ts'
import { signInRoutes } from '../../src/web/sign-in-routes.ts'
import { openTokenCheck } from '../../src/web/token-check.ts'
import { readOnlyViewer } from '../../src/web/viewer.ts'
import { openVisits } from '../../src/web/visits.ts'
import { openBrowsing } from '../support/browsing.ts'
import { quietLog } from '../support/database.ts'

const adminToken = 'an-admin-token-of-the-tests'
const servers: HttpServer[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

type Served = { readonly url: string; readonly orders: readonly Order[]; pass(ms: number): void }

/** The routes of the page around actions that only write down what was asked for. */
async function serve(token: string | null = adminToken): Promise<Served> {
  let nowMs = 1_700_000_000_000
  const now = () => nowMs
  const orders: Order[] = []
  const noted = async (order: Order) => {
    orders.push(order)
    if (order.target === 'broken') throw new Error('password=hunter2')
    return { text: `<b>${order.target}</b> is noted`, json: { noted: order.target } }
  }
  const names = ['pause', 'resume', 'acknowledge', 'release', 'backfill', 'cancelBackfill'] as const
  const actions: Actions = {
    sync: noted,
    retryQuarantine: noted,
    dropQuarantine: noted,
    ...(Object.fromEntries(names.map((name) => [name, noted])) as Record<
      (typeof names)[number],
      typeof noted
    >),
  }
  const visits = openVisits(token, now)
  const checkToken = visits && openTokenCheck({ visits, attempts: openAttempts(), log: quietLog, now })
  const assets = readAssets()
  const server = await startHttpServer({
    host: '127.0.0.1',
    port: 0,
    log: quietLog,
    routes: [
      actionRoutes({
        ...{ visits, checkToken, streams: ['assignment', 'broken'] },
        ...{ actions: () => actions, log: quietLog },
      }),
      signInRoutes({ visits, checkToken, assets }),
      pageRoutes({
        desk: () => null,
        viewerOf: visits?.viewerOf ?? (() => readOnlyViewer),
        assets,
        log: quietLog,
      }),
    ],
  })
  servers.push(server)
  return { url: server.url, orders, pass: (ms) => (nowMs += ms) }
}
const pausing = '/streams/assignment/pause'

describe('signing in', () => {
  it('gives a cookie that no script can read and no other site can send', async () => {
    const { url } = await serve()
    const browsing = openBrowsing(url)
    expect(await (await browsing.get('/')).text()).toContain('href="/login"')
    expect(await (await browsing.get('/login')).text()).toContain('name="token"')
    const answer = await browsing.signIn(adminToken)
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/'])
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toMatch(/^tidemark_session=[^;]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/)
    expect(cookie).not.toContain(adminToken)
    expect(await (await browsing.get('/')).text()).toContain('Sign out')
    expect((await browsing.submit('/logout')).status).toBe(303)
    expect(await (await browsing.get('/')).text()).toContain('href="/login"')
  })

  it('marks the cookie as secure when the browser or the proxy came by https', async () => {
    const { url } = await serve()
    const post = (headers: Record<string, string>) =>
      fetch(`${url}/login`, {
        method: 'POST',
        redirect: 'manual',
        headers,
        body: new URLSearchParams({ token: adminToken }),
      })
    const host = new URL(url).host
    for (const headers of [{ origin: `https://${host}` }, { 'x-forwarded-proto': 'https' }])
      expect((await post(headers)).headers.get('set-cookie')).toContain('; Secure')
    expect((await post({ origin: url })).headers.get('set-cookie')).not.toContain('Secure')
  })

  it('goes nowhere else', async () => {
    const { url } = await serve()
    for (const to of ['https://evil.example', '//evil.example', '/\\evil.example', 'javascript:alert(1)']) {
      const body = new URLSearchParams({ token: adminToken, to })
      const answer = await fetch(`${url}/login`, { method: 'POST', redirect: 'manual', body })
      expect(answer.headers.get('location')).toBe('/')
    }
  })

  it('is refused after five wrong tokens in a minute, even with the right one, and says for how long', async () => {
    const { url, pass } = await serve()
    const browsing = openBrowsing(url)
    for (let attempt = 0; attempt < 5; attempt++) {
      const wrong = await browsing.signIn(`${adminToken}${attempt}`)
      expect([wrong.status, wrong.headers.getSetCookie()]).toEqual([401, []])
      pass(1_000)
    }
    const refused = await browsing.signIn(adminToken)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '55'])
    pass(55_000)
    expect((await browsing.signIn(adminToken)).status).toBe(303)
  })

  it('counts wrong tokens of scripts as well, which wait as long', async () => {
    const { url, orders, pass } = await serve()
    const browsing = openBrowsing(url)
    const asScript = (token: string) => browsing.submit(pausing, {}, { authorization: `Bearer ${token}` })
    for (let attempt = 0; attempt < 5; attempt++)
      expect((await asScript(`guess-${attempt}`)).status).toBe(401)
    const refused = await asScript(adminToken)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '60'])
    expect((await browsing.signIn(adminToken)).status).toBe(429)
    expect(orders).toEqual([])
    pass(60_000)
    expect((await asScript(adminToken)).status).toBe(200)
  })

  it('is refused to everybody when many addresses guess, with bounded memory (P10)', () => {
    const attempts = openAttempts()
    for (let address = 0; address < 10_000; address++) attempts.failed(`2001:db8::${address}`, 1_000)
    expect(attempts.waitMs('192.0.2.1', 31_000)).toBe(30_000)
    expect(attempts.waitMs('192.0.2.1', 61_000)).toBe(0)
  })

  it('is not there without a token, and neither are the actions', async () => {
    const { url, orders } = await serve(null)
    const browsing = openBrowsing(url)
    expect(await (await browsing.get('/')).text()).not.toContain('/login')
    expect((await browsing.get('/login')).status).toBe(404)
    expect((await browsing.signIn('')).status).toBe(404)
    for (const authorization of ['Bearer null', 'Bearer undefined', 'Bearer '])
      expect((await browsing.submit(pausing, {}, { authorization })).status).toBe(404)
    expect(orders).toEqual([])
  })
})

describe('a session', () => {
  it('holds in another worker and after a restart, and ends with its time or with the token', async () => {
    const { url, pass } = await serve()
    const { url: other } = await serve()
    const { url: changed } = await serve('another-admin-token-of-the-tests')
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    const shows = async (at: string, cookie = browsing.cookies()) =>
      (await (await fetch(at, { headers: { cookie } })).text()).includes('Sign out')
    expect([await shows(url), await shows(other), await shows(changed)]).toEqual([true, true, false])
    pass(sessionMs - 1)
    expect(await shows(url)).toBe(true)
    pass(1)
    expect(await shows(url)).toBe(false)
  })

  it('cannot be forged or made to last', async () => {
    const { url, orders } = await serve()
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    const [, id = '', expires = '', signature = ''] =
      /tidemark_session=([^.]+)\.(\d+)\.(.+)$/.exec(browsing.cookies()) ?? []
    const forged = [
      `${id}.${Number(expires) + 1}.${signature}`,
      `${id}.${expires}.${'A'.repeat(43)}`,
      `${id}.${expires}.`,
      `${'A'.repeat(22)}.${expires}.${signature}`,
      `${id}.${expires}.${signature}x`,
      '%00',
    ]
    for (const cookie of forged) {
      const headers = { cookie: `tidemark_session=${cookie}` }
      expect(await (await fetch(url, { headers })).text()).not.toContain('Sign out')
      expect((await fetch(`${url}${pausing}`, { method: 'POST', headers })).status).toBe(401)
    }
    expect(orders).toEqual([])
  })
})

describe('an action', () => {
  it('is done for a form of this site, told once on the next page, and never as markup', async () => {
    const { url, orders } = await serve()
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    const done = await browsing.submit(pausing, { reason: ' for a test ', empty: ' ' })
    expect([done.status, done.headers.get('location')]).toEqual([303, '/'])
    expect(orders).toEqual([
      { target: 'assignment', fields: { reason: 'for a test' }, by: 'status page, 127.0.0.1' },
    ])
    expect(await (await browsing.get('/')).text()).toContain('&lt;b&gt;assignment&lt;/b&gt; is noted')
    expect(await (await browsing.get('/')).text()).not.toContain('is noted')
    const forged = { cookie: `${browsing.cookies()}; tidemark_told=+Zm9yZ2Vk.${'A'.repeat(43)}` }
    expect(await (await fetch(url, { headers: forged })).text()).not.toContain('forged')
  })

  it('is refused without the token of the session, with that of another one, and to other sites', async () => {
    const { url, orders } = await serve()
    const [browsing, another] = [openBrowsing(url), openBrowsing(url)]
    await browsing.signIn(adminToken)
    await another.signIn(adminToken)
    const page = await (await another.get('/')).text()
    const [, csrf = ''] = /name="csrf" value="([^"]+)"/.exec(page) ?? []
    const host = new URL(url).host
    const attempts: [Record<string, string>, Record<string, string>][] = [
      [{ csrf: '' }, {}],
      [{ csrf: 'wrong' }, {}],
      [{ csrf }, {}],
      [{}, { origin: 'https://evil.example' }],
      [{}, { origin: 'null' }],
      [{}, { origin: `http://${host}.evil.example` }],
      [{}, { origin: url, 'sec-fetch-site': 'cross-site' }],
      [{}, { origin: url, 'sec-fetch-site': 'same-site' }],
    ]
    for (const [fields, headers] of attempts)
      expect((await browsing.submit(pausing, fields, headers)).status).toBe(403)
    expect((await browsing.submit('/logout', { csrf })).status).toBe(403)
    expect(
      (await browsing.submit('/login', { token: adminToken }, { origin: 'https://evil.example' })).status,
    ).toBe(403)
    expect((await fetch(`${url}${pausing}`, { headers: { cookie: browsing.cookies() } })).status).toBe(404)
    expect(orders).toEqual([])
    // A proxy that rewrites the host says what it was.
    const proxied = { origin: 'https://mirror.example', 'x-forwarded-host': 'mirror.example' }
    expect((await browsing.submit(pausing, {}, proxied)).status).toBe(303)
    expect(
      (await browsing.submit(pausing, {}, { origin: url, 'sec-fetch-site': 'same-origin' })).status,
    ).toBe(303)
  })

  it('holds behind a proxy that knows its users by a header of its own', async () => {
    const { url, orders } = await serve()
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    const basic = `Basic ${Buffer.from('ada:lovelace').toString('base64')}`
    const accept = 'text/html'
    const answer = await browsing.submit(pausing, {}, { authorization: basic, accept })
    expect([answer.status, orders]).toEqual([303, [expect.objectContaining({ target: 'assignment' })]])
  })

  it('is recorded with the address that a proxy on this machine tells, and with nothing else from it', async () => {
    const { url, orders } = await serve()
    const authorization = `Bearer ${adminToken}`
    for (const told of ['192.0.2.7', '198.51.100.1, 192.0.2.7', '<script>', "'; drop table"])
      await fetch(`${url}${pausing}`, { method: 'POST', headers: { authorization, 'x-forwarded-for': told } })
    const here = 'HTTP, 127.0.0.1'
    expect(orders.map(({ by }) => by)).toEqual(['HTTP, 192.0.2.7', 'HTTP, 192.0.2.7', here, here])
  })

  it('leads whoever was signed out meanwhile back to a page', async () => {
    const { url, orders, pass } = await serve()
    const browsing = openBrowsing(url)
    const accept = 'text/html,*/*;q=0.8'
    await browsing.signIn(adminToken)
    const stale = await browsing.submit(pausing, { csrf: 'of a session before' }, { accept })
    expect([stale.status, stale.headers.get('location')]).toEqual([303, '/'])
    expect(await (await browsing.get('/')).text()).toContain('no longer valid')
    pass(sessionMs)
    const expired = await browsing.submit(pausing, {}, { accept })
    expect([expired.status, expired.headers.get('location')]).toEqual([303, '/login'])
    expect(orders).toEqual([])
  })

  it('is done for a script that brings the token, and answered with JSON', async () => {
    const { url, orders } = await serve()
    const post = (path: string, authorization?: string) =>
      fetch(`${url}${path}`, {
        method: 'POST',
        headers: authorization === undefined ? {} : { authorization },
        body: new URLSearchParams({ reason: 'a script' }),
      })
    for (const wrong of [undefined, 'Bearer', 'Bearer x', `Basic ${adminToken}`, `Bearer ${adminToken}x`]) {
      const answer = await post('/streams/assignment/sync', wrong)
      expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
    }
    expect(orders).toEqual([])
    const right = `Bearer ${adminToken}`
    const done = await post(pausing, right)
    expect([done.status, await done.json()]).toEqual([200, { noted: 'assignment' }])
    expect(orders[0]).toMatchObject({ fields: { reason: 'a script' }, by: 'HTTP, 127.0.0.1' })
    const unknown = await post('/streams/nothing/sync', right)
    expect([unknown.status, await unknown.json()]).toEqual([
      404,
      { error: 'no such stream', streams: ['assignment', 'broken'] },
    ])
    // P9: what went wrong is for the log.
    const broken = await post('/streams/broken/sync', right)
    expect([broken.status, await broken.json()]).toEqual([500, { error: 'it failed; the log says why' }])
  })

  it('takes no body that is larger than a form', async () => {
    const { url, orders } = await serve()
    const answer = await fetch(`${url}${pausing}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}` },
      body: new URLSearchParams({ reason: 'x'.repeat(20_000) }),
    })
    expect(answer.status).toBe(413)
    expect(orders).toEqual([])
  })
})
