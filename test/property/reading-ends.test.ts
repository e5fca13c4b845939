// Where the end of a reading is not what it seems: rights that empty whole pages after they were cut (P12), and answers that are cut
// before they are sorted (P6). Each upstream is read beside its changes, and then at rest.

import { describe, expect, it } from 'vitest'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import type { ChangesRequest } from '../../src/sync/ports/source.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { modelStore } from '../support/model-store.ts'
import { modelStream, modelUpstream } from '../support/model-upstream.ts'
import { ordinaryWorld, type World } from '../support/model-worlds.ts'
import { seededRandom } from '../support/random.ts'

function openMirror(world: Partial<World>, seed: number, pageSize = 30) {
  const random = seededRandom(seed)
  const upstream = modelUpstream({ ...ordinaryWorld, ...world }, random)
  const requests: ChangesRequest[] = []
  const { changes } = upstream
  upstream.changes = (request, signal) => {
    requests.push(request)
    return changes(request, signal)
  }
  const store = modelStore(() => new Date(requests.length * 1000))
  const context = {
    store,
    source: upstream,
    stream: modelStream,
    pageSize,
    now: () => new Date(requests.length * 1000),
    signal: new AbortController().signal,
  }
  const poll = async () => {
    requests.length = 0
    const outcome = await readIncremental(context)
    if (outcome.error) throw outcome.error
    return outcome
  }
  const reconcile = () =>
    reconcileStream({ ...context, lookbackFloorMs: 1, lookupsPerMinute: 60, approved: 0 })
  const stale = () =>
    upstream.visible().filter(({ id, version }) => store.rows.get(String(id))?.version !== version)
  return {
    upstream,
    store,
    requests,
    poll,
    reconcile,
    stale,
    change: (count: number) => times(count, () => upstream.change(random)),
  }
}

const times = (count: number, what: () => void) => {
  for (let index = 0; index < count; index++) what()
}

const seeds = Array.from({ length: 25 }, (_, index) => index)

describe('the end of a reading', () => {
  it('costs one request while nothing is new, and one for a few new records (P12)', async () => {
    const { upstream, requests, poll, change, stale } = openMirror({}, 1)
    change(60)
    await poll()
    await poll()
    await poll()
    expect(requests).toMatchObject([{ sorts: 'descending', page: 1 }])
    upstream.insert(3)
    await poll()
    expect(requests).toHaveLength(1)
    expect(stale()).toEqual([])
  })

  // Of 30 ids the model shows 12, so of these pages some are hidden whole, and two in a row.
  it.each(seeds)('is not where rights hide whole pages (P12), seed %i', async (seed) => {
    const { upstream, poll, stale } = openMirror({ hides: 'most' }, seed, 8)
    upstream.insert(70)
    await poll()
    upstream.insert(320)
    // What is behind them is stored. What they hold is not known, so the run does not count as complete (P6).
    const { isComplete, note } = await poll()
    expect(stale()).toEqual([])
    if (!isComplete) expect(note).toContain('the position waits')
    upstream.insert(50)
    await poll()
    expect(stale()).toEqual([])
  })

  it.each(seeds)('reads what is cut before it is sorted in small ranges (P6), seed %i', async (seed) => {
    const { upstream, store, poll, stale } = openMirror({ cutBeforeSort: 25 }, seed)
    upstream.insert(120)
    upstream.write(60)
    for (let round = 0; round < 4; round++) {
      expect(await poll()).toMatchObject({ isComplete: true })
      expect(stale()).toEqual([])
      upstream.write(40)
    }
    expect(store.state().beliefs).toContainEqual(
      expect.objectContaining({ name: 'sorted_before_cut', value: 'no' }),
    )
  })

  it.each(seeds)(
    'is told as not reached where too many of what is cut share a version (P6), seed %i',
    async (seed) => {
      const { upstream, poll, change, stale } = openMirror({ cutBeforeSort: 25 }, seed)
      upstream.insert(120)
      upstream.write(60)
      await poll()
      change(30)
      const { isComplete } = await poll()
      if (isComplete) expect(stale()).toEqual([])
    },
  )
})

describe('versions that are sorted as text', () => {
  const longer = Array.from({ length: 2_000 }, (_, index) => 1_005 + 3 * index)
  const mirrorOf = (versions: readonly number[]) => {
    const mirror = openMirror({ sorts: 'as text' }, 1, 50)
    for (const [index, version] of versions.entries())
      mirror.upstream.put({ id: index + 1, version: BigInt(version), deleted: false })
    return mirror
  }

  it('are noticed where shorter ones stand at an end', async () => {
    const { poll, stale } = mirrorOf([83, ...longer])
    expect((await poll()).isComplete).toBe(true)
    expect(stale()).toEqual([])
  })

  it('hide shorter ones in the middle, which the reconcile brings and tells', async () => {
    const { poll, reconcile, stale } = mirrorOf([41, ...longer])
    await poll()
    expect(stale()).toMatchObject([{ version: 41n }])
    const { findings, note } = await reconcile()
    expect(findings.missedRows).toBe(1)
    expect(note).toContain('1 missed row')
    expect(stale()).toEqual([])
  })
})
