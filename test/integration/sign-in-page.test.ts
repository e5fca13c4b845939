// Signing in to the console: sessions and guesses.

import { describe, expect, it } from 'vitest'
import { networkOf, openLimit } from '../../src/web/limits.ts'
import { openBrowsing } from '../support/browsing.ts'
import { adminToken, pausing, serveActions, sessionMs } from '../support/served-actions.ts'

describe('signing in', () => {
  it('gives a cookie that no script can read and no other site can send', async () => {
    const { url } = await serveActions()
    const browsing = openBrowsing(url)
    expect(await (await browsing.get('/')).text()).toContain('href="/sign-in?to=%2F"')
    expect(await (await browsing.get('/runs?kind=list')).text()).toContain(
      'href="/sign-in?to=%2Fruns%3Fkind%3Dlist"',
    )
    expect(await (await browsing.get('/sign-in')).text()).toContain('name="token"')
    const answer = await browsing.signIn(adminToken)
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/'])
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toMatch(/^tidemark_session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/)
    expect(cookie).not.toContain(adminToken)
    expect(await (await browsing.get('/')).text()).toContain('Sign out')
    expect((await browsing.get('/sign-in?to=/runs')).headers.get('location')).toBe('/runs')
    expect((await browsing.get('/sign-in?to=https://elsewhere.example/')).headers.get('location')).toBe('/')
    expect((await browsing.submit('/sign-out')).status).toBe(303)
    expect(await (await browsing.get('/')).text()).toContain('href="/sign-in?to=%2F"')
  })

  it('marks the cookie as secure when the browser or the proxy came by https', async () => {
    const { url } = await serveActions()
    const post = (headers: Record<string, string>) =>
      fetch(`${url}/sign-in`, {
        method: 'POST',
        redirect: 'manual',
        headers,
        body: new URLSearchParams({ token: adminToken }),
      })
    const host = new URL(url).host
    for (const headers of [{ origin: `https://${host}` }, { 'x-forwarded-proto': 'https' }]) {
      const cookie = (await post(headers)).headers.get('set-cookie') ?? ''
      // No other host can set a cookie of this name.
      expect(cookie).toMatch(/^__Host-tidemark_session=[\w-]{43}; .*Path=\/; .*; Secure$/)
      const isIn = async (cookie: string) =>
        (await (await fetch(url, { headers: { cookie } })).text()).includes('Sign out')
      const [pair = ''] = cookie.split(';')
      expect(await isIn(`${pair}; tidemark_session=${'A'.repeat(43)}`)).toBe(true)
      const plain = pair.replace(/^.*=/, '__Host-tidemark_session=x; tidemark_session=')
      expect(await isIn(plain)).toBe(false)
    }
    expect((await post({ origin: url })).headers.get('set-cookie')).not.toContain('Secure')
  })

  it('goes nowhere else', async () => {
    const { url } = await serveActions()
    for (const to of [
      'https://evil.example',
      '//evil.example',
      '/\\evil.example',
      '/.//evil.example',
      'javascript:alert(1)',
      'blob:http://here.invalid/x',
      'http://here.invalid@evil.example/',
      '/\t/evil.example',
    ]) {
      const body = new URLSearchParams({ token: adminToken, to })
      const answer = await fetch(`${url}/sign-in`, { method: 'POST', redirect: 'manual', body })
      expect(answer.headers.get('location')).toBe('/')
    }
  })

  it('leads to the page that was asked for, with what follows its path, also after a wrong token', async () => {
    const { url } = await serveActions()
    const to = '/approve?stream=assignment&a=%2F'
    const post = (token: string) =>
      fetch(`${url}/sign-in`, {
        method: 'POST',
        redirect: 'manual',
        body: new URLSearchParams({ token, to }),
      })
    const wrong = await (await post('wrong')).text()
    expect(wrong).toContain('name="to" value="/approve?stream=assignment&amp;a=%2F"')
    // Nobody is signed in there, and what one may do is not known.
    expect(wrong).not.toContain('You can view everything')
    expect((await post(adminToken)).headers.get('location')).toBe(to)
  })

  it('is refused to wrong tokens after five in a minute, of forms and of scripts, and says for how long', async () => {
    const { url, orders, pass } = await serveActions()
    const browsing = openBrowsing(url)
    for (let attempt = 0; attempt < 5; attempt++) {
      const wrong = await browsing.signIn(`${adminToken}${attempt}`)
      expect([wrong.status, wrong.headers.getSetCookie()]).toEqual([401, []])
      pass(1_000)
    }
    const asScript = (token: string) => browsing.submit(pausing, {}, { authorization: `Bearer ${token}` })
    for (const refused of [await browsing.signIn(`${adminToken}5`), await asScript('guess')])
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '55'])
    expect(orders).toEqual([])
    pass(55_000)
    expect((await browsing.signIn(`${adminToken}6`)).status).toBe(401)
  })

  it('is refused to the right token as well while its client has to wait, so that guessing leads nowhere', async () => {
    const { url, orders, pass } = await serveActions()
    const browsing = openBrowsing(url)
    for (let guess = 0; guess < 5; guess++) await browsing.signIn(`guess-${guess}`)
    const headers = { authorization: `Bearer ${adminToken}` }
    const refused = await browsing.signIn(adminToken)
    expect([refused.status, await refused.text()]).toEqual([
      429,
      expect.stringContaining('for 60 s, not even'),
    ])
    expect((await browsing.submit(pausing, {}, headers)).status).toBe(429)
    expect(orders).toEqual([])
    pass(60_000)
    expect((await browsing.submit(pausing, {}, headers)).status).toBe(200)
    expect((await browsing.signIn(adminToken)).status).toBe(303)
  })

  it('behind a proxy that nobody trusts is kept from who guesses and from nobody else', async () => {
    const { url, pass } = await serveActions()
    const signIn = async (token: string, forwarded: string) =>
      (
        await fetch(`${url}/sign-in`, {
          ...{ method: 'POST', redirect: 'manual', body: new URLSearchParams({ token }) },
          headers: { 'x-forwarded-for': forwarded },
        })
      ).status
    for (let guess = 0; guess < 5; guess++) await signIn(`guess-${guess}`, `203.0.113.${guess}, 192.0.2.1`)
    expect(await signIn(adminToken, '192.0.2.1')).toBe(429)
    expect(await signIn(adminToken, '192.0.2.2')).toBe(303)
    // Who makes up an address each time is limited all the same.
    pass(1_000)
    const answers: number[] = []
    for (let guess = 0; guess < 12; guess++) answers.push(await signIn('guess', `198.51.100.${guess}`))
    expect(answers).toEqual([...Array(10).fill(401), 429, 429])
    expect(await signIn(adminToken, '198.51.100.99')).toBe(429)
    pass(1_000)
    expect(await signIn(adminToken, '198.51.100.99')).toBe(303)
  })

  it('counts by the address of the client only where a proxy is trusted, and believes no client about it', async () => {
    const guess = (url: string, forwarded: string) =>
      fetch(`${url}/sign-in`, {
        method: 'POST',
        headers: { 'x-forwarded-for': forwarded },
        body: new URLSearchParams({ token: 'guess' }),
      })
    const statuses = async (trusted: readonly string[], forwarded: (time: number) => string) => {
      const { url } = await serveActions(adminToken, trusted)
      const answers: number[] = []
      for (let time = 0; time < 6; time++) answers.push((await guess(url, forwarded(time))).status)
      return answers.at(-1)
    }
    expect(await statuses([], () => '192.0.2.1')).toBe(429)
    expect(await statuses(['127.0.0.1'], (time) => `192.0.2.${time}`)).toBe(401)
    // What the client wrote stands before what the proxy added.
    expect(await statuses(['127.0.0.1'], (time) => `192.0.2.${time}, 198.51.100.1`)).toBe(429)
  })

  it('counts those who guess, and nobody else, however many they are, with bounded memory (P10)', () => {
    const limit = openLimit({ most: 5, withinMs: 60_000 })
    const networkAt = (network: number, host: number) =>
      networkOf(`2001:db8:${(network >> 8).toString(16)}:${(network & 255).toString(16)}::${host}`)
    for (let network = 0; network < 11_000; network++)
      for (let host = 0; host < 5; host++) limit.count(networkAt(network, host), 1_000)
    expect(limit.waitMs('192.0.2.1', 31_000)).toBe(0)
    // Of one network, however it is written; the one that was counted longest ago is forgotten.
    const written = networkOf('2001:0DB8:002a:0001:0:0:0:9')
    expect([limit.waitMs(written, 31_000), limit.waitMs(written, 61_000)]).toEqual([30_000, 0])
    // A clock that is put back makes nobody wait longer.
    expect(limit.waitMs(written, -3_600_000)).toBe(60_000)
    expect(limit.waitMs(networkOf('2001:db8::9'), 31_000)).toBe(0)
    expect(networkOf('::ffff:192.0.2.7')).toBe('192.0.2.7')
  })

  it('is there without a token, and takes nothing then', async () => {
    const { url, orders } = await serveActions(null)
    const browsing = openBrowsing(url)
    expect(await (await browsing.get('/sign-in')).text()).toContain('tidemark token create')
    expect((await browsing.signIn('')).status).toBe(401)
    for (const authorization of ['Bearer null', 'Bearer undefined', 'Bearer '])
      expect((await browsing.submit(pausing, {}, { authorization })).status).toBe(401)
    // Nobody knows whose this is, so it is not counted as wrong.
    const authorization = `Bearer tidemark_${'A'.repeat(43)}`
    const unknown = await browsing.submit(pausing, {}, { authorization })
    expect([unknown.status, await unknown.text()]).toEqual([
      503,
      expect.stringContaining('cannot be checked'),
    ])
    expect(orders).toEqual([])
  })
})

describe('a session', () => {
  const shows = async (url: string, cookie: string) =>
    (await (await fetch(url, { headers: { cookie } })).text()).includes('Sign out')

  it('ends with its time, and for every copy of its cookie when its owner signs out or in again', async () => {
    const { url, pass } = await serveActions()
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    const first = browsing.cookies()
    await browsing.signIn(adminToken)
    const copied = browsing.cookies()
    expect([await shows(url, first), await shows(url, copied)]).toEqual([false, true])
    await browsing.submit('/sign-out')
    expect(await shows(url, copied)).toBe(false)
    await browsing.signIn(adminToken)
    pass(sessionMs - 1)
    expect(await shows(url, browsing.cookies())).toBe(true)
    pass(1)
    expect(await shows(url, browsing.cookies())).toBe(false)
  })

  it('that began while Postgres is away is known to its worker alone, and cannot be made up', async () => {
    const { url, orders } = await serveActions()
    const { url: other } = await serveActions()
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    expect([await shows(url, browsing.cookies()), await shows(other, browsing.cookies())]).toEqual([
      true,
      false,
    ])
    const forged = ['', 'A'.repeat(43), `${browsing.cookies().slice(17)}x`, '%00', 'constructor', '__proto__']
    for (const value of forged) {
      const headers = { cookie: `tidemark_session=${value}` }
      expect([value, await shows(url, headers.cookie)]).toEqual([value, false])
      expect((await fetch(`${url}${pausing}`, { method: 'POST', headers })).status).toBe(401)
    }
    expect(orders).toEqual([])
  })

  it('is ended by no other site, though browsers send no cookie with such a form', async () => {
    const { url } = await serveActions()
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
      const answer = await fetch(`${url}/sign-out`, { method: 'POST', redirect: 'manual', headers })
      expect([answer.status, answer.headers.getSetCookie()]).toEqual([403, []])
    }
    expect(await shows(url, browsing.cookies())).toBe(true)
  })
})
