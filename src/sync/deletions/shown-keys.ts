// Guards the answer that a record is gone. It is believed only while a record that the list has just shown is there when it is asked for
// in the same way: a lost right, or a proxy that answers for the service, makes all records look gone (P7).

import type { Source } from '../ports/source.ts'

/** More than one is kept to be asked for: a single one may have gone meanwhile, or be one that cannot be read. */
const most = 3

export type ShownKeys = ReturnType<typeof openShownKeys>

export function openShownKeys({ lookup }: Pick<Source, 'lookup'>) {
  let newest: readonly string[] = []
  return {
    show(keys: readonly (bigint | string)[]) {
      const spread = [keys[0], keys[keys.length >> 1], keys.at(-1)].flatMap((key) => key ?? [])
      newest = [...new Set([...newest, ...spread.map(String)])].slice(-most)
    },
    /** True also if the list showed nothing: then deletions are blocked anyway, until a person has decided. */
    async areThere(signal: AbortSignal): Promise<boolean> {
      for (const key of newest) if (typeof (await lookup?.(key, signal)) === 'object') return true
      return newest.length === 0
    },
  }
}
