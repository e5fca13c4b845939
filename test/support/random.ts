// A small seeded source of chance, so that a world that broke something can be made again.

export type Random = {
  /** From 0 up to, not including, `below`. */
  integer(below: number): number
  chance(probability: number): boolean
  pick<Item>(items: readonly Item[]): Item
  shuffled<Item>(items: readonly Item[]): Item[]
}

export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const integer = (below: number) => Math.floor(next() * below)
  return {
    integer,
    chance: (probability) => next() < probability,
    pick: (items) => {
      const item = items[integer(items.length)]
      if (item === undefined) throw new Error('nothing to pick from')
      return item
    },
    shuffled(items) {
      const result = [...items]
      for (let last = result.length - 1; last > 0; last--) {
        const other = integer(last + 1)
        const [a, b] = [result[last], result[other]]
        if (a !== undefined && b !== undefined) {
          result[last] = b
          result[other] = a
        }
      }
      return result
    },
  }
}
