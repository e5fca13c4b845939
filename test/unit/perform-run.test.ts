// How a run ends: told to stop, failed, or failed while it was told to stop.

import { describe, expect, it } from 'vitest'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { modelStore } from '../support/model-store.ts'
import { modelStream, modelUpstream, ordinaryWorld } from '../support/model-upstream.ts'
import { seededRandom } from '../support/random.ts'

describe('a run', () => {
  const begin = () => {
    const upstream = modelUpstream(ordinaryWorld, seededRandom(1))
    upstream.restore(
      Array.from({ length: 30 }, (_, index) => ({ id: index, version: BigInt(index + 1), deleted: false })),
    )
    const now = () => new Date(0)
    const store = modelStore(now)
    const stopping = new AbortController()
    const read = () =>
      readIncremental({
        store,
        source: upstream,
        stream: modelStream,
        pageSize: 5,
        now,
        signal: stopping.signal,
      })
    return { upstream, store, stopping, read }
  }

  it('that is told to stop has not failed', async () => {
    const { store, stopping, read } = begin()
    store.onWrite = () => stopping.abort(new Error('SIGTERM received'))
    expect(await read()).toMatchObject({ status: 'stopped', error: null })
    expect(store.rows.size).toBeGreaterThan(0)
  })

  it('whose page could not be written has failed, also when it was told to stop meanwhile', async () => {
    const { store, stopping, read } = begin()
    store.onWrite = () => {
      stopping.abort(new Error('SIGTERM received'))
      throw new Error('the disk is full')
    }
    expect(await read()).toMatchObject({ status: 'failed', error: { message: 'the disk is full' } })
  })

  it('whose end cannot be written down says why', async () => {
    const { store, read } = begin()
    const ends: string[] = []
    store.onFinish = ({ status }) => {
      ends.push(status)
      throw new Error('the ledger is away')
    }
    await expect(read()).rejects.toThrow('the ledger is away')
    expect(ends).toEqual(['done'])
  })
})
