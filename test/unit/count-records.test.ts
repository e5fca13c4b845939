import { describe, expect, it } from 'vitest'
import { countRecords } from '../../src/sync/lists/count-records.ts'
import { neverAborted } from '../support/context.ts'

type Kind = 'pages' | 'capped by 30' | 'own size 40' | 'too long' | 'no paging'

const limits: Readonly<Record<Kind, (pageSize: number) => number>> = {
  pages: (pageSize) => pageSize,
  'capped by 30': (pageSize) => Math.min(30, pageSize),
  'own size 40': () => 40,
  'too long': () => 1_000,
  'no paging': () => Number.POSITIVE_INFINITY,
}

async function counted(records: number, kind: Kind = 'pages', listHasPages = true) {
  let served = 0
  const found = await countRecords(
    {
      listHasPages,
      async list({ page, pageSize }) {
        const most = limits[kind](pageSize)
        const skipped = kind === 'no paging' ? 0 : (page - 1) * (kind === 'own size 40' ? 40 : pageSize)
        const length = Math.max(0, Math.min(most, records - skipped))
        served += length
        return { records: Array.from({ length }, (_, index) => ({ id: skipped + index })), bytes: 1 }
      },
    },
    neverAborted,
  )
  return found && { ...found, served }
}

describe('counting the records of a list', () => {
  it.each([0, 1, 29, 30, 31, 99, 100, 101, 200, 399, 400, 6_000, 60_005, 120_004, 1_000_000])(
    'finds %d, whatever the pages are like',
    async (records) => {
      for (const kind of ['pages', 'capped by 30', 'own size 40'] as const)
        expect((await counted(records, kind))?.records, kind).toBe(records)
    },
  )

  it('takes a few small requests', async () => {
    const found = await counted(60_005)
    expect(found?.requests).toBeLessThanOrEqual(20)
    expect(found?.served).toBeLessThanOrEqual(1_500)
    expect((await counted(1_000_000))?.requests).toBeLessThanOrEqual(26)
  })

  it('believes no list that serves more than was asked for, or the same on every page, or knows no pages', async () => {
    expect(await counted(5_000, 'too long')).toBeNull()
    expect(await counted(5_000, 'no paging')).toBeNull()
    expect(await counted(80, 'no paging')).toBeNull()
    expect(await counted(5_000, 'pages', false)).toBeNull()
  })
})
