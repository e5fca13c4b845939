// Streams that only the settings name: finds out by asking what each is like (whether it has a `neworchanged`, what tells its records
// apart, whether single records can be asked for), and keeps that, so that the next program reads it in the same way.

import type { Pool } from 'pg'
import { ConfigError } from './config/environment.ts'
import type { Config } from './config/load.ts'
import { variableOf } from './config/stream-variables.ts'
import type { JsonObject } from './json/json.ts'
import type { Logger } from './log.ts'
import { learnAddedStreams } from './store/book/streams.ts'
import { createTable } from './store/schema/create-table.ts'
import { withConnection } from './store/server/session.ts'
import {
  type AddedStream,
  addedStream,
  type Catalogue,
  catalogueOf,
  type FoundOut,
} from './streams/catalog.ts'
import { tableName } from './streams/names.ts'
import { isObject, toInt64 } from './streams/record.ts'
import { chooseKeyField } from './streams/twins.ts'
import type { Upstream } from './upstream/client.ts'
import { UpstreamError } from './upstream/http/errors.ts'
import { openSource } from './upstream/stream-source.ts'
import { messageOf } from './util/errors.ts'
import { parsedRecords } from './wire/record-page.ts'

type Given = {
  readonly database: { readonly pool: Pool }
  readonly config: Pick<Config, 'source' | 'dictionary' | 'added'>
  readonly upstream: Upstream
  /** False: nothing is asked, and no table is made. */
  readonly migrates?: boolean
  readonly log: Logger
}

/** Finds out what added streams are like, if nobody has yet. One that does not answer, or is empty, is read as a list until the next start. */
export async function knowAddedStreams(given: Given): Promise<Catalogue> {
  const { config, upstream, migrates = true, log } = given
  const { pool } = given.database
  const keyOf = ({ name }: AddedStream) => config.dictionary.now().get(name)?.key ?? null
  const known = new Map(await learnAddedStreams(pool, config.added))
  for (const added of config.added) {
    const found = known.get(added.name)
    if (!found) continue
    expectSameList(added, found)
    expectSameKey(added, found, keyOf(added))
    // Older programs did not note it.
    if (!found.path && migrates) known.set(added.name, await noteStream(pool, added, found))
  }
  if (!migrates) return catalogueOf(config.added, known, config.source)
  const signal = AbortSignal.timeout(longestFindingMs)
  for (const added of config.added.filter(({ name }) => !known.has(name)))
    try {
      const found = await findOut(upstream, added, keyOf(added), signal)
      if (found !== null) known.set(added.name, await noteStream(pool, added, found))
    } catch (error) {
      log.warn(
        { stream: added.name, path: added.path, why: messageOf(error) },
        'A list that STREAMS names could not be looked at. It is read whole, if at all, until the next start.',
      )
    }
  const catalogue = catalogueOf(config.added, known, config.source)
  for (const stream of catalogue)
    if (stream.isAdded && stream.kind === 'changes')
      await withConnection(pool, (client) =>
        createTable(client, stream, { field: stream.keyFields[0] ?? '', type: 'bigint' }, log),
      )
  return catalogue
}

/** Rejects if the name was used for another list: nobody could tell the rows of two lists in one table apart. */
function expectSameList({ name, path }: AddedStream, found: FoundOut): void {
  if (found.path === undefined || found.path.toLowerCase() === path.toLowerCase()) return
  throw new ConfigError(
    `STREAMS: ${tableName(name)} holds the rows of ${found.path}, and ${name}=${path} would add those of another list. Choose another name for ${path}.`,
  )
}

/** A list gets another key by the setting; what changes is read by the number that the stream was found to have. */
function expectSameKey({ name }: AddedStream, { kind, keyField }: FoundOut, wanted: string | null): void {
  const isSame = wanted?.toLowerCase() === keyField?.toLowerCase()
  if (kind === 'list' || wanted === null || isSame) return
  throw new ConfigError(
    `${variableOf('KEY', { name })} is ${wanted}, and ${tableName(name)} goes by ${keyField} since it was first read. Remove the setting, or give the list another name in STREAMS.`,
  )
}

const longestFindingMs = 30_000

const asked = { page: 1, pageSize: 20 } as const

/** Null: it has no records yet, so that its key cannot be told. Rejects when there is no such list. */
async function findOut(
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

/** Returns what holds: another program may have been faster. */
async function noteStream(pool: Pool, { name, path }: AddedStream, found: FoundOut): Promise<FoundOut> {
  const { rows } = await pool.query<{ found: FoundOut }>(
    `insert into tidemark.stream (name, found_out) values ($1, $2)
     on conflict (name) do update
     set found_out = coalesce(stream.found_out || jsonb_build_object('path', coalesce(stream.found_out->'path', excluded.found_out->'path')), excluded.found_out)
     returning found_out as found`,
    [name, { ...found, path }],
  )
  return rows[0]?.found ?? found
}
