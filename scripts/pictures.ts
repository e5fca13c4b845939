// `npm run pictures [seconds] [chromium]`: takes the pictures of the README and of the manual from the console of a demo that has run for
// so long: what a first load looks like, an ordinary day, and what people are asked when something went wrong.

import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { inFewColours } from './png.ts'

const checkout = fileURLToPath(new URL('..', import.meta.url))
const desktop = { width: 1280, height: 800 }
const phone = { width: 390, height: 844 }
const [seconds = '240', executablePath = '/usr/bin/chromium'] = process.argv.slice(2)
const runsForMs = Number(seconds) * 1000
const patienceMs = 240_000

const directory = await mkdtemp(join(tmpdir(), 'tidemark-pictures-'))
const demo = spawn(process.execPath, [join(checkout, 'bin/tidemark.js'), 'demo', '--port', '0'], {
  cwd: directory,
  stdio: ['ignore', 'pipe', 'inherit'],
})
const ended = new Promise((resolve) => demo.once('exit', resolve))
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
try {
  await takeAll(await addressOfDemo())
} finally {
  await browser.close()
  demo.kill('SIGINT')
  await ended
  await rm(directory, { recursive: true, force: true })
}

/** With the key that signs in once. */
async function addressOfDemo(): Promise<URL> {
  for await (const line of createInterface({ input: demo.stdout })) {
    const [url] = /http:\/\/127\.0\.0\.1:\d+\/demo\?key=\S+/.exec(line) ?? []
    if (url === undefined) continue
    // What it goes on to say has to be read, or it would wait.
    demo.stdout.resume()
    return new URL(url)
  }
  throw new Error('the demo ended before it named its console')
}

type Look = { readonly isDark?: boolean; readonly isPhone?: boolean }

async function takeAll(address: URL): Promise<void> {
  const context = await browser.newContext({ reducedMotion: 'reduce' })
  const page = await context.newPage()
  const began = Date.now()
  await page.goto(address.href)
  const take = (name: string, path: string, look: Look = {}) =>
    takePicture(context, new URL(path, address).href, name, look)

  const load = page.getByRole('region', { name: 'First load' })
  await until(async () => {
    await page.goto(address.origin)
    // Both large streams are counted, and the small ones are there.
    const shown = (await load.count()) > 0 ? await load.innerText() : ''
    return shown.match(/about \d+ %/g)?.length === 2 && /Complete: .*tracker_object/.test(shown)
  })
  await take('pictures/first-load', '/')
  await until(async () => (await page.getByRole('heading', { level: 1 }).innerText()).includes('up to date'))
  process.stdout.write(`It is loaded; the other pictures are taken ${runsForMs / 1000} s after it began.\n`)
  await wait(Math.max(0, runsForMs - (Date.now() - began)))
  await until(async () => {
    await page.goto(address.origin)
    return !(await page.getByRole('main').innerText()).includes('settled not yet')
  })
  await take('console', '/')
  await take('pictures/overview-phone', '/', { isDark: true, isPhone: true })
  await take('pictures/stream', '/streams/assignment', { isDark: true })
  await take('pictures/rows', '/streams/assignment/rows?range=hour')
  await take('pictures/upstream', '/upstream', { isDark: true })
  await take('pictures/contract', '/upstream/contract')
  await take('pictures/rewind', '/streams/assignment/rewind?to-version=120000')
  const story = await letThingsGoWrong(page, address)
  await take('pictures/record', story, { isDark: true })
  await take('pictures/problems-phone', '/problems', { isPhone: true })
  await take('pictures/blocked-deletions', '/approve?stream=assignment')
}

/** Leaves a record that came late, one in quarantine and blocked deletions; returns where the story of the first is told. */
async function letThingsGoWrong(page: Page, address: URL): Promise<string> {
  const onDemo = () => page.goto(new URL('/demo', address).href)
  const press = async (card: string, button: string) => {
    await onDemo()
    await page.getByRole('region', { name: card }).getByRole('button', { name: button }).click()
  }
  await press('1. A late commit', 'Break it')
  await press('3. A bad record', 'Break it')
  const late = page.getByRole('region', { name: '1. A late commit' })
  await until(async () => {
    await onDemo()
    return (await late.innerText()).includes('caught')
  })
  const story = (await late.getByRole('link').first().getAttribute('href')) ?? '/'
  await press('Something harder', 'Delete 30 %')
  await page.goto(new URL('/streams/assignment/read', address).href)
  await page.getByRole('button', { name: 'Reconcile' }).click()
  await until(async () => {
    await page.goto(new URL('/problems', address).href)
    return (await page.getByRole('main').innerText()).includes('Review deletions')
  })
  return story
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + patienceMs; !(await isSo()); await wait(500))
    if (Date.now() > end) throw new Error('what a picture is to show did not come')
}

async function takePicture(context: BrowserContext, url: string, name: string, look: Look): Promise<void> {
  const page = await context.newPage()
  await page.setViewportSize(look.isPhone ? phone : desktop)
  await page.emulateMedia({ colorScheme: look.isDark ? 'dark' : 'light' })
  await page.goto(url)
  if ((await page.locator('[data-follows]').count()) > 0)
    await page.getByText('live', { exact: true }).waitFor()
  const target = join(checkout, 'docs', `${name}.png`)
  await mkdir(join(checkout, 'docs/pictures'), { recursive: true })
  await writeFile(target, inFewColours(await page.screenshot()))
  await page.close()
  process.stdout.write(`wrote ${target}, ${Math.round((await stat(target)).size / 1000)} kB\n`)
}
