// Single transitions about what to ask next and how far the position may move (P6).

import { describe, expect, it } from 'vitest'
import { declaredStates, next, start } from '../../src/sync/changes/machine.ts'
import type { RangesEnd, ReadingOptions, Transition } from '../../src/sync/changes/state.ts'
import type { SeenPage } from '../../src/sync/lists/listing.ts'
import type { Unread } from '../../src/sync/ports/store.ts'

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
  rows: versions.map((version, index) => ({
    key: `${version}-${versions.slice(0, index).filter((before) => before === version).length}`,
    version: BigInt(version),
  })),
})
const see = ({ reading }: Transition, seen: SeenPage) => next(reading, { kind: 'answer', page: seen })
const answer = (before: Transition, ...versions: number[]) => see(before, page(...versions))
const refuse = ({ reading }: Transition) => next(reading, { kind: 'refused', status: 400 })
const asked = ({ action }: Transition) => (action.kind === 'ask' ? action.request : action)

describe('reading changes', () => {
  it('asks a poll from the newest down to what is read: one request while nothing is new, or little (P12)', () => {
    const poll = start({ ...options, anchor: { key: '10-0', version: 10n }, largestAnswer: 4, pageSize: 4 })
    expect(asked(poll)).toEqual({ since: 9n, page: 1, pageSize: 4, sorts: 'descending' })
    expect(answer(poll, 10)).toMatchObject({
      action: { kind: 'end', isComplete: true },
      effects: { isLeftOut: true },
      reading: { position: 10n },
    })
    expect(answer(poll, 14, 12, 10)).toMatchObject({
      action: { kind: 'end', isComplete: true },
      effects: { isLeftOut: false },
      reading: { position: 14n },
    })
    // More than it shows: read from below, as far as the newest that was shown.
    const more = answer(poll, 17, 16, 15, 14)
    expect(asked(more)).toMatchObject({ since: 9n, sorts: 'ascending' })
    const low = answer(more, 10, 11, 12, 13)
    expect(answer(low, 13, 14, 15, 18)).toMatchObject({ action: { kind: 'end', isComplete: true } })
    expect(answer(poll, 12, 14, 10)).toMatchObject({
      effects: { retreat: expect.stringContaining('14 behind 12') },
    })
  })

  it('ends without a record only where nothing is known', () => {
    const first = start(options)
    expect(asked(first)).toEqual({ since: 10n, page: 1, pageSize: 3, sorts: 'ascending' })
    expect(answer(first)).toMatchObject({
      action: { kind: 'end', isComplete: true },
      reading: { position: 10n },
    })
    const never = answer(start({ ...options, from: 0n, sorting: 'unknown' }))
    expect(asked(never)).toMatchObject({ since: 0n, sorts: 'descending' })
    expect(answer(never)).toMatchObject({ action: { kind: 'end', isComplete: true } })
    expect(answer(never, 7).reading.state.name).toBe('proof')
  })

  it('proves nothing by an answer without what is known, unless that is gone or was changed (P11)', () => {
    const anchor = { key: '10-0', version: 10n }
    const other = { key: '8-0', version: 8n }
    type Found = bigint | 'gone' | 'unclear'
    const look = ({ reading }: Transition, found: Found, another: typeof anchor | null = other) =>
      next(reading, { kind: 'looked', found, next: another })
    const poll = start({ ...options, anchor })
    const isLacking = { action: { kind: 'look', anchor }, reading: { position: 10n } }
    expect(answer(poll, 12, 11)).toMatchObject(isLacking)
    // Perhaps the newest are hidden: what does it show from below?
    const first = answer(poll)
    expect(asked(first)).toMatchObject({ since: 9n, page: 1, sorts: 'ascending' })
    const lacking = answer(first)
    for (const without of [lacking, answer(first, 11, 12), answer(first, 11, 12, 13)])
      expect(without).toMatchObject(isLacking)
    expect(answer(poll, 10).action).toMatchObject({ kind: 'end', isComplete: true, isInconclusive: false })

    const inconclusive = { kind: 'end', isComplete: false, isInconclusive: true }
    expect(look(lacking, 'unclear', null).action).toMatchObject(inconclusive)
    expect(look(lacking, 9n).action).toMatchObject(inconclusive)
    const again = look(lacking, 10n)
    expect(asked(again)).toMatchObject({ since: 9n, page: 1 })
    expect(look(answer(again), 10n, null).action).toMatchObject(inconclusive)
    expect(asked(look(lacking, 14n))).toMatchObject({ since: 10n, page: 1 })
    const below = look(lacking, 'gone')
    expect(asked(below)).toMatchObject({ since: 7n, page: 1 })
    const shown = answer(below, 8)
    expect(asked(shown)).toMatchObject({ since: 7n, sorts: 'descending' })
    expect(answer(shown, 8).action).toMatchObject({ kind: 'end', isComplete: true, isInconclusive: false })
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
    const { action, reading } = answer(answer(other, 8, 11), 11, 8)
    expect(action).toMatchObject({ kind: 'end', isComplete: false, isInconclusive: false })
    expect(action).toMatchObject({ note: expect.stringContaining('record 10-0 is there') })
    expect(reading.position).toBe(11n)
    const neither = next(answer(other, 11).reading, { kind: 'looked', found: 'unclear', next: null })
    expect(neither.action).toMatchObject({ kind: 'end', isInconclusive: true })
  })

  it('holds the last version of a page back until the newest is one that is read', () => {
    const second = answer(start(options), 11, 12, 13)
    expect(second.reading.position).toBe(12n)
    expect(asked(second)).toMatchObject({ since: 12n, page: 1 })
    const third = answer(second, 13)
    expect(third.reading.position).toBe(12n)
    expect(asked(third)).toMatchObject({ since: 12n, sorts: 'descending' })
    expect(answer(third, 13)).toMatchObject({
      action: { kind: 'end', isComplete: true },
      reading: { position: 13n },
    })
  })

  it('believes one empty answer only where a known record has to show up, or the newest are asked for next (P11, P18)', () => {
    const anchor = { key: '10-0', version: 10n }
    const poll = start(options)
    const range = start({ ...options, until: 13n })
    for (const sorting of ['proven', 'refused'] as const)
      expect(start({ ...options, sorting, anchor }).action).toMatchObject({ mayBeNothing: true })
    for (const { action } of [poll, range, answer(poll, 11, 12, 13), answer(poll, 11, 12)])
      expect(action).toMatchObject({ mayBeNothing: false })
    // Nothing sorts, and the known record fills the page: what is behind it is the only question that is left.
    const unsorted = start({ ...options, sorting: 'ignored', anchor, pageSize: 1, largestAnswer: 1 })
    const behind = answer(unsorted, 10)
    expect(asked(behind)).toMatchObject({ since: 10n })
    expect(behind.action).toMatchObject({ mayBeNothing: false })
  })

  it('reads in ranges where much is above, when sorting is proven, and asks once how much that is', () => {
    const load = { readers: 4, leastPages: 10, unread: null }
    const page = [11, 12, 13, 14, 15, 16]
    const began = start({ ...options, from: 0n, pageSize: 6, load })
    expect(asked(began)).toEqual({ since: 0n, page: 1, pageSize: 6, sorts: 'descending' })
    // That there is nothing at all would end it.
    expect(began.action).toMatchObject({ mayBeNothing: false })
    const far = answer(began, 1000, 999, 998, 997, 996, 995)
    expect(asked(far)).toMatchObject({ since: 0n, page: 1, sorts: 'ascending' })
    const look = answer(far, ...page)
    expect(look.reading.state.name).toBe('longer-versions')
    const ranges = answer(look, 1000)
    const wanted = { upTo: 999n, ranges: [{ above: 15n, upTo: 999n }] }
    expect(ranges.action).toMatchObject({ kind: 'ranges', unread: wanted })
    expect(ranges.effects.detected).toMatchObject([{ name: 'first_top', value: '1000' }])
    // A range that somebody asked for has an end of its own.
    expect(answer(start({ ...options, pageSize: 6, load, until: 500n }), ...page).action).toMatchObject({
      kind: 'ranges',
      unread: { upTo: 500n },
    })
    for (const others of [{ sorting: 'ignored' }, { load: { ...load, readers: 1 } }] as const)
      expect(answer(start({ ...options, pageSize: 6, load, ...others }), ...page).action).not.toMatchObject({
        request: { sorts: 'descending' },
      })

    const come = (unread: Unread, fell: RangesEnd['fell'] = null) =>
      next(ranges.reading, { kind: 'ranges', unread, fell })
    const all = come({ upTo: 999n, ranges: [] })
    expect(all.reading.position).toBe(999n)
    expect(asked(all)).toMatchObject({ since: 999n })

    const left = come({
      upTo: 999n,
      ranges: [
        { above: 50n, upTo: 60n },
        { above: 80n, upTo: 90n },
      ],
    })
    expect(left.reading.position).toBe(50n)
    expect(asked(left)).toMatchObject({ since: 50n })
    expect(asked(answer(left, 51, 52, 53, 54, 55, 56))).toMatchObject({ since: 55n })
    expect(answer(left, 51, 52, 53, 54, 55, 70).action).toMatchObject({
      kind: 'ranges',
      unread: { upTo: 999n, ranges: [{ above: 80n, upTo: 90n }] },
    })
  })

  it('gives up ranges when one shows that nothing is sorted, and goes back to where the run began', () => {
    const load = { readers: 4, leastPages: 0, unread: null }
    const ranges = answer(start({ ...options, pageSize: 4, load, until: 999n }), 11, 12, 13, 14)
    const unread = { upTo: 999n, ranges: [{ above: 500n, upTo: 600n }] }
    const fallen = next(ranges.reading, {
      kind: 'ranges',
      unread,
      fell: { how: 'out of order', why: '7 behind 8' },
    })
    expect(fallen.reading).toMatchObject({ position: 10n, sorting: 'ignored', unread: null })
    expect(fallen.effects).toMatchObject({ retreat: '7 behind 8', detected: [{ value: 'ignored' }] })
    const refused = next(ranges.reading, {
      kind: 'ranges',
      unread,
      fell: { how: 'refused', why: 'status 400' },
    })
    expect(refused.reading).toMatchObject({ position: 500n, sorting: 'refused', unread: null })
  })

  it('goes on with what an earlier run left, also with one reader, and never below what the page shows', () => {
    const unread = {
      upTo: 999n,
      ranges: [
        { above: 10n, upTo: 60n },
        { above: 80n, upTo: 90n },
      ],
    }
    const load = { readers: 1, leastPages: 10, unread }
    expect(answer(start({ ...options, load }), 11, 12, 20).action).toMatchObject({
      kind: 'ranges',
      unread: {
        upTo: 999n,
        ranges: [
          { above: 19n, upTo: 60n },
          { above: 80n, upTo: 90n },
        ],
      },
    })
    expect(answer(start({ ...options, load }), 11, 12, 95).action).toMatchObject({
      kind: 'ranges',
      unread: { upTo: 999n, ranges: [] },
    })
    const passed = { ...load, unread: { ...unread, upTo: 90n } }
    expect(asked(answer(start({ ...options, load: passed }), 11, 12, 95))).toMatchObject({ since: 94n })
  })

  it('takes a short page for the end only when the newest is on it, or all above it is shown (P12)', () => {
    const short = answer(start(options), 11, 12)
    expect(short.reading.position).toBe(11n)
    expect(asked(short)).toEqual({ since: 10n, page: 1, pageSize: 3, sorts: 'descending' })
    const done = { action: { kind: 'end', isComplete: true } }
    expect(answer(short, 12, 11)).toMatchObject({ ...done, reading: { position: 12n } })
    const on = answer(short, 19, 18, 17)
    expect(asked(on)).toMatchObject({ since: 11n, sorts: 'ascending' })
    expect(on.reading.position).toBe(11n)
  })

  it('looks for more rows of the newest version, which may be behind the page (P12)', () => {
    const wide = { ...options, pageSize: 4, largestAnswer: 4 }
    const short = answer(start(wide), 11, 12, 12)
    const more = answer(short, 12, 12, 12, 12)
    expect(more.reading.position).toBe(11n)
    expect(asked(more)).toMatchObject({ since: 11n, pageSize: 30, sorts: 'ascending' })
    const larger = answer(more, 12, 12, 12)
    expect(asked(larger)).toMatchObject({ pageSize: 30, sorts: 'descending' })
    expect(answer(larger, 12, 12, 12).reading.state.name).toBe('one-version')
  })

  it('goes on where rights hide a whole page, and leaves the position before it (P6, P12)', () => {
    const long = { ...options, pageSize: 4, largestAnswer: 4 }
    const short = answer(start(long), 11, 12)
    const on = answer(short, 40, 39, 38)
    const hidden = answer(on, 12)
    // Four records or more begin above 11, unless the cap has shrunk: the position waits below what was not shown.
    expect(hidden.reading.position).toBeLessThan(13n)
    expect(asked(hidden)).toMatchObject({ since: 14n, sorts: 'ascending' })
    expect(asked(answer(hidden))).toMatchObject({ since: 17n })
    const ties = answer(answer(answer(start(long), 11, 11), 40, 39, 38), 11)
    expect(ties.reading.state.name).toBe('passes')
    let blind = hidden
    for (let step = 0; step < 60 && blind.action.kind === 'ask'; step++)
      blind = answer({ ...blind, reading: { ...blind.reading, goal: 4000n } })
    expect(blind.action).toMatchObject({
      kind: 'end',
      isComplete: false,
      note: expect.stringContaining('may not see'),
    })
  })

  it('says that the newest are never shown, rather than to ask for ever (P12)', () => {
    let hidden = answer(start(options), 11, 12)
    const pages: unknown[] = []
    while (hidden.action.kind === 'ask' && pages.length < 20) {
      pages.push(hidden.action.request.page)
      hidden = answer(hidden)
    }
    expect(pages).toEqual([1, 2, 3, 4, 5])
    expect(hidden.action).toMatchObject({
      isComplete: false,
      note: expect.stringContaining('15 newest records'),
    })
    expect(hidden.reading.position).toBe(11n)
  })

  it('asks a full page again from its middle, and reads in small ranges where the page lacked rows', () => {
    const ten = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
    const wide = { ...options, pageSize: 10, largestAnswer: 10 }
    const inside = answer(start(wide), ...ten)
    expect(asked(inside)).toMatchObject({ since: 16n, sorts: 'ascending' })
    expect(asked(answer(inside, 17, 18, 19, 20, 21))).toMatchObject({ since: 19n })
    const odd = {
      received: 3,
      rows: ['17-0', 'other', '20-0'].map((key, index) => ({ key, version: [17n, 18n, 20n][index] ?? 0n })),
    }
    const again = see(inside, odd)
    expect(asked(again)).toMatchObject({ since: 10n })
    // It is there now: it came late.
    expect(
      asked(
        see(again, {
          received: 2,
          rows: [
            { key: 'other', version: 18n },
            { key: '20-0', version: 20n },
          ],
        }),
      ),
    ).toMatchObject({ since: 10n })
    const cut = see(answer(again, ...ten), odd)
    expect(cut).toMatchObject({
      effects: {
        retreat: expect.stringContaining('without record other'),
        detected: [{ name: 'sorted_before_cut', value: 'no' }],
      },
      reading: { position: 10n, cutsBeforeSort: true },
    })
    const narrow = answer(cut, ...ten)
    expect(asked(narrow)).toMatchObject({ since: 10n, below: 16n })
    const whole = answer(narrow, 11, 12, 14)
    expect(whole.reading.position).toBe(15n)
    expect(asked(whole)).toMatchObject({ since: 15n })
    expect(answer(whole, 17, 18, 19, 20)).toMatchObject({
      action: { kind: 'end', isComplete: true },
      reading: { position: 20n },
    })
    expect(answer(narrow, 11, 17).action).toMatchObject({
      isComplete: false,
      note: expect.stringContaining('not heeded'),
    })
  })

  it('asks of a long page only the last hundred records again, and as many behind them', () => {
    const page = Array.from({ length: 1_000 }, (_, index) => 1_001 + index)
    const long = { pageSize: 1_000, largePageSize: 1_000, largestAnswer: 1_000, from: 1_000n }
    const inside = answer(start({ ...options, ...long }), ...page)
    expect(asked(inside)).toMatchObject({ since: 1_901n, pageSize: 200 })
    const lacked = { received: 1, rows: [{ key: 'other', version: 1_950n }] }
    expect(asked(see(inside, lacked))).toMatchObject({ since: 1_000n, pageSize: 1_000 })
  })

  it('does not take one empty answer for an empty upstream where nothing sorts (P11, P18)', () => {
    const begun = start({ ...options, from: 0n, sorting: 'refused' })
    expect(begun.action).toMatchObject({ kind: 'ask', mayBeNothing: false })
  })

  it('takes no full page for all there is where answers are cut before they are sorted (P6, P18)', () => {
    const begun = start({ ...options, pageSize: 10, largestAnswer: 40, cutsBeforeSort: true })
    const versions = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
    expect(asked(answer(begun, ...versions))).toMatchObject({ since: 10n, below: 16n })
    expect(answer(begun, ...versions.slice(0, 9)).action).toMatchObject({ kind: 'end', isComplete: true })
  })

  it('takes a short page of old rows for no end of a range', () => {
    expect(asked(answer(start({ ...options, until: 13n }), 10))).toMatchObject({ since: 11n })
  })

  it('takes a short page that holds nothing but what cannot be a row for no end', () => {
    const rejected = { received: 1, rows: [{ key: 'of its content', version: null }] }
    const behind = see(start(options), rejected)
    expect(asked(behind)).toMatchObject({ page: 2, pageSize: 1 })
    expect(behind.reading.state.name).toBe('passes')
  })

  it('asks for a larger page when one version fills it', () => {
    const second = answer(start(options), 11, 11, 11)
    expect(second.reading.position).toBe(10n)
    expect(asked(second)).toMatchObject({ since: 10n, pageSize: 30 })
    expect(answer(second, 11, 11, 11, 11, 12).reading.position).toBe(11n)
  })

  it('looks past an old tie that fills the page', () => {
    const range = { ...options, until: 13n }
    expect(asked(answer(start(range), 10, 10, 10))).toMatchObject({ since: 11n, page: 1 })
  })

  it('takes the proof back when a page is out of order, and returns to where the run began', () => {
    const second = answer(start(options), 11, 12, 13)
    const back = answer(second, 13, 20, 14)
    expect(back.effects.retreat).toEqual(expect.stringContaining('14 behind 20'))
    expect(back.reading).toMatchObject({ position: 10n, sorting: 'ignored' })
    expect(back.effects.detected).toMatchObject([{ name: 'sorting', value: 'ignored' }])
    expect(asked(back)).toEqual({ since: 10n, page: 1, pageSize: 30, sorts: 'ascending' })
  })

  it('never sends Sorts again once it was refused', () => {
    const refused = refuse(start({ ...options, sorting: 'unknown' }))
    expect(asked(refused)).toMatchObject({ sorts: null })
    expect(asked(answer(refused, 11, 12, 13))).toMatchObject({ sorts: null })
    // What is known still has to be in the answer (P11).
    const known = start({ ...options, sorting: 'unknown', anchor: { key: '10-0', version: 10n } })
    expect(asked(refuse(known))).toMatchObject({ since: 9n, sorts: null })
  })

  it('believes nothing of the listing of a version in which Sorts was refused', () => {
    const one = start({ ...options, largePageSize: 3 })
    const tie = answer(answer(one, 11, 11, 11), 11, 11, 11)
    expect(tie.reading.state).toMatchObject({ name: 'one-version', listing: { ceiling: 11n } })
    const refused = refuse(tie)
    expect(refused.reading).toMatchObject({ state: { name: 'next-page' }, position: 10n, sorting: 'refused' })
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
      return answer(answer(again, versions[0] ?? 0), versions[0] ?? 0)
    }
    expect(asked(only(11, 12, 13))).toMatchObject({ since: 12n, page: 1 })
    expect(only(13, 12, 11)).toMatchObject({
      action: { kind: 'end', isComplete: false, note: expect.stringContaining('the first page') },
      reading: { position: 10n },
    })
  })

  it('ends beyond what there was when it began, when the source never rests', () => {
    let transition = start({
      ...options,
      pageSize: 10,
      largestAnswer: 10,
      anchor: { key: '10-0', version: 10n },
    })
    let highest = 30
    let requests = 0
    while (transition.action.kind === 'ask' && requests < 100) {
      const { sorts, since } = transition.action.request
      const above = Array.from({ length: highest - Number(since) }, (_, index) => Number(since) + 1 + index)
      transition = answer(transition, ...(sorts === 'descending' ? above.reverse() : above).slice(0, 10))
      highest += 5
      requests += 1
    }
    expect(requests).toBeLessThan(8)
    expect(transition.action).toMatchObject({ isComplete: true, note: null })
    expect(transition.reading.position).toBeGreaterThanOrEqual(30n)
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
      effects: { detected: [{ name: 'paging', value: 'ignored' }] },
    })
  })

  it('learns which version was the highest when the first load began, and no later', () => {
    const ascending = Array.from({ length: 20 }, (_, index) => 11 + index)
    const prove = (given: Partial<ReadingOptions>) => {
      let transition = start({ ...options, ...given, sorting: 'unknown', pageSize: 20 })
      for (const versions of [ascending, [90], [11], ascending, [90]])
        transition = answer(transition, ...versions)
      return transition.effects.detected.filter(({ name }) => name === 'first_top')
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
      'next-page',
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
