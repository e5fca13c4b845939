// What people do on the pages, in Chromium: every action by clicking, on a phone and in part on a desktop; the queues behind the same door.

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import {
  barriersOf,
  createTestBrowser,
  desktop,
  hasChromium,
  overflowOf,
  phone,
  untilLive,
} from '../support/browser.ts'
import { openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const inTime = { timeout: 15_000, interval: 50 }

describe.skipIf(!hasPostgres || !hasChromium)('acting on the pages', () => {
  const database = createTestDatabase()
  const browser = createTestBrowser()
  let simulator: Simulator
  let worker: TestWorker
  let session: { readonly name: string; readonly value: string }
  const rows = async (sql: string) => (await database.pool.query(sql)).rows

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 50, notes: 20 })
    worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment,assignment_note',
      SCHEDULE_ASSIGNMENT: '1h',
      SCHEDULE_ASSIGNMENT_NOTE: '1h',
      SCHEDULE_DELETIONS: '1h',
    })
    await worker.live
    const browsing = openBrowsing(worker.url)
    await browsing.signIn(adminToken)
    const [name = '', value = ''] = browsing.cookies().split('=')
    session = { name, value }
    await vi.waitFor(
      async () =>
        expect(await rows('select from tidemark.stream where read_through_at is not null')).toHaveLength(2),
      inTime,
    )
    // What is blocked here for people to decide would be decided by the reconcile that comes by itself after a first load.
    await rows('update tidemark.stream set last_reconcile_at = now()')
  })
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  async function signedIn(viewport = desktop, path = '/'): Promise<Page> {
    const page = await browser.open({ viewport })
    await page.context().addCookies([{ ...session, url: worker.url, sameSite: 'Strict' }])
    await page.goto(worker.url + path)
    return page
  }
  const press = (page: Page, name: string) => page.getByRole('button', { name }).click()
  /** What the page says after an action; it is whole then, and can be left. */
  async function expectTold(page: Page, text: string | RegExp): Promise<void> {
    await expect.poll(() => page.locator('.message').innerText()).toMatch(text)
    await page.waitForLoadState()
  }
  /** The field in which one goes on to type, and what is said beside it. */
  async function expectWrong(page: Page, name: string, text: string): Promise<void> {
    await expect.poll(() => page.evaluate('document.activeElement.name')).toBe(name)
    expect(await page.locator('.mistake').innerText()).toContain(text)
  }
  /** In both themes; what keeps people out on a narrow page does so on a wide one. */
  async function expectNoBarriers(page: Page): Promise<void> {
    if (page.viewportSize()?.width === phone.width) expect(await barriersOf(page)).toEqual([])
    expect(await overflowOf(page)).toBe(0)
  }

  describe.each([
    ['a desktop', desktop],
    ['a phone', phone],
  ])('on %s', (_name, viewport) => {
    it('leads in and out', async () => {
      const page = await browser.open({ viewport })
      await page.goto(`${worker.url}/sign-in`)
      await expectNoBarriers(page)
      await page.getByLabel('Token').fill(adminToken)
      await page.getByLabel('Token').press('Enter')
      await press(page, 'Sign out')
      await page.getByRole('link', { name: 'Sign in' }).waitFor()
    })

    it('does everything that can be done with a stream', async () => {
      const page = await signedIn(viewport, '/streams/assignment')
      await untilLive(page)
      await expectNoBarriers(page)
      await press(page, 'Read now')
      await expectTold(page, 'the incremental run was requested')
      expect(page.url()).toBe(`${worker.url}/streams/assignment`)
      await page.getByRole('link', { name: 'Read again' }).click()
      await expectNoBarriers(page)
      await press(page, 'Reconcile')
      await expectTold(page, 'the reconcile run was requested')
      const reconciles = () => rows(`select from tidemark.run where kind = 'reconcile' and status = 'done'`)
      await expect.poll(async () => (await reconciles()).length).toBeGreaterThan(0)

      await page.getByRole('link', { name: 'Pause' }).click()
      await expectNoBarriers(page)
      await page.getByLabel('Reason').fill('a test <b>of ours</b>')
      await press(page, 'Pause')
      await expectTold(page, 'is paused')
      await expect.poll(() => page.getByRole('main').innerText()).toContain('a test <b>of ours</b>')
      await press(page, 'Resume')
      await expectTold(page, 'is read again')

      await rows(
        `insert into tidemark.missed_rows (stream, run_id, rows, samples)
         values ('assignment', (select coalesce(max(run_id), 0) + 1 from tidemark.missed_rows), 3, '[]')`,
      )
      await page.reload()
      await press(page, 'Acknowledge 3 missed rows')
      await expectTold(page, 'assignment: 3 missed rows acknowledged.')
    })
  })

  it.each([
    ['a desktop', desktop],
    ['a phone', phone],
  ])('changes a setting while the worker runs, and undoes that, on %s', async (_name, viewport) => {
    const page = await signedIn(viewport, '/settings')
    const row = () => page.getByRole('row').filter({ hasText: 'STALE_AFTER' }).first()
    const change = async (value: string) => {
      await row().getByLabel('Value').fill(value)
      await row().getByRole('button', { name: 'Set STALE_AFTER' }).click()
    }
    await row().locator('summary').click()
    await expectNoBarriers(page)
    await change('soon')
    await expectTold(page, 'STALE_AFTER must be a duration')
    await expectWrong(page, 'value', 'STALE_AFTER must be a duration')
    expect(await row().getByLabel('Value').inputValue()).toBe('soon')
    await expectNoBarriers(page)
    await change('2h')
    await expectTold(page, 'STALE_AFTER is now 2h (override); before: 15m (default).')
    expect(page.url()).toBe(`${worker.url}/settings`)
    expect(await row().innerText()).toMatch(/2h[\s\S]*override[\s\S]*over 15m \(default\)/)
    await row().getByRole('button', { name: 'Undo (STALE_AFTER)' }).click()
    await expectTold(page, 'STALE_AFTER is now 15m (default); before: 2h (override).')
    expect(await page.getByRole('row').filter({ hasText: 'HTTP_PORT' }).innerText()).toContain(
      'with a restart',
    )
    expect(await rows('select from tidemark.setting_override')).toEqual([])
  })

  describe('on a phone', () => {
    it('shows what a backfill takes, starts it and cancels it', async () => {
      const page = await signedIn(phone, '/checkpoints?stream=assignment')
      // So that it waits to be cancelled.
      await rows(
        `update tidemark.stream set paused_at = now(), paused_by = 'a test' where name = 'assignment'`,
      )
      await page.getByRole('link', { name: 'Backfill from' }).first().click()
      await page.getByLabel('From checkpoint').fill('999999')
      await press(page, 'Show what it takes')
      await expectWrong(page, 'from-checkpoint', 'There is no checkpoint 999999')
      await expectNoBarriers(page)
      await page.getByLabel('From checkpoint').fill('')
      await page.getByLabel('Above row version').fill('0')
      await press(page, 'Show what it takes')
      expect(await page.getByRole('main').innerText()).toMatch(/the mirror holds \d+ rows from 0 to \d+/)
      await expectNoBarriers(page)
      await press(page, 'Start the backfill')
      await expectTold(page, 'begins when the stream is resumed')
      await expectNoBarriers(page)
      await press(page, 'Cancel backfill')
      await expectTold(page, 'cancelled by')
      expect(await rows('select status from tidemark.backfill order by id desc limit 1')).toEqual([
        { status: 'cancelled' },
      ])
      await rows('update tidemark.stream set paused_at = null, paused_by = null')
    })

    it('moves a position back once its stream was named, and not when another one did meanwhile', async () => {
      await rows(
        `update tidemark.stream set paused_at = now(), paused_by = 'a test' where name = 'assignment'`,
      )
      const page = await signedIn(phone, '/streams/assignment/read')
      await page.getByRole('link', { name: 'Rewind' }).click()
      await page.getByLabel('To row version').fill('999999')
      await press(page, 'Show what it means')
      await expectWrong(page, 'to-version', 'is not below it')
      await page.getByLabel('To row version').fill('7')
      await press(page, 'Show what it means')
      expect(await page.getByRole('main').innerText()).toMatch(/The position moves from \d+ back to 7/)
      await expectNoBarriers(page)
      const confirm = async (name: string) => {
        await page.getByLabel('Why').fill('a drill')
        await page.getByLabel('Type the name of the stream').fill(name)
        await press(page, 'Move the position back')
      }
      const again = `${worker.url}/streams/assignment/rewind?to-version=7`
      await confirm('assignmen')
      await expectTold(page, 'Nothing was moved: to confirm it, type the name of the stream')
      const [stream] = await rows(`select position from tidemark.stream where name = 'assignment'`)
      await page.goto(again)
      await rows(`update tidemark.stream set position = position - 1 where name = 'assignment'`)
      await confirm('assignment')
      await expectTold(page, 'It was moved back meanwhile')
      await page.goto(again)
      await confirm('assignment')
      await expectTold(page, /the position moved from \d+ to 7\./)
      const [noted] = await rows(
        `select reason, result, after ->> 'position' as after from tidemark.action order by id desc limit 1`,
      )
      expect(noted).toEqual({ reason: 'a drill', result: 'done', after: '7' })
      await rows(
        `update tidemark.stream set position = ${stream?.position}, paused_at = null, paused_by = null where name = 'assignment'`,
      )
    })

    it('approves blocked deletions after saying how many they are', async () => {
      // What a reconcile leaves that found much too little; the one with approved deletions finds everything.
      await rows(
        `update tidemark.stream set blocked_deletions = '{"missing": 10, "living": 20, "seen": 10}' where name = 'assignment_note'`,
      )
      const page = await signedIn(phone)
      await page.getByRole('link', { name: 'Review deletions' }).click()
      expect(await page.getByRole('main').innerText()).toContain(
        '10 of 20 rows (50 %) of assignment_note were missing',
      )
      await expectNoBarriers(page)
      await page.getByLabel('Why you believe it').fill('an archive job')
      await page.getByLabel('Type the number of rows').fill('9')
      await press(page, 'Mark 10 rows as deleted')
      await expectTold(page, 'Nothing was marked: 10 deletions of assignment_note are blocked now, not 9.')
      await page.goto(`${worker.url}/approve?stream=assignment_note`)
      await page.getByLabel('Why you believe it').fill('an archive job')
      await page.getByLabel('Type the number of rows').fill('10')
      await press(page, 'Mark 10 rows as deleted')
      await expectTold(page, /0 marked deleted|has begun/)
      await expect
        .poll(() => rows(`select blocked_deletions from tidemark.stream where name = 'assignment_note'`))
        .toEqual([{ blocked_deletions: null }])
    })

    it('retries and drops what is in quarantine', async () => {
      await rows(
        `insert into tidemark.quarantine (stream, reason, record, fingerprint, times_seen)
         select 'assignment', reason, '{"Subject": "<img src=x onerror=alert(1)>"}', gen_random_uuid()::text, 1
         from unnest(array['no key', 'no version']) as reason`,
      )
      const page = await signedIn(phone, '/quarantine?stream=assignment')
      await press(page, 'Try all of assignment again')
      await expectTold(page, /0 became rows|has begun/)
      const kept = async () => (await rows('select from tidemark.quarantine where dropped_at is null')).length
      const isAnswered = page.waitForEvent('load')
      await page
        .getByRole('button', { name: /^Try again entry/ })
        .first()
        .click()
      await isAnswered
      await page.goto(`${worker.url}/quarantine?stream=assignment`)
      const entry = page.locator('tbody details.actions').first()
      await entry.locator('summary').click()
      await expectNoBarriers(page)
      await entry.getByLabel('Reason').fill('a test of ours')
      await entry.getByRole('button', { name: 'Drop entry' }).click()
      await expectTold(page, '1 record dropped')
      expect(await kept()).toBe(1)
      await page.goto(`${worker.url}/quarantine?stream=assignment`)
      const all = page.getByRole('region', { name: 'All of them' })
      await all.locator('summary').click()
      await expectNoBarriers(page)
      await all.getByLabel('Reason').fill('a test of ours')
      await all.getByLabel('Type the number of records').fill('1')
      await press(page, 'Drop all of assignment')
      await expectTold(page, '1 record dropped')
      expect(await kept()).toBe(0)
    })
  })

  it('leads through the backfill dialogue by keyboard alone', async () => {
    const page = await signedIn(desktop, '/backfills')
    const focused = () =>
      page.evaluate<string>('document.activeElement.name || document.activeElement.textContent.trim()')
    async function tabTo(name: string): Promise<void> {
      for (let presses = 0; presses < 30 && (await focused()) !== name; presses++)
        await page.keyboard.press('Tab')
      expect(await focused()).toBe(name)
    }
    await tabTo('stream')
    await page.keyboard.type('assignment')
    await tabTo('from-version')
    await page.keyboard.type('0')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'What it takes' }).waitFor()
    await tabTo('Start the backfill')
    await page.keyboard.press('Enter')
    await expectTold(page, 'was requested')
    await expect
      .poll(() => rows('select status from tidemark.backfill order by id desc limit 1'))
      .toEqual([{ status: 'done' }])
  })

  it('records who did it, as the page of actions and a list to take along tell', async () => {
    const page = await browser.open()
    await page.goto(`${worker.url}/sign-in`)
    await page.getByLabel('Token').fill(adminToken)
    await press(page, 'Sign in')
    await page.waitForURL((url) => url.pathname !== '/sign-in')
    await page.goto(`${worker.url}/streams/assignment/pause`)
    await page.getByLabel('Reason').fill('vendor maintenance')
    await press(page, 'Pause')
    await expectTold(page, 'is paused')
    await press(page, 'Resume')
    await expectTold(page, 'is read again')
    await page.goto(`${worker.url}/actions?stream=assignment`)
    const line = page.getByRole('row').filter({ hasText: 'vendor maintenance' })
    expect(await line.innerText()).toMatch(
      /ADMIN_TOKEN[\s\S]*console, 127\.0\.0\.1[\s\S]*paused assignment[\s\S]*paused no yes[\s\S]*done/,
    )
    const context = page.context().request
    const told = await (await context.get(`${worker.url}/actions.ndjson`)).text()
    expect(
      told
        .trimEnd()
        .split('\n')
        .map((one) => JSON.parse(one).action),
    ).toEqual(expect.arrayContaining(['pause', 'resume', 'approve']))
  })
})
