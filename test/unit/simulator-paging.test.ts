// The arithmetic of pages, oddities included: readers that page by the size they asked for lose rows on purpose here.

import { describe, expect, it } from 'vitest'
import { type PagingBehaviour, spanOf } from '../../src/simulator/lists.ts'

const plain: PagingBehaviour = {
  pageCap: null,
  pageCapArithmetic: 'sieve',
  ownPageSize: null,
  defaultPageSize: 100,
  pagingIgnored: false,
}

describe('spanOf', () => {
  it('takes the page that was asked for', () => {
    expect(spanOf({ page: 3, pageSize: 10 }, plain)).toEqual({ from: 20, to: 30 })
    expect(spanOf({ page: null, pageSize: 10 }, plain)).toEqual({ from: 0, to: 10 })
  })

  it('takes the default page size when none is asked for, or everything', () => {
    expect(spanOf({ page: 2, pageSize: null }, plain)).toEqual({ from: 100, to: 200 })
    expect(spanOf({ page: 2, pageSize: null }, { ...plain, defaultPageSize: null }).to).toBe(
      Number.POSITIVE_INFINITY,
    )
  })

  it('with Sieve arithmetic skips by the requested size and takes the capped one', () => {
    expect(spanOf({ page: 2, pageSize: 1000 }, { ...plain, pageCap: 100 })).toEqual({ from: 1000, to: 1100 })
  })

  it('clamped skips and takes the capped size', () => {
    const clamped = { ...plain, pageCap: 100, pageCapArithmetic: 'clamped' as const }
    expect(spanOf({ page: 2, pageSize: 1000 }, clamped)).toEqual({ from: 100, to: 200 })
    expect(spanOf({ page: 2, pageSize: 50 }, clamped)).toEqual({ from: 50, to: 100 })
  })

  it('has pages of its own size when told to', () => {
    const own = { ...plain, ownPageSize: 250, pageCap: 100 }
    expect(spanOf({ page: 2, pageSize: 10 }, own)).toEqual({ from: 250, to: 500 })
    expect(spanOf({ page: 2, pageSize: 1000 }, own)).toEqual({ from: 250, to: 500 })
  })

  it('ignores paging when told to', () => {
    expect(spanOf({ page: 7, pageSize: 10 }, { ...plain, pagingIgnored: true })).toEqual({
      from: 0,
      to: Number.POSITIVE_INFINITY,
    })
  })
})
