// The reading of related records, killed again and again in the middle of its backlog.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readRelatedProgress } from '../../src/store/book/related.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark, startTidemark } from '../support/program.ts'
import { childDifferences } from '../support/related-children.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const assignmentCount = 300
const words = ['sync', 'assignment', '--kind', 'related']

describe.skipIf(!hasPostgres)('the backlog of related records', () => {
  const database = createTestDatabase()
  it('that is killed in the middle ends with what the source has, children included (P7, P8)', {
    timeout: 120_000,
  }, async () => {
    await using simulator = await startSimulator({ assignments: assignmentCount })
    await using context = await openTestContext(database, simulator)
    const environment = environmentFor(simulator, database, { RELATED: 'true' })
    const { pool } = database
    const children: number[] = []
    const changeSome = async () => {
      for (let change = 0; change < 20; change++) {
        const parent = 1 + ((change * 37 + children.length) % assignmentCount)
        children.push(simulator.source.insert('assignment_product', { AssignmentId: parent }).id)
        simulator.source.change('assignment', parent)
      }
      for (const id of children.splice(0, 7)) {
        const parent = Number(simulator.source.record('assignment_product', id)?.AssignmentId)
        simulator.source.remove('assignment_product', id, 'hard')
        simulator.source.change('assignment', parent)
      }
      await context.read(assignment, 'incremental', { signal })
    }
    /** What is committed before the records of a batch, and after them. */
    const noted = {
      linked: 'select count(*)::text as at from tidemark.related_link',
      settled: 'select max(fetched_at)::text as at from tidemark.related_fetch',
    }

    /** Ends the program at this many extended reads, or once it has noted something. */
    const killAt = async (moment: number | keyof typeof noted) => {
      const program = startTidemark(words, environment)
      let reads = 0
      const stopCounting = simulator.onRequest(({ path }) => {
        if (path.includes('/extended/') && ++reads === moment) program.child.kill('SIGKILL')
      })
      if (typeof moment === 'string') {
        const state = async () => (await pool.query(noted[moment])).rows[0]?.at
        const before = await state()
        await expect.poll(state, { timeout: 30_000, interval: 2 }).not.toBe(before)
        program.child.kill('SIGKILL')
      }
      expect((await program.ended).code).toBe(null)
      stopCounting()
    }

    await changeSome()
    for (const moment of ['linked', 'settled', 30, 101, 'settled'] as const) {
      await killAt(moment)
      await changeSome()
      expect((await readRelatedProgress(pool))?.waiting ?? assignmentCount).toBeGreaterThan(0)
    }
    const ended = await runTidemark([...words, '--json'], environment)
    expect(ended).toMatchObject({ code: 0 })
    expect(await readRelatedProgress(pool)).toMatchObject({
      read: assignmentCount,
      waiting: 0,
    })
    expect(await childDifferences(pool, simulator)).toEqual([])
    const orphans = await pool.query(
      `select from bi.assignment_product as mine where not exists (
         select from tidemark.related_link where stream = 'assignment_product' and key = assignment_product_id::text)`,
    )
    expect(orphans.rowCount).toBe(0)
  })
})
