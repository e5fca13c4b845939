// What workers note for those who watch, and what is read of it.

import { describe, expect, it } from 'vitest'
import { gatherStatus, statusJson } from '../../src/documents/status.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { forgetOldProblems, noteProblems, readClosedProblems } from '../../src/store/book/problems.ts'
import { readAskedFor, readRequests } from '../../src/store/book/request-history.ts'
import { countRuns } from '../../src/store/book/runs.ts'
import { noteSilence, noteSilenced, readSilences } from '../../src/store/book/silences.ts'
import {
  forgetWorker,
  noteRequests,
  noteStandings,
  noteStateMinutes,
  noteWorker,
  readMinutes,
  readStates,
  readWorkers,
  thinMinutes,
} from '../../src/store/book/watch.ts'
import { knownStreams } from '../../src/streams/catalog.ts'
import { onBehalfOf } from '../../src/util/on-behalf.ts'
import { openRequestMinutes } from '../../src/worker/minutes.ts'
import { keepBeating, newWorkerId } from '../../src/worker/watch.ts'
import { isForChanges } from '../support/asked.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { startTestWorker } from '../support/worker.ts'

const minuteMs = 60_000

describe.skipIf(!hasPostgres)('the minutes', () => {
  const database = createTestDatabase({ forEach: true })

  const put = (ageMinutes: number, state: string | null, inserted = 0, readAge: number | null = null) =>
    database.pool.query(
      `insert into tidemark.minute (stream, at, state, inserted, read_age)
       values ('assignment', date_trunc('hour', now()) - make_interval(mins => $1::int), $2, $3, $4)`,
      [ageMinutes, state, inserted, readAge],
    )
  const hour = async () => {
    const { rows } = await database.pool.query<{ at: Date }>(`select date_trunc('hour', now()) as at`)
    return rows[0]?.at.getTime() ?? 0
  }

  it('keep the worst of what workers saw', async () => {
    const at = new Date(await hour())
    const ages = { readAge: 1, settledAge: null, deletionsAge: null }
    for (const state of ['behind', 'up to date'] as const)
      await noteStateMinutes(database.pool, [{ stream: 'assignment', at, minutes: 1, state, ...ages }])
    const { rows } = await database.pool.query('select distinct state from tidemark.minute')
    expect(rows).toEqual([{ state: 'behind' }])
  })

  it('stand in the freshness for reports, until nobody looks any more', async () => {
    const freshness = async () => {
      const { rows } = await database.pool.query(
        `select state, loaded_share as share, reason from tidemark.freshness where stream = 'note'`,
      )
      return rows
    }
    const stands = (change: string) =>
      database.pool.query(`update tidemark.stream set ${change} where name = 'note'`)
    await database.pool.query(`insert into tidemark.stream (name) values ('note')`)
    expect(await freshness()).toEqual([{ state: null, share: null, reason: null }])
    await database.pool.query(
      `insert into tidemark.progress (stream, reading, run_id, began_at, updated_at, share)
       values ('note', 'first load', 1, now(), now(), 0.25)`,
    )
    await noteStandings(database.pool, [{ stream: 'note', state: 'loading', reason: 'runs failed' }])
    expect(await freshness()).toEqual([{ state: 'loading', share: 0.25, reason: 'runs failed' }])
    // As soon as that is so, although no worker has looked again.
    await stands('read_through_at = now(), last_success_at = now()')
    expect(await freshness()).toEqual([{ state: 'live', share: 1, reason: null }])
    // Its position was moved back since a worker looked.
    await noteStandings(database.pool, [{ stream: 'note', state: 'live', reason: null }])
    await stands('read_through_at = null')
    expect(await freshness()).toMatchObject([{ state: 'loading' }])
    await stands('read_through_at = now()')
    await noteStandings(database.pool, [{ stream: 'note', state: 'stopped', reason: 'no right' }])
    expect(await freshness()).toEqual([{ state: 'stopped', share: 1, reason: 'no right' }])
    await stands(`paused_at = now(), pause_reason = 'a move'`)
    expect(await freshness()).toEqual([{ state: 'paused', share: 1, reason: 'a move' }])
    // A run may end well although it reads nothing to the end.
    await stands(`paused_at = null, last_success_at = now(), read_through_at = now() - interval '2 hours'`)
    await database.pool.query(`update tidemark.standing set seen_at = now() - interval '6 minutes'`)
    expect(await freshness()).toEqual([{ state: 'behind', share: 1, reason: 'No worker is running.' }])
    // A stream that no setting names any more, or that waits: whoever is running, nobody knows why.
    await database.pool.query(
      `insert into tidemark.worker (id, host, pid, version, started_at, seen_at) values (gen_random_uuid(), 'here', 1, '1', now(), now())`,
    )
    expect(await freshness()).toMatchObject([
      { state: 'behind', reason: 'It was not read through for an hour.' },
    ])
    await database.pool.query('delete from tidemark.worker')
    await stands(`read_through_at = now(), blocked_deletions = '{"missing": 7, "living": 9}'`)
    expect(await freshness()).toEqual([{ state: 'live', share: 1, reason: 'Deletions wait for a decision.' }])
    await stands(`blocked_deletions = blocked_deletions || '{"rejected": {"by": "somebody"}}'`)
    expect(await freshness()).toMatchObject([{ reason: expect.stringMatching(/^Deletions are frozen: /) }])
    // In a new epoch everything is read again, and the load before says nothing of that.
    await database.pool.query(
      `update tidemark.progress set is_complete = true, share = 1 where stream = 'note'`,
    )
    await stands('read_through_at = null')
    expect(await freshness()).toEqual([{ state: 'loading', share: null, reason: null }])
  })

  it('add rows up, take the worst ages, and tell when no worker looked', async () => {
    await put(10, 'up to date', 5, 3)
    await put(9, 'up to date', 7, 40)
    await put(8, 'behind', 1, 90)
    // Two minutes without a worker.
    await put(5, 'up to date', 0, 2)
    const to = await hour()
    const span = { from: new Date(to - 10 * minuteMs), to: new Date(to) }
    expect(await readMinutes(database.pool, ['assignment'], { ...span, bucketMs: 2 * minuteMs })).toEqual([
      expect.objectContaining({ at: span.from, inserted: 12, readAge: 40 }),
      expect.objectContaining({ at: new Date(to - 8 * minuteMs), inserted: 1, readAge: 90 }),
      expect.objectContaining({ at: new Date(to - 6 * minuteMs), inserted: 0, readAge: 2 }),
    ])
    const minutesAgo = (minutes: number) => new Date(to - minutes * minuteMs)
    expect(await readStates(database.pool, ['assignment'], span)).toEqual([
      { stream: 'assignment', from: minutesAgo(10), to: minutesAgo(8), state: 'up to date' },
      { stream: 'assignment', from: minutesAgo(8), to: minutesAgo(7), state: 'behind' },
      { stream: 'assignment', from: minutesAgo(7), to: minutesAgo(5), state: null },
      { stream: 'assignment', from: minutesAgo(5), to: minutesAgo(4), state: 'up to date' },
    ])
  })

  it('tell a state that lasts before it is noted, as long as a worker is there', async () => {
    const to = await hour()
    await put(9, 'behind')
    await put(5, 'up to date')
    const until = async () => {
      const states = await readStates(database.pool, ['assignment'], {
        from: new Date(to - 10 * minuteMs),
        to: new Date(to),
      })
      return states.map((span) => [span.state, (to - span.to.getTime()) / minuteMs])
    }
    const seen = (minutesAgo: number) =>
      database.pool.query(
        `insert into tidemark.worker (id, host, pid, version, started_at, seen_at)
         values ('w', 'a', 1, '1', now(), $1) on conflict (id) do update set seen_at = excluded.seen_at`,
        [new Date(to - minutesAgo * minuteMs)],
      )
    const noted = [
      ['behind', 8],
      [null, 5],
    ]
    expect(await until()).toEqual([...noted, ['up to date', 4]])
    await seen(2)
    expect(await until()).toEqual([...noted, ['up to date', 2]])
    await seen(0)
    expect(await until()).toEqual([...noted, ['up to date', 0]])
    // Long after that line: nobody knows how it was meanwhile.
    await seen(-20)
    expect(await until()).toEqual([...noted, ['up to date', 4]])
    await database.pool.query('delete from tidemark.minute where state = $1', ['up to date'])
    expect(await until()).toEqual([['behind', 8]])
  })

  it('become hours after eight days, with the same sums, and go after ninety', async () => {
    const days = (count: number) => count * 24 * 60
    await put(days(9) + 3, 'up to date', 5, 3)
    await put(days(9) + 2, 'needs you', 6, 70)
    await put(days(91), 'up to date', 1)
    await put(days(7), 'up to date', 2)
    const requests = (minutesAgo: number, worker: string) =>
      database.pool.query(
        `insert into tidemark.service_minute (service, at, worker, requests, bytes, failures, asked_for, latency)
         values ('assignment', date_trunc('hour', now()) - make_interval(mins => $1::int), $2, 3, 30, '{"5xx": 1}',
           jsonb_build_object('assignment lookback', 2), $3)`,
        [minutesAgo, worker, [1, 2, ...new Array(12).fill(0)]],
      )
    for (const [minutesAgo, worker] of [
      [days(9) + 3, 'a'],
      [days(9) + 3, 'b'],
      [days(9) + 1, 'a'],
      [5, 'a'],
    ] as const)
      await requests(minutesAgo, worker)
    await thinMinutes(database.pool, [])
    await thinMinutes(database.pool, [])
    const { rows } = await database.pool.query(
      'select minutes, inserted::int, read_age, state from tidemark.minute order by at',
    )
    expect(rows).toEqual([
      { minutes: 60, inserted: 11, read_age: 70, state: 'needs you' },
      { minutes: 1, inserted: 2, read_age: null, state: 'up to date' },
    ])
    const served = await database.pool.query(
      'select minutes, worker, requests::int, failures, asked_for as asked, latency[1:3]::int[] as latency from tidemark.service_minute order by at',
    )
    expect(served.rows).toEqual([
      {
        ...{ minutes: 60, worker: '', requests: 9, failures: { '5xx': 3 }, latency: [3, 6, 0] },
        asked: { 'assignment lookback': 6 },
      },
      {
        ...{ minutes: 1, worker: 'a', requests: 3, failures: { '5xx': 1 }, latency: [1, 2, 0] },
        asked: { 'assignment lookback': 2 },
      },
    ])
  })

  it('count requests by worker, so that they add up, and once however often they are noted', async () => {
    let now = Date.UTC(2026, 10, 1, 12, 0, 5)
    const [one, other] = [openRequestMinutes(() => now), openRequestMinutes(() => now)]
    const asked = (of: typeof one, status: number | null, durationMs: number, isAnswered = status === 200) =>
      of.observer.requestDone({
        ...{ service: 'assignment', operation: 'listAssignments' },
        ...{ status, isAnswered, durationMs, bytes: 100 },
      })
    asked(one, 200, 3)
    asked(one, 429, 15)
    onBehalfOf({ stream: 'assignment', kind: 'lookback' }, () => asked(one, 404, 3, true))
    asked(other, null, 100_000)
    for (const [worker, minutes] of [
      ['one', one.take()],
      ['other', other.take()],
    ] as const) {
      await noteRequests(database.pool, worker, minutes)
      await noteRequests(database.pool, worker, minutes)
    }
    expect(one.take()).toEqual([])
    asked(one, 500, 21)
    now += minuteMs
    asked(one, 200, 3)
    await noteRequests(database.pool, 'one', one.take())
    const span = { from: new Date(Date.UTC(2026, 10, 1, 12)), to: new Date(Date.UTC(2026, 10, 1, 13)) }
    const run = { at: span.from, stream: 'assignment', kind: 'lookback', requests: 1 }
    expect(await readAskedFor(database.pool, { ...span, bucketMs: 5 * minuteMs })).toEqual([
      run,
      { at: span.from, stream: null, kind: null, requests: 5 },
    ])
    const found = await readRequests(database.pool, { ...span, bucketMs: 5 * minuteMs })
    expect(found).toEqual([
      {
        service: 'assignment',
        at: span.from,
        requests: 6,
        bytes: 600,
        failures: { '429': 1, '5xx': 1, none: 1 },
        // What was not answered at all took no time to answer (P18).
        latency: [3, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
      },
    ])
  })

  it('name a part that a worker waits for once, with the time of the next try', async () => {
    const [until, since] = [new Date(Date.now() + 60_000), new Date()]
    const down = {
      ...({ name: 'assignment', kind: 'service', isUp: false, state: 'down', since } as const),
      ...{ reason: 'It answers 503.', whatToDo: 'Wait.' },
    }
    const beating = new AbortController()
    await keepBeating({
      ...{ worker: newWorkerId(), pool: database.pool, running: () => [], signal: beating.signal },
      parts: { list: () => [down], worked: () => beating.abort(), failed: () => beating.abort() },
      onLiving: () => {},
      waits: () => [
        { what: 'the assignment service', until, partName: 'assignment' },
        { what: 'the reconcile run of assignment', until, partName: null },
      ],
    })
    const [seen] = await readWorkers(database.pool)
    expect(seen?.waits.map(({ what, until: next }) => [what, next && new Date(next)])).toEqual([
      ['the reconcile run of assignment', until],
      ['the assignment service', until],
    ])
  })

  it('P18: count for each worker no run of another one, and none that was longer ago', async () => {
    await database.pool.query(
      `insert into tidemark.run (stream, kind, status, is_idle, polls, host, pid, started_at, finished_at) values
       -- Whichever worker finds nothing adds to the line of the first one that did.
       ('note', 'incremental', 'done', true, 1400, 'one', 1, now() - interval '2 hours', now()),
       ('note', 'incremental', 'done', false, 1, 'one', 1, now() - interval '3 minutes', now() - interval '2 minutes'),
       ('note', 'incremental', 'running', false, 1, 'other', 2, now(), null),
       ('note', 'lookback', 'failed', false, 1, 'other', 2, now() - interval '3 minutes', now() - interval '2 minutes'),
       ('note', 'lookback', 'done', false, 1, 'other', 2, now() - interval '3 hours', now() - interval '2 hours')`,
    )
    const found = await countRuns(database.pool, 3_600_000)
    expect(found.toSorted((a, b) => a.pid - b.pid)).toEqual([
      { host: 'one', pid: 1, runs: 1, failed: 0 },
      { host: 'other', pid: 2, runs: 0, failed: 1 },
    ])
  })

  it('know which workers there are, and which of them went without a word', async () => {
    const line = { host: 'a', pid: 1, version: '1', startedAt: new Date(0), runs: [], waits: [] }
    await noteWorker(database.pool, { ...line, id: 'lives' })
    await noteWorker(database.pool, { ...line, id: 'killed' })
    await noteWorker(database.pool, { ...line, id: 'ended' })
    await forgetWorker(database.pool, 'ended')
    await database.pool.query(
      `update tidemark.worker set seen_at = now() - interval '2 minutes' where id = 'killed'`,
    )
    expect(await readWorkers(database.pool)).toEqual([
      expect.objectContaining({ id: 'killed', isGone: true }),
      expect.objectContaining({ id: 'lives', isGone: false }),
    ])
  })

  it('P18: leave behind that none is there any more, whichever way the last one went', async () => {
    const { pool } = database
    const seen = async () => {
      const needs = {
        ...{ pool, streams: [], catalogue: knownStreams, targets: {} },
        ...{ lookbackMs: () => 0, problems: async () => [] },
      }
      const { worker, verdict } = statusJson(await gatherStatus(needs, []))
      return [worker && [worker.running, Date.now() - worker.seen_at.getTime() < 10_000], verdict]
    }
    await pool.query(`delete from tidemark.worker; delete from tidemark.standing;
      insert into tidemark.stream (name, read_through_at) values ('assignment', now()) on conflict (name) do update set read_through_at = now()`)
    // Rows may come from `tidemark sync` alone.
    expect(await seen()).toEqual([null, 'Everything is up to date'])
    const line = { host: 'a', pid: 1, version: '1', startedAt: new Date(0), runs: [], waits: [] }
    await noteWorker(pool, { ...line, id: 'last' })
    await noteStandings(pool, [{ stream: 'assignment', state: 'live', reason: null }])
    expect(await seen()).toEqual([[true, true], 'Everything is up to date'])
    await pool.query(`update tidemark.standing set seen_at = now() - interval '2 minutes'`)
    await forgetWorker(pool, 'last')
    expect(await seen()).toEqual([[false, true], 'No worker is running'])
  })
})

describe.skipIf(!hasPostgres)('problems', () => {
  const database = createTestDatabase({ forEach: true })
  const quarantine = {
    ...{ key: 'quarantine:assignment', kind: 'quarantine', stream: 'assignment' },
    since: new Date(Date.now() - 600_000),
  }
  const age = (ms: number) =>
    database.pool.query(`update tidemark.problem_history set seen_at = seen_at - make_interval(secs => $1)`, [
      ms / 1000,
    ])
  const act = (action: string, result: string) =>
    database.pool.query(
      `insert into tidemark.action_log (who, door, address, action, target, stream, result, told)
       values ('ops-1', 'console', '127.0.0.1', $1, 'assignment', 'assignment', $2, '')`,
      [action, result],
    )

  it('last as long as any worker sees them, and are one however often they are seen', async () => {
    await noteProblems(database.pool, [{ ...quarantine, what: '1 record' }])
    await noteProblems(database.pool, [{ ...quarantine, what: '2 records' }])
    expect(await readClosedProblems(database.pool, 9)).toEqual([])
    // Not all look at the same, and sources are opened one after the other.
    await noteProblems(database.pool, [])
    expect(await readClosedProblems(database.pool, 9)).toEqual([])
    // A page may have shown it until now: it was not over when a worker saw it last (P18).
    await age(55_000)
    const [{ before }] = (await database.pool.query('select now() as before')).rows
    await noteProblems(database.pool, [])
    const closed = await readClosedProblems(database.pool, 9)
    expect(closed).toEqual([
      {
        ...{ kind: 'quarantine', stream: 'assignment', what: '2 records', by: null },
        ...{ since: quarantine.since, endedAt: expect.any(Date) },
      },
    ])
    expect(closed[0]?.endedAt.getTime()).toBeGreaterThanOrEqual(before.getTime())
    // It is another one when it comes again.
    await noteProblems(database.pool, [{ ...quarantine, what: '1 record' }])
    expect(await readClosedProblems(database.pool, 9)).toHaveLength(1)
    expect((await database.pool.query('select from tidemark.problem_history')).rowCount).toBe(2)
  })

  it('are not over because a worker that sees others looks while the one that sees them is frozen (P18)', async () => {
    await noteProblems(database.pool, [{ ...quarantine, what: '1 record' }])
    await age(75_000)
    const part = {
      key: 'part_down:queue',
      kind: 'part_down',
      stream: null,
      what: 'The queue is away.',
      since: null,
    }
    await noteProblems(database.pool, [part], { seesAll: false })
    expect(await readClosedProblems(database.pool, 9)).toEqual([])
  })

  it('P18: are not over while their cause is shown instead', async () => {
    const cause = {
      ...quarantine,
      key: 'access_lost:assignment',
      kind: 'access_lost',
      what: 'Nothing comes.',
    }
    await noteProblems(database.pool, [{ ...quarantine, what: '1 record' }])
    await noteSilence(database.pool, {
      target: quarantine.key,
      until: null,
      by: 'ops-1',
      reason: '',
    })
    await age(55_000)
    await database.pool.query(`update tidemark.silence set seen_at = seen_at - interval '55 seconds'`)
    const seen = [{ ...cause, hides: [quarantine.key] }]
    await noteProblems(database.pool, seen)
    await noteSilenced(database.pool, seen, { seesAll: true })
    expect(await readClosedProblems(database.pool, 9)).toEqual([])
    expect(await readSilences(database.pool)).toHaveLength(1)
    await noteProblems(database.pool, [cause])
    expect(await readClosedProblems(database.pool, 9)).toMatchObject([{ kind: 'quarantine' }])
  })

  it('go on after a time in which no worker ran', async () => {
    await noteProblems(database.pool, [{ ...quarantine, what: '1 record' }])
    await age(3_600_000)
    await noteProblems(database.pool, [{ ...quarantine, what: '1 record' }])
    expect(await readClosedProblems(database.pool, 9)).toEqual([])
  })

  it('name who ended them, when that was somebody who did what ends such a problem', async () => {
    const over = async () => {
      await age(55_000)
      await noteProblems(database.pool, [])
      return (await readClosedProblems(database.pool, 1))[0]?.by
    }
    await noteProblems(database.pool, [{ ...quarantine, what: '1 record' }])
    await act('pause', 'done')
    await act('dropQuarantine', 'refused')
    expect(await over()).toBeNull()
    await noteProblems(database.pool, [{ ...quarantine, what: '1 record' }])
    await act('dropQuarantine', 'done')
    expect(await over()).toEqual({ action: 'dropQuarantine', who: 'ops-1', door: 'console' })
    // What came later did not end it.
    await act('retryQuarantine', 'done')
    expect((await readClosedProblems(database.pool, 1))[0]?.by).toMatchObject({ action: 'dropQuarantine' })
  })

  it('are forgotten after 90 days', async () => {
    await noteProblems(database.pool, [{ ...quarantine, what: '1 record' }])
    await age(55_000)
    await noteProblems(database.pool, [])
    await database.pool.query(`update tidemark.problem_history set ended_at = ended_at - interval '91 days'`)
    await forgetOldProblems(database.pool)
    expect((await database.pool.query('select from tidemark.problem_history')).rowCount).toBe(0)
  })
})

describe.skipIf(!hasPostgres)('a worker', () => {
  const database = createTestDatabase()

  it('says what it does while a first load goes on, in Postgres, in metrics and in its log', async () => {
    await using simulator = await startSimulator({ assignments: 3_000 })
    const gate = Promise.withResolvers<void>()
    let asked = 0
    simulator.onRequest((request) => (isForChanges(request) && ++asked > 14 ? gate.promise : undefined))
    const worker = await startTestWorker(simulator, database, {
      PAGE_SIZE: '100',
      STREAMS: 'assignment',
      REQUEST_TIMEOUT: '30s',
    })
    try {
      await worker.live
      const ratio = 'tidemark_progress_ratio{stream="assignment",reading="first load"}'
      await expect.poll(() => worker.metric(ratio)).toBeGreaterThan(0)
      expect(await worker.metric(ratio)).toBeLessThan(1)
      await expect
        .poll(async () => (await readWorkers(database.pool)).flatMap(({ runs }) => runs))
        .toEqual([expect.objectContaining({ stream: 'assignment', kind: 'incremental' })])
      gate.resolve()
      await expect
        .poll(() => worker.metric('tidemark_last_success_timestamp_seconds{stream="assignment"}'))
        .toBeGreaterThan(0)
      expect(await worker.metric(ratio)).toBeNull()
    } finally {
      gate.resolve()
      await worker.stop()
    }
    expect(await readWorkers(database.pool)).toEqual([])
    const { rows } = await database.pool.query<{ requests: number; asked: number; states: number }>(
      `select (
           select sum(amount::int)::int from tidemark.service_minute cross join jsonb_each_text(asked_for) as found (name, amount)
           where name = 'assignment incremental'
         ) as asked,
         (select sum(requests)::int from tidemark.service_minute where service = 'assignment') as requests,
         (select count(*)::int from tidemark.minute where state is not null) as states`,
    )
    expect(rows[0]?.requests).toBeGreaterThan(30)
    // However many layers are between a run and its requests.
    expect(rows[0]?.asked).toBeGreaterThan(20)
    expect(rows[0]?.asked).toBeLessThanOrEqual(rows[0]?.requests ?? 0)
    expect(rows[0]?.states).toBeGreaterThan(0)
  })
})
