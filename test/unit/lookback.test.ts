// The look-back run against an upstream in memory: what it finds after it could not be read for a while.

import { describe, expect, it } from 'vitest'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import {
  currentLookback,
  latenessMs,
  lookbackIntervalMs,
  nextLookback,
  reach,
  readLookback,
  recentPast,
} from '../../src/sync/changes/lookback.ts'
import type { Source } from '../../src/sync/ports/source.ts'
import { modelStore } from '../support/model-store.ts'
import { modelStream, modelUpstream } from '../support/model-upstream.ts'
import { ordinaryWorld } from '../support/model-worlds.ts'
import { seededRandom } from '../support/random.ts'

const minuteMs = 60_000

/** A mirror that is asked to read that upstream, and a clock that only moves when it is told to. */
function scene() {
  const upstream = modelUpstream({ ...ordinaryWorld, order: 'id' }, seededRandom(1))
  let time = 0
  const now = () => new Date(time)
  const store = modelStore(now)
  const signal = new AbortController().signal
  const context = { store, source: upstream, stream: modelStream, pageSize: 100, now, signal }
  return {
    upstream,
    store,
    context,
    pass: (ms: number) => {
      time += ms
    },
    read: async () => {
      await readIncremental(context)
      return await readLookback({ ...context, lookbackFloorMs: 10 * minuteMs })
    },
  }
}
const row = (id: number, version: bigint) => ({ id, version, deleted: false })
const old = Array.from({ length: 50 }, (_, index) => row(index + 1, BigInt(index + 1)))

it('finds what came late while nothing was read, however long that was (P6)', async () => {
  const { upstream, store, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore([...old, row(60, 60n)])
  await read()
  // Version 59 becomes visible just after; then nobody reads for hours.
  upstream.restore([...old, row(60, 60n), row(59, 59n)])
  pass(5 * 60 * minuteMs)
  expect(await read()).toMatchObject({ status: 'done', note: '1 late' })
  expect(store.rows.get('59')?.version).toBe(59n)
  // What was read long before is not read again.
  const quiet = await read()
  expect(quiet.tally.unchanged).toBeLessThan(10)
})

it('finds what came late while the upstream showed this client nothing at all (P6)', async () => {
  const { upstream, store, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore([...old, row(60, 60n)])
  expect(await read()).toMatchObject({ isComplete: true })
  // Another CLIENT_GUID, or a right that was lost: status 200 and an empty list.
  upstream.restore([])
  for (let reading = 0; reading < 5; reading++) {
    pass(60 * minuteMs)
    expect(await read()).toMatchObject({
      status: 'done',
      isComplete: false,
      note: expect.stringContaining('CLIENT_GUID'),
    })
  }
  upstream.restore([...old, row(60, 60n), row(59, 59n)])
  expect(await read()).toMatchObject({ status: 'done', isComplete: true, note: '1 late' })
  expect(store.rows.get('59')?.version).toBe(59n)
})

it('takes a record that is still there for no sign that its changes are shown (P6)', async () => {
  const { upstream, context, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  const silent: Source = {
    ...upstream,
    sortedBy: () => silent,
    changes: async () => ({ records: [], bytes: 2 }),
  }
  const lookback = () => readLookback({ ...context, source: silent, lookbackFloorMs: 10 * minuteMs })
  expect(await lookback()).toMatchObject({ isComplete: false, note: expect.stringContaining('no changes') })
})

it('finds what came late although its question was once answered with nothing (P6)', async () => {
  const { upstream, store, context, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore([...old, row(60, 60n)])
  await read()
  upstream.restore([...old, row(60, 60n), row(59, 59n)])
  let answers = 0
  const slipping: typeof upstream = {
    ...upstream,
    sortedBy() {
      return this
    },
    changes: async (...asked) => (answers++ === 0 ? { records: [], bytes: 2 } : upstream.changes(...asked)),
  }
  pass(5 * minuteMs)
  const outcome = await readLookback({ ...context, source: slipping, lookbackFloorMs: 10 * minuteMs })
  expect(outcome).toMatchObject({ isComplete: true, note: '1 late' })
  expect(store.rows.get('59')?.version).toBe(59n)
})

it('is complete in a quiet time after the newest records were deleted, however many', async () => {
  const { upstream, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore(old.slice(0, 20))
  expect(await read()).toMatchObject({ status: 'done', isComplete: true, note: null })
})

it('is complete when the records with the highest versions are gone and others are not', async () => {
  const { upstream, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore(old.slice(0, 48))
  expect(await read()).toMatchObject({ status: 'done', isComplete: true, note: null })
})

describe('after a first load', () => {
  const many = Array.from({ length: 300 }, (_, index) => row(index + 1, BigInt(index + 1)))
  const duringLoad = (shown: readonly ReturnType<typeof row>[]) => [...many, ...shown]

  /** A minute a request, ten records each: it takes more than half an hour. */
  async function loadSlowly({ upstream, context, pass }: ReturnType<typeof scene>) {
    upstream.restore(many)
    upstream.onRequest = () => pass(minuteMs)
    await readIncremental({ ...context, pageSize: 10 })
    upstream.onRequest = () => {}
  }

  it('does not read again what was there when it began, however late the position got there', async () => {
    const { upstream, context, pass, ...rest } = scene()
    await loadSlowly({ upstream, context, pass, ...rest })
    expect(rest.store.position()).toBe(300n)
    const outcome = await readLookback({ ...context, lookbackFloorMs: 10 * minuteMs })
    expect(outcome).toMatchObject({ isComplete: true, note: null })
    expect(outcome.tally.unchanged).toBeLessThan(10)
  })

  it('finds what came late of the versions that were given since it began (P6)', async () => {
    const { upstream, context, pass, ...rest } = scene()
    await loadSlowly({ upstream, context, pass, ...rest })
    upstream.restore(duringLoad([row(302, 302n)]))
    await readIncremental(context)
    upstream.restore(duringLoad([row(301, 301n), row(302, 302n)]))
    const outcome = await readLookback({ ...context, lookbackFloorMs: 10 * minuteMs })
    expect(outcome).toMatchObject({ isComplete: true, note: '1 late' })
    expect(rest.store.rows.get('301')?.version).toBe(301n)
  })

  it('finds what was not visible yet when it began, where that is no look-back ago (P6)', async () => {
    const { upstream, store, pass, read, context } = scene()
    upstream.restore(many.filter(({ id }) => id !== 250))
    await readIncremental(context)
    upstream.restore(many)
    pass(9 * minuteMs)
    expect(await read()).toMatchObject({ isComplete: true, note: '1 late' })
    expect(store.rows.get('250')?.version).toBe(250n)
  })

  it('goes by the position again once it was there', async () => {
    const { upstream, context, pass, ...rest } = scene()
    const early = await context.store.openRun('incremental', 'thing')
    if ('busy' in early) throw new Error(early.busy)
    await loadSlowly({ upstream, context, pass, ...rest })
    // What is read after a rewind counts from then.
    await early.position.retreat('rewound', early.position.start)
    pass(60 * minuteMs)
    await readIncremental(context)
    upstream.restore(many.map((one) => (one.id === 250 ? row(999, 250n) : one)))
    expect(await readLookback({ ...context, lookbackFloorMs: 10 * minuteMs })).toMatchObject({
      note: '1 late',
    })
  })
})

const late = (lateMs: number) => ({ key: '1', version: 5n, distance: 2n, lateMs })

describe('the look-back', () => {
  it('grows at once to twice the worst lateness', () => {
    expect(nextLookback(10_000, 10_000, [late(3000), late(40_000)])?.lookbackMs).toBe(80_000)
  })
  it('stays while something late is seen that it covers', () => {
    expect(nextLookback(100_000, 10_000, [late(40_000)])).toBeNull()
  })
  it('shrinks slowly when nothing was late, and never below its floor', () => {
    let lookbackMs = 80_000
    const steps: number[] = []
    for (let next = nextLookback(lookbackMs, 10_000, []); next; next = nextLookback(lookbackMs, 10_000, [])) {
      expect(next.lookbackMs).toBeGreaterThanOrEqual(Math.max(10_000, lookbackMs * 0.95))
      lookbackMs = next.lookbackMs
      steps.push(lookbackMs)
    }
    expect(lookbackMs).toBe(10_000)
    expect(steps.length).toBeGreaterThan(50)
  })
  it('is the configured least until something comes late', () => {
    expect(nextLookback(null, 10_000, [])).toEqual({ lookbackMs: 10_000, reason: 'the configured least' })
    expect(nextLookback(10_000, 10_000, [])).toBeNull()
  })
  it('follows a floor that was raised', () => {
    expect(currentLookback(5000, 10_000)).toBe(10_000)
    expect(currentLookback(null, 10_000)).toBe(10_000)
  })
  it('does not grow with the time between two readings, whatever it is', () => {
    // One version a second, each four minutes late; the lane is looked at every 5 s.
    const lateMs = 240_000
    let lookbackMs: number | null = null
    let lastReadAt = 0
    for (let now = 5_000; now < 5 * 86_400_000; now += 5_000) {
      if (
        now - lastReadAt <
        lookbackIntervalMs(
          { lookbackMs: currentLookback(lookbackMs, 600_000), floorMs: 600_000 },
          { isRecentlyLate: true, stoodMs: 0 },
        )
      )
        continue
      const hiddenSince = new Date(lastReadAt - lateMs)
      const measuredMs = latenessMs(hiddenSince, new Date(now), new Date(lastReadAt))
      lookbackMs = nextLookback(lookbackMs, 600_000, [late(measuredMs)])?.lookbackMs ?? lookbackMs
      lastReadAt = now
    }
    expect(lookbackMs).toBeGreaterThanOrEqual(2 * lateMs)
    expect(lookbackMs).toBeLessThanOrEqual(4 * lateMs + 60_000)
  })
})

describe('the recent past', () => {
  const at = (ms: number) => new Date(ms)
  it('begins a look-back ago, or earlier when the last reading was long ago', () => {
    expect(recentPast(at(100_000), 10_000, null)).toEqual(at(90_000))
    expect(recentPast(at(100_000), 10_000, at(97_000))).toEqual(at(90_000))
    expect(recentPast(at(100_000), 10_000, at(40_000))).toEqual(at(35_000))
  })
})

describe('how late a version was', () => {
  const at = (ms: number) => new Date(ms)
  it('lies in the middle between the readings before and after it came', () => {
    expect(latenessMs(at(10_000), at(60_000), at(40_000))).toBe(40_000)
    expect(latenessMs(at(50_000), at(60_000), at(40_000))).toBe(5_000)
  })
  it('is taken for the worst it can be where nothing was read before, and is never below nothing', () => {
    expect(latenessMs(at(10_000), at(60_000), null)).toBe(50_000)
    expect(latenessMs(at(70_000), at(60_000), at(40_000))).toBe(0)
  })
})

it('comes four times a minute while versions come late, and is brief then unless more is due', () => {
  const lookback = { lookbackMs: 20 * minuteMs, floorMs: 10 * minuteMs }
  const every = (isRecentlyLate: boolean, stoodMs: number | null) =>
    lookbackIntervalMs(lookback, { isRecentlyLate, stoodMs })
  expect(every(false, 0)).toBe(45_000)
  expect(every(true, 3_600_000)).toBeLessThanOrEqual(15_000)
  const [at, before] = [new Date(22 * minuteMs), new Date(21.75 * minuteMs)]
  const reachOf = (wholeAt: Date, runAt: Date) => {
    const { past, isWhole } = reach(at, lookback, { wholeAt, runAt }, 'brief')
    return isWhole ? 'whole' : (at.getTime() - past.getTime()) / minuteMs
  }
  expect(reachOf(before, before)).toBe(1)
  expect(reachOf(before, new Date(19 * minuteMs))).toBe(10)
  expect(reachOf(new Date(11 * minuteMs), before)).toBe('whole')
})

it('finds what is late by minutes as soon as ever, however long it has grown, and reaches a day at most (P16)', () => {
  const at = (minutes: number) => new Date(minutes * minuteMs)
  const grown = { lookbackMs: 24 * 60 * minuteMs, floorMs: 10 * minuteMs }
  const reachOf = (nowAt: number, runAt: number | null) => {
    const { past, isWhole } = reach(at(nowAt), grown, {
      wholeAt: at(0),
      runAt: runAt === null ? null : at(runAt),
    })
    return isWhole ? 'whole' : (nowAt * minuteMs - past.getTime()) / minuteMs
  }
  expect(reachOf(3, 2)).toBe(2.5)
  expect(reachOf(5.5, 4.5)).toBe(10)
  expect(reachOf(6.5, 5.5)).toBe(2.5)
  expect(reachOf(30, null)).toBe(10)
  expect(reachOf(12 * 60, 12 * 60 - 1)).toBe('whole')
  // Where it has not grown there is nothing in between.
  const asEver = reach(at(5), { ...grown, lookbackMs: grown.floorMs }, { wholeAt: at(4), runAt: at(4.5) })
  expect(asEver).toEqual({ past: at(2.5), isWhole: false })

  const late = [{ key: '1', version: 5n, distance: 3n, lateMs: 20 * 60 * minuteMs }]
  expect(nextLookback(null, 10 * minuteMs, late)).toEqual({
    lookbackMs: 24 * 60 * minuteMs,
    reason: expect.stringContaining('the longest'),
  })
  expect(nextLookback(24 * 60 * minuteMs, 10 * minuteMs, late)).toBeNull()
})
