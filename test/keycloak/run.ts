// `npm run try:oidc -- FOLDER`: the console with a real Keycloak, which was unpacked in that folder, and a real Chromium. Prints what was
// seen of sign-in, roles, replay, audience, clocks, expiry, logout and a provider that is down; ends with 1 when one of them is otherwise.

import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { environmentFor } from '../support/environment.ts'
import { client, consoleUrl, issuer, keycloakUrl, otherClient, passwordOf, realm } from './realm.ts'

const [folder] = process.argv.slice(2)
if (folder === undefined) {
  process.stderr.write('Write npm run try:oidc -- FOLDER, with the folder of an unpacked Keycloak.\n')
  process.exit(2)
}
const adminToken = 'the-admin-token-of-this-trial'
const program = fileURLToPath(new URL('../../bin/tidemark.js', import.meta.url))
const running: ChildProcess[] = []
let failed = 0

function check(what: string, isRight: boolean, seen: unknown = ''): void {
  if (!isRight) failed++
  process.stdout.write(`${isRight ? 'right' : 'WRONG'}  ${what}${isRight ? '' : `: ${String(seen)}`}\n`)
}

function start(file: string, words: readonly string[], env: Readonly<Record<string, string>>, cwd: string) {
  const child = spawn(file, words, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  running.push(child)
  return child
}
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill()
  await ended
}
async function untilAnswered(url: string): Promise<void> {
  for (const endMs = Date.now() + 300_000; Date.now() < endMs; await wait(500))
    if (
      await fetch(url).then(
        ({ ok }) => ok,
        () => false,
      )
    )
      return
  throw new Error(`${url} did not answer within five minutes`)
}

const directory = mkdtempSync(join(tmpdir(), 'tidemark-oidc-'))
chmodSync(directory, 0o755)
await using simulator = await startSimulator({ assignments: 20 })
const startWorker = async (more: Readonly<Record<string, string>> = {}) => {
  const environment = environmentFor(simulator, null, {
    ...{ STREAMS: 'assignment', HTTP_PORT: '8090', CONSOLE_URL: consoleUrl, ADMIN_TOKEN: adminToken },
    ...{
      OIDC_ISSUER: issuer,
      OIDC_CLIENT_ID: client.id,
      OIDC_CLIENT_SECRET: client.secret,
      SESSION_LASTS: '1m',
    },
    ...more,
  })
  const worker = start(process.execPath, [program, 'serve'], environment as Record<string, string>, directory)
  await untilAnswered(`${consoleUrl}/readyz`)
  return worker
}
const startKeycloak = async () => {
  mkdirSync(join(folder, 'data/import'), { recursive: true })
  writeFileSync(join(folder, 'data/import/works-realm.json'), JSON.stringify(realm))
  const words = ['start-dev', '--http-host', '127.0.0.1', '--http-port', '8089', '--import-realm']
  const admin = { KC_BOOTSTRAP_ADMIN_USERNAME: 'admin', KC_BOOTSTRAP_ADMIN_PASSWORD: 'admin' }
  const keycloak = start(join(folder, 'bin/kc.sh'), words, admin, folder)
  await untilAnswered(`${issuer}/.well-known/openid-configuration`)
  return keycloak
}

const fill = async (page: Page, username: string) => {
  await page.fill('#username', username)
  await page.fill('#password', passwordOf(username))
  await page.click('#kc-login')
}
async function signIn(context: BrowserContext, username: string): Promise<Page> {
  const page = await context.newPage()
  await page.goto(`${consoleUrl}/people`)
  await page.click('text=Sign in at')
  await page.waitForURL(`${keycloakUrl}/**`)
  await fill(page, username)
  await page.waitForURL((url) => url.origin === consoleUrl)
  return page
}
const alertOn = async (page: Page) =>
  (await page.textContent('[role=alert]', { timeout: 5_000 }).catch(() => null)) ?? ''

/** Asks Keycloak, as its own admin, for a client that tells something else. */
async function withMapper(name: string, value: string, work: () => Promise<void>): Promise<void> {
  const form = { grant_type: 'password', client_id: 'admin-cli', username: 'admin', password: 'admin' }
  const signedIn = await fetch(`${keycloakUrl}/realms/master/protocol/openid-connect/token`, {
    ...{ method: 'POST', body: new URLSearchParams(form) },
  })
  const { access_token: token } = (await signedIn.json()) as { access_token: string }
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const clients = `${keycloakUrl}/admin/realms/works/clients`
  const [{ id } = { id: '' }] = (await (
    await fetch(`${clients}?clientId=${client.id}`, { headers })
  ).json()) as {
    id: string
  }[]
  const made = await fetch(`${clients}/${id}/protocol-mappers/models`, {
    ...{ method: 'POST', headers },
    body: JSON.stringify({
      ...{ name, protocol: 'openid-connect', protocolMapper: 'oidc-hardcoded-claim-mapper' },
      config: {
        'claim.name': name,
        'claim.value': value,
        'jsonType.label': 'String',
        'id.token.claim': 'true',
      },
    }),
  })
  try {
    await work()
  } finally {
    await fetch(made.headers.get('location') ?? '', { method: 'DELETE', headers })
  }
}

async function trySignInAndRoles(browser: Browser): Promise<void> {
  for (const [username, role, mayAct, mayAdminister] of [
    ['ola', 'operator', true, false],
    ['kari', 'admin', true, true],
  ] as const) {
    const context = await browser.newContext()
    const page = await signIn(context, username)
    await page.waitForURL(`${consoleUrl}/people`)
    const text = (await page.textContent('footer')) ?? ''
    check(
      `${username} is signed in as oidc:${username} (${role}), at the page that was asked for`,
      text.includes(`oidc:${username} (${role})`),
      text,
    )
    const cookies = (await context.cookies(consoleUrl)).map(
      ({ name, httpOnly, sameSite }) => `${name} ${httpOnly} ${sameSite}`,
    )
    check(
      'the browser keeps the session only, for no script and no other site',
      cookies.join() === 'tidemark_session true Strict',
      cookies,
    )
    check(
      `${username} ${mayAdminister ? 'may' : 'may not'} end sessions`,
      ((await page.$('text=End all sessions…')) !== null) === mayAdminister,
    )
    await page.goto(`${consoleUrl}/streams/assignment`)
    check(
      `${username} ${mayAct ? 'may' : 'may not'} read now`,
      (await page.$('button.go:has-text("Read now")')) !== null,
    )
    await context.close()
  }
  const context = await browser.newContext()
  const page = await signIn(context, 'per')
  const line = await alertOn(page)
  check(
    'per, who has no role, is told so and is not signed in',
    line.includes('says nothing about your role') || line.includes('none of your groups'),
    line,
  )
  await context.close()
}

async function tryReplay(browser: Browser): Promise<void> {
  const context = await browser.newContext()
  const callbacks: string[] = []
  const kept: { name: string; value: string; url: string }[] = []
  context.on('request', async (request) => {
    if (request.url().includes('/sign-in/oidc/callback?')) callbacks.push(request.url())
    const secret = /tidemark_sign_in=([^;]+)/.exec((await request.allHeaders()).cookie ?? '')?.[1]
    if (secret) kept.push({ name: 'tidemark_sign_in', value: secret, url: consoleUrl })
  })
  await signIn(context, 'ola')
  const [used = ''] = callbacks
  const other = await browser.newContext()
  const page = await other.newPage()
  await page.goto(used)
  check(
    'the answer of Keycloak is refused in another browser',
    (await alertOn(page)).includes('began in another browser'),
    await alertOn(page),
  )
  await other.addCookies(kept.slice(-1))
  await page.goto(used)
  check(
    'and also with the cookie of the first one, because it was used',
    (await alertOn(page)).includes('used already'),
    await alertOn(page),
  )
  check(
    'nobody is signed in there',
    !(await other.cookies(consoleUrl)).some(({ name }) => name === 'tidemark_session'),
  )
  await other.close()
  await context.close()
}

/** What the console asks of Keycloak, changed on the way by somebody in between. */
async function withChange(browser: Browser, [name, value]: readonly [string, string], expected: string) {
  const context = await browser.newContext()
  await context.route(/\/sign-in\/oidc\?/, async (route) => {
    const response = await route.fetch({ maxRedirects: 0 })
    const url = new URL(response.headers().location ?? '')
    url.searchParams.set(name, value)
    await route.fulfill({ response, headers: { ...response.headers(), location: url.href } })
  })
  const told = await alertOn(await signIn(context, 'ola'))
  check(`with another ${name} nobody is signed in`, told.includes(expected), told)
  await context.close()
}

async function tryAudience(browser: Browser): Promise<void> {
  // A code that Keycloak gave to another program, and one for another sign-in.
  await withChange(browser, ['client_id', otherClient.id], 'does not take this answer')
  await withChange(browser, ['nonce', 'of-another-sign-in'], 'belongs to another sign-in')
  await withChange(
    browser,
    ['code_challenge', 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'],
    'does not take this answer',
  )
  await withChange(browser, ['state', 'of-another-sign-in'], 'what OpenID Connect does not allow')
  await withMapper('aud', otherClient.id, async () => {
    const mapped = await browser.newContext()
    const told = await alertOn(await signIn(mapped, 'ola'))
    check(
      'an ID token for another program signs nobody in',
      told.includes(`is for another program than ${client.id}`),
      told,
    )
    await mapped.close()
  })
}

async function tryExpiryAndLogout(browser: Browser): Promise<void> {
  const context = await browser.newContext()
  const page = await signIn(context, 'ola')
  await page.waitForURL(`${consoleUrl}/people`)
  await page.click('text=Sign out')
  await page.waitForURL(`${consoleUrl}/sign-in?ended=oidc`)
  await page.click('text=Sign out there, too')
  await page.click('#kc-logout')
  await page.waitForURL(`${consoleUrl}/sign-in**`)
  await page.click('text=Sign in at')
  await page.waitForURL(`${keycloakUrl}/**`)
  check(
    'after signing out here and there, Keycloak asks for the password again',
    (await page.$('#password')) !== null,
  )
  await fill(page, 'ola')
  await page.waitForURL(`${consoleUrl}/**`)
  await wait(62_000)
  await page.goto(`${consoleUrl}/people`)
  check(
    'after SESSION_LASTS the console asks to sign in again',
    page.url().startsWith(`${consoleUrl}/sign-in`),
    page.url(),
  )
  await page.click('text=Sign in at')
  await page.waitForURL(`${consoleUrl}/people`)
  check('where Keycloak still knows the person, without a password', true)
  await context.close()
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
})
try {
  const keycloak = await startKeycloak()
  let worker = await startWorker()
  await trySignInAndRoles(browser)
  await tryReplay(browser)
  await tryAudience(browser)
  await tryExpiryAndLogout(browser)
  await end(worker)
  for (const [minutes, isIn] of [
    [5, true],
    [10, false],
  ] as const) {
    const shifted = `data:text/javascript,const now=Date.now;Date.now=()=>now()+${minutes * 60_000}`
    worker = await startWorker({ NODE_OPTIONS: `--import="${shifted}"`, SESSION_LASTS: '1h' })
    const context = await browser.newContext()
    const page = await signIn(context, 'ola')
    const told = await alertOn(page)
    if (isIn) check(`with a clock that is ${minutes} min ahead people are signed in`, told === '', told)
    else
      check(
        `with a clock that is ${minutes} min ahead it is said`,
        told.includes(`${minutes} min ahead`),
        told,
      )
    await context.close()
    await end(worker)
  }
  await end(keycloak)
  worker = await startWorker()
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(`${consoleUrl}/sign-in/oidc`)
  check(
    'without Keycloak it is said',
    (await alertOn(page)).includes('cannot be reached'),
    await alertOn(page),
  )
  await page.fill('input[name=token]', adminToken)
  await page.click('button:has-text("Sign in")')
  await page.waitForURL(`${consoleUrl}/`)
  check(
    'and a token is taken all the same',
    (await page.textContent('footer'))?.includes('ADMIN_TOKEN (admin)') === true,
  )
} finally {
  await browser.close()
  for (const child of running.toReversed()) await end(child)
  rmSync(directory, { recursive: true, force: true })
}
process.stdout.write(failed === 0 ? 'All of it was right.\n' : `${failed} of it was wrong.\n`)
process.exit(failed === 0 ? 0 : 1)
