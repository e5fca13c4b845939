// The stand-in's indexes against plain arrays, and its pages against whole lists.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { spanOf } from '../../src/simulator/lists.ts'
import { defineResources } from '../../src/simulator/resources.ts'
import { emptyRow, type Row } from '../../src/simulator/row.ts'
import { sortedRows } from '../../src/simulator/sorted-rows.ts'
import { openTable } from '../../src/simulator/table.ts'

const compare = (a: number, b: number) => a - b

describe('sortedRows', () => {
  it('is a sorted array in all it answers', () => {
    const operation = fc.record({ isAdd: fc.boolean(), item: fc.integer({ min: 0, max: 400 }) })
    fc.assert(
      fc.property(
        fc.array(operation, { maxLength: 300 }),
        fc.nat(400),
        fc.nat(300),
        (operations, probe, from) => {
          const model = new Set<number>()
          const rows = sortedRows(compare)
          for (const { isAdd, item } of operations) {
            if (isAdd) expect(rows.put(item)).toBe(model.has(item) ? item : undefined)
            if (!isAdd) expect(rows.remove(item)).toBe(model.has(item))
            if (isAdd) model.add(item)
            else model.delete(item)
          }
          const sorted = [...model].sort(compare)
          expect([...rows]).toEqual(sorted)
          expect(rows.size).toBe(sorted.length)
          expect(rows.rankOf(probe)).toBe(sorted.filter((item) => item < probe).length)
          expect(rows.find(probe)).toBe(model.has(probe) ? probe : undefined)
          expect(rows.slice(from, from + 7)).toEqual(sorted.slice(from, from + 7))
          expect(rows.at(from)).toBe(sorted[from])
        },
      ),
    )
  })

  it('keeps its order and its ranks beyond one chunk', () => {
    const items = Array.from({ length: 20_000 }, (_, index) => (index * 7_919) % 20_011)
    const rows = sortedRows(compare)
    for (const item of items) rows.put(item)
    for (const item of items) if (item % 3 === 0) rows.remove(item)
    const sorted = items.filter((item) => item % 3 !== 0).sort(compare)
    expect([...rows]).toEqual(sorted)
    for (const item of [0, 1, 5_000, 10_001, 19_999, 30_000])
      expect(rows.rankOf(item)).toBe(sorted.filter((other) => other < item).length)
    expect(rows.slice(5_000, 5_100)).toEqual(sorted.slice(5_000, 5_100))
    expect([...sortedRows(compare, sorted)]).toEqual(sorted)
  })
})

describe('a table', () => {
  const { assignment } = defineResources({ look: 'plain', seed: 1, assignments: 0 })
  const change = fc.record({
    id: fc.integer({ min: 1, max: 30 }),
    version: fc.bigInt({ min: 1n, max: 40n }),
    isDrop: fc.boolean(),
    externalId: fc.constantFrom(null, 'a', 'b'),
  })

  it('finds rows by id, external id and version whatever happened before', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 80 }), fc.bigInt({ min: 0n, max: 41n }), (changes, probe) => {
        const table = openTable(assignment)
        const model = new Map<number, Row>()
        for (const { id, version, isDrop, externalId } of changes) {
          const row = {
            ...emptyRow,
            id,
            version,
            own: { AssignmentIdExt: externalId && `${externalId}${id}` },
          }
          expect(isDrop ? table.drop(id) : table.put(row)).toBe(model.get(id))
          if (isDrop) model.delete(id)
          else model.set(id, row)
          table.findExternal('any')
        }
        const rows = [...model.values()]
        expect(table.byId.slice(0, 99).map(({ id }) => id)).toEqual(rows.map(({ id }) => id).sort(compare))
        expect(table.countBelow(probe)).toBe(rows.filter(({ version }) => version < probe).length)
        const versions = table.byVersion.slice(0, 99).map(({ version }) => version)
        expect(versions).toEqual([...versions].sort((a, b) => Number(a - b)))
        for (let id = 1; id <= 30; id++) {
          expect(table.find(id)).toBe(model.get(id))
          const named = model.get(id)?.own?.AssignmentIdExt
          for (const name of [`a${id}`, `b${id}`])
            expect(table.findExternal(name)).toBe(named === name ? model.get(id) : undefined)
        }
      }),
    )
  })
})

describe('pages', () => {
  const pages = (
    size: number,
    pageSize: number,
    pageCap: number | null,
    arithmetic: 'sieve' | 'clamped',
    asked: number,
  ) => {
    const behaviour = {
      pageCap,
      pageCapArithmetic: arithmetic,
      ownPageSize: null,
      defaultPageSize: 100,
      pagingIgnored: false,
    }
    const items = Array.from({ length: size }, (_, index) => index)
    return Array.from({ length: asked }, (_, index) => {
      const { from, to } = spanOf({ page: index + 1, pageSize }, behaviour)
      return items.slice(from, to)
    }).flat()
  }
  const counts = [
    fc.integer({ min: 0, max: 300 }),
    fc.integer({ min: 1, max: 50 }),
    fc.integer({ min: 1, max: 50 }),
  ] as const

  it('make the whole list when they are clamped, or when the asker pages by what it received', () => {
    fc.assert(
      fc.property(...counts, (size, pageSize, pageCap) => {
        const whole = Array.from({ length: size }, (_, index) => index)
        expect(pages(size, pageSize, pageCap, 'clamped', 301)).toEqual(whole)
        expect(pages(size, Math.min(pageSize, pageCap), pageCap, 'sieve', 301)).toEqual(whole)
      }),
    )
  })

  it('leave rows out with Sieve arithmetic when the asker pages by what it asked for', () => {
    expect(pages(30, 10, 4, 'sieve', 9)).toEqual([0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23])
  })
})
