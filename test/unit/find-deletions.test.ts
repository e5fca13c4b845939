// The search for vanished records against upstreams in memory, where lists are odd.

import { describe, expect, it } from 'vitest'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { modelStore } from '../support/model-store.ts'
import { modelStream, modelUpstream } from '../support/model-upstream.ts'
import { ordinaryWorld } from '../support/model-worlds.ts'
import { seededRandom } from '../support/random.ts'

describe('the search for vanished records', () => {
  // Asked for the second page of three, the upstream served the second record.
  it('believes no place of a list whose pages are cut (P7)', async () => {
    const world = { ...ordinaryWorld, byKey: 'honoured', cap: 1, capArithmetic: 'capped' } as const
    const upstream = modelUpstream(world, seededRandom(1))
    upstream.insert(4)
    // In this minute no place besides the last is compared.
    let time = 60_000
    const now = () => {
      time += 1_000
      return new Date(time)
    }
    const store = modelStore(now)
    const context = { store, source: upstream, stream: modelStream, pageSize: 10, now }
    const run = { ...context, signal: new AbortController().signal }
    await readIncremental(run)
    await findDeletions(run)
    upstream.takeAway([1, 2])
    expect(await findDeletions(run)).toMatchObject({
      note: expect.stringContaining('the list lacks at least 2 of 4 rows'),
    })
  })
})
