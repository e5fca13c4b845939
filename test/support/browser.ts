// Chromium for the tests, one for each file: whatever goes wrong in a page fails the test. Where there is no Chromium the tests are
// skipped loudly, and fail where CI is set.

import { accessSync, constants, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'

const chromiumPath =
  process.env.CHROMIUM_PATH ??
  onPath(['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'])

/** For `describe.skipIf(!hasChromium)`. */
export const hasChromium = chromiumPath !== null || isMissing()

function onPath(names: readonly string[]): string | null {
  for (const name of names)
    for (const directory of (process.env.PATH ?? '').split(delimiter)) {
      const path = join(directory, name)
      try {
        accessSync(path, constants.X_OK)
        return path
      } catch {}
    }
  return null
}

function isMissing(): false {
  const message = 'there is no Chromium for the browser tests: install chromium, or set CHROMIUM_PATH'
  if (process.env.CI) throw new Error(message)
  process.stderr.write(`\n*** SKIPPED: ${message} ***\n\n`)
  return false
}

export const desktop = { width: 1280, height: 860 }
export const phone = { width: 360, height: 740 }

export type TestBrowser = {
  /** An empty page, emptied again after the test, for a new one costs half a second. What pages load is kept, their cookies are not. */
  open(options?: BrowserContextOptions): Promise<Page>
}

/** A context and its pages that no test uses at the moment. */
type Room = { readonly context: BrowserContext; readonly free: Page[] }

/** Call it in a file or a `describe`. */
export function createTestBrowser(): TestBrowser {
  let browser: Browser | null = null
  const rooms = new Map<string, Room>()
  let breaker: string[] = []
  beforeAll(async () => {
    browser = await chromium.launch({
      ...(chromiumPath !== null && { executablePath: chromiumPath }),
      args: ['--no-sandbox', '--disable-gpu'],
    })
  })
  afterEach(async () => {
    const seen = [...breaker]
    for (const { context, free } of rooms.values()) {
      await Promise.all(context.pages().map((page) => page.goto('about:blank')))
      free.splice(0, free.length, ...context.pages())
      await context.clearCookies()
    }
    // Leaving breaks off what a page was loading.
    breaker = []
    expect(seen).toEqual([])
  })
  afterAll(() => browser?.close())

  return {
    async open(options = {}) {
      if (!browser) throw new Error('the browser is there only while tests run')
      const wanted: BrowserContextOptions = { viewport: desktop, reducedMotion: 'reduce', ...options }
      const name = JSON.stringify(wanted)
      const room = rooms.get(name) ?? { context: await browser.newContext(wanted), free: [] }
      rooms.set(name, room)
      const freed = room.free.pop()
      if (freed) {
        await freed.emulateMedia({ colorScheme: null })
        if (wanted.viewport) await freed.setViewportSize(wanted.viewport)
        return freed
      }
      const page = await room.context.newPage()
      page.on('pageerror', (error) => breaker.push(`error in the page: ${error.message}`))
      page.on('console', (message) => {
        if (message.type() === 'error' && !isUnanswered.test(message.text()))
          breaker.push(`error on the console: ${message.text()}`)
      })
      page.on('requestfailed', (request) => {
        if (request.resourceType() !== 'fetch')
          breaker.push(`failed: ${request.url()} ${request.failure()?.errorText}`)
      })
      page.on('request', (request) => {
        const { origin, protocol } = new URL(request.url())
        const isOwn = protocol === 'data:' || page.url() === 'about:blank' || page.url().startsWith(origin)
        if (!isOwn) breaker.push(`asked elsewhere: ${request.url()}`)
      })
      return page
    },
  }
}

/** Leaving a page, or stopping the worker, breaks off the page that it asks for again. */
const isUnanswered = /^Failed to load resource: (?:net::ERR_|.* status of 503)/

/** The page hears from the worker. Only one that follows what happens shows the word. */
export const untilLive = (page: Page): Promise<unknown> =>
  page.locator('[data-connection="live"]').waitFor({ state: 'attached', timeout: 15_000 })

const axe = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

type Finding = { readonly id: string; readonly impact: string; readonly nodes: readonly { html: string }[] }

/** What keeps people out; colours in both themes. A page with hundreds of rows takes it minutes. */
export async function barriersOf(page: Page): Promise<readonly string[]> {
  // Evaluated by the debugger, which the page's policy does not bind.
  await page.evaluate(axe)
  const found: string[] = []
  for (const [colorScheme, rules] of [
    ['light', ''],
    ['dark', `runOnly: ['color-contrast'],`],
  ] as const) {
    await page.emulateMedia({ colorScheme })
    // There is no sound and no style from elsewhere to be loaded beforehand.
    const run = `axe.run({ ${rules} resultTypes: ['violations'], preload: false })`
    const { violations } = await page.evaluate<{ violations: Finding[] }>(run)
    for (const { id, impact, nodes } of violations)
      if (impact === 'serious' || impact === 'critical')
        found.push(`${colorScheme}: ${id} at ${nodes.map(({ html }) => html.slice(0, 200)).join(' and ')}`)
  }
  return found
}

/** By how many pixels the page is wider than the window, as it comes or with all that can be opened. */
export const overflowOf = (page: Page): Promise<number> =>
  page.evaluate<number>(`(() => {
    const { documentElement: root } = document
    const over = () => root.scrollWidth - root.clientWidth
    const closed = [...document.querySelectorAll('details:not([open])')]
    const asItComes = over()
    for (const one of closed) one.open = true
    const opened = over()
    for (const one of closed) one.open = false
    return Math.max(asItComes, opened)
  })()`)
