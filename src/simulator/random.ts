// Numbers that look random and follow from a seed alone, so that a stand-in with the same seed serves the same records.

/** 32 well-mixed bits that follow from three integers. */
export function hash(seed: number, id: number, salt: number): number {
  let bits = seed ^ Math.imul(id, 0x9e3779b1) ^ Math.imul(salt + 1, 0x632be59b)
  bits = Math.imul(bits ^ (bits >>> 16), 0x7feb352d)
  bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b)
  return (bits ^ (bits >>> 16)) >>> 0
}

/** A sequence of numbers in [0, 1). */
export type Random = () => number

export function seededRandom(seed: number): Random {
  let count = 0
  return () => hash(seed, ++count, 0x5eed) / 2 ** 32
}

export function pick<T>(items: readonly T[], number: number): T {
  const item = items[number % items.length]
  if (item === undefined) throw new RangeError('There is nothing to pick from.')
  return item
}

export const integerBelow = (random: Random, limit: number): number => Math.floor(random() * limit)

/** Fisher–Yates, in place. */
export function shuffle<T>(items: T[], random: Random): T[] {
  for (let last = items.length - 1; last > 0; last--) {
    const other = integerBelow(random, last + 1)
    const held = items[last] as T
    items[last] = items[other] as T
    items[other] = held
  }
  return items
}

const hexPairs = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const hexOf = (bits: number, byte: number) => hexPairs[(bits >>> (byte * 8)) & 255]

/** A version 4 UUID that follows from three integers. */
export function uuidFrom(seed: number, id: number, salt: number): string {
  const a = hash(seed, id, salt)
  const b = hash(a, id, 1)
  const c = hash(b, id, 2)
  const d = hash(c, id, 3)
  return (
    `${hexOf(a, 0)}${hexOf(a, 1)}${hexOf(a, 2)}${hexOf(a, 3)}-${hexOf(b, 0)}${hexOf(b, 1)}-` +
    `4${hexOf(b, 2)?.[0]}${hexOf(b, 3)}-8${hexOf(c, 0)?.[0]}${hexOf(c, 1)}-` +
    `${hexOf(c, 2)}${hexOf(c, 3)}${hexOf(d, 0)}${hexOf(d, 1)}${hexOf(d, 2)}${hexOf(d, 3)}`
  )
}
