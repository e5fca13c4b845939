// How far readings have come, as it is recorded while they go on.

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { planBackfill } from '../../src/operator/backfill.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { requestBackfill } from '../../src/store/book/backfills.ts'
import { livePosition } from '../../src/store/book/checkpoints.ts'
import { readFirstLoads, readProgress } from '../../src/store/book/progress.ts'
import { readRun } from '../../src/store/book/runs.ts'
import { noteLoadCount } from '../../src/store/runs/progress.ts'
import { estimate, outlookInWords } from '../../src/streams/load-progress.ts'
import type { RunStep } from '../../src/streams/run-steps.ts'
import { runNextBackfill } from '../../src/sync/changes/backfill.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { isForChanges } from '../support/asked.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'

const names = ['assignment']

function assignmentOf(context: SyncContext) {
  const stream = context.streams.find(({ name }) => name === 'assignment')
  if (stream?.kind !== 'changes') throw new Error('there is no such stream')
  return stream
}

/** Lets so many requests for changes through, and those behind them when it is told to. */
function holdAfter(simulator: Awaited<ReturnType<typeof startSimulator>>, requests: number) {
  const gate = Promise.withResolvers<void>()
  let asked = 0
  simulator.onRequest((request) => (isForChanges(request) && ++asked > requests ? gate.promise : undefined))
  return gate.resolve
}

describe.skipIf(!hasPostgres)('a first load', () => {
  const database = createTestDatabase({ forEach: true })
  const progress = async () => (await readProgress(database.pool, names))[0]

  it('tells how many rows are read, of how many, and what a minute brought', async () => {
    await using simulator = await startSimulator({ assignments: 3_021 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
    const goOn = holdAfter(simulator, 14)
    const loading = context.read(assignmentOf(context), 'incremental', { signal: neverAborted })
    await expect.poll(async () => (await progress())?.total).toBe(3_021)
    await expect.poll(async () => (await progress())?.rows).toBeGreaterThan(0)
    const halfway = await progress()
    expect(halfway).toMatchObject({ reading: 'first load', endedAt: null, isComplete: false })
    expect(halfway?.share).toBeCloseTo((halfway?.rows ?? 0) / 3_021, 2)
    expect(halfway?.requests).toBeGreaterThan(10)
    expect(halfway?.totalRequests).toBeLessThan(20)
    const unread = halfway?.unread ?? []
    expect(unread.length).toBeGreaterThan(1)
    for (const [index, [from, to]] of unread.entries()) {
      expect(from).toBeGreaterThanOrEqual(unread[index - 1]?.[1] ?? 0)
      expect(to).toBeGreaterThan(from)
      expect(to).toBeLessThanOrEqual(1)
    }

    // More than before: the share waits.
    await noteLoadCount(database.pool, 'assignment', { records: 9_000, requests: 1 })
    expect(await progress()).toMatchObject({ total: 9_000, share: halfway?.share })

    goOn()
    expect(await loading).toMatchObject({ status: 'done', isComplete: true })
    expect(await progress()).toBeUndefined()
    const [whole] = await readFirstLoads(database.pool, names)
    expect(whole).toMatchObject({ isComplete: true, rows: 3_021, share: 1, unread: null })
    const { rows } = await database.pool.query(
      `select sum(inserted)::int as inserted, sum(updated)::int as updated from tidemark.minute where stream = 'assignment'`,
    )
    expect(rows).toEqual([{ inserted: 3_021, updated: 0 }])
  })

  it('goes on counting after a restart, and forgets nothing', async () => {
    await using simulator = await startSimulator({ assignments: 2_000 })
    const stopping = new AbortController()
    {
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
      const goOn = holdAfter(simulator, 12)
      const loading = context.read(assignmentOf(context), 'incremental', { signal: stopping.signal })
      await expect.poll(async () => (await progress())?.rows).toBeGreaterThan(0)
      stopping.abort(new Error('stopped'))
      goOn()
      expect((await loading).status).toBe('stopped')
    }
    const stopped = await progress()
    const { rows } = await database.pool.query('select count(*)::int as count from mirror.assignment')
    expect(stopped).toMatchObject({ rows: rows[0].count, isComplete: false })
    expect(stopped?.endedAt).not.toBeNull()
    const later = new Date(Date.now() + 60_000)
    expect(stopped && outlookInWords(estimate(stopped, later), later)).toMatch(/^stalled for .+: no worker/)

    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
    await context.read(assignmentOf(context), 'incremental', { signal: neverAborted })
    const [whole] = await readFirstLoads(database.pool, names)
    expect(whole).toMatchObject({ isComplete: true, rows: 2_000, beganAt: stopped?.beganAt })
    expect(whole?.requests).toBeGreaterThan(stopped?.requests ?? 0)
  })

  it('says what it waits for', async () => {
    await using simulator = await startSimulator({ assignments: 2_000 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
    simulator.faults.add({ kind: 503, path: 'neworchanged', times: 4, retryAfterSeconds: 2 })
    const loading = context.read(assignmentOf(context), 'incremental', { signal: neverAborted })
    await expect.poll(async () => (await progress())?.waitsFor).toBe('the assignment service answers 503')
    expect((await progress())?.waitsUntil).toBeInstanceOf(Date)
    simulator.faults.clear()
    await loading
    expect((await readFirstLoads(database.pool, names))[0]).toMatchObject({
      isComplete: true,
      waitsFor: null,
    })
  })
})

describe.skipIf(!hasPostgres)('what a run did, step by step', () => {
  const database = createTestDatabase({ forEach: true })
  const stepsOf = async (kind: string): Promise<readonly RunStep[] | null> => {
    const { rows } = await database.pool.query('select id from tidemark.run where kind = $1 order by id', [
      kind,
    ])
    return (await readRun(database.pool, rows.at(-1)?.id))?.steps ?? null
  }

  it('is kept with its line: what it asked for, and what it waited for', async () => {
    await using simulator = await startSimulator({ assignments: 1_500 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
    const stream = assignmentOf(context)
    simulator.faults.add({ kind: 503, path: 'neworchanged', times: 1, retryAfterSeconds: 3 })
    const { tally } = await context.read(stream, 'incremental', { signal: neverAborted })
    const load = (await stepsOf('incremental')) ?? []
    expect(load.map(({ what }) => what)).toEqual(
      expect.arrayContaining([
        'Find out which field is the row version',
        'Test whether sorting can be relied on',
      ]),
    )
    expect(load.reduce((sum, { requests }) => sum + requests, 0)).toBe(tally.requests)
    expect(load.reduce((sum, { waitedMs }) => sum + waitedMs, 0)).toBeGreaterThan(1_000)
    expect(load.flatMap(({ waits }) => waits)[0]?.what).toBe('the assignment service answers 503')

    simulator.source.remove('assignment', 7, 'hard')
    await reconcileStream({ ...context.contextOf(stream), signal: neverAborted, approved: 0 })
    const compared = (await stepsOf('reconcile')) ?? []
    // The one that is missing, and one that is not: single records can be read.
    expect(compared.at(-2)).toMatchObject({ what: 'Look up 1 missing row one by one', requests: 2 })
    expect(compared.at(-1)).toMatchObject({ what: 'Mark 1 row as deleted', requests: 0 })
    const { rows } = await database.pool.query(
      `select requests::int from tidemark.run where kind = 'reconcile'`,
    )
    expect(compared.reduce((sum, { requests }) => sum + requests, 0)).toBe(rows[0].requests)
  })

  it('is not kept of polls that were over at once, which come every few seconds', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    await using context = await openTestContext(database, simulator)
    await context.read(assignmentOf(context), 'incremental', { signal: neverAborted })
    simulator.source.change('assignment', 3)
    await context.read(assignmentOf(context), 'incremental', { signal: neverAborted })
    expect(await stepsOf('incremental')).toBeNull()
  })

  it('stays known of a run whose program was killed', async () => {
    await using simulator = await startSimulator({ assignments: 2_000 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
    const goOn = holdAfter(simulator, 12)
    const stopping = new AbortController()
    const loading = context.read(assignmentOf(context), 'incremental', { signal: stopping.signal })
    const running = async () => (await stepsOf('incremental'))?.length ?? 0
    await expect.poll(running).toBeGreaterThan(1)
    stopping.abort(new Error('stopped'))
    goOn()
    await loading
  })
})

describe.skipIf(!hasPostgres)('other readings', () => {
  const database = createTestDatabase()

  it('are noted when they last long enough to be watched, with what there is to read', async () => {
    await using simulator = await startSimulator({ assignments: 1_500 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
    const stream = assignmentOf(context)
    await context.read(stream, 'incremental', { signal: neverAborted })
    // One that is over at once leaves no line.
    await context.read(stream, 'incremental', { signal: neverAborted })
    const gate = Promise.withResolvers<void>()
    let asked = 0
    simulator.onRequest(({ path }) =>
      !path.includes('neworchanged') && ++asked > 8 ? gate.promise : undefined,
    )
    const reconciling = reconcileStream({ ...context.contextOf(stream), signal: neverAborted, approved: 0 })
    const progress = async () => (await readProgress(database.pool, names))[0]
    await expect.poll(async () => (await progress())?.total).toBeGreaterThanOrEqual(1_500)
    expect(await progress()).toMatchObject({ reading: 'reconcile', isComplete: false })
    expect((await progress())?.rows).toBeGreaterThan(0)
    await expect.poll(async () => (await progress())?.step).toBe('Test whether the list can be read by key')
    gate.resolve()
    expect((await reconciling).status).toBe('done')
    // What a backfill has read while its rows are counted are not more rows, nor are those that are gone upstream.
    simulator.source.remove('assignment', 7, 'hard')
    await reconcileStream({ ...context.contextOf(stream), signal: neverAborted, approved: 0 })
    const span = { from: 0n, to: await livePosition(database.pool, stream.name) }
    expect((await planBackfill(context, stream, span)).json.rows).toBe(1_499)
    await requestBackfill(database.pool, { stream: stream.name, ...span, by: 'ann' })
    const second = Promise.withResolvers<void>()
    asked = 0
    simulator.onRequest(() => (++asked > 8 ? second.promise : undefined))
    const filling = runNextBackfill({ ...context.contextOf(stream), signal: neverAborted })
    await expect.poll(async () => (await progress())?.total).toBe(1_499)
    expect((await progress())?.rows).toBeGreaterThan(0)
    second.resolve()
    expect((await filling)?.status).toBe('done')
    const { rows } = await database.pool.query(
      'select reading, is_complete from tidemark.progress order by reading',
    )
    expect(rows).toEqual([
      { reading: 'backfill', is_complete: true },
      { reading: 'first load', is_complete: true },
      { reading: 'reconcile', is_complete: true },
    ])
  })
})
