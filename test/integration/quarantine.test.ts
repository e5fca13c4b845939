// What becomes of records in quarantine when they are tried again, or dropped.

import { describe, expect, it } from 'vitest'
import { parseJson } from '../../src/json/exact-json.ts'
import { dropFromQuarantine, readQuarantine } from '../../src/mirror/quarantine-review.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { streams } from '../../src/streams.ts'
import { type Quarantined, retryQuarantine } from '../../src/sync/retry-quarantine.ts'
import type { Workplace } from '../../src/workplace.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { neverAborted, openTestWorkplace } from '../support/workplace.ts'

const [assignment] = streams
const signal = neverAborted

async function retry({ contextOf, database: { pool } }: Workplace) {
  const all = await readQuarantine(pool, { stream: 'assignment', id: null }, { after: '0', limit: 100 })
  async function* entries(): AsyncGenerator<Quarantined> {
    for (const { id, text } of all) yield { id, record: parseJson(Buffer.from(text)) }
  }
  return await retryQuarantine({
    ...contextOf(assignment),
    signal,
    entries: entries(),
    settle: async (id, why) => {
      await dropFromQuarantine(pool, { stream: null, id: BigInt(id) }, why)
    },
  })
}

describe.skipIf(!hasPostgres)('a record in quarantine', () => {
  const database = createTestDatabase()
  it('leaves it when it can be a row now, or is gone; otherwise it stays, whole (P5)', async () => {
    await using simulator = await startSimulator({ assignments: 10 })
    await using workplace = await openTestWorkplace(database, simulator)
    const { pool } = database
    const raw = (text: (id: number) => string) =>
      simulator.source.appendRaw('assignment', ({ id }) => text(id)).id
    const mended = raw((id) => `{"AssignmentId":${id},"RowVersion":"none"}`)
    const gone = raw((id) => `{"AssignmentId":${id},"RowVersion":"none","Subject":"gone"}`)
    raw(() => `{"Subject":"no key","RowVersion":70000}`)
    await workplace.read(assignment, 'head', { signal })
    const reasons = async () =>
      (
        await pool.query(
          'select reason, dropped_at is not null as dropped, drop_reason from tidemark.quarantine order by drop_reason',
        )
      ).rows
    expect(await reasons()).toHaveLength(3)
    expect((await retry(workplace)).findings).toEqual({ tried: 3, taken: 0, gone: 0 })
    simulator.source.remove('assignment', gone, 'hard')
    simulator.source.remove('assignment', mended, 'hard')
    simulator.source.insert('assignment', { Subject: 'mended' }, { id: mended })
    expect(await retry(workplace)).toMatchObject({
      status: 'done',
      findings: { tried: 3, taken: 1, gone: 1 },
    })
    const { rows } = await pool.query('select subject from mirror.assignment where assignment_id = $1', [
      mended,
    ])
    expect(rows).toEqual([{ subject: 'mended' }])
    expect(await reasons()).toMatchObject([
      { dropped: true, drop_reason: expect.stringContaining('became a row') },
      { dropped: true, drop_reason: expect.stringContaining('no longer') },
      { dropped: false },
    ])
    expect(await dropFromQuarantine(pool, { stream: 'assignment', id: null }, 'ours')).toBe(1)
    expect((await retry(workplace)).findings.tried).toBe(0)
  })
})
