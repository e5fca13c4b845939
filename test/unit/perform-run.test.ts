// How a run ends: told to stop, failed, or failed while it was told to stop.

import { describe, expect, it } from 'vitest'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { openPipeline } from '../../src/sync/pipeline.ts'
import type { Source } from '../../src/sync/ports/source.ts'
import { modelStore } from '../support/model-store.ts'
import { modelStream, modelUpstream } from '../support/model-upstream.ts'
import { ordinaryWorld } from '../support/model-worlds.ts'
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
    const read = (source: Source = upstream) =>
      readIncremental({
        store,
        source,
        stream: modelStream,
        pageSize: 5,
        now,
        signal: stopping.signal,
      })
    return { upstream, store, stopping, read }
  }

  it('asks for what stands between the two looks at the last record at once', async () => {
    const { upstream, store, read } = begin()
    const underWay: string[] = []
    const together: string[][] = []
    const slowly = (source: Source): Source => ({
      ...source,
      sortedBy: (field) => slowly(source.sortedBy(field)),
      async changes(request, signal) {
        const question = `${request.sorts} ${request.pageSize}`
        underWay.push(question)
        await new Promise(setImmediate)
        if (underWay.length > 1) together.push([...underWay])
        underWay.splice(underWay.indexOf(question), 1)
        return await source.changes(request, signal)
      },
    })
    expect(await read(slowly(upstream))).toMatchObject({ status: 'done', isComplete: true })
    expect(store.rows.size).toBe(30)
    expect(together).toContainEqual(['ascending 1', 'ascending 100'])
  })

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

describe('the writes that are under way', () => {
  /** How many of each size are under way together at most. */
  async function most(megabytes: number): Promise<number> {
    const writes = openPipeline()
    let [underWay, together] = [0, 0]
    for (let page = 0; page < 4; page++)
      await writes.start(
        async () => {
          together = Math.max(together, ++underWay)
          await new Promise(setImmediate)
          underWay--
        },
        megabytes * 1024 * 1024,
      )
    await writes.settled()
    return together
  }

  it('are two, and one where pages are large (P10)', async () => {
    expect([await most(0), await most(8), await most(15), await most(40)]).toEqual([2, 2, 1, 1])
  })
})
