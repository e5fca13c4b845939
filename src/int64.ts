// Row versions and ids as people type them.

const digits = /^(?:0|[1-9]\d*)$/
const highest = 2n ** 63n - 1n

/** A whole number from 0 that fits 64 bits, or null. */
export function parseInt64(text: string): bigint | null {
  if (!digits.test(text) || text.length > 19) return null
  const number = BigInt(text)
  return number <= highest ? number : null
}
