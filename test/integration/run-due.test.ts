// Which runs a worker finds due by what Postgres knows.

import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { requestBackfill } from '../../src/store/book/backfills.ts'
import { lastAskedAt, makeDue, noteReleased, readDueState, settleDue } from '../../src/store/book/due.ts'
import { pauseStream, resumeStream } from '../../src/store/book/streams.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { isRunDue, scheduledKinds } from '../../src/worker/kinds.ts'
import { lookAtDue } from '../../src/worker/look.ts'
import { settlingWhatIsAsked } from '../../src/worker/run-conditions.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { outcomeOf } from '../support/jobs.ts'
import { begin, done } from '../support/runs.ts'

const [assignment] = streams

function lookIn(context: SyncContext, simulator: Simulator) {
  const config = loadConfig(environmentFor(simulator, null, { LOOKBACK: '10m' }))
  const settings = config.dynamic.now()
  const kinds = scheduledKinds(context, config)
  const kindsOf = () => kinds
  const look = () =>
    lookAtDue({ pool: context.database.pool, settingsOf: () => settings, streams: [assignment], kindsOf })
  const wanted = async (kind: 'probe' | 'lookback' | 'deletions') =>
    (await look()).wanted.find((one) => one.kind === kind)
  return { kinds, kindsOf, look, wanted }
}

describe.skipIf(!hasPostgres)('a probe', () => {
  const database = createTestDatabase()
  it('comes once a day, also after one whose program was killed (P8)', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator)
    const { kindsOf, wanted } = lookIn(context, simulator)
    const isDue = () => isRunDue(kindsOf, { stream: assignment.name, kind: 'probe' })
    expect(await wanted('probe')).toBeUndefined()
    await context.read(assignment, 'incremental', { signal })
    expect(await wanted('probe')).toBeDefined()
    expect(await isDue()).toBe(true)
    await database.pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to)
       values ($1, 'probe', 'running', 'there', 1, 0, 0)`,
      [assignment.name],
    )
    expect(await isDue()).toBe(true)
    const run = await begin(context.store, assignment.name, 'probe')
    expect(await isDue()).toBe(false)
    await run.finish(done)
    expect(await isDue()).toBe(false)
    await database.pool.query(`update tidemark.run set finished_at = now() - interval '21 hours'`)
    expect(await isDue()).toBe(true)
  })
})

describe.skipIf(!hasPostgres)('a look-back', () => {
  const database = createTestDatabase()
  it('waits for the end of a first load, and for no later run', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator)
    const { wanted } = lookIn(context, simulator)
    expect(await wanted('lookback')).toBeUndefined()
    await context.read(assignment, 'incremental', { signal })
    expect(await wanted('lookback')).toBeDefined()
    await database.pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to)
       values ($1, 'incremental', 'running', 'there', 1, 0, 0)`,
      [assignment.name],
    )
    expect(await wanted('lookback')).toBeDefined()
    await database.pool.query('update tidemark.stream set first_read_through_at = null')
    expect(await wanted('lookback')).toBeUndefined()
    expect(await wanted('deletions')).toBeUndefined()
  })

  it('comes oftener while versions come late (P10)', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator)
    const { pool } = database
    const everyMs = async () => (await lookIn(context, simulator).wanted('lookback'))?.schedule
    await context.read(assignment, 'incremental', { signal })
    expect(await everyMs()).toEqual({ everyMs: 45_000 })
    await pool.query(
      `insert into tidemark.late_arrival (stream, run_id, key, version, distance, late_ms)
       select $1, max(id), '1', 2, 3, 4000 from tidemark.run`,
      [assignment.name],
    )
    expect(await everyMs()).toEqual({ everyMs: 12_000 })
    await pool.query(`update tidemark.late_arrival set found_at = now() - interval '1 hour'`)
    expect(await everyMs()).toEqual({ everyMs: 45_000 })
  })

  it('comes more rarely while it would read no more than polls do, and all they show is as ever (P14)', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator)
    const { pool } = database
    const everyMs = async () => (await lookIn(context, simulator).wanted('lookback'))?.schedule
    const stand = (seconds: number, lookback: string) =>
      pool.query(
        `update tidemark.stream set position_reached_at = now() - $1 * interval '1 s', lookback_ms = $2 where name = 'assignment'`,
        [seconds, lookback],
      )
    await context.read(assignment, 'incremental', { signal })
    await context.read(assignment, 'lookback', { signal })
    await stand(140, '600000')
    expect(await everyMs()).toEqual({ everyMs: 45_000 })
    await stand(160, '600000')
    expect(await everyMs()).toEqual({ everyMs: 300_000 })
    // Runs of the configured length go on beside those that reach further.
    await stand(160, '1000000')
    expect(await everyMs()).toEqual({ everyMs: 45_000 })
    await stand(610, '1000000')
    expect(await everyMs()).toEqual({ everyMs: 500_000 })
    for (const [undecided, decided] of [
      [
        'update tidemark.stream set inconclusive_runs = 1',
        'update tidemark.stream set inconclusive_runs = 0',
      ],
      ['update tidemark.stream set hidden_since = now()', 'update tidemark.stream set hidden_since = null'],
      [
        'update tidemark.pinned_record set lost_since = now()',
        'update tidemark.pinned_record set lost_since = null',
      ],
      [
        'update tidemark.pinned_record set looked_at = null',
        'update tidemark.pinned_record set looked_at = now()',
      ],
      [
        `insert into tidemark.epoch (stream, run_id, position, looked, lost, evidence) values ('assignment_note', 1, 1, 3, 3, 'gone')`,
        'delete from tidemark.epoch',
      ],
    ] as const) {
      await pool.query(undecided)
      expect(await everyMs(), undecided).toEqual({ everyMs: 45_000 })
      await pool.query(decided)
      expect(await everyMs(), decided).toEqual({ everyMs: 500_000 })
    }
  })
})

describe.skipIf(!hasPostgres)('what somebody asks for', () => {
  const database = createTestDatabase({ forEach: true })
  const place = { stream: assignment.name, kind: 'incremental' } as const
  const asked = async () => {
    const { asked: lines, nowMs } = await readDueState(database.pool, [assignment.name])
    return lines.map(({ kind, dueMs, askedAt }) => ({ kind, askedAt, isDue: dueMs <= nowMs }))
  }

  it('is due until its run has ended, again after a minute, and once more when it is asked for meanwhile (P8)', async () => {
    await makeDue(database.pool, place)
    const [first] = await asked()
    expect(first).toMatchObject({ kind: 'incremental', isDue: true })
    await noteReleased(database.pool, [{ ...place, askedAt: first?.askedAt ?? '' }])
    expect(await asked()).toMatchObject([{ isDue: false }])
    await database.pool.query(`update tidemark.due set due_at = due_at - interval '1 minute'`)
    expect(await asked()).toMatchObject([{ isDue: true }])
    await makeDue(database.pool, place)
    await settleDue(database.pool, { ...place, askedAt: first?.askedAt ?? '' })
    const [second] = await asked()
    expect(second).toMatchObject({ isDue: true })
    await settleDue(database.pool, { ...place, askedAt: second?.askedAt ?? '' })
    expect(await asked()).toEqual([])
  })

  it('is a backfill for as long as one is not finished, and not before it is to be tried again', async () => {
    await requestBackfill(database.pool, { stream: assignment.name, from: 0n, to: 9n, by: 'me' })
    const [line] = await asked()
    expect(line).toMatchObject({ kind: 'backfill', isDue: true })
    const ended = { stream: assignment.name, kind: 'backfill', askedAt: line?.askedAt ?? '' } as const
    await database.pool.query(
      `update tidemark.backfill set status = 'running', retry_at = now() + interval '1 hour'`,
    )
    await settleDue(database.pool, ended)
    expect(await asked()).toMatchObject([{ kind: 'backfill', isDue: false }])
    // Whoever asks for it again does not want it to wait.
    await requestBackfill(database.pool, { stream: assignment.name, from: 0n, to: 9n, by: 'me' })
    const [again] = await asked()
    expect(again).toMatchObject({ isDue: true })
    await database.pool.query(`update tidemark.backfill set status = 'done'`)
    await settleDue(database.pool, ended)
    expect(await asked()).toHaveLength(1)
    await settleDue(database.pool, { ...ended, askedAt: again?.askedAt ?? '' })
    expect(await asked()).toEqual([])
  })

  it('waits while its stream is paused, as everything does', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator)
    const { look } = lookIn(context, simulator)
    await pauseStream(database.pool, { stream: assignment.name, by: 'me', reason: null })
    await makeDue(database.pool, place)
    expect(await look()).toMatchObject({ wanted: [], asked: [] })
    await resumeStream(database.pool, assignment.name)
    const resumed = await look()
    expect(resumed.asked).toMatchObject([{ ...place, cause: 'operator' }])
    expect(resumed.wanted.map(({ kind }) => kind)).toEqual(['incremental', 'reconcile'])
  })

  it('is a backfill also when a worker of an earlier version has stored it', async () => {
    await requestBackfill(database.pool, { stream: assignment.name, from: 0n, to: 9n, by: 'me' })
    await database.pool.query('delete from tidemark.due')
    expect(await asked()).toMatchObject([{ kind: 'backfill', askedAt: null, isDue: true }])
    await settleDue(database.pool, { stream: assignment.name, kind: 'backfill' })
    expect(await asked()).toMatchObject([{ kind: 'backfill', askedAt: expect.any(String), isDue: true }])
  })

  it('is asked for no more when a run that was under way has done it', async () => {
    await makeDue(database.pool, place)
    const askedAt = (await asked())[0]?.askedAt ?? ''
    expect(await lastAskedAt(database.pool, place)).toBe(askedAt)
    await settleDue(database.pool, { ...place, askedAt })
    expect(await lastAskedAt(database.pool, place)).toBeNull()
  })

  it.each([
    ['that was handed out for the first request', 'reconcile', true],
    ['that its schedule asked for', 'reconcile', false],
    ['that was handed out for the first request', 'incremental', true],
  ] as const)(
    'is done, when it is asked for again while it waits, by the run %s: %s (P8)',
    async (_, kind, isHandedOut) => {
      const one = { stream: assignment.name, kind }
      await makeDue(database.pool, one)
      const askedAt = (await asked())[0]?.askedAt ?? ''
      await noteReleased(database.pool, [{ ...one, askedAt }])
      await makeDue(database.pool, one)
      const done: string[] = []
      const run = settlingWhatIsAsked(
        { pool: database.pool, isOurs: () => true, log: quietLog },
        async (request) => {
          done.push(request.cause)
          return outcomeOf(request)
        },
      )
      const hooks = { signal, shouldYield: () => false }
      await run({ ...one, cause: 'again', ...(isHandedOut && { askedAt }) }, hooks)
      expect([done, await asked()]).toEqual([['operator'], []])
      // And not once more by the one that was handed out for the second request.
      await run({ ...one, cause: 'operator', askedAt }, hooks)
      expect(done).toHaveLength(1)
    },
  )
})
