// A first load from a static upstream on a clock of its own: how many pages it asks for beside those that hold all records, how busy its
// readers are until the end, and how much sooner it is done than one reader.

import { describe, expect, it } from 'vitest'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { modelStore } from '../support/model-store.ts'
import { modelStream } from '../support/model-upstream.ts'
import { type Spacing, spacings, virtualUpstream } from '../support/virtual-upstream.ts'

const readers = 12

async function load(records: number, pageSize: number, spacing: Spacing) {
  const upstream = virtualUpstream(records, spacing)
  const store = modelStore(() => new Date(), null)
  const outcome = await readIncremental({
    ...{ store, source: upstream.source, stream: modelStream, pageSize, load: { readers } },
    now: () => new Date(),
    signal: new AbortController().signal,
  })
  expect(outcome).toMatchObject({ status: 'done', isComplete: true })
  expect(store.rows.size).toBe(records)
  const { asked, answerMs } = upstream
  // Without the two that show the newest record from either side (P12).
  const pages = asked.filter((one) => one.pageSize === pageSize && one.received > 3)
  return {
    needed: Math.ceil(records / pageSize),
    pages: pages.length,
    looks: asked.length - pages.length,
    received: pages.reduce((sum, { received }) => sum + received, 0),
    /** In answers that one reader waits for, one after the other. */
    waits: upstream.now() / answerMs,
    /** How many readers waited for an answer, on average: in the time between two moments, counted back from the end of the last page. */
    busyBefore(from: number, to: number) {
      const end = Math.max(...pages.map((one) => one.to))
      const [begin, stop] = [end - from * answerMs, end - to * answerMs]
      const within = asked.map((one) => Math.max(0, Math.min(one.to, stop) - Math.max(one.from, begin)))
      return within.reduce((sum, ms) => sum + ms, 0) / (stop - begin)
    },
  }
}

/** Those whose number can be told from the first page and the highest version. */
const even: readonly Spacing[] = ['side by side', 'far apart', 'growing from four digits to seven']
const all = Object.keys(spacings) as Spacing[]

describe('a load in ranges', () => {
  for (const [records, pageSize] of [
    [20_000, 100],
    [20_000, 500],
    [20_300, 700],
    [20_000, 40],
  ] as const)
    it(`asks for at most a tenth more pages than hold ${records} records, ${pageSize} on a page`, async () => {
      for (const spacing of all) {
        const { pages, needed, received, looks } = await load(records, pageSize, spacing)
        expect(pages, spacing).toBeLessThanOrEqual(Math.ceil(1.1 * needed))
        expect(received / records, spacing).toBeLessThanOrEqual(1.1)
        expect(looks, spacing).toBeLessThan(80)
      }
    })

  it('keeps all readers busy to the end', async () => {
    for (const spacing of all) {
      const { busyBefore, waits, needed } = await load(20_000, 100, spacing)
      const begins = waits - 4
      expect(busyBefore(begins, 2), spacing).toBeGreaterThan(0.9 * readers)
      // The last second, where answers take 300 ms.
      expect(busyBefore(10 / 3, 0), spacing).toBeGreaterThan(0.6 * readers)
      expect(needed / readers).toBeLessThan(begins)
    }
  })

  it('is done at least eight times as soon as with one reader', async () => {
    for (const spacing of even) {
      const { waits, needed } = await load(20_000, 100, spacing)
      expect((needed + 4) / waits, spacing).toBeGreaterThan(8)
    }
  })
})
