// That a record is gone is believed only while one that the list has just shown is there when it is asked for in the same way: a lost
// right, or a proxy that answers for the service, hides all of them (P7).

import type { Source } from '../ports/source.ts'

/** The newest are enough: any of them may have gone meanwhile, hardly all. */
const most = 3

export type ShownKeys = {
  show(keys: readonly (bigint | string)[]): void
  /** Where nothing was shown, nothing speaks against it: then it is for a person to decide. */
  areThere(signal: AbortSignal): Promise<boolean>
}

export function openShownKeys({ lookup }: Pick<Source, 'lookup'>): ShownKeys {
  let newest: readonly string[] = []
  return {
    show(keys) {
      newest = [...newest, ...keys.slice(-most).map(String)].slice(-most)
    },
    async areThere(signal) {
      for (const key of newest) if (typeof (await lookup?.(key, signal)) === 'object') return true
      return newest.length === 0
    },
  }
}
