// Single transitions about what to ask next and how far the position may move (P6).

import { describe, expect, it } from 'vitest'
import { declaredStates, next, start } from '../../src/sync/changes/machine.ts'
import type { ReadingOptions, Transition } from '../../src/sync/changes/state.ts'
import type { SeenPage } from '../../src/sync/lists/listing.ts'

const options: ReadingOptions = {
  from: 10n,
  until: null,
  pageSize: 3,
  largePageSize: 30,
  maxPasses: 3,
  sorting: 'proven',
  largestAnswer: 3,
  anchor: null,
}
const page = (...versions: number[]) => ({
  received: versions.length,
  rows: versions.map((version, index) => ({ key: `${version}-${index}`, version: BigInt(version) })),
})
const see = ({ reading }: Transition, seen: SeenPage) => next(reading, { kind: 'answer', page: seen })
const answer = (before: Transition, ...versions: number[]) => see(before, page(...versions))
const refuse = ({ reading }: Transition) => next(reading, { kind: 'refused', status: 400 })
const asked = ({ action }: Transition) => (action.kind === 'ask' ? action.request : action)

describe('reading changes', () => {
  it('begins with one request above the position, and ends when nothing is new', () => {
    const first = start(options)
    expect(asked(first)).toEqual({ since: 10n, page: 1, pageSize: 3, sorts: 'ascending' })
    expect(answer(first)).toMatchObject({
      action: { kind: 'end', isComplete: true },
      reading: { position: 10n },
    })
    expect(answer(first, 10)).toMatchObject({ action: { kind: 'end' } })
  })

  it('proves nothing by an answer without what is known, unless that is gone or was changed (P11)', () => {
    const anchor = { key: '10-0', version: 10n }
    const other = { key: '8-0', version: 8n }
    type Found = bigint | 'gone' | 'unclear'
    const look = ({ reading }: Transition, found: Found, another: typeof anchor | null = other) =>
      next(reading, { kind: 'looked', found, next: another })
    const first = start({ ...options, anchor })
    expect(asked(first)).toMatchObject({ since: 9n, page: 1 })
    const isLacking = { action: { kind: 'look', anchor }, reading: { position: 10n } }
    const lacking = answer(first)
    for (const without of [lacking, answer(first, 11, 12), answer(first, 11, 12, 13)])
      expect(without).toMatchObject(isLacking)
    expect(answer(first, 10).action).toMatchObject({ kind: 'end', isComplete: true, isInconclusive: false })

    const inconclusive = { kind: 'end', isComplete: false, isInconclusive: true }
    expect(look(lacking, 'unclear', null).action).toMatchObject(inconclusive)
    expect(look(lacking, 9n).action).toMatchObject(inconclusive)
    const again = look(lacking, 10n)
    expect(asked(again)).toMatchObject({ since: 9n, page: 1 })
    expect(look(answer(again), 10n, null).action).toMatchObject(inconclusive)
    expect(asked(look(lacking, 14n))).toMatchObject({ since: 10n, page: 1 })
    const below = look(lacking, 'gone')
    expect(asked(below)).toMatchObject({ since: 7n, page: 1 })
    expect(answer(below, 8).action).toMatchObject({ kind: 'end', isComplete: true, isInconclusive: false })
  })

  it('stores what another known record proves, and is not complete while one that is there is not shown (P11)', () => {
    const first = start({ ...options, anchor: { key: '10-0', version: 10n } })
    const lacking = answer(first, 11)
    const other = next(lacking.reading, {
      kind: 'looked',
      found: 'unclear',
      next: { key: '8-0', version: 8n },
    })
    expect(asked(other)).toMatchObject({ since: 7n, page: 1 })
    const { action, reading } = answer(answer(other, 8, 11))
    expect(action).toMatchObject({ kind: 'end', isComplete: false, isInconclusive: false })
    expect(action).toMatchObject({ note: expect.stringContaining('record 10-0 is there') })
    expect(reading.position).toBe(11n)
    const neither = next(answer(other, 11).reading, { kind: 'looked', found: 'unclear', next: null })
    expect(neither.action).toMatchObject({ kind: 'end', isInconclusive: true })
  })

  it('holds the last version of a page back until the next page shows nothing more of it', () => {
    const second = answer(start(options), 11, 12, 13)
    expect(second.reading.position).toBe(12n)
    expect(asked(second)).toMatchObject({ since: 12n, page: 1 })
    const third = answer(second, 13)
    expect(third.reading.position).toBe(12n)
    expect(answer(third)).toMatchObject({
      action: { kind: 'end', isComplete: true },
      reading: { position: 13n },
    })
  })

  it('believes that there is nothing only where a poll begins, and where its end is reached', () => {
    const poll = start(options)
    const range = start({ ...options, until: 13n })
    expect(poll.action).toMatchObject({ mayBeNothing: true })
    expect(answer(poll, 10, 10, 10).action).toMatchObject({ mayBeNothing: true })
    const [middle, tail] = [answer(poll, 11, 12, 13), answer(poll, 11, 12)]
    const goal = answer(tail, 13)
    for (const { action } of [range, middle, tail, goal])
      expect(action).toMatchObject({ mayBeNothing: false })
  })

  it('takes a short page for the end only when nothing is behind it', () => {
    const short = answer(start(options), 11, 12)
    expect(short.reading.position).toBe(11n)
    expect(asked(short)).toEqual({ since: 10n, page: 2, pageSize: 2, sorts: 'ascending' })
    expect(answer(short)).toMatchObject({ action: { kind: 'end' }, reading: { position: 12n } })
  })

  it('takes a short page of old rows for the end of a poll, and not of a range', () => {
    expect(answer(start(options), 10).action).toMatchObject({ kind: 'end' })
    expect(asked(answer(start({ ...options, until: 13n }), 10))).toMatchObject({ since: 11n })
  })

  it('takes a short page that holds nothing but what cannot be a row for no end', () => {
    const rejected = { received: 1, rows: [{ key: 'of its content', version: null }] }
    const behind = see(start(options), rejected)
    expect(asked(behind)).toMatchObject({ page: 2, pageSize: 1 })
    // Each poll asks it while such a record is the newest.
    expect(behind.action).toMatchObject({ mayBeNothing: true })
    expect(answer(behind).action).toMatchObject({ kind: 'end' })
    expect(answer(behind, 11).reading.state.name).toBe('scan')
    const range = see(start({ ...options, until: 13n }), rejected)
    expect(range.action).toMatchObject({ kind: 'ask', mayBeNothing: false })
  })

  it('asks for a larger page when one version has rows behind a short page', () => {
    const goal = answer(answer(start(options), 11, 11), 11)
    expect(asked(goal)).toEqual({ since: 10n, page: 1, pageSize: 1, sorts: 'descending' })
    const larger = answer(goal, 11)
    expect(larger.reading.position).toBe(10n)
    expect(asked(larger)).toMatchObject({ since: 10n, page: 1, pageSize: 30 })
  })

  it('takes the proof back when what is behind a page is below it', () => {
    const tail = answer(start(options), 11, 14)
    expect(answer(tail, 12)).toMatchObject({ effects: { retreat: expect.stringContaining('12 behind 14') } })
  })

  it('asks for a larger page when one version fills it', () => {
    const second = answer(start(options), 11, 11, 11)
    expect(second.reading.position).toBe(10n)
    expect(asked(second)).toMatchObject({ since: 10n, pageSize: 30 })
    expect(answer(second, 11, 11, 11, 11, 12).reading.position).toBe(11n)
  })

  it('looks past an old tie that fills the page', () => {
    expect(asked(answer(start(options), 10, 10, 10))).toMatchObject({ since: 11n, page: 1 })
  })

  it('takes the proof back when a page is out of order, and returns to where the run began', () => {
    const second = answer(start(options), 11, 12, 13)
    const back = answer(second, 13, 20, 14)
    expect(back.effects.retreat).toEqual(expect.stringContaining('14 behind 20'))
    expect(back.reading).toMatchObject({ position: 10n, sorting: 'ignored' })
    expect(back.effects.learnt).toMatchObject([{ name: 'sorting', value: 'ignored' }])
    expect(asked(back)).toEqual({ since: 10n, page: 1, pageSize: 30, sorts: 'ascending' })
  })

  it('never sends Sorts again once it was refused', () => {
    const refused = refuse(start({ ...options, sorting: 'unknown' }))
    expect(asked(refused)).toMatchObject({ sorts: null })
    expect(asked(answer(refused, 11, 12, 13))).toMatchObject({ sorts: null })
  })

  it('believes nothing of the listing of a version in which Sorts was refused', () => {
    const one = start({ ...options, largePageSize: 3 })
    const tie = answer(answer(one, 11, 11, 11), 11, 11, 11)
    expect(tie.reading.state).toMatchObject({ name: 'tie', listing: { ceiling: 11n } })
    const refused = refuse(tie)
    expect(refused.reading).toMatchObject({ state: { name: 'ahead' }, position: 10n, sorting: 'refused' })
    expect(asked(refused)).toEqual({ since: 10n, page: 1, pageSize: 3, sorts: null })
  })

  it('reports a version below the one asked for, and asks no more', () => {
    expect(answer(start(options), 9).action).toEqual({
      kind: 'breach',
      what: 'asked for changes since 10, it served version 9',
    })
  })

  it('is not fooled by a list in order of ids that looks ascending', () => {
    const ascending = Array.from({ length: 20 }, (_, index) => 11 + index)
    let transition = answer(start({ ...options, sorting: 'unknown', pageSize: 20 }), ...ascending)
    // Sorts is ignored: the same record comes first whichever end is asked for.
    transition = answer(transition, 11)
    transition = answer(transition, 11)
    transition = answer(transition, ...ascending)
    transition = answer(transition, 11)
    expect(transition.reading).toMatchObject({ sorting: 'ignored', position: 10n })
  })

  it('is not fooled by pages that are sorted after they were cut', () => {
    const ascending = Array.from({ length: 20 }, (_, index) => 31 + index)
    let transition = answer(start({ ...options, sorting: 'unknown', pageSize: 20 }), ...ascending)
    // The newest come first: a page of one record is the newest one, whichever end is asked for.
    for (const versions of [[50], [50], ascending, [50]]) transition = answer(transition, ...versions)
    expect(transition.reading).toMatchObject({ sorting: 'ignored', position: 10n })

    // Where pages have a size of their own, one record was asked for and the same page came each time.
    transition = answer(start({ ...options, sorting: 'unknown', pageSize: 20 }), ...ascending)
    const descending = ascending.toReversed()
    for (const versions of [descending, ascending, ascending, descending])
      transition = answer(transition, ...versions)
    expect(transition.reading).toMatchObject({ sorting: 'ignored', position: 10n })
  })

  it('is not fooled by numbers sorted as text, which shows where they grow a digit', () => {
    const grown = answer(start({ ...options, from: 97n }), 100, 101, 102)
    expect(grown.reading.position).toBe(97n)
    expect(asked(grown)).toEqual({ since: 97n, page: 1, pageSize: 100, sorts: 'descending' })
    expect(answer(grown, 99)).toMatchObject({
      effects: { retreat: expect.stringContaining('99 behind 102') },
      reading: { sorting: 'ignored', position: 97n },
    })
    expect(answer(grown, 105).reading).toMatchObject({ sorting: 'proven', position: 101n })
    expect(answer(grown).reading).toMatchObject({ sorting: 'proven', position: 101n })
    // The records there may be no rows: then it shows nothing.
    const rejected = { received: 1, rows: [{ key: 'of its content', version: null }] }
    expect(see(grown, rejected)).toMatchObject({
      effects: { retreat: expect.stringContaining('no row version') },
      reading: { sorting: 'ignored', position: 97n },
    })
  })

  it('goes on at the last version where the first page comes whichever is asked for, and waits when it is not in order', () => {
    const begun = answer(
      start({ ...options, sorting: 'ignored', largestAnswer: 0, largePageSize: 3 }),
      11,
      12,
      13,
    )
    const only = (...versions: number[]) => {
      const again = answer(answer(begun, ...versions), ...versions)
      return answer(again, versions[0] ?? 0)
    }
    expect(asked(only(11, 12, 13))).toMatchObject({ since: 12n, page: 1 })
    expect(only(13, 12, 11)).toMatchObject({
      action: { kind: 'end', isComplete: false, note: expect.stringContaining('the first page') },
      reading: { position: 10n },
    })
  })

  it('ends beyond what there was at some moment, when the source never rests', () => {
    let transition = start({ ...options, pageSize: 100, largePageSize: 1000, largestAnswer: 100 })
    let highest = 11
    let requests = 0
    while (transition.action.kind === 'ask' && requests < 100) {
      const { sorts, page: number } = transition.action.request
      const since = Number(transition.action.request.since)
      const above = Array.from({ length: highest - since }, (_, index) => since + 1 + index)
      if (sorts === 'descending') transition = answer(transition, highest)
      else transition = answer(transition, ...(number === 1 ? above : [highest]))
      highest += 1
      requests += 1
    }
    expect(requests).toBeLessThan(8)
    expect(transition.action).toMatchObject({
      isComplete: true,
      note: 'the source changes as fast as it is read',
    })
    expect(transition.reading.position).toBeGreaterThan(12n)
  })

  it('reads pages of the upstream’s own size where nothing sorts', () => {
    const begun = answer(start({ ...options, sorting: 'ignored' }), 11, 14, 12, 13, 15)
    expect(begun.reading.position).toBe(10n)
    expect(asked(begun)).toMatchObject({ since: 10n, page: 400_000_000, pageSize: 5 })
    expect(asked(answer(begun))).toMatchObject({ since: 10n, page: 2, pageSize: 5 })
  })

  it('takes a long answer for everything when it comes again far behind any end', () => {
    const begun = answer(start({ ...options, sorting: 'ignored' }), 11, 14, 12, 13)
    expect(answer(begun, 11, 14, 12, 13)).toMatchObject({
      action: { kind: 'end', isComplete: true },
      reading: { position: 14n },
      effects: { learnt: [{ name: 'paging', value: 'ignored' }] },
    })
  })

  it('learns which version was the highest when the first load began, and no later', () => {
    const ascending = Array.from({ length: 20 }, (_, index) => 11 + index)
    const prove = (given: Partial<ReadingOptions>) => {
      let transition = start({ ...options, ...given, sorting: 'unknown', pageSize: 20 })
      for (const versions of [ascending, [90], [11], ascending, [90]])
        transition = answer(transition, ...versions)
      return transition.effects.learnt.filter(({ name }) => name === 'first_top')
    }
    expect(prove({ from: 0n })).toMatchObject([{ value: '90' }])
    expect(prove({ from: 0n, until: 50n })).toEqual([])
    expect(prove({ from: 10n })).toEqual([])
  })
})

describe('the table', () => {
  it('names each rule of a state once', () => {
    for (const { name, rules } of declaredStates) {
      const names = rules.map((rule) => rule.name)
      expect(new Set(names).size, `${name}: ${names}`).toBe(names.length)
    }
  })

  it('leads into each state, and out of each that is no end', () => {
    const leadsTo = new Set<string>([
      'ahead',
      ...declaredStates.flatMap(({ rules }) => rules.map(({ to }) => to)),
    ])
    const named = declaredStates.flatMap(({ name }) => name ?? [])
    expect(named.filter((name) => !leadsTo.has(name))).toEqual([])
    const ends = declaredStates.filter(({ rules }) => rules.length === 0)
    expect(ends.map(({ name }) => name)).toEqual(['done', 'broken'])
  })

  it('takes nothing after the end, and no count that it has not asked for', () => {
    const over = answer(start(options))
    expect(() => answer(over)).toThrow('after the reading had ended')
    expect(() => next(start(options).reading, { kind: 'count', keys: 1 })).toThrow('nobody asked for')
  })
})
