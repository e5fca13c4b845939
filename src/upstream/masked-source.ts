// A source whose records do not show a secret of this program (P9): the address that the worker subscribes with holds one, and
// subscriptions are mirrored like everything else.

import { type Json, type JsonObject, repeatedFields } from '../json/json.ts'
import { isObject } from '../record.ts'
import type { Source } from '../sync/ports.ts'

export function maskSource(source: Source, secret: string): Source {
  const mask = (value: Json): Json => {
    if (typeof value === 'string') return value.replaceAll(secret, '[secret]')
    if (Array.isArray(value)) return value.map(mask)
    return isObject(value) ? maskObject(value) : value
  }
  const maskObject = (record: JsonObject): JsonObject => {
    const masked = Object.fromEntries(Object.entries(record).map(([name, value]) => [name, mask(value)]))
    const repeated = record[repeatedFields]
    return repeated ? { ...masked, [repeatedFields]: maskObject(repeated) } : masked
  }
  const { lookup } = source
  return {
    ...source,
    async list(request, signal) {
      const answer = await source.list(request, signal)
      return { ...answer, records: answer.records.map(mask) }
    },
    lookup:
      lookup &&
      (async (key, signal) => {
        const answer = await lookup(key, signal)
        return typeof answer === 'string' ? answer : { found: maskObject(answer.found) }
      }),
  }
}
