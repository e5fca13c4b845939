// Ranges that are read side by side share one budget of memory, one order of commits and one end.

import { describe, expect, it } from 'vitest'
import type { Fetched } from '../../src/sync/changes/asking.ts'
import { openRanges } from '../../src/sync/changes/early-ranges.ts'
import { next, start } from '../../src/sync/changes/machine.ts'
import { type RangesContext, type RangesProgress, readInRanges } from '../../src/sync/changes/read-ranges.ts'
import type { Ask } from '../../src/sync/changes/state.ts'
import { openPipeline } from '../../src/sync/pipeline.ts'
import { openRoom } from '../../src/util/room.ts'

const megabyte = 1024 * 1024
const pageSize = 10
const lowest = 10_000
const highest = 12_000

const rowsOf = (since: bigint, count: number) =>
  Array.from({ length: Math.max(0, Math.min(count, highest - Number(since))) }, (_, index) => {
    const version = since + BigInt(index) + 1n
    return { key: String(version), version, record: {} }
  })

const options = {
  ...{
    from: BigInt(lowest),
    until: BigInt(highest - 1),
    pageSize,
    largePageSize: 100,
    maxPasses: 3,
    largestAnswer: 0,
    anchor: null,
  },
  sorting: 'proven',
  load: { readers: 12, leastPages: 0, unread: null },
} as const

/** As the reader of changes is when it has seen much above the first page. */
function begunReading() {
  const page = { received: pageSize, rows: rowsOf(BigInt(lowest), pageSize) }
  const { reading, action } = next(start(options).reading, { kind: 'answer', page })
  if (action.kind !== 'ranges') throw new Error(`not ranges, but ${action.kind}`)
  return { reading, action }
}

function harness(
  also: Partial<RangesContext> & { readonly bytes?: number; readonly ignoresPage?: boolean } = {},
) {
  const { bytes = 1_000, ignoresPage = false, ...others } = also
  const seen = { atOnce: 0, mostAtOnce: 0, held: 0, mostHeld: 0, requests: 0 }
  const written: { readonly keys: readonly string[]; readonly progress: RangesProgress }[] = []
  const writes = openPipeline()
  const context: RangesContext = {
    readers: 12,
    room: openRoom(),
    largestBytes: bytes,
    async fetch({ request, isOnlyLook }: Ask, signal): Promise<Fetched> {
      signal.throwIfAborted()
      seen.requests += 1
      seen.atOnce += 1
      if (!isOnlyLook) seen.held += 1
      seen.mostAtOnce = Math.max(seen.mostAtOnce, seen.atOnce)
      seen.mostHeld = Math.max(seen.mostHeld, seen.held)
      await new Promise((resolve) => setTimeout(resolve, 1))
      seen.atOnce -= 1
      const { since, page, pageSize } = request
      const skipped = BigInt(ignoresPage ? 0 : (page - 1) * pageSize)
      const rows = rowsOf(since + skipped, pageSize)
      return {
        event: { kind: 'answer', page: { received: rows.length, rows } },
        records: { rows: isOnlyLook ? [] : rows, rejected: [] },
        bytes,
      }
    },
    write: ({ records, progress, onDone }) =>
      writes.start(async () => {
        written.push({ keys: records.rows.map(({ key }) => key), progress: progress() })
        await new Promise((resolve) => setTimeout(resolve, 1))
        seen.held -= 1
        onDone()
      }),
    countAround: async () => 0,
    breach: (what) => new Error(what),
    shouldYield: () => false,
    signal: new AbortController().signal,
    ...others,
  }
  return { context, seen, written }
}

describe('reading in ranges', () => {
  it('brings each row once, and no commit says more than was written before it (P1, P6)', async () => {
    const { reading, action } = begunReading()
    const { context, seen, written } = harness()
    const { end } = await readInRanges(context, reading, action)
    expect(end).toEqual({ kind: 'ranges', unread: { upTo: BigInt(highest - 1), ranges: [] }, fell: null })
    const keys = written.flatMap((page) => page.keys)
    expect(new Set(keys).size).toBe(keys.length)
    expect(keys.length).toBe(highest - lowest - pageSize)
    expect(seen.mostAtOnce).toBe(12)
    // A page of ten brings eight rows or nine.
    expect(seen.requests).toBeLessThan((1.1 * (highest - lowest)) / (pageSize - 2) + 11)

    const there = new Set(rowsOf(BigInt(lowest), pageSize - 1).map(({ key }) => key))
    let share = 0
    for (const { keys, progress } of written) {
      for (const key of keys) there.add(key)
      const isLeft = (version: number) =>
        version > progress.position &&
        progress.unread.ranges.some(({ above, upTo }) => version > above && version <= upTo)
      const claimed = Array.from({ length: highest - lowest - 1 }, (_, index) => lowest + index + 1).filter(
        (one) => !isLeft(one),
      )
      expect(claimed.filter((version) => !there.has(String(version)))).toEqual([])
      expect(progress.share).toBeGreaterThanOrEqual(share)
      share = progress.share
    }
    expect(share).toBe(1)
  })

  it('shares them by how close versions lie where `Page` is ignored', async () => {
    const { reading, action } = begunReading()
    const { context, seen, written } = harness({ ignoresPage: true })
    const { end } = await readInRanges(context, reading, action)
    expect(end.unread.ranges).toEqual([])
    expect(written.flatMap(({ keys }) => keys)).toHaveLength(highest - lowest - pageSize)
    expect(seen.mostAtOnce).toBe(12)
    expect(seen.requests).toBeLessThan((1.4 * (highest - lowest)) / (pageSize - 2))
  })

  it('holds no more answers than fit into the budget of all readers together (P10)', async () => {
    const { reading, action } = begunReading()
    const { context, seen } = harness({ bytes: 4 * megabyte })
    await readInRanges(context, reading, action)
    expect(seen.mostHeld).toBe(5)
    const large = harness({ bytes: 100 * megabyte })
    await readInRanges(large.context, reading, action)
    expect(large.seen.mostHeld).toBe(1)
  })

  it('shares that budget with the ranges of other streams (P10)', async () => {
    const { reading, action } = begunReading()
    const room = openRoom()
    let [held, mostHeld] = [0, 0]
    const streams = [harness({ bytes: 4 * megabyte, room }), harness({ bytes: 4 * megabyte, room })]
    await Promise.all(
      streams.map(({ context }) =>
        readInRanges(
          {
            ...context,
            async fetch(ask, signal) {
              if (!ask.isOnlyLook) mostHeld = Math.max(mostHeld, ++held)
              return await context.fetch(ask, signal)
            },
            write: (page) =>
              context.write({
                ...page,
                onDone() {
                  held -= 1
                  page.onDone()
                },
              }),
          },
          reading,
          action,
        ),
      ),
    )
    expect(mostHeld).toBe(5)
  })

  it('ends for all when one fails, and tells why', async () => {
    const { reading, action } = begunReading()
    const { context, seen } = harness()
    const failing: RangesContext = {
      ...context,
      async fetch(ask, signal) {
        if (seen.requests > 30) throw new Error('the upstream is away')
        return await context.fetch(ask, signal)
      },
    }
    await expect(readInRanges(failing, reading, action)).rejects.toThrow('the upstream is away')
    const requests = seen.requests
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(seen.requests).toBe(requests)
  })

  it('tells once that the last pages are on their way, when that is so', async () => {
    const { reading, action } = begunReading()
    const requestsLeft: number[] = []
    const { context, seen } = harness({ onIdle: () => requestsLeft.push(seen.requests) })
    await readInRanges(context, reading, action)
    const [told] = requestsLeft
    expect(requestsLeft).toHaveLength(1)
    expect(told).toBeGreaterThan(seen.requests - context.readers)
    expect(told).toBeLessThan(seen.requests)
  })

  it('looks at nothing before it is certain that they are to be read', async () => {
    const { reading, action } = begunReading()
    const { context, seen, written } = harness()
    const ranges = openRanges(() => context)
    ranges.begin(reading, action)
    await new Promise((resolve) => setTimeout(resolve, 20))
    // Eleven readers have looked where their parts begin, and all have asked for a page.
    expect([seen.requests, written.length]).toEqual([11 + 12, 0])
    const { end } = await ranges.read(reading, action)
    expect(end).toMatchObject({ unread: { ranges: [] }, fell: null })

    const { context: other, ...left } = harness()
    const others = openRanges(() => other)
    others.begin(reading, action)
    const upTo = action.unread.upTo - 500n
    const fewer = { ...action, unread: { upTo, ranges: [{ above: BigInt(lowest), upTo }] } }
    await others.read(reading, fewer)
    const last = left.written
      .flatMap(({ keys }) => keys)
      .toSorted()
      .at(-1)
    expect(last).toBe(String(upTo))
  })

  it('gives way between two pages, and says what is left', async () => {
    const { reading, action } = begunReading()
    let asked = 0
    const { context, written } = harness({ shouldYield: () => ++asked > 40 })
    const { end, hasYielded } = await readInRanges(context, reading, action)
    expect(hasYielded).toBe(true)
    const last = written.at(-1)?.progress.unread
    expect(end).toEqual({ kind: 'ranges', unread: last, fell: null })
    expect(end.unread.ranges.length).toBeGreaterThan(1)
  })

  it('says what is left of a range in which nothing more came before its end', async () => {
    const { reading, action } = begunReading()
    const { context } = harness()
    const isDark = (since: bigint) => since > 11_100n && since < 11_180n
    const nothing = { event: { kind: 'answer', page: { received: 0, rows: [] } } } as const
    const { end } = await readInRanges(
      {
        ...context,
        fetch: async (ask, signal) => ({
          ...(await context.fetch(ask, signal)),
          ...(isDark(ask.request.since) && nothing),
        }),
      },
      reading,
      action,
    )
    expect(end.unread.ranges.length).toBeGreaterThan(0)
    for (const { above, upTo } of end.unread.ranges) expect(isDark(above) && upTo > above).toBe(true)
  })

  // The reader that looks for a part to take over would wait for ever for news that has come already.
  it('ends when the last range ends while another reader still looks for a part of it (P8)', async () => {
    const { reading, action } = begunReading()
    const { context } = harness()
    const lastPage = Promise.withResolvers<void>()
    const fetch: RangesContext['fetch'] = async (ask, signal) => {
      // The version at a place, where a range could be split.
      if (ask.request.pageSize === 1) {
        await lastPage.promise
        await new Promise((resolve) => setTimeout(resolve, 50))
        return { event: { kind: 'refused', status: 400 }, records: { rows: [], rejected: [] }, bytes: 0 }
      }
      const fetched = await context.fetch(ask, signal)
      if (fetched.records.rows.some(({ key }) => key === String(highest))) lastPage.resolve()
      return fetched
    }
    const tooLong = new Promise<null>((resolve) => setTimeout(resolve, 10_000, null))
    const read = readInRanges({ ...context, readers: 2, fetch }, reading, action)
    expect(await Promise.race([read, tooLong])).toMatchObject({ end: { unread: { ranges: [] } } })
  })

  it('gives up all ranges when one page is out of order', async () => {
    const { reading, action } = begunReading()
    const { context, seen } = harness()
    const { end } = await readInRanges(
      {
        ...context,
        async fetch(ask, signal) {
          const fetched = await context.fetch(ask, signal)
          if (seen.requests < 20 || fetched.event.kind !== 'answer') return fetched
          const { page } = fetched.event
          return { ...fetched, event: { kind: 'answer', page: { ...page, rows: page.rows.toReversed() } } }
        },
      },
      reading,
      action,
    )
    expect(end.fell).toMatchObject({ how: 'out of order', why: expect.stringContaining(' behind ') })
    expect(seen.requests).toBeLessThan(40)
  })
})
