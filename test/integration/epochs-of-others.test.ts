// A restored backup that another stream has shown: what was read before it is read again, and nothing else (P14).

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import type { ChangesStream } from '../../src/streams/catalog.ts'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { readLookback } from '../../src/sync/changes/lookback.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const note = streamOf('assignment_note')

describe.skipIf(!hasPostgres)('an epoch of another stream', () => {
  const database = createTestDatabase({ forEach: true })
  const loaded = (context: SyncContext, stream: ChangesStream) =>
    readIncremental({ ...context.contextOf(stream), signal })
  const lookBackAtNotes = async (context: SyncContext) =>
    (await readLookback({ ...context.contextOf(note), signal })).note
  async function loadSomeNotes(context: SyncContext): Promise<string> {
    const stopping = new AbortController()
    let pages = 0
    const onWritten = () => {
      pages += 1
      if (pages === 5) stopping.abort()
    }
    await readIncremental({ ...context.contextOf(note), signal: stopping.signal, onWritten })
    return await position()
  }
  async function position(): Promise<string> {
    const { rows } = await database.pool.query<{ position: string }>(
      `select position::text from tidemark.stream where name = 'assignment_note'`,
    )
    return rows[0]?.position ?? ''
  }
  const began = (stream: string, daysAgo: number, lost = 5) =>
    database.pool.query(
      `insert into tidemark.epoch (stream, run_id, began_at, position, looked, lost, evidence)
       values ($1, 1, now() - $2::float8 * interval '1 day', 1, 9, $3, 'a backup was restored')`,
      [stream, daysAgo, lost],
    )

  it('that is older than a first load leaves it where it was cut short', async () => {
    await using simulator = await startSimulator({ assignments: 20, notes: 300 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
    await loaded(context, assignment)
    await began('assignment', 200)
    const before = await loadSomeNotes(context)
    expect(BigInt(before)).toBeGreaterThan(0n)
    await lookBackAtNotes(context)
    expect(await position()).toBe(before)
  })

  it('that is older than a first load leaves alone what is read again after damage (P15)', async () => {
    await using simulator = await startSimulator({ assignments: 20, notes: 300 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
    await loaded(context, assignment)
    await loaded(context, note)
    await began('assignment', 200)
    await database.pool.query('truncate mirror.assignment_note')
    const before = await loadSomeNotes(context)
    await lookBackAtNotes(context)
    expect(await position()).toBe(before)
  })

  it('that began in the middle of a first load has all of it read again', async () => {
    await using simulator = await startSimulator({ assignments: 20, notes: 300 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
    await loaded(context, assignment)
    await loadSomeNotes(context)
    await began('assignment', 0)
    expect(await loaded(context, note)).toMatchObject({ isComplete: true })
    expect(await lookBackAtNotes(context)).toContain('new epoch')
  })

  it('that another one has shown goes no further', async () => {
    await using simulator = await startSimulator({ assignments: 20, notes: 20 })
    await using context = await openTestContext(database, simulator)
    await loaded(context, assignment)
    await loaded(context, note)
    await database.pool.query(`update tidemark.checkpoint set reached_at = now() - interval '9 days'`)
    await began('assignment_note', 1)
    await began('assignment', 0, 0)
    expect(await lookBackAtNotes(context)).toBeNull()
  })
})
