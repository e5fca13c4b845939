// Pages that tell of related records, which have no page of a stream of their own, lead only to pages that there are.

import { describe, expect, it, vi } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { adminToken, startTestWorker } from '../support/worker.ts'

describe.skipIf(!hasPostgres)('pages that tell of related records', () => {
  const database = createTestDatabase()

  it('lead to pages that there are', { timeout: 90_000 }, async () => {
    await using simulator = await startSimulator({ assignments: 8, notes: 3 })
    const settings = { STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1h', RELATED: 'true' }
    const worker = await startTestWorker(simulator, database, settings)
    try {
      await worker.live
      const customers = async () =>
        (await database.pool.query('select customer_id::text as key from mirror.customer order by 1')).rows
      await vi.waitFor(async () => expect((await customers()).length).toBeGreaterThan(0), {
        ...{ timeout: 60_000, interval: 200 },
      })
      const [customer] = await customers()
      const browsing = openBrowsing(worker.url)
      await browsing.signIn(adminToken)
      const links = new Map<string, string>()
      const records = [`/records/customer/${customer.key}`, '/records/customer/999999']
      for (const path of [...records, '/find?q=ContactName', '/find?q=customer', '/find?q=KEY_']) {
        const page = await (await browsing.get(path)).text()
        const main = page.slice(page.indexOf('<main'))
        for (const [, link = ''] of main.matchAll(/ href="(\/[^"#]*)/g))
          links.set(link.replaceAll('&amp;', '&'), path)
      }
      expect([...links.keys()].some((link) => link.includes('customer'))).toBe(true)
      const dead = []
      for (const [link, from] of links)
        if ((await browsing.get(link)).status === 404) dead.push(`${link} of ${from}`)
      expect(dead).toEqual([])
    } finally {
      await worker.stop()
    }
  })
})
