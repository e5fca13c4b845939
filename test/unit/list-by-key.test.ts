// Listing by key against lists that are capped, hide rows, change meanwhile, or do not honour what they are asked.

import { describe, expect, it } from 'vitest'
import { KeyOrderBroken, listByKey, proveKeyOrder } from '../../src/sync/lists/by-key.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, index) => BigInt(index + 1))

type Options = {
  readonly cap?: number
  readonly isHidden?: (key: bigint) => boolean
  readonly ignores?: 'filters' | 'sorts'
  readonly cutBeforeSort?: number
}

function list(
  keys: Set<bigint>,
  { cap = 1_000, isHidden = () => false, ignores, cutBeforeSort }: Options = {},
) {
  let requests = 0
  const sorted = () => [...keys].sort((a, b) => (a < b ? -1 : 1))
  return {
    requests: () => requests,
    pageSize: 100,
    async ask({ after, page, pageSize }: { after: bigint | null; page: number; pageSize: number }) {
      requests += 1
      let found = sorted().filter((key) => after === null || ignores === 'filters' || key > after)
      if (cutBeforeSort) found = found.slice(0, cutBeforeSort)
      if (ignores === 'sorts') found.reverse()
      const served = found.slice((page - 1) * pageSize, (page - 1) * pageSize + Math.min(cap, pageSize))
      const shown = served.filter((key) => !isHidden(key))
      return { received: shown.length, keys: shown, records: [] }
    },
    async askFromEnd(pageSize: number) {
      requests += 1
      const shown = sorted().filter((key) => !isHidden(key))
      return (ignores === 'sorts' ? shown : shown.toReversed()).slice(0, pageSize)
    },
    async askHighest() {
      requests += 1
      return (
        sorted()
          .filter((key) => !isHidden(key))
          .at(-1) ?? null
      )
    },
  }
}

async function everything(
  listing: ReturnType<typeof list>,
  onPage: (keys: readonly bigint[]) => void = () => {},
) {
  const keys: bigint[] = []
  const pages = listByKey(listing)
  for (;;) {
    const next = await pages.next()
    if (next.done) return { keys, ...next.value }
    keys.push(...next.value.keys)
    onPage(next.value.keys)
  }
}

describe('listing by key', () => {
  it('shows everything once, whatever the cap', async () => {
    for (const cap of [7, 100, 1_000]) {
      const { keys, isWhole } = await everything(list(new Set(numbers(950)), { cap }))
      expect(keys).toEqual(numbers(950))
      expect(isWhole).toBe(true)
    }
  })

  it('skips nothing behind pages that are cut and hidden whole, wherever they stand (P13)', async () => {
    for (const from of [0n, 31n, 500n]) {
      const isHidden = (key: bigint) => key > from && key <= from + 25n
      const { keys, isWhole } = await everything(list(new Set(numbers(950)), { cap: 10, isHidden }))
      expect(keys).toEqual(numbers(950).filter((key) => !isHidden(key)))
      expect(isWhole).toBe(true)
    }
  })

  it('is not whole when the list says that its highest key is one below others that it showed, and is when those went', async () => {
    const ofLowest = { ...list(new Set(numbers(300))), askHighest: async () => 120n }
    expect(await everything(ofLowest)).toEqual({ keys: numbers(300), isWhole: false })
    const keys = new Set(numbers(300))
    const last = await everything(list(keys), (page) => page.includes(300n) && keys.delete(300n))
    expect(last).toEqual({ keys: numbers(300), isWhole: true })
  })

  it('shows every record that stays, while others come and go', async () => {
    const there = new Set(numbers(950))
    const { keys } = await everything(list(there), (shown) => {
      there.delete(shown[3] ?? 0n)
      there.delete((shown.at(-1) ?? 0n) + 2n)
      there.add(BigInt(2_000 + there.size))
    })
    expect([...there].filter((key) => key <= 950n && !keys.includes(key))).toEqual([])
  })

  it('goes on behind pages that rights have emptied', async () => {
    const isHidden = (key: bigint) => key > 200n && key <= 650n
    const { keys, isWhole } = await everything(list(new Set(numbers(950)), { isHidden }))
    expect(keys).toEqual(numbers(950).filter((key) => !isHidden(key)))
    expect(isWhole).toBe(true)
  })

  it('does not call a list whole that goes on behind too many empty pages', async () => {
    const isHidden = (key: bigint) => key > 200n && key <= 4_900n
    expect(await everything(list(new Set(numbers(5_000)), { isHidden }))).toMatchObject({ isWhole: false })
  })

  it('shows everything of a list that is cut before it is sorted', async () => {
    const { keys } = await everything(list(new Set(numbers(950)), { cutBeforeSort: 60 }))
    expect(keys).toEqual(numbers(950))
  })

  it.each(['filters', 'sorts'] as const)('refuses a list that ignores %s', async (ignores) => {
    await expect(everything(list(new Set(numbers(950)), { ignores }))).rejects.toThrow(KeyOrderBroken)
    expect(await proveKeyOrder(list(new Set(numbers(950)), { ignores }))).toMatchObject({
      filters: { value: ignores === 'filters' ? 'ignored' : 'honoured' },
      order: { value: 'ignored' },
    })
  })

  it('is proven at several points of the keys', async () => {
    const listing = list(new Set(numbers(950)))
    const honoured = { value: 'honoured' }
    expect(await proveKeyOrder(listing)).toMatchObject({ filters: honoured, order: honoured })
    expect(listing.requests()).toBe(9)
  })

  it('is refuted by a part of the keys that does not come in order', async () => {
    const listing = list(new Set(numbers(950)))
    const ask: typeof listing.ask = async (request) => {
      const page = await listing.ask(request)
      return (request.after ?? 0n) > 600n ? { ...page, keys: page.keys.toReversed() } : page
    }
    expect(await proveKeyOrder({ ...listing, ask })).toMatchObject({
      filters: { value: 'honoured' },
      order: { value: 'ignored' },
    })
  })

  it('is refuted by a list that stands in the order of its keys by chance, whichever order is asked for (P7)', async () => {
    const listing = list(new Set(numbers(950)))
    const askFromEnd = async () => numbers(10)
    expect(await proveKeyOrder({ ...listing, askFromEnd })).toMatchObject({
      filters: { value: 'honoured' },
      order: { value: 'ignored' },
    })
  })

  it('is not told of answers with one record each, as long as some of them skip what others show (P7)', async () => {
    const answers = [25, 43, 43, 41, 46, 47].map(BigInt)
    const ask = async () => {
      const keys = answers.splice(0, 1)
      return { received: keys.length, keys, records: [] }
    }
    const single = { ask, askHighest: async () => 47n, askFromEnd: async () => [47n] }
    expect(await proveKeyOrder(single)).toMatchObject({
      filters: { value: 'honoured' },
      order: {
        value: 'undecided',
        evidence: 'asked for keys above 25 the list served 43, although it has 41',
      },
    })
    const sorted = list(new Set(numbers(50)))
    const one = {
      ...sorted,
      ask: async (given: Parameters<typeof sorted.ask>[0]) => await sorted.ask({ ...given, pageSize: 1 }),
    }
    expect(await proveKeyOrder(one)).toMatchObject({ order: { value: 'honoured' } })
    const askFromEnd = async () => [46n]
    expect(await proveKeyOrder({ ...one, askFromEnd })).toMatchObject({ order: { value: 'undecided' } })
  })

  it('is not told, and not refuted either, where rights hide the highest record', async () => {
    const listing = { ...list(new Set(numbers(950))), askHighest: async () => null }
    expect(await proveKeyOrder(listing)).toMatchObject({ order: { value: 'undecided' } })
  })

  it('is not told of so few records that any order would look right', async () => {
    expect(await proveKeyOrder(list(new Set(numbers(3))))).toMatchObject({ order: { value: 'undecided' } })
    expect(await proveKeyOrder(list(new Set(numbers(4))))).toMatchObject({ order: { value: 'honoured' } })
  })
})
