// A source whose settings change while it is read: the run under way is broken off and done again by the new settings (P19).

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { startTestWorker } from '../support/worker.ts'

describe.skipIf(!hasPostgres)('a source that is opened again', () => {
  const database = createTestDatabase()
  const query = async (sql: string) => (await database.pool.query(sql)).rows

  it('sends no request of a run under way again, calls none failed, and does it by the new settings at once', async () => {
    await using simulator = await startSimulator({ assignments: 1 })
    await using acme = await startSimulator({
      ...{ seed: 2, assignments: 30 },
      credentials: { clientGuid: '00000000-0000-4000-8000-000000000001' },
    })
    const file = join(mkdtempSync(join(tmpdir(), 'tidemark-sources-')), 'sources.yaml')
    const write = (changing: { readonly page_size: string; readonly schedule_assignment: string }) =>
      writeFileSync(
        file,
        JSON.stringify({
          sources: {
            acme: {
              assignment_base_url: acme.assignmentUrl,
              auth_url: acme.authUrl,
              client_guid: acme.credentials.clientGuid,
              subject_id: acme.credentials.subjectId,
              ...{ api_key: 'env:ACME_KEY', streams: 'assignment', contract: 'off' },
              ...changing,
            },
          },
        }),
      )
    const sizes: string[] = []
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
    acme.onRequest(async ({ path, query: { PageSize: size } }) => {
      if (!path.includes('Assignment/neworchanged')) return
      sizes.push(String(size))
      // It hangs by the first settings.
      if (size === '7') await isOver
    })
    write({ page_size: '7', schedule_assignment: '1s' })
    const worker = await startTestWorker(simulator, database, {
      ...{ SOURCES_FILE: file, STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1h' },
      ...{ ACME_KEY: acme.credentials.apiKey, REQUEST_TIMEOUT: '10m' },
    })
    const soon = { timeout: 60_000, interval: 200 }
    try {
      await expect.poll(() => sizes, soon).toContain('7')
      // By its schedule it would come again much later.
      write({ page_size: '9', schedule_assignment: '1h' })
      await expect
        .poll(() => query(`select to_regclass('acme.assignment') is not null as there`), soon)
        .toEqual([{ there: true }])
      await expect
        .poll(async () => (await query('select count(*)::int as rows from acme.assignment'))[0].rows, soon)
        .toBe(30)
      expect(sizes.filter((size) => size === '7')).toHaveLength(1)
      const runs = await query(
        `select status, note, error from tidemark.run where stream = 'acme.assignment' and kind = 'incremental' order by id`,
      )
      expect(runs[0]).toEqual({ status: 'done', note: 'stopped between two pages', error: null })
      expect(runs.filter(({ error }) => error !== null)).toEqual([])
    } finally {
      end()
      await worker.stop()
    }
  })
})
