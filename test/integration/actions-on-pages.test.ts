// Who may act by the console and its routes: forms of this site and of others, proxies, scripts.

import { describe, expect, it } from 'vitest'
import { openBrowsing } from '../support/browsing.ts'
import { adminToken, pausing, serveActions, sessionMs } from '../support/served-actions.ts'

describe('an action', () => {
  it('is done for a form of this site, told once on the next page, and never as markup', async () => {
    const { url, orders } = await serveActions()
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    const done = await browsing.submit(pausing, { reason: ' for a test ', empty: ' ' })
    expect([done.status, done.headers.get('location')]).toEqual([303, '/streams/assignment'])
    expect(orders).toEqual([
      {
        target: 'assignment',
        fields: { reason: 'for a test' },
        by: 'ADMIN_TOKEN (console, 127.0.0.1)',
        ...{ who: 'ADMIN_TOKEN', door: 'console', address: '127.0.0.1' },
      },
    ])
    expect(await (await browsing.get('/')).text()).toContain('&lt;b&gt;assignment&lt;/b&gt; is noted')
    expect(await (await browsing.get('/')).text()).not.toContain('is noted')
  })

  it('is refused without the token of the session, with that of another one, and to other sites', async () => {
    const { url, orders } = await serveActions()
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
    expect((await browsing.submit('/sign-out', { csrf })).status).toBe(403)
    expect(
      (await browsing.submit('/sign-in', { token: adminToken }, { origin: 'https://evil.example' })).status,
    ).toBe(403)
    // The page that asks for the reason, which acts on nothing.
    expect((await fetch(`${url}${pausing}`, { headers: { cookie: browsing.cookies() } })).status).toBe(503)
    expect(orders).toEqual([])
    // A proxy that rewrites the host says what it was.
    const proxied = { origin: 'https://mirror.example', 'x-forwarded-host': 'mirror.example' }
    expect((await browsing.submit(pausing, {}, proxied)).status).toBe(303)
    expect(
      (await browsing.submit(pausing, {}, { origin: url, 'sec-fetch-site': 'same-origin' })).status,
    ).toBe(303)
  })

  it('holds behind a proxy that knows its users by a header of its own', async () => {
    const { url, orders } = await serveActions()
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    const basic = `Basic ${Buffer.from('ada:lovelace').toString('base64')}`
    const accept = 'text/html'
    const answer = await browsing.submit(pausing, {}, { authorization: basic, accept })
    expect([answer.status, orders]).toEqual([303, [expect.objectContaining({ target: 'assignment' })]])
  })

  it('is recorded with the address that a trusted proxy tells, and with nothing else from it', async () => {
    const recorded = async (trusted: readonly string[], told: string) => {
      const { url, orders } = await serveActions(adminToken, trusted)
      const headers = { authorization: `Bearer ${adminToken}`, 'x-forwarded-for': told }
      await fetch(`${url}${pausing}`, { method: 'POST', headers })
      return orders[0]?.address
    }
    const here = '127.0.0.1'
    const last = '198.51.100.1, 192.0.2.7'
    expect(await recorded([], last)).toBe(here)
    expect(await recorded(['10.0.0.0/8'], last)).toBe(here)
    for (const trusted of ['127.0.0.1', '127.0.0.0/8', '::ffff:127.0.0.0/104'])
      expect([trusted, await recorded([trusted], last)]).toEqual([trusted, '192.0.2.7'])
    expect(await recorded(['127.0.0.1', '192.0.2.0/24'], last)).toBe('198.51.100.1')
    expect(await recorded([here], '2001:db8::1')).toBe('2001:db8::1')
    for (const port of ['192.0.2.7:4711', '[2001:db8::1]:4711'])
      expect(await recorded([here], port)).toBe(port.replace(/^\[|\]?:4711$/g, ''))
    for (const told of ['<script>', "'; drop table", 'x'.repeat(5_000), '999.1.1.1'])
      expect(await recorded([here], told)).toBe(here)
  })

  it('leads whoever was signed out meanwhile back to a page', async () => {
    const { url, orders, pass } = await serveActions()
    const browsing = openBrowsing(url)
    const accept = 'text/html,*/*;q=0.8'
    await browsing.signIn(adminToken)
    const stale = await browsing.submit(pausing, { csrf: 'of a session before' }, { accept })
    expect([stale.status, stale.headers.get('location')]).toEqual([303, '/streams/assignment'])
    expect(await (await browsing.get('/')).text()).toContain('That form was out of date')
    pass(sessionMs)
    const expired = await browsing.submit(pausing, {}, { accept })
    expect([expired.status, expired.headers.get('location')]).toEqual([303, '/sign-in'])
    expect(orders).toEqual([])
  })

  it('is done for a script that brings the token, and answered with JSON', async () => {
    const { url, orders } = await serveActions()
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
    expect(orders[0]).toMatchObject({ fields: { reason: 'a script' }, by: 'ADMIN_TOKEN (HTTP, 127.0.0.1)' })
    const unknown = await post('/streams/nothing/sync', right)
    expect([unknown.status, await unknown.json()]).toEqual([
      404,
      { error: 'There is no such stream.', streams: ['assignment', 'broken'] },
    ])
    // P9: what went wrong is for the log.
    const broken = await post('/streams/broken/sync', right)
    expect([broken.status, await broken.json()]).toEqual([
      500,
      { error: 'It failed. The log of the worker says why.' },
    ])
  })

  it('takes no body that is larger than a form', async () => {
    const { url, orders } = await serveActions()
    const answer = await fetch(`${url}${pausing}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}` },
      body: new URLSearchParams({ reason: 'x'.repeat(20_000) }),
    })
    expect(answer.status).toBe(413)
    expect(orders).toEqual([])
  })
})
