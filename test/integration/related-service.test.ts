// Related records as a real service behaves: assignments that go, extended reads that are switched off, bulk updates, and children that
// come without a word of their assignment.

import { describe, expect, it } from 'vitest'
import { probe } from '../../src/cli/probe.ts'
import { loadConfig } from '../../src/config/load.ts'
import { relatedNotice, type SyncContext } from '../../src/context.ts'
import { readProblems } from '../../src/problems/find-problems.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { noteProblem } from '../../src/store/book/problems.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { childDifferences } from '../support/related-children.ts'
import { streamOf } from '../support/streams.ts'
import { callCommand } from '../support/verbs.ts'
import { startTestWorker } from '../support/worker.ts'

const assignment = streamOf('assignment')
const head = (context: SyncContext) => context.read(assignment, 'incremental', { signal })
const related = (context: SyncContext) => context.readRelated({ signal })
const variables = { RELATED: 'true' }

describe.skipIf(!hasPostgres)('related records of a service', () => {
  const database = createTestDatabase({ forEach: true })
  const extendedReads = (simulator: Simulator) =>
    simulator.requests.entries
      .flatMap(({ path }) => /\/extended\/Id\/(\d+)$/.exec(path)?.[1] ?? [])
      .map(Number)
  const relatedProblems = async (simulator: Simulator) => {
    const config = loadConfig(environmentFor(simulator, database, variables))
    const view = { parts: [] }
    const found = await readProblems({ pool: database.pool, streams, config, view, now: new Date() })
    return found.filter(({ kind }) => kind === 'related_off').map(({ what }) => what)
  }
  const freshness = async () =>
    (
      await database.pool.query<{ at: Date | null }>(
        `select read_through_time as at from tidemark.freshness where stream = 'assignment_product'`,
      )
    ).rows[0]?.at?.getTime() ?? null

  it('mark an assignment as deleted that is not there by its id either, and what it had with it (P7)', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator, variables)
    for (const id of [5, 6]) simulator.source.change('assignment', id)
    await head(context)
    await related(context)
    for (const id of [5, 6]) simulator.source.change('assignment', id)
    await head(context)
    simulator.source.remove('assignment', 5, 'hard')
    await related(context)
    const { rows } = await database.pool.query(
      `select assignment_id::int as id, _deleted_reason as reason, evidence from mirror.assignment
       left join tidemark.suspect on stream = 'assignment' and key = assignment_id::text where _deleted_at is not null`,
    )
    expect(rows).toEqual([
      { id: 5, reason: 'absent', evidence: expect.stringContaining('by its id, it is gone') },
    ])
    await related(context)
    expect(
      (await database.pool.query('select from bi.assignment_product where assignment_id = 5')).rowCount,
    ).toBe(0)
    // Of another client none is there, which proves nothing.
    simulator.source.bulkUpdate('assignment')
    await head(context)
    simulator.faults.add({ kind: 404, path: '/api/Assignment/' })
    await related(context)
    expect((await database.pool.query('select from bi.assignment')).rowCount).toBe(29)
  })

  it('are a problem within one run while extended reads are switched off, and are read when they are on again', async () => {
    await using simulator = await startSimulator({ assignments: 12 })
    await using context = await openTestContext(database, simulator, variables)
    await head(context)
    simulator.behaviour.extendedOff = true
    expect(await related(context)).toMatchObject({ status: 'failed', isComplete: false })
    expect(await relatedProblems(simulator)).toEqual([
      expect.stringContaining('answers extended reads of assignments with 404'),
    ])
    // The next run asks for nothing, because all wait: that says nothing of the upstream.
    await database.pool.query(
      "update tidemark.related_fetch set retry_at = now() + interval '1 h' where problem is not null",
    )
    await database.pool.query(
      `insert into tidemark.related_fetch (assignment_id, hash, groups, problem, attempts, retry_at)
       select assignment_id, _hash, '{}', 'off', 1, now() + interval '1 h' from mirror.assignment on conflict do nothing`,
    )
    expect(await related(context)).toMatchObject({ status: 'done', tally: { requests: 0 } })
    expect(await relatedProblems(simulator)).toHaveLength(1)
    expect(await freshness()).toBe(null)
    expect((await database.pool.query('select from bi.assignment')).rowCount).toBe(12)
    const probed = await callCommand(probe, [], environmentFor(simulator, database, variables))
    expect([probed.code, probed.stdout]).toEqual([3, expect.stringMatching(/extended read.+switched off/)])
    simulator.behaviour.extendedOff = false
    await database.pool.query('update tidemark.related_fetch set retry_at = now() where retry_at is not null')
    expect(await related(context)).toMatchObject({ status: 'done', isComplete: true })
    expect(await relatedProblems(simulator)).toEqual([])
    expect(await childDifferences(database.pool, simulator)).toEqual([])
    expect((await callCommand(probe, [], environmentFor(simulator, database, variables))).stdout).toContain(
      'answers for assignment',
    )
  })

  it('are no problem any more when a worker starts that is to read none', async () => {
    await using simulator = await startSimulator({ assignments: 2 })
    await noteProblem(database.pool, { key: relatedNotice(''), what: 'Related records cannot be read.' })
    expect(await relatedProblems(simulator)).toHaveLength(1)
    const worker = await startTestWorker(simulator, database)
    try {
      await expect.poll(() => relatedProblems(simulator)).toEqual([])
    } finally {
      await worker.stop()
    }
  })

  it('that none of a batch can be read of come later, and others come before them', async () => {
    await using simulator = await startSimulator({ assignments: 12 })
    await using context = await openTestContext(database, simulator, variables)
    await head(context)
    simulator.faults.add({ kind: 400, path: 'extended' })
    expect((await related(context)).error?.message).toMatch(/^None of 12 extended reads could be used/)
    const { rows } = await database.pool.query(
      'select count(*)::int as aside from tidemark.related_fetch where problem is not null and retry_at > now()',
    )
    expect(rows).toEqual([{ aside: 12 }])
    simulator.faults.clear()
    const { id } = simulator.source.insert('assignment')
    await head(context)
    simulator.requests.start()
    expect(await related(context)).toMatchObject({ status: 'done' })
    expect(extendedReads(simulator)).toEqual([id])
  })

  it('of a bulk update are read a part at a time, the last changes first, and some of those that wait longest', async () => {
    await using simulator = await startSimulator({ assignments: 500 })
    await using context = await openTestContext(database, simulator, { ...variables, PAGE_SIZE: '100' })
    await head(context)
    await related(context)
    simulator.source.bulkUpdate('assignment')
    await head(context)
    simulator.requests.start()
    expect(await related(context)).toMatchObject({ status: 'done', isComplete: false, yielded: false })
    const reads = extendedReads(simulator)
    expect(reads).toHaveLength(200)
    const { rows } = await database.pool.query<{ id: number }>(
      'select assignment_id::int as id from mirror.assignment order by _synced_at limit 100',
    )
    const oldest = new Set(rows.map(({ id }) => id))
    expect(reads.filter((id) => oldest.has(id))).toHaveLength(40)
    expect(await context.isRelatedDue()).toBe(true)
    await related(context)
    expect(await related(context)).toMatchObject({ isComplete: true })
    expect(extendedReads(simulator)).toHaveLength(500)
    expect(await context.isRelatedDue()).toBe(false)
  })

  it('are as fresh as the assignment that was read longest ago of those that wait, set aside or not', async () => {
    await using simulator = await startSimulator({ assignments: 8 })
    await using context = await openTestContext(database, simulator, variables)
    await head(context)
    await related(context)
    const before = await freshness()
    await database.pool.query(
      `update tidemark.related_fetch set fetched_at = fetched_at - interval '1 hour' where assignment_id = 3`,
    )
    simulator.source.change('assignment', 3)
    simulator.source.change('assignment', 4)
    simulator.faults.add({ kind: 400, while: ({ path }) => path.endsWith('/extended/Id/3') })
    await head(context)
    expect(await related(context)).toMatchObject({ status: 'done' })
    expect((before ?? 0) - ((await freshness()) ?? 0)).toBeGreaterThan(3_500_000)
    simulator.faults.clear()
    await database.pool.query('update tidemark.related_fetch set retry_at = now() where retry_at is not null')
    await related(context)
    expect(await freshness()).toBeGreaterThan(before ?? 0)
  })

  it('are no fresher than the assignments that they come with', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator, { ...variables, PAGE_SIZE: '10' })
    await context.read(assignment, 'incremental', { signal, shouldYield: () => true })
    await related(context)
    // Of the assignments that are not here yet nothing is.
    expect(await freshness()).toBeNull()
    await head(context)
    await related(context)
    const fresh = await freshness()
    const ofAssignments = await database.pool.query<{ at: Date }>(
      `select read_through_time as at from tidemark.freshness where stream = 'assignment'`,
    )
    expect(fresh).toBe(ofAssignments.rows[0]?.at.getTime())
    simulator.source.change('assignment', 7)
    await related(context)
    expect(await freshness()).toBe(fresh)
    await head(context)
    await related(context)
    expect(await freshness()).toBeGreaterThan(fresh ?? Number.POSITIVE_INFINITY)
  })

  it('that come without a new version of their assignment are found by a rolling refresh, a few at a time', async () => {
    await using simulator = await startSimulator({ assignments: 60 })
    await using context = await openTestContext(database, simulator, variables)
    await head(context)
    await related(context)
    simulator.source.insert('assignment_product', { AssignmentId: 7 })
    await head(context)
    expect(await context.isRelatedDue()).toBe(false)
    // A day and more ago, the seventh first.
    await database.pool.query(
      `update tidemark.related_fetch set fetched_at = now() - interval '25 hours' - case when assignment_id = 7 then interval '1 hour' else interval '0' end`,
    )
    expect(await context.isRelatedDue()).toBe(true)
    simulator.requests.start()
    expect(await related(context)).toMatchObject({ status: 'done' })
    expect(extendedReads(simulator)).toHaveLength(10)
    expect(await childDifferences(database.pool, simulator)).toEqual([])
    expect(await context.isRelatedDue()).toBe(true)
  })
})
