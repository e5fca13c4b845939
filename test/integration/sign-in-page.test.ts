// Signing in to the console: sessions and guesses.

import { describe, expect, it } from 'vitest'
import { openAttempts } from '../../src/web/auth.ts'
import { sessionMs } from '../../src/web/sessions.ts'
import { openBrowsing } from '../support/browsing.ts'
import { adminToken, pausing, serveActions } from '../support/served-actions.ts'

describe('signing in', () => {
  it('gives a cookie that no script can read and no other site can send', async () => {
    const { url } = await serveActions()
    const browsing = openBrowsing(url)
    expect(await (await browsing.get('/')).text()).toContain('href="/sign-in"')
    expect(await (await browsing.get('/sign-in')).text()).toContain('name="token"')
    const answer = await browsing.signIn(adminToken)
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/'])
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toMatch(/^tidemark_session=[^;]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/)
    expect(cookie).not.toContain(adminToken)
    expect(await (await browsing.get('/')).text()).toContain('Sign out')
    expect((await browsing.submit('/sign-out')).status).toBe(303)
    expect(await (await browsing.get('/')).text()).toContain('href="/sign-in"')
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
    for (const headers of [{ origin: `https://${host}` }, { 'x-forwarded-proto': 'https' }])
      expect((await post(headers)).headers.get('set-cookie')).toContain('; Secure')
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
        body: new URLSearchParams({ token, to, name: '"ops-1"' }),
      })
    const wrong = await (await post('wrong')).text()
    expect(wrong).toContain('name="to" value="/approve?stream=assignment&amp;a=%2F"')
    expect(wrong).toContain('name="name" value="&quot;ops-1&quot;"')
    // Nobody is signed in there, and what one may do is not known.
    expect(wrong).not.toContain('You can view everything')
    expect((await post(adminToken)).headers.get('location')).toBe(to)
  })

  it('is refused after five wrong tokens in a minute, even with the right one, and says for how long', async () => {
    const { url, pass } = await serveActions()
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
    const { url, orders, pass } = await serveActions()
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

  it('is refused to those who guess, and to nobody else, however many they are, with bounded memory (P10)', () => {
    const attempts = openAttempts()
    const addressOf = (network: number, host: number) =>
      `2001:db8:${(network >> 8).toString(16)}:${(network & 255).toString(16)}::${host}`
    for (let network = 0; network < 11_000; network++)
      for (let host = 0; host < 5; host++) attempts.failed(addressOf(network, host), 1_000)
    expect(attempts.waitMs('192.0.2.1', 31_000)).toBe(0)
    // Of one network, however it is written; the one that failed longest ago is forgotten.
    expect(attempts.waitMs('2001:0DB8:002a:0001:0:0:0:9', 31_000)).toBe(30_000)
    expect(attempts.waitMs('2001:db8:2a:1::9', 61_000)).toBe(0)
    expect(attempts.waitMs('2001:db8::9', 31_000)).toBe(0)
    for (let guess = 0; guess < 5; guess++) attempts.failed('::ffff:192.0.2.7', 1_000)
    expect(attempts.waitMs('::ffff:192.0.2.8', 31_000)).toBe(0)
  })

  it('is not there without a token, and neither are the actions', async () => {
    const { url, orders } = await serveActions(null)
    const browsing = openBrowsing(url)
    expect(await (await browsing.get('/')).text()).not.toContain('/sign-in')
    expect((await browsing.get('/sign-in')).status).toBe(404)
    expect((await browsing.signIn('')).status).toBe(404)
    for (const authorization of ['Bearer null', 'Bearer undefined', 'Bearer '])
      expect((await browsing.submit(pausing, {}, { authorization })).status).toBe(404)
    expect(orders).toEqual([])
  })
})

describe('a session', () => {
  it('holds in another worker and after a restart, and ends with its time or with the token', async () => {
    const { url, pass } = await serveActions()
    const { url: other } = await serveActions()
    const { url: changed } = await serveActions('another-admin-token-of-the-tests')
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
    const { url, orders } = await serveActions()
    const browsing = openBrowsing(url)
    await browsing.signIn(adminToken)
    const [, id = '', expires = '', signature = ''] =
      /tidemark_session=([^.]+)\.(\d+)\.operator\.\.(.+)$/.exec(browsing.cookies()) ?? []
    const forged = [
      `${id}.${Number(expires) + 1}.operator..${signature}`,
      `${id}.${expires}.operator..${'A'.repeat(43)}`,
      `${id}.${expires}.operator.QQ.${signature}`,
      `${id}.${expires}.viewer..${signature}`,
      `${id}.${expires}.nobody..${signature}`,
      `${id}.${expires}.operator..`,
      `${'A'.repeat(22)}.${expires}.operator..${signature}`,
      `${id}.${expires}.operator..${signature}x`,
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
