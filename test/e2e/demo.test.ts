// `tidemark demo`, the first thing that anybody runs.

import { createServer } from 'node:http'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { startTidemark } from '../support/program.ts'

const patience = { timeout: 60_000, interval: 200 }

describe('tidemark demo', () => {
  it('needs nothing, says where everything is, mirrors, and goes elsewhere when its port is taken', async () => {
    const taken = createServer()
    // When somebody else has it already, that does as well.
    await new Promise<void>((resolve) =>
      taken.once('error', () => resolve()).listen(8080, '127.0.0.1', resolve),
    )
    const demo = startTidemark(['demo', '--assignments', '500', '--churn', '20'], {})
    try {
      const urlOf = (pattern: RegExp) => pattern.exec(demo.stdout())?.[1]
      await expect.poll(() => urlOf(/the worker +(http:\S+)/), patience).toBeDefined()
      expect(demo.stdout()).toMatch(/Port 8080 is taken: the worker listens on \d+ instead/)
      const client = new pg.Client({ connectionString: urlOf(/for a BI tool +(\S+)/) })
      await client.connect()
      await expect
        .poll(async () => {
          const { rows } = await client.query('select count(*)::int as count from bi.assignment')
          return rows[0]?.count
        }, patience)
        .toBeGreaterThanOrEqual(450)
      const query = urlOf(/-c "(select status_name[^"]+)"/)
      expect((await client.query(query ?? '')).rows.length).toBeGreaterThan(1)
      await client.end()
      await expect
        .poll(() => fetch(`${urlOf(/the worker +(http:\S+)/)}/readyz`).then(({ status }) => status), patience)
        .toBe(200)
      await expect.poll(demo.stdout, patience).toMatch(/mirrored: assignment [4-9]\d\d/)
    } finally {
      demo.child.kill('SIGINT')
      taken.close()
    }
    const { code, stderr } = await demo.ended
    expect([code, stderr]).toEqual([0, ''])
  })
})
