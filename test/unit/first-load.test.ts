// How many answers a first load waits for, one after the other: questions that do not depend on each other are asked at once.

import { describe, expect, it } from 'vitest'
import { openAsking } from '../../src/sync/changes/asking.ts'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import type { Ask } from '../../src/sync/changes/state.ts'
import type { Answer, ChangesRequest, Source } from '../../src/sync/ports/source.ts'
import { modelStore } from '../support/model-store.ts'
import { modelStream } from '../support/model-upstream.ts'

const recordOf = (version: number, count: number) => ({ Id: version, RowVersion: version, Turn: count % 2 })

/** Sorts and pages. What is asked at once is answered at once, in rounds. */
function upstreamInRounds(recordCount: number) {
  const records = Array.from({ length: recordCount }, (_, index) => recordOf(index + 1, index))
  const rounds: string[][] = []
  let waiting: { readonly request: ChangesRequest; answer(): void }[] = []
  let newer = 0
  const found = ({ since, page, pageSize, sorts }: ChangesRequest): Answer => {
    const above = records.filter(({ RowVersion }) => RowVersion > since)
    const sorted = sorts === 'descending' ? above.toReversed() : above
    return { records: sorted.slice((page - 1) * pageSize, page * pageSize), bytes: 100 }
  }
  const nameOf = ({ since, page, pageSize, sorts }: ChangesRequest) =>
    `${sorts ?? 'unsorted'} ${pageSize} above ${since}${page === 1 ? '' : `, page ${page}`}`
  // When the reader has nothing else to do.
  const answerSoon = (before: number, quietTurns: number) => {
    if (waiting.length > before) setImmediate(answerSoon, waiting.length, 0)
    else if (quietTurns < 10) setImmediate(answerSoon, before, quietTurns + 1)
    else answerAll()
  }
  const answerAll = () => {
    rounds.push(waiting.map(({ request }) => nameOf(request)))
    const answered = waiting
    waiting = []
    for (const { answer } of answered) answer()
  }
  const source: Source = {
    sortedBy: () => source,
    changes: (request) =>
      new Promise((resolve) => {
        if (waiting.length === 0) setImmediate(answerSoon, 0, 0)
        waiting.push({ request, answer: () => resolve(found(request)) })
      }),
    list: async () => ({ records: [], bytes: 0 }),
    listHasPages: false,
    lookup: null,
  }
  const change = () => {
    newer += 1
    records.push(recordOf(recordCount + newer, newer))
  }
  return { source, rounds, records, change }
}

const load = (source: Source, store = modelStore(() => new Date(), null)) =>
  readIncremental({
    ...{ store, source, stream: modelStream, pageSize: 100, load: { readers: 12 }, now: () => new Date() },
    signal: new AbortController().signal,
  })

describe('a first load', () => {
  it('asks at once what does not depend on another answer', async () => {
    const { source, rounds, records } = upstreamInRounds(3_600)
    const store = modelStore(() => new Date(), null)
    const outcome = await load(source, store)
    expect(outcome).toMatchObject({ status: 'done', isComplete: true })
    expect(store.rows.size).toBe(records.length)
    expect(rounds.slice(0, 2)).toEqual([
      ['unsorted 100 above 0'],
      [
        'ascending 100 above 0',
        'descending 1 above 0',
        'ascending 1 above 0',
        'ascending 100 above 0',
        'unsorted 100 above 52',
        'unsorted 100 above 99',
        'unsorted 100 above 2',
      ],
    ])
    // Beside the last look of the proof, readers look where their parts begin; the first of them has its page.
    expect(rounds[2]?.[0]).toBe('descending 1 above 0')
    expect(rounds[2]).toHaveLength(12)
    expect(new Set(rounds[2]).size).toBe(12)
    expect(rounds[2]?.[1]).toBe('ascending 1 above 0, page 392')
    expect(rounds[3]).toHaveLength(12)
    // From either side.
    const end = rounds.slice(-2).flat()
    expect(end).toEqual(expect.arrayContaining(['ascending 100 above 3599', 'descending 100 above 3599']))
    expect(rounds.length).toBeLessThanOrEqual(8)
  })

  it('of a source that changes meanwhile is the same, and as much is read', async () => {
    const { source, rounds, records, change } = upstreamInRounds(3_600)
    const store = modelStore(() => new Date(), null)
    const outcome = await load(
      {
        ...source,
        sortedBy: () => ({
          ...source,
          changes(request, signal) {
            change()
            return source.changes(request, signal)
          },
        }),
      },
      store,
    )
    expect(outcome).toMatchObject({ status: 'done', isComplete: true })
    const before = records.slice(0, 3_600).filter(({ Id }) => !store.rows.has(String(Id)))
    expect(before).toEqual([])
    expect(rounds.length).toBeLessThanOrEqual(12)
  })

  it('writes nothing of ranges that were begun before sorting was refuted', async () => {
    const { source, rounds } = upstreamInRounds(3_600)
    const store = modelStore(() => new Date(), null)
    let isPrefix = true
    store.onWrite = () => {
      const keys = [...store.rows.keys()].map(Number)
      isPrefix &&= Math.max(0, ...keys) === keys.length
    }
    let looks = 0
    // From the second look on it does not sort.
    const unsorted = ({ sorts, ...request }: ChangesRequest): ChangesRequest => ({
      ...request,
      sorts: sorts === 'descending' && ++looks > 1 ? 'ascending' : sorts,
    })
    await load(
      {
        ...source,
        sortedBy: () => ({
          ...source,
          changes: (request, signal) => source.changes(unsorted(request), signal),
        }),
      },
      store,
    )
    expect(rounds[2]?.length).toBeGreaterThan(6)
    expect(store.state().beliefs.find(({ name }) => name === 'sorting')?.value).toBe('ignored')
    // It was read as a listing, page after page.
    expect(store.rows.size).toBe(3_600)
    expect(isPrefix).toBe(true)
  })
})

describe('questions that are asked early', () => {
  const question = (since: bigint, more: Partial<Ask> = {}): Ask => ({
    kind: 'ask',
    request: { since, page: 1, pageSize: 1, sorts: 'descending' },
    mayBeNothing: true,
    isOnlyLook: true,
    mayYield: false,
    ...more,
  })
  function asking() {
    const asked: bigint[] = []
    const changes = async ({ since }: ChangesRequest): Promise<Answer> => {
      asked.push(since)
      return { records: [recordOf(asked.length, 0)], bytes: 10 }
    }
    const signal = new AbortController().signal
    return { asked, ...openAsking({ source: { changes }, ...modelStream, signal }) }
  }

  it('are answered in their turn', async () => {
    const { asked, ask, begin } = asking()
    begin(question(1n, { beside: [question(2n)] }))
    expect(asked).toEqual([1n, 2n])
    await ask(question(1n, { beside: [question(2n)] }))
    await ask(question(2n))
    expect(asked).toEqual([1n, 2n])
  })

  it('are not taken for the same question later, which is a test of its own', async () => {
    const { asked, ask, begin } = asking()
    begin(question(1n, { beside: [question(2n)] }))
    await ask(question(1n))
    await ask(question(2n))
    expect(asked).toEqual([1n, 2n, 2n])
    await ask(question(2n))
    expect(asked).toEqual([1n, 2n, 2n, 2n])
  })

  it('are answered by what was kept, until something else is read', async () => {
    const { asked, ask, keep } = asking()
    const page = question(1n, { isOnlyLook: false })
    keep(page, await ask(page))
    await ask(question(5n))
    await ask(page)
    expect(asked).toEqual([1n, 5n])
    keep(page, await ask(page))
    await ask(question(6n, { isOnlyLook: false }))
    await ask(page)
    expect(asked).toEqual([1n, 5n, 1n, 6n, 1n])
  })
})
