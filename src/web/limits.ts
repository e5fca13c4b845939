// Counts how often something happens within a time, by whoever does it. When too many have been counted, the one that was counted longest
// ago is forgotten, so memory stays bounded (P10). Pure; time is an argument.

import { isIP } from 'node:net'

export type Limit = {
  /** How long this one has used up what it may; 0: it has not. */
  waitMs(who: string, nowMs: number): number
  count(who: string, nowMs: number): void
}

const mostCounted = 10_000

export function openLimit({ most, withinMs }: { readonly most: number; readonly withinMs: number }): Limit {
  /** The one that was counted longest ago first. */
  const times = new Map<string, readonly number[]>()

  return {
    waitMs(who, nowMs) {
      const oldest = times.get(who)?.at(-most)
      return oldest === undefined ? 0 : Math.min(withinMs, Math.max(0, oldest + withinMs - nowMs))
    },
    count(who, nowMs) {
      const known = times.get(who) ?? []
      times.delete(who)
      times.set(who, [...known, nowMs].slice(-most))
      const [oldest] = times.keys()
      if (times.size > mostCounted && oldest !== undefined) times.delete(oldest)
    },
  }
}

/** The network of an address: somebody who has one IPv6 address has 2^64 of them. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=[\d.]+$)/i, '')
  if (isIP(plain) !== 6) return plain
  const [before = '', after] = address.split('%', 1).join('').split('::')
  const groups = before.split(':').filter(Boolean)
  const later = (after ?? '').split(':').filter(Boolean)
  const zeros = after === undefined ? 0 : Math.max(0, 8 - groups.length - later.length)
  return [...groups, ...Array.from({ length: zeros }, () => '0'), ...later]
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ''))
    .join(':')
}
