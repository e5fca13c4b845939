// The count that proves a listing complete, page by page (P6, P7).

import { describe, expect, it } from 'vitest'
import { fingerprint } from '../../src/streams/record.ts'
import {
  beginListing,
  continueListing,
  type ListingMove,
  nextPass,
  sawCount,
  sawPage,
  seenPage,
} from '../../src/sync/lists/listing.ts'

const page = (...keys: string[]) => ({
  received: keys.length,
  rows: keys.map((key) => ({ key, version: BigInt(key) })),
})

/** Feeds pages to a listing, counting what it would have seen around a page, and goes on after each pass. */
function read(pages: readonly (readonly string[])[], askedSize = 2, total: number | null = null) {
  let move: ListingMove = beginListing({ askedSize, maxPasses: 3, ceiling: null })
  const seen = new Map<string, { first: number; last: number }>()
  const asked: string[] = []
  const left = [...pages]
  for (;;) {
    const { listing, step } = move
    if (step.kind === 'count') {
      const around = [...seen.values()].filter(
        ({ first, last }) => first <= step.around && last > step.around,
      ).length
      move = sawCount(listing, around)
    } else if (step.kind === 'passed') move = nextPass(listing)
    else if (step.kind === 'page') {
      const keys = left.shift()
      if (!keys) return { step, asked }
      asked.push(`${step.page}/${step.pageSize}`)
      for (const key of keys)
        seen.set(key, { first: seen.get(key)?.first ?? listing.pageNumber, last: listing.pageNumber })
      move = sawPage(listing, { ...page(...keys), total })
    } else return { step, asked }
  }
}

const two = [['1', '2'], ['3', '4'], []] as const

describe('a listing', () => {
  it('is complete when a second pass shows all rows that the first counted', () => {
    expect(read([...two, ...two]).step).toMatchObject({ kind: 'complete', highest: 4n })
  })

  it('is not complete when it ends behind a full page, and the upstream says that there are many more', () => {
    const passes = [...two, ...two, ...two]
    expect(read(passes, 2, 4).step).toMatchObject({ kind: 'complete' })
    expect(read(passes, 2, 7).step).toMatchObject({ kind: 'uncertain' })
    // It may count a record that the user may not see.
    expect(read(passes, 2, 5).step).toMatchObject({ kind: 'complete' })
    const short = [['1', '2'], ['3'], [], []] as const
    expect(read([...short, ...short], 2, 7).step).toMatchObject({ kind: 'complete' })
  })

  it('is not complete when a row slipped onto a page that was read already', () => {
    // 1 was deleted between the first two pages, so that 3 moved to page 1 and was never shown.
    expect(read([['1', '2'], ['4'], [], [], ['2', '3'], ['4'], [], []]).step).toMatchObject({
      kind: 'page',
      page: 1,
    })
  })

  it('counts rows that came between a page that was not full and the one after it', () => {
    const grown = [['1', '2'], ['3'], ['6'], [], [], []] as const
    // What took the places behind 3 was not shown; that all that was shown comes again is no proof.
    expect(read([...grown, ['1', '2'], ['3', '6'], [], []]).step).toMatchObject({
      kind: 'page',
      page: 1,
    })
  })

  it('asks on behind an empty page where pages were not full', () => {
    expect(read([['1', '2'], ['3'], ['6'], [], [], ['7'], [], [], []]).asked).toEqual([
      '1/2',
      '2/2',
      '3/2',
      '4/2',
      '6/1',
      '5/2',
      '6/2',
      '10/1',
      '7/2',
    ])
  })

  it('is complete when there is nothing', () => {
    expect(read([[]]).step).toMatchObject({ kind: 'complete', highest: null })
  })

  it('goes on by the size received, not by the size asked for (Sieve skips by the latter)', () => {
    expect(read([['1', '2'], ['3']], 10).asked).toEqual(['1/10', '2/2'])
  })

  it('takes a long answer for everything there is when the same comes far behind any end', () => {
    const { step, asked } = read([
      ['1', '2', '3'],
      ['1', '2', '3'],
    ])
    expect(asked).toEqual(['1/2', '666666666/3'])
    expect(step).toEqual({ kind: 'complete', highest: 3n, ignoresPaging: true })
  })

  it('goes on behind a long answer when nothing is far behind it: pages have a size of their own', () => {
    const own = [['1', '2', '3'], [], ['4'], [], []] as const
    const { step, asked } = read([...own, ...own])
    expect(asked.slice(0, 4)).toEqual(['1/2', '666666666/3', '2/3', '3/3'])
    expect(step).toMatchObject({ kind: 'complete', highest: 4n, ignoresPaging: false })
  })

  it('is proven by later passes although a row came in between two pages of the first', () => {
    // 1 was deleted then.
    const first = [['1', '2'], ['3'], ['5'], [], [], []] as const
    const later = [['2', '3'], ['4', '5'], [], []] as const
    expect(read([...first, ...later, ...later, ...later]).step).toMatchObject({ kind: 'complete' })
  })

  it('compares no passes whose pages were now so long, now so: one may have counted too few', () => {
    // 5 is on no page: the first page holds three or two of what is there, and the second goes on behind them.
    const long = [['1', '2', '3'], ['4'], [], []] as const
    const short = [['1', '2'], ['3', '6'], ['4'], [], []] as const
    expect(read([...long, ...short, ...long], 4).step).toMatchObject({ kind: 'uncertain' })
    expect(read([...long, ...long], 4).step).toMatchObject({ kind: 'complete' })
  })

  it('goes on from a first page that is there already as if it had asked for it', () => {
    for (const keys of [['1'], ['1', '2'], ['1', '2', '3']]) {
      const { listing } = beginListing({ askedSize: 2, maxPasses: 3, ceiling: null })
      expect(continueListing({ askedSize: 2, maxPasses: 3 }, page(...keys))).toEqual(
        sawPage(listing, page(...keys)),
      )
    }
  })

  it('takes one answer for everything where a list knows no pages', () => {
    const { listing } = beginListing({ askedSize: 2, hasPages: false, maxPasses: 3, ceiling: null })
    expect(sawPage(listing, page('1', '2', '3')).step).toMatchObject({ kind: 'complete', highest: 3n })
    expect(sawPage(listing, page()).step).toMatchObject({ kind: 'complete', highest: null })
  })

  it('asks far behind the end when a page comes again, and ends the pass when that comes too', () => {
    const repeating = [['1', '2'], ['1', '2'], ['2']] as const
    const { step, asked } = read([...repeating, ...repeating])
    expect(asked[2]).toBe('2000000000/1')
    expect(step).toMatchObject({ kind: 'complete', highest: 2n })
  })

  it('looks behind a last page that was not full, and believes no count when something is there', () => {
    const cut = [['1', '2', '3'], ['4'], [], ['5'], []] as const
    const { step, asked } = read([...cut, ...cut], 3)
    expect(asked.slice(0, 5)).toEqual(['1/3', '2/3', '3/3', '5/1', '4/3'])
    expect(step).toMatchObject({ kind: 'page', page: 1 })
  })

  it('believes no count where a page is longer than the first, from which something was left out then', () => {
    const pass = [['1', '2'], ['3', '4', '5'], ['6'], [], [], []] as const
    expect(read([...pass, ...pass, ...pass], 3).step).toMatchObject({ kind: 'uncertain' })
  })

  it('does not take the first page for the last where it comes whichever is asked for', () => {
    const { step, asked } = read([['1', '2'], ['1', '2'], ['1'], ['1']])
    expect(step).toMatchObject({ kind: 'only page', page: { received: 2 } })
    expect(asked[3]).toBe('2/1')
    // The second page looked like the first because rows had moved, and far behind the end the list begins anew.
    expect(read([['1', '2'], ['1', '2'], ['1'], ['2']]).step).toMatchObject({ kind: 'page', page: 1 })
  })

  it('counts what cannot be a row, so that one seen twice hides no row', () => {
    const record = { Id: 1, RowVersion: null }
    expect(seenPage(1, { rows: [], rejected: [{ record, reason: 'no version' }] }).rows).toEqual([
      { key: fingerprint(record), version: null },
    ])
  })

  it('goes on when a page came again only because rows had moved', () => {
    expect(read([['1', '2'], ['1', '2'], [], ['3']]).asked).toEqual(['1/2', '2/2', '2000000000/1', '3/2'])
  })

  it('gives up after its passes, and is not fooled by empty ones', () => {
    expect(read([['1', '2'], [], [], []]).step).toEqual({ kind: 'uncertain', passes: 3 })
  })
})
