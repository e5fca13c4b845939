// Signing in through an identity provider, and what is told when it gets something wrong: a real worker, and a provider over real HTTP.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { messageOf } from '../../src/util/errors.ts'
import { noProxies } from '../../src/util/proxies.ts'
import { openIdentityProvider } from '../../src/web/oidc.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { clientId, clientSecret, type OidcProvider, startOidcProvider } from '../support/oidc-provider.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const consoleUrl = 'https://console.example'
const ola = { preferred_username: 'ola', roles: ['staff', 'tidemark-operator'] }

describe.skipIf(!hasPostgres)('an identity provider', () => {
  const database = createTestDatabase()
  const rows = async (sql: string) => (await database.pool.query(sql)).rows

  /** The way of a browser to the provider, and the address with which it comes back. */
  async function away(browsing: Browsing, to = '/people'): Promise<string> {
    const there = await browsing.get(`/sign-in/oidc?${new URLSearchParams({ to })}`)
    expect(there.status).toBe(303)
    const back = await fetch(there.headers.get('location') ?? '', { redirect: 'manual' })
    const location = back.headers.get('location') ?? ''
    expect(location).toMatch(`${consoleUrl}/sign-in/oidc/callback?`)
    return location.slice(consoleUrl.length)
  }
  async function signIn(worker: TestWorker, browsing = openBrowsing(worker.url)) {
    const answer = await browsing.get(await away(browsing))
    const page = await answer.text()
    const told = /role="alert">([^<]*)/.exec(page)?.[1]?.replaceAll('&#39;', "'") ?? null
    return { browsing, answer, page, told, isIn: (await browsing.get('/people')).status === 200 }
  }

  it('lets people in as who they are there, with the role of their groups, and nobody else in any way', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const provider = await startOidcProvider()
    const worker = await startTestWorker(simulator, database, {
      ...{ STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1h', SCHEDULE_DELETIONS: '1h' },
      ...{ OIDC_ISSUER: provider.url, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret },
      ...{ CONSOLE_URL: consoleUrl, ADMIN_GROUPS: 'tidemark-admin,bosses' },
    })
    try {
      await worker.live
      await letsPeopleIn(worker, provider)
      await refusesWhatIsWrong(worker, provider)
      await takesAnAnswerOnce(worker, provider)
      await goesOnWithoutProvider(worker, provider)
      expect(worker.logged().join('')).not.toContain(clientSecret)
    } finally {
      await worker.stop()
    }
  })

  async function letsPeopleIn(worker: TestWorker, provider: OidcProvider) {
    // The pages are closed for all others, also on this machine.
    const stranger = await fetch(worker.url, { headers: { accept: 'text/html' }, redirect: 'manual' })
    expect(stranger.headers.get('location')).toBe('/sign-in?to=%2F')
    const form = await (await fetch(`${worker.url}/sign-in?to=/runs`)).text()
    expect(form).toContain(`href="/sign-in/oidc?to=%2Fruns">Sign in at ${new URL(provider.url).host}`)

    provider.person = ola
    const { browsing, answer, page } = await signIn(worker)
    expect(page).toContain('http-equiv="refresh" content="0;url=/people"')
    const cookies = answer.headers.getSetCookie()
    expect(cookies).toEqual([
      expect.stringMatching(/^tidemark_sign_in=; Max-Age=0; /),
      expect.stringMatching(/^__Host-tidemark_sign_in=; Max-Age=0; .*Secure$/),
      expect.stringMatching(
        /^tidemark_session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/,
      ),
    ])
    expect(await (await browsing.get('/people')).text()).toContain('<b><bdi>oidc:ola</bdi></b>')
    expect((await browsing.submit('/streams/assignment/pause', { reason: 'x' })).status).toBe(303)
    expect((await browsing.submit('/quarantine/1/drop', { reason: 'x' })).status).toBe(403)
    expect(
      await rows(
        `select who, action, target, told from tidemark.action where action <> 'download' order by id`,
      ),
    ).toEqual([
      {
        ...{ who: 'oidc:ola', action: 'signIn', target: 'operator' },
        told: `Signed in at ${new URL(provider.url).host}, which knows them as subject-1.`,
      },
      expect.objectContaining({ who: 'oidc:ola', action: 'pause', target: 'assignment' }),
    ])
    const out = await browsing.submit('/sign-out')
    expect(out.headers.get('location')).toBe('/sign-in?ended=oidc')
    expect(await (await browsing.get('/sign-in?ended=oidc')).text()).toContain(
      `href="${provider.url}/logout?client_id=${clientId}&amp;post_logout_redirect_uri=https%3A%2F%2Fconsole.example%2Fsign-in"`,
    )
    expect((await browsing.get('/people')).status).toBe(401)

    for (const [person, who, role] of [
      [{ preferred_username: 'eve\u202e\n<b>', roles: 'bosses' }, 'oidc:eve  &lt;b&gt;', 'admin'],
      [{ roles: ['tidemark-viewer'], email: 'per@example.com' }, 'oidc:per@example.com', 'viewer'],
      [{ roles: ['tidemark-viewer', 'tidemark-admin'] }, 'oidc:subject-1', 'admin'],
    ] as const) {
      provider.person = person
      const signedIn = await signIn(worker)
      expect(await (await signedIn.browsing.get('/')).text()).toContain(
        `Signed in as <bdi>${who}</bdi> (${role})`,
      )
    }
  }

  async function refusesWhatIsWrong(worker: TestWorker, provider: OidcProvider) {
    const { host } = new URL(provider.url)
    const seconds = Math.floor(Date.now() / 1000)
    const wrongs: readonly (readonly [OidcProvider['wrong'], string])[] = [
      [{ claims: { aud: 'another-program' } }, `${host} is for another program than ${clientId}`],
      [{ claims: { aud: [clientId, 'other'], azp: 'other' } }, `is for another program than ${clientId}`],
      [{ claims: { exp: seconds - 3_600 } }, 'has expired. The clocks agree'],
      [{ claims: { nbf: seconds + 3_600 } }, 'is not good yet. The clocks agree'],
      [
        { behindMs: 7 * 60_000 },
        `has expired. The clock of this machine is 7 min ahead of that of ${host}: set it.`,
      ],
      [{ claims: { nonce: 'of another sign-in' } }, 'belongs to another sign-in'],
      [{ claims: { iss: 'https://elsewhere.example' } }, 'answered what OpenID Connect does not allow'],
      [{ forges: true }, 'answered what OpenID Connect does not allow'],
      [{ claims: { roles: undefined } }, `the claim roles is missing`],
      [{ alg: 'none' }, 'answered what OpenID Connect does not allow'],
      [{ claims: { roles: ['staff', 'TIDEMARK-ADMIN'] } }, 'none of your groups gives a role here'],
      [{ denies: 'access_denied' }, `${host} refused the sign-in (access_denied)`],
    ]
    provider.person = ola
    for (const [wrong, line] of wrongs) {
      const browsing = openBrowsing(worker.url)
      provider.wrong = wrong
      const { answer, told, isIn } = await signIn(worker, browsing)
      expect([line, answer.status, told, isIn]).toEqual([line, 403, expect.stringContaining(line), false])
      expect(answer.headers.getSetCookie().join()).not.toContain('tidemark_session')
      expect(worker.logged().at(-1)).toContain(`a sign-in failed: `)
    }
    // Five minutes that nobody noticed are no reason to stay outside.
    provider.wrong = { behindMs: -5 * 60_000 }
    expect((await signIn(worker)).isIn).toBe(true)
    provider.wrong = {}
  }

  async function takesAnAnswerOnce(worker: TestWorker, provider: OidcProvider) {
    const browsing = openBrowsing(worker.url)
    const back = await away(browsing)
    const copied = browsing.cookies()
    const alien = openBrowsing(worker.url)
    await away(alien)
    // In another browser, with the cookie of another sign-in and without any.
    for (const [one, line] of [
      [alien, 'what OpenID Connect does not allow'],
      [openBrowsing(worker.url), 'began in another browser'],
    ] as const)
      expect(await (await one.get(back)).text()).toContain(line)
    // Another host of the same domain can set a cookie, but not one of this name.
    const set = await fetch(worker.url + back, { headers: { cookie: copied.replaceAll('__Host-', '') } })
    expect(await set.text()).toContain('began in another browser')
    expect((await browsing.get(back)).status).toBe(200)
    const asked = provider.asked
    expect(await (await browsing.get(back)).text()).toContain('was finished already')
    expect(provider.asked).toBe(asked)
    const replayed = await fetch(worker.url + back, { headers: { cookie: copied } })
    expect([replayed.status, await replayed.text()]).toEqual([
      403,
      expect.stringContaining('it was used already, or is too old'),
    ])
    expect(replayed.headers.getSetCookie().join()).not.toContain('tidemark_session')
    for (const to of ['https://evil.example', '//evil.example', '/\\evil.example', 'javascript:alert(1)']) {
      const page = await (await browsing.get(await away(browsing, to))).text()
      expect(page).toContain('content="0;url=/"')
    }
    const flooding = openBrowsing(worker.url)
    const statuses: number[] = []
    for (let time = 0; time < 25; time++)
      statuses.push((await flooding.get('/sign-in/oidc/callback?code=x')).status)
    expect(statuses.at(-1)).toBe(429)
    // Whom a proxy tells apart from those who fail, can sign in.
    const elsewhere = { 'x-forwarded-for': '192.0.2.7' }
    expect((await flooding.get('/sign-in/oidc/callback?code=x', { headers: elsewhere })).status).toBe(403)
  }

  async function goesOnWithoutProvider(worker: TestWorker, provider: OidcProvider) {
    await provider.stop()
    // What is known of the provider is good for a while.
    const browsing = openBrowsing(worker.url)
    expect((await browsing.get('/sign-in/oidc')).status).toBe(303)
    expect((await browsing.signIn(adminToken)).status).toBe(303)
    expect((await browsing.get('/people')).status).toBe(200)
  }

  it('that is down or is no provider is told in a line, and tokens are taken all the same', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const provider = await startOidcProvider()
    provider.wrong = { status: 503 }
    const worker = await startTestWorker(simulator, database, {
      ...{ STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1h', SCHEDULE_DELETIONS: '1h' },
      ...{ OIDC_ISSUER: provider.url, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: 'a-wrong-client-secret' },
      CONSOLE_URL: consoleUrl,
    })
    try {
      const browsing = openBrowsing(worker.url)
      const told = async () => {
        const answer = await browsing.get('/sign-in/oidc')
        return [answer.status, /role="alert">([^<]*)/.exec(await answer.text())?.[1]]
      }
      expect(await told()).toEqual([403, expect.stringContaining('Check OIDC_ISSUER')])
      provider.wrong = {}
      provider.person = ola
      await worker.live
      expect((await signIn(worker, browsing)).told).toMatch(
        /refused to tell who signed in \((?:401|invalid_client)\)\. Check OIDC_CLIENT_ID and OIDC_CLIENT_SECRET/,
      )
      expect((await browsing.signIn(adminToken)).status).toBe(303)
    } finally {
      await worker.stop()
    }
    const nowhere = openIdentityProvider({
      ...{ issuer: 'http://127.0.0.1:1', clientId, clientSecret: () => null, consoleUrl, proxies: noProxies },
      ...{
        scope: 'openid',
        roleClaim: 'roles',
        nameClaim: 'sub',
        groups: { admin: [], operator: [], viewer: [] },
      },
    })
    await expect(nowhere.begin('a secret')).rejects.toThrow(
      '127.0.0.1:1 cannot be reached (ECONNREFUSED). Try again; until it answers, sign in with a token.',
    )
    expect(await nowhere.signOutUrl()).toBe(null)
  })

  it('is waited for only so long, at the beginning and at the end, and its claims may have any form', async () => {
    const provider = await startOidcProvider()
    const open = (roleClaim = 'email') =>
      openIdentityProvider({
        ...{ issuer: provider.url, clientId, clientSecret: () => clientSecret, consoleUrl },
        ...{ scope: 'openid', roleClaim, nameClaim: 'email', proxies: noProxies },
        groups: { admin: ['ola@example.com'], operator: [], viewer: [] },
        timeoutSeconds: 0.3,
      })
    const { host } = new URL(provider.url)
    const tooLong = `${host} did not answer within 0.3 s. Try again; until it answers, sign in with a token.`
    const knows = open()
    const begin = async () => {
      const there = await knows.begin('a secret')
      const back = await fetch(there, { redirect: 'manual' })
      return new URL(back.headers.get('location') ?? '').search.slice(1)
    }
    const query = await begin()
    for (const hangs of ['whole', 'body'] as const) {
      provider.wrong = { hangs }
      await expect(open().begin('a secret')).rejects.toThrow(tooLong)
      await expect(knows.finish(query, 'a secret')).rejects.toThrow(tooLong)
      expect(await open().signOutUrl()).toBe(null)
    }
    // An address gives rights when the provider verified it, and not when it says nothing of that.
    for (const [verified, isIn] of [
      [true, true],
      ['true', true],
      [false, false],
      [undefined, false],
    ] as const) {
      provider.wrong = {}
      provider.person = { email: 'ola@example.com', email_verified: verified }
      const finished = knows.finish(await begin(), 'a secret')
      if (isIn) await expect(finished).resolves.toMatchObject({ person: { role: 'admin' } })
      else await expect(finished).rejects.toThrow(`${host} does not say that it verified the address`)
    }
    // A claim of any form is looked at, also inside of another one, and huge.
    const unreadable = 'the claim a.roles is neither a text nor a list of texts'
    for (const [roles, outcome] of [
      ['ola@example.com', 'admin'],
      [[7, null, 'ola@example.com'], 'admin'],
      [{ 'ola@example.com': {} }, unreadable],
      [[7, ['ola@example.com']], unreadable],
      [7, unreadable],
      [undefined, 'the claim a.roles is missing'],
      [Array.from({ length: 20_000 }, (_, index) => `group-${index}`), 'none of your groups gives a role'],
      ['x'.repeat(1_000_000), `An answer of ${host} is larger than 1 MB.`],
    ] as const) {
      provider.person = { email: 'ola@example.com', a: { roles } }
      const told = open('a.roles')
        .finish(await begin(), 'a secret')
        .then(({ person }) => person.role, messageOf)
      expect(await told).toContain(outcome)
    }
  })
})
