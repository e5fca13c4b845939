// Counts how often something happens within a time, by whoever does it. When too many have been counted, the one that was counted longest
// ago is forgotten, so memory stays bounded (P10). Pure; time is an argument.

import { isIP } from 'node:net'

const mostCounted = 10_000

/** A map that forgets what was set longest ago. */
export function bounded<Value>(most: number) {
  const map = new Map<string, Value>()
  return {
    get: (key: string) => map.get(key),
    has: (key: string) => map.has(key),
    delete: (key: string) => map.delete(key),
    all: () => [...map],
    set(key: string, value: Value) {
      map.delete(key)
      map.set(key, value)
      const [oldest] = map.keys()
      if (map.size > most && oldest !== undefined) map.delete(oldest)
    },
  }
}

export function openLimit({ most, withinMs }: { readonly most: number; readonly withinMs: number }) {
  const times = bounded<readonly number[]>(mostCounted)

  return {
    /** How long this one has used up what it may; 0: it has not. */
    waitMs(who: string, nowMs: number): number {
      const oldest = times.get(who)?.at(-most)
      return oldest === undefined ? 0 : Math.min(withinMs, Math.max(0, oldest + withinMs - nowMs))
    },
    count(who: string, nowMs: number): void {
      times.set(who, [...(times.get(who) ?? []), nowMs].slice(-most))
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
