// What reads now is on the pages with its rate and the time left: backfills, reconciles and verifications as well as first loads.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { startTestWorker } from '../support/worker.ts'

const soon = { timeout: 60_000, interval: 200 }

describe.skipIf(!hasPostgres)('what reads now', () => {
  const database = createTestDatabase()

  it('P18: is on the pages of runs, of the stream, of the run and of backfills, with its rate and the time left', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const worker = await startTestWorker(simulator, database, { STREAMS: 'assignment' })
    const cards = async (path: string) => {
      const text = await (await worker.get(path)).text()
      const [, card = ''] = /<h2 id="running">(.*?)<\/section>/s.exec(text) ?? []
      return card.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ')
    }
    try {
      await expect.poll(async () => (await worker.get('/runs')).status, soon).toBe(200)
      const { rows } = await database.pool.query<{ id: string }>(
        `insert into tidemark.run (stream, kind, status, started_at, host, pid)
         values ('assignment', 'verify', 'running', now() - interval '60 s', 'a', 1) returning id`,
      )
      await database.pool.query(
        `insert into tidemark.progress (stream, reading, run_id, began_at, updated_at, rows, rows_at, requests, bytes, share, total, total_at, total_requests, marks)
         select 'assignment', reading, $1, now() - interval '60 s', now(), 6000, now(), 6, 1, 0.5, 12000, now(), 0,
           jsonb_build_array(jsonb_build_array(extract(epoch from now() - interval '60 s'), 0), jsonb_build_array(extract(epoch from now() - interval '30 s'), 3000))
         from unnest(array['verify', 'backfill']) as reading`,
        [rows[0]?.id],
      )
      const all = await cards('/runs')
      expect(all).toMatch(
        /verify of assignment: about 50 % 6,000 of about 12,000, by the rows here .* \d+ rows\/s last 30 s Left \d+–\d+ (s|min)/,
      )
      expect(all).toContain('backfill of assignment: about 50 %')
      expect(await cards('/streams/assignment')).toContain('verify of assignment: about 50 %')
      expect(await cards('/backfills')).toMatch(/^Running now backfill of assignment(?!.*verify)/)
      expect(await cards(`/runs/${rows[0]?.id}`)).toMatch(/^Running now verify of assignment(?!.*backfill)/)
    } finally {
      await worker.stop()
    }
  })
})
