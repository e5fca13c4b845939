// Random days of a planner of up to fifty sources: plans that are killed at any point, clocks that jump, queues that are emptied, places that are
// few. No run is lost, none is late by more than its interval and the turns of those before it, nothing is released that finds no room, and
// sources take turns (P8, P10, P19).

import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { RunKind } from '../../src/streams/catalog.ts'
import { sourceIn } from '../../src/streams/names.ts'
import {
  type Asked,
  keyOf,
  longestPauseMs,
  nextTimeMs,
  type Place,
  type PlanState,
  planRuns,
  type QueueName,
  unknownState,
  type Wanted,
} from '../../src/worker/queue/plan.ts'

const longKinds: readonly RunKind[] = ['reconcile', 'backfill']
const queueOf = ({ kind }: Place): QueueName => (longKinds.includes(kind) ? 'loads' : 'polls')

const everyMs = fc.constantFrom(1_000, 12_000, 30_000, 45_000, 60_000, 3_600_000)
const event = fc.oneof(
  { weight: 20, arbitrary: fc.constant({ what: 'plan' } as const) },
  // Between adding and noting that it was added.
  { weight: 3, arbitrary: fc.constant({ what: 'killed' } as const) },
  {
    weight: 2,
    arbitrary: fc.record({
      what: fc.constant('jump' as const),
      ms: fc.integer({ min: -90_000_000, max: 90_000_000 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ what: 'emptied' } as const) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('asked' as const), at: fc.nat() }) },
  {
    weight: 2,
    arbitrary: fc.record({ what: fc.constant('frozen' as const), ms: fc.integer({ min: 0, max: 120_000 }) }),
  },
)
const someIntervals = (maxLength: number) =>
  fc.array(fc.tuple(everyMs, everyMs, everyMs), { minLength: 1, maxLength, size: 'max' })
const world = fc.record({
  /** One for each stream. */
  intervals: fc.oneof(
    { weight: 4, arbitrary: someIntervals(12) },
    { weight: 1, arbitrary: someIntervals(50) },
  ),
  sources: fc.integer({ min: 1, max: 50 }),
  slots: fc.record({ polls: fc.integer({ min: 1, max: 4 }), loads: fc.integer({ min: 1, max: 2 }) }),
  runMs: fc.integer({ min: 10, max: 4_000 }),
  events: fc.array(event, { minLength: 5, maxLength: 60 }),
})

/** No source gets its third of something while another that waits got one. */
function expectTurns(name: QueueName, released: readonly Place[], late: readonly Place[]): void {
  const counts = new Map<string, number>()
  for (const one of released.filter((place) => queueOf(place) === name))
    counts.set(sourceIn(one.stream), (counts.get(sourceIn(one.stream)) ?? 0) + 1)
  const most = Math.max(0, ...counts.values())
  for (const { stream } of late.filter((place) => queueOf(place) === name))
    expect(counts.get(sourceIn(stream)) ?? 0, `${stream} waits for others`).toBeGreaterThanOrEqual(most - 1)
}

it('loses nothing, starves nothing, floods nothing and lets sources take turns', () => {
  fc.assert(
    fc.property(world, ({ intervals, sources, slots, runMs, events }) => {
      const streamOf = (nth: number) => `source${nth % sources}.s${nth}`
      const schedules = intervals.flatMap(([poll, lookback, reconcile], nth): Omit<Wanted, 'doneMs'>[] => [
        { stream: streamOf(nth), kind: 'incremental', schedule: { everyMs: poll } },
        { stream: streamOf(nth), kind: 'lookback', schedule: { everyMs: lookback } },
        { stream: streamOf(nth), kind: 'reconcile', schedule: { everyMs: reconcile } },
      ])
      const placesByKey = new Map<string, Place>(schedules.map((one) => [keyOf(one), one]))
      // True time never jumps; the clock is true time and what it was put forward or back by.
      let [trueMs, offsetMs] = [1_000_000_000_000, 0]
      let state: PlanState = unknownState
      let asked: Asked[] = []
      /** Waiting and running, in both queues; a run takes a place for `runMs`. */
      let queued: { key: string; queue: QueueName; endsMs: number | null }[] = []
      const begunMs = new Map<string, number>(schedules.map((one) => [keyOf(one), trueMs]))
      const disturbedMs = { at: trueMs }

      function pass(ms: number): void {
        const untilMs = trueMs + ms
        while (trueMs < untilMs) {
          for (const name of ['polls', 'loads'] as const) {
            const own = queued.filter(({ queue }) => queue === name)
            let free = slots[name] - own.filter(({ endsMs }) => endsMs !== null).length
            for (const job of own)
              if (job.endsMs === null && free-- > 0) {
                job.endsMs = trueMs + runMs
                begunMs.set(job.key, trueMs)
              }
          }
          const ends = queued.flatMap(({ endsMs }) => endsMs ?? [])
          trueMs = Math.min(untilMs, ...ends.map((endsMs) => Math.max(endsMs, trueMs + 1)))
          queued = queued.filter(({ endsMs, key }) => {
            if (endsMs === null || endsMs > trueMs) return true
            asked = asked.filter((one) => keyOf(one) !== key)
            return false
          })
        }
      }

      function plan(isKilled: boolean): number {
        const nowMs = trueMs + offsetMs
        const room = Object.fromEntries(
          (['polls', 'loads'] as const).map((name) => {
            const own = queued.filter(({ queue }) => queue === name)
            const active = own.filter(({ endsMs }) => endsMs !== null).length
            return [name, Math.max(1, 2 * (slots[name] - active)) - (own.length - active)]
          }),
        ) as Record<QueueName, number>
        const wanted = schedules.map(
          (one): Wanted => ({ ...one, doneMs: one.kind === 'reconcile' ? nowMs : null }),
        )
        const next = planRuns(state, { nowMs, wanted, asked, queueOf, room })
        for (const name of ['polls', 'loads'] as const)
          expect(next.released.filter((one) => queueOf(one) === name).length).toBeLessThanOrEqual(
            Math.max(0, room[name]),
          )
        expect(new Set(next.released.map(keyOf)).size).toBe(next.released.length)
        const late = Object.keys(next.state.late).flatMap((key) => placesByKey.get(key) ?? [])
        for (const name of ['polls', 'loads'] as const) expectTurns(name, next.released, late)
        for (const one of next.released) {
          const key = keyOf(one)
          // The queue keeps one that runs and one that waits.
          if (!queued.some((job) => job.key === key && job.endsMs === null))
            queued.push({ key, queue: queueOf(one), endsMs: null })
        }
        if (isKilled) return 0
        // It comes when the next run is due, and in time to see what was asked for.
        expect(next.nextMs).toBeGreaterThan(nowMs)
        expect(next.nextMs - nowMs).toBeLessThanOrEqual(longestPauseMs)
        state = next.state
        return next.nextMs - nowMs
      }

      for (const one of [...events, { what: 'plan' } as const]) {
        if (one.what === 'jump') offsetMs += one.ms
        if (one.what === 'emptied') [state, queued] = [unknownState, []]
        if (one.what === 'frozen') pass(one.ms)
        if (one.what === 'asked')
          asked.push({
            stream: streamOf(one.at % intervals.length),
            kind: 'backfill',
            dueMs: trueMs + offsetMs,
            askedMs: trueMs + offsetMs,
          })
        if (one.what !== 'plan' && one.what !== 'killed') disturbedMs.at = trueMs
        pass(plan(one.what === 'killed'))
      }
      // Without further trouble, everything begins within its interval, and once all that waits before it had its turn.
      const beforeAll = (queueName: QueueName) =>
        schedules.filter((other) => queueOf(other) === queueName).length + intervals.length
      const calmMs = trueMs
      const latestMs = (one: Place, every: number) => {
        const turns = Math.ceil((2 * beforeAll(queueOf(one))) / slots[queueOf(one)])
        return calmMs + every + longestPauseMs + (turns + 1) * (runMs + 1_000)
      }
      const until = new Map(
        schedules.map((one) => [
          keyOf(one),
          latestMs(one, 'everyMs' in one.schedule ? one.schedule.everyMs : 0),
        ]),
      )
      const askedBefore = new Set(asked.map(keyOf))
      const endMs = Math.max(
        ...[...until.values()].filter((ms) => ms < calmMs + 150_000),
        ...asked.map((one) => latestMs(one, 0)),
        calmMs + 60_000,
      )
      while (trueMs < endMs) {
        pass(Math.max(1, plan(false)))
        for (const [key, ms] of until)
          if (trueMs > ms) expect(begunMs.get(key) ?? 0, `${key} is late`).toBeGreaterThanOrEqual(calmMs)
      }
      for (const key of askedBefore) expect(begunMs.get(key), `${key} was asked for`).toBeDefined()
    }),
    { numRuns: 150 },
  )
})

it('goes by the schedule: each interval once, a cron expression in its time zone, and what is asked for at its time', () => {
  const nowMs = Date.UTC(2026, 0, 1, 12, 0, 10)
  const wanted: Wanted[] = [
    { stream: 'a', kind: 'incremental', schedule: { everyMs: 30_000 }, doneMs: null },
    { stream: 'a', kind: 'reconcile', schedule: { cron: '0 3 * * *' }, doneMs: null },
  ]
  const room = { polls: 9, loads: 9 }
  const given = (ms: number) => ({ nowMs: ms, wanted, asked: [] as Asked[], queueOf, room })
  const first = planRuns({ throughMs: nowMs, late: {} }, given(nowMs + 1_000))
  expect(first.released).toEqual([])
  expect(first.nextMs).toBe(nowMs + 20_000)
  const nightly = { ...given(nowMs + 1_000), wanted: wanted.slice(1) }
  expect(planRuns(first.state, nightly).nextMs).toBe(nowMs + 1_000 + longestPauseMs)
  const second = planRuns(first.state, given(nowMs + 20_000))
  expect(second.released.map(keyOf)).toEqual(['a/incremental'])
  expect(planRuns(second.state, given(nowMs + 20_001)).released).toEqual([])
  // After an hour of nothing one run makes up for all that were missed.
  expect(planRuns(second.state, given(nowMs + 3_600_000)).released.map(keyOf)).toEqual(['a/incremental'])
  const soon = { stream: 'b', kind: 'backfill', dueMs: nowMs + 3_000, askedMs: nowMs } as const
  const waits = planRuns(first.state, { ...given(nowMs + 2_000), asked: [soon] })
  expect([waits.released, waits.nextMs]).toEqual([[], nowMs + 3_000])
})

it('is told of a night without 02:30 by the hour after it', () => {
  const zone = process.env.TZ
  process.env.TZ = 'Europe/Oslo'
  try {
    expect(new Date(nextTimeMs({ cron: '30 2 * * *' }, Date.parse('2026-03-28T12:00:00Z')))).toEqual(
      new Date('2026-03-29T01:30:00Z'),
    )
  } finally {
    if (zone === undefined) delete process.env.TZ
    else process.env.TZ = zone
  }
})

it('plans for five thousand sources at once', () => {
  const nowMs = Date.UTC(2026, 0, 1, 12)
  const wanted = Array.from(
    { length: 150_000 },
    (_, nth): Wanted => ({
      stream: `source${nth % 5_000}.s${nth}`,
      kind: 'incremental',
      schedule: { everyMs: 30_000 },
      doneMs: null,
    }),
  )
  const room = { polls: 9, loads: 9 }
  const plan = planRuns(
    { throughMs: nowMs, late: {} },
    { nowMs: nowMs + 1, wanted, asked: [], queueOf, room },
  )
  expect([plan.released, plan.nextMs]).toEqual([[], nowMs + 30_000])
})
