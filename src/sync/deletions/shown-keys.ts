// That a record is gone is believed only while one that the list has just shown is there when it is asked for in the same way: a lost
// right, or a proxy that answers for the service, hides all of them (P7).

import type { Source } from '../ports/source.ts'

/** Some of one page: a single one may have gone meanwhile, or be one that cannot be read. */
const most = 3

export type ShownKeys = {
  show(keys: readonly (bigint | string)[]): void
  /** Also where nothing was shown: then deletions are blocked until a person has decided. */
  areThere(signal: AbortSignal): Promise<boolean>
}

export function openShownKeys({ lookup }: Pick<Source, 'lookup'>): ShownKeys {
  let newest: readonly string[] = []
  return {
    show(keys) {
      const spread = [keys[0], keys[keys.length >> 1], keys.at(-1)].flatMap((key) => key ?? [])
      newest = [...new Set([...newest, ...spread.map(String)])].slice(-most)
    },
    async areThere(signal) {
      for (const key of newest) if (typeof (await lookup?.(key, signal)) === 'object') return true
      return newest.length === 0
    },
  }
}
