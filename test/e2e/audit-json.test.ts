// The documents that programs read: of verify, reconcile and backfill. The program itself is started where it ends with 1.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { callVerb, runHere } from '../support/verbs.ts'

describe.skipIf(!hasPostgres)('the verbs of audit and repair', () => {
  const database = createTestDatabase()
  it('answer with one JSON document, and with 1 while a row differs', async () => {
    await using simulator = await startSimulator({ assignments: 40 })
    const environment = environmentFor(simulator, database)
    const tidemark = async (...words: string[]) => {
      const { code, error, stdout } = await callVerb([...words, '--json'], environment)
      expect(error).toBe(null)
      return { code, told: JSON.parse(stdout) }
    }
    const program = async (...words: string[]) => {
      const { code, stdout } = await runHere([...words, '--json'], environment)
      return { code, told: JSON.parse(stdout) }
    }
    expect(await program('sync', 'assignment')).toMatchObject({ code: 0 })
    await writeAsTidemark(
      database.pool,
      `update mirror.assignment set subject = 'forged' where assignment_id = 7`,
    )
    expect(await program('verify', 'assignment')).toMatchObject({
      code: 1,
      told: {
        differences: [{ stream: 'assignment', key: '7', kind: 'content', columns: ['subject'] }],
        streams: [{ stream: 'assignment', differences: 1, repaired: 0, compared: 40 }],
      },
    })
    expect(await tidemark('verify', 'assignment', '--repair')).toMatchObject({ code: 0 })
    const { rows: actions } = await database.pool.query(
      'select action, stream, result, told from tidemark.action',
    )
    expect(actions).toEqual([
      {
        ...{ action: 'repair', stream: 'assignment', result: 'done' },
        told: expect.stringContaining('1 mended'),
      },
    ])
    const verified = await tidemark('verify', 'assignment')
    expect(verified).toMatchObject({ code: 0, told: { differences: [], streams: [{ complete: true }] } })
    expect(Object.keys(verified.told.streams[0]).filter((name) => /[A-Z]/.test(name))).toEqual([])
    simulator.faults.add({ kind: 400 })
    expect(await tidemark('verify', 'assignment')).toMatchObject({
      code: 3,
      told: { streams: [{ status: 'failed', complete: false }] },
    })
    simulator.faults.clear()
    await writeAsTidemark(database.pool, 'delete from mirror.assignment where assignment_id = 8')
    expect(await tidemark('reconcile', 'assignment')).toMatchObject({
      code: 0,
      told: { streams: [{ stream: 'assignment', complete: true, missed_rows: 1, missed_keys: ['8'] }] },
    })
    const dryRun = await tidemark('backfill', 'assignment', '--from-version', '0', '--dry-run')
    expect(dryRun).toMatchObject({ code: 0, told: { from: '0', rows: 40 } })
    expect(await tidemark('backfill', '--list')).toEqual({ code: 0, told: [] })
    expect(await tidemark('backfill', 'assignment', '--from-version', '0')).toMatchObject({
      code: 0,
      told: { status: 'done', rows_read: expect.any(Number), inserted: 0, updated: 0 },
    })
    expect((await tidemark('backfill', '--list')).told).toHaveLength(1)
    expect(await tidemark('rewind', 'assignment', '--to-version', '5', '--reason', 'a test')).toMatchObject({
      code: 0,
      told: { stream: 'assignment', to: '5' },
    })
    expect((await tidemark('checkpoints', 'assignment', '--limit', '1')).told).toMatchObject([
      { position: '5', reason: 'a test', moved_by: expect.stringContaining('@') },
    ])
    expect(await tidemark('quarantine')).toEqual({ code: 0, told: [] })
  })
})
