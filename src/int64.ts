// Integers of 64 bits: their bounds, and row versions and ids as people type them.

export const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n } as const

const digits = /^(?:0|[1-9]\d*)$/

/** A whole number from 0 that fits 64 bits, or null. */
export function parseInt64(text: string): bigint | null {
  if (!digits.test(text) || text.length > 19) return null
  const number = BigInt(text)
  return number <= int64.max ? number : null
}
