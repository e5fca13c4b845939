// The overview while a first load goes on, in Chromium.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { isForChanges } from '../support/asked.ts'
import {
  barriersOf,
  createTestBrowser,
  hasChromium,
  overflowOf,
  phone,
  untilLive,
} from '../support/browser.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { startTestWorker } from '../support/worker.ts'

const inTime = { timeout: 60_000, interval: 100 }

describe.skipIf(!hasPostgres || !hasChromium)('the overview', () => {
  const database = createTestDatabase()
  const browser = createTestBrowser()

  it('tells how far a first load is, and nothing of it afterwards', async () => {
    await using simulator = await startSimulator({ assignments: 3_000 })
    const gate = Promise.withResolvers<void>()
    let asked = 0
    simulator.onRequest((request) => (isForChanges(request) && ++asked > 20 ? gate.promise : undefined))
    const worker = await startTestWorker(simulator, database, {
      ...{ PAGE_SIZE: '100', STREAMS: 'assignment,assignment_object', REQUEST_TIMEOUT: '120s' },
    })
    try {
      await worker.live
      const page = await browser.open()
      const region = page.getByRole('region', { name: 'First load' })
      await expect
        .poll(async () => {
          await page.goto(worker.url)
          return (await region.count()) === 0 ? '' : await region.innerText()
        }, inTime)
        .toMatch(/assignment: about \d+ %[\s\S]*of about 3,000, counted at [\s\S]* rows\/s/)
      const picture = page.getByRole('img', { name: /^About \d+ percent of the rows of assignment/ })
      expect(await picture.count()).toBe(1)
      await untilLive(page)
      expect(await barriersOf(page)).toEqual([])
      await page.setViewportSize(phone)
      expect(await overflowOf(page)).toBe(0)
      await page.emulateMedia({ colorScheme: 'dark' })
      const beside = await browser.open()
      await beside.goto(`${worker.url}/streams/assignment`)
      const ready = beside.getByRole('region', { name: 'When will it be ready?' })
      expect(await ready.innerText()).toMatch(/assignment: about \d+ %[\s\S]*rows\/s/)
      expect(await beside.getByRole('main').innerText()).toMatch(/next read going on/)
      gate.resolve()
      await expect.poll(() => region.count(), inTime).toBe(0)
    } finally {
      gate.resolve()
      await worker.stop()
    }
  })
})
