// Who somebody is, as a proxy in front says: believed from the addresses that were named, and from nobody else.

import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import { csrfTokenOf } from '../../src/web/sessions.ts'
import { openBrowsing } from '../support/browsing.ts'
import { adminToken, pausing, serveActions } from '../support/served-actions.ts'

const user = 'x-forwarded-user'
const groups = 'x-forwarded-groups'

describe('a proxy that names people', () => {
  const shown = async (url: string, headers: Record<string, string>) =>
    /Signed in as <bdi>(.*?)<\/bdi> \((\w+)\)/.exec(await (await fetch(url, { headers })).text())?.slice(1)
  /** Headers that come more than once. */
  const raw = (url: string, headers: readonly string[], path = '/sign-in') =>
    new Promise<string>((resolve, reject) => {
      const asked = request(
        url + path,
        { headers: ['host', new URL(url).host, ...headers] },
        async (answer) => {
          let text = ''
          for await (const chunk of answer) text += chunk
          resolve(text)
        },
      )
      asked.on('error', reject).end()
    })

  it('is believed, with the highest role of the groups that it says, and the act is theirs', async () => {
    const { url, orders } = await serveActions(adminToken, [], ['127.0.0.0/8'])
    for (const [name, said, role] of [
      ['ola', 'staff', 'viewer'],
      ['ola', 'others, ops,staff', 'operator'],
      ['eve <b>', 'bosses', 'admin'],
    ] as const)
      expect(await shown(url, { [user]: name, [groups]: said })).toEqual([
        `proxy:${name.replace('<b>', '&lt;b&gt;')}`,
        role,
      ])
    // Names and groups come as UTF-8.
    const bytes = (text: string) => Buffer.from(text).toString('latin1')
    for (const name of ['Özlem', 'Ülkü'])
      expect(await raw(url, [user, bytes(name), groups, bytes('Außendienst')], '/')).toContain(
        `Signed in as <bdi>proxy:${name}</bdi> (viewer)`,
      )
    const headers = { [user]: 'ola', [groups]: 'ops' }
    const page = await fetch(url, { headers })
    const cookie = page.headers.getSetCookie()[0] ?? ''
    expect(cookie).toMatch(/^tidemark_form=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/)
    const pressed = async (csrf: string, more: Record<string, string> = {}) =>
      (
        await fetch(url + pausing, {
          ...{ method: 'POST', redirect: 'manual', body: new URLSearchParams({ csrf }) },
          headers: { ...headers, cookie: cookie.split(';')[0] ?? '', origin: url, ...more },
        })
      ).status
    // They sign out where they signed in.
    expect(await page.text()).not.toContain('action="/sign-out"')
    // Without the token of the form, from another site, and with the form of another person.
    const value = /=([^;]*)/.exec(cookie)?.[1] ?? ''
    const tokenFor = (who: string) => csrfTokenOf(`${value} ${who}`)
    expect(await pressed('')).toBe(403)
    expect(await pressed(tokenFor('proxy:ola'), { origin: 'https://evil.example' })).toBe(403)
    expect(await pressed(tokenFor('proxy:eve'))).toBe(403)
    expect(orders).toEqual([])
    expect(await pressed(tokenFor('proxy:ola'))).toBe(303)
    expect(orders).toMatchObject([
      { who: 'proxy:ola', door: 'console', by: 'proxy:ola (console, 127.0.0.1)' },
    ])
  })

  it('is not believed from another address, whatever else it says, and that is told', async () => {
    const { url, told } = await serveActions(adminToken, ['127.0.0.1'], ['10.0.0.0/8', '::1'])
    const headers = { [user]: 'ola', [groups]: 'bosses', 'x-forwarded-for': '10.0.0.1' }
    for (let time = 0; time < 3; time++) expect(await shown(url, headers)).toBeUndefined()
    expect(told().match(/IDENTITY_PROXIES does not name/g)).toHaveLength(1)
    expect((await fetch(url + pausing, { method: 'POST', headers })).status).toBe(401)
    const { url: closed } = await serveActions()
    expect(await shown(closed, headers)).toBeUndefined()
  })

  it('is not believed when a header came twice, or gives nobody or no role, which the page says', async () => {
    const { url, told } = await serveActions(adminToken, [], ['127.0.0.1'])
    for (const [sent, line] of [
      [[user, 'eve', user, 'ola', groups, 'bosses'], 'came twice'],
      [[user, 'ola', groups, 'bosses', groups, 'staff'], 'came twice'],
      [[user, ' ', groups, 'bosses'], 'is empty'],
      [[user, 'ola', groups, 'BOSSES'], 'none of the groups in x-forwarded-groups gives a role'],
      [[user, 'ola'], 'none of the groups'],
    ] as const) {
      const page = await raw(url, sent)
      expect(page).toContain(line)
      expect(page).not.toContain('Signed in as')
    }
    expect(told()).toContain('came twice')
    // Tokens are taken all the same, and a session is its own.
    const browsing = openBrowsing(url)
    expect((await browsing.signIn(adminToken)).status).toBe(303)
    expect(await shown(url, { cookie: browsing.cookies(), [user]: 'ola', [groups]: 'staff' })).toEqual([
      'ADMIN_TOKEN',
      'admin',
    ])
  })
})
