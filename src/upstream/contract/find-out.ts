// Finds out by asking what a list is like that only the settings name: whether it has a `neworchanged`, what tells its records apart,
// and whether single records can be asked for.

import type { JsonObject } from '../../json/json.ts'
import { type AddedStream, addedStream, type FoundOut } from '../../streams/catalog.ts'
import { isObject, toInt64 } from '../../streams/record.ts'
import { chooseKeyField } from '../../streams/twins.ts'
import { parsedRecords } from '../../wire/record-page.ts'
import type { Upstream } from '../client.ts'
import { UpstreamError } from '../http/errors.ts'
import { openSource } from './source.ts'

const asked = { page: 1, pageSize: 20 } as const

/** Null: it has no records yet, so that its key cannot be told. Rejects when there is no such list. */
export async function findOut(
  upstream: Upstream,
  added: AddedStream,
  keyField: string | null,
  signal: AbortSignal,
): Promise<FoundOut | null> {
  const list = addedStream(added)
  const { records } = await openSource(upstream, list).list(asked, signal)
  const shown = parsedRecords(records)
  const first = shown.find(isObject)
  const candidates = keyField === null ? [...list.keyFields, ...leadingId(first)] : [keyField]
  const key = chooseKeyField(shown, candidates, true)
  if (key === null) return null
  const firstKey = first === undefined ? null : toInt64(first[key])
  const found = (kind: FoundOut['kind'], hasLookup: boolean): FoundOut => ({ kind, keyField: key, hasLookup })
  // The key of a changes stream has to be a number.
  if (firstKey === null || !(await hasChanges(upstream, added, key, signal))) return found('list', false)
  const { lookup } = openSource(upstream, addedStream(added, found('changes', true)))
  const looked = await lookup?.(firstKey.toString(), signal)
  return found('changes', typeof looked === 'object')
}

/** A record often begins with its key: its first field is a candidate if its name ends with `id`. */
const leadingId = (record: JsonObject | undefined): readonly string[] =>
  Object.keys(record ?? {})
    .slice(0, 1)
    .filter((name) => /id$/i.test(name))

async function hasChanges(
  upstream: Upstream,
  added: AddedStream,
  keyField: string,
  signal: AbortSignal,
): Promise<boolean> {
  const changes = addedStream(added, { kind: 'changes', keyField, hasLookup: false })
  try {
    const answer = await openSource(upstream, changes).changes({ since: 0n, ...asked, sorts: null }, signal)
    return 'records' in answer && answer.records.length > 0
  } catch (error) {
    if (error instanceof UpstreamError && error.status !== null && [400, 404, 405].includes(error.status))
      return false
    throw error
  }
}
