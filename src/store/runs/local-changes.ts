// Mends what others did to a table of the mirror (P15). The next run begins it: rows that are not as a run left them are distrusted, so that
// whatever record comes replaces them, and everything is read again. Each change is acted upon once. The same is done when the settings name
// other time zones than those in which its times were read (P4).

import pg, { type ClientBase } from 'pg'
import { ownValue } from '../../json/json.ts'
import type { Logger } from '../../log.ts'
import { isConfirmed } from '../../streams/beliefs.ts'
import {
  type MirroredStream,
  type RunKind,
  relatedIn,
  relatedNamed,
  type Stream,
} from '../../streams/catalog.ts'
import { foldField } from '../../streams/dictionary.ts'
import { sourceIn } from '../../streams/names.ts'
import type { StreamState } from '../../sync/ports/store.ts'
import type { RelatedOptions } from '../book/related.ts'
import { createTable, type WantedKey } from '../schema/create-table.ts'
import { qualified, sourceSql } from '../schema/places.ts'
import { type Column, distrustedHash, readTableSchema } from '../schema/table-schema.ts'
import { isLocallyChangedSql } from '../schema/watch-table.ts'
import { queryAny, queryColumn, queryRows, queryValue } from '../server/query.ts'
import { keyCheck, keyFromSql } from '../types/table.ts'
import { zoneSuffix } from '../types/timestamptz.ts'
import { fenceRuns, type Lease, withinLease } from './lease.ts'
import { readFromBeginning } from './positions.ts'
import { learn } from './run-findings.ts'

type Mended = {
  readonly stream: Stream
  /** In which date-times without an offset are read. */
  readonly timeZone: string
  /** The zones in which its rows were read; null: nobody noted them. */
  readonly readZones: string | null
  readonly kind: RunKind
  readonly related: RelatedOptions
  readonly noteLine: () => Promise<void>
  readonly log: Logger
}

const atBeginning = { position: 0n, positionReachedAt: null, settledThrough: null }

/** Returns what the run begins with, and whether everything is read again. If mending fails, the run has failed. */
export async function mendLocalChanges(
  client: ClientBase,
  lease: Lease,
  state: StreamState,
  { stream, kind, timeZone, readZones, related, noteLine, log }: Mended,
): Promise<{ readonly state: StreamState; readonly beginsAnew: boolean }> {
  try {
    if (kind === 'related') await mendRelated(client, lease, related, { timeZone, log })
    // Only runs of these kinds begin to mend: the others go by what these have noted.
    if (kind !== 'incremental' && kind !== 'list') return { state, beginsAnew: false }
    if (readZones !== zonesOf(stream, timeZone)) {
      await noteLine()
      await fenceOthers(client, lease)
      if (await withinLease(client, lease, () => rereadInZones(client, lease, stream, timeZone)))
        return { state: { ...state, ...atBeginning }, beginsAnew: true }
    }
    if (!state.isLocallyChanged) {
      await believe(client, lease, state, [])
      return { state, beginsAnew: false }
    }
    await noteLine()
    await createTable(client, stream, knownKey(stream, state.keyField), log)
    await fenceOthers(client, lease)
    const done = await withinLease(client, lease, () => beginAnew(client, lease, stream))
    const beginsAnew = done.length > 0
    await believe(client, lease, state, done)
    return { state: { ...state, isLocallyChanged: false, ...(beginsAnew && atBeginning) }, beginsAnew }
  } catch (error) {
    await noteLine().catch(() => {})
    await client
      .query(`update tidemark.run set status = 'failed', finished_at = now(), error = $2 where id = $1`, [
        lease.runId,
        error instanceof Error ? error.message : String(error),
      ])
      .catch(() => {})
    throw error
  }
}

/** Null for a list stream without a known key: only its first records tell which field and type that is. */
function knownKey(stream: Stream, keyField: string | null): WantedKey | null {
  if (stream.kind === 'changes') return { field: stream.keyFields[0] ?? '', type: 'bigint' }
  return keyField === null ? null : { field: keyField, type: null }
}

type Change = { readonly id: string; readonly operation: string }

/** Records the belief that tables hold only what Tidemark wrote, as this run found them. */
async function believe(client: ClientBase, lease: Lease, { beliefs }: StreamState, done: readonly string[]) {
  const name = 'tables_untouched'
  const [value, testedAt] = [done.length === 0 ? 'yes' : 'no', new Date()]
  const known = beliefs.find((belief) => belief.name === name)
  if (isConfirmed(known, value, testedAt)) return
  const evidence =
    done.length === 0
      ? 'nobody else was seen to change them'
      : `changed by somebody else (${done.join(', ')}), and read again`
  await withinLease(client, lease, () => learn(client, lease.stream, [{ name, value, evidence, testedAt }]))
}

/**
 * Fences out runs of other kinds. They have compared the upstream with the table before it was changed, so what they would call
 * settled, known or missed is wrong now. In a transaction of its own, because their pages may hold rows that are changed next.
 */
const fenceOthers = (client: ClientBase, lease: Lease): Promise<unknown> =>
  withinLease(client, lease, () => fenceRuns(client, [lease.stream], { but: lease.lane }))

/** Returns what others did to the table; empty: there is nothing to mend after all. */
async function beginAnew(client: ClientBase, lease: Lease, stream: Stream): Promise<readonly string[]> {
  const operations = await actUpon(client, lease, stream)
  if (operations.length === 0) return operations
  const isOfSome =
    operations.every((operation) => isWriting(operation) || operation === 'delete') &&
    (await doubtsOf(client, stream)) <= mostDoubts
  const reason = `the table was changed in Postgres by somebody else (${operations.join(', ')}), so everything is read again`
  await readFromBeginning(client, lease, reason, isOfSome)
  return operations
}

/** Distrusts what may be wrong, and returns what was done to the table; nothing where that changed no row. */
async function actUpon(client: ClientBase, lease: Lease, stream: MirroredStream): Promise<readonly string[]> {
  const changes = await queryRows<Change>(
    client,
    'select id, operation from tidemark.local_change where stream = $1 and run_id is null order by id for update',
    [stream.name],
  )
  if (changes.length === 0) return []
  const ids = changes.map(({ id }) => id)
  const distrusted = await distrustRows(client, stream, changes)
  await client.query(
    `update tidemark.local_change
     set run_id = $2, rows = case when operation in ('insert', 'update') then $3 else rows end where id = any ($1)`,
    [ids, lease.runId, distrusted],
  )
  // An insert or update that met no row did no harm.
  const isHarmless = changes.every(({ operation }) => isWriting(operation)) && distrusted === 0
  return isHarmless ? [] : [...new Set(changes.map(({ operation }) => operation))]
}

const isWriting = (operation: string): boolean => operation === 'insert' || operation === 'update'

/**
 * Rows that may not be as a run left them: all that were written since a transaction of somebody else began, also by its
 * subtransactions; every row of a table that came from elsewhere or was not watched. Returns how many they are.
 */
async function distrustRows(client: ClientBase, stream: MirroredStream, changes: readonly Change[]) {
  const tableSchema = await readTableSchema(client, stream)
  const isUnknown = changes.some(({ operation }) => ['replace', 'alter', 'unwatch'].includes(operation))
  const written = changes.filter(({ operation }) => isWriting(operation)).map(({ id }) => id)
  if (!tableSchema || (!isUnknown && written.length === 0)) return 0
  const count = await queryValue<number>(
    client,
    `with distrusted as (
       update ${qualified(stream)} as mine set _hash = ${distrustedHash}
       where ($1 or age(mine.xmin) <= (
         select max(age((transaction % 4294967296)::text::xid)) from tidemark.local_change where id = any ($2)
       ))
       returning mine.${pg.escapeIdentifier(tableSchema.key.name)}::text as key
     ), doubted as (
       insert into tidemark.doubt (stream, key, why) select $3, key, $4 from distrusted limit ${mostDoubts + 1}
       on conflict (stream, key) do update set since = now()
     )
     select count(*)::float8 from distrusted`,
    [isUnknown, written, stream.name, 'somebody wrote it in Postgres, and it is read again'],
  )
  return count ?? 0
}

/** So many rows are doubted one by one, also by the trigger on deletes; of more, all rows of the stream are doubted. */
const mostDoubts = 1_000

const doubtsOf = async (client: ClientBase, { name }: MirroredStream) =>
  (await queryValue<number>(client, 'select count(*)::int as doubts from tidemark.doubt where stream = $1', [
    name,
  ])) ?? 0

/** Ends the doubt about rows whose record has come since. */
export async function endDoubts(client: ClientBase, stream: MirroredStream): Promise<void> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return
  const { name, type } = tableSchema.key
  const all = await queryColumn<string>(client, 'select key from tidemark.doubt where stream = $1', [
    stream.name,
  ])
  // Keys in doubt may be older than the key that the table has now.
  const keys = all.filter(keyCheck(type))
  await client.query(
    `delete from tidemark.doubt using ${qualified(stream)} as mine
     where doubt.stream = $1 and mine.${pg.escapeIdentifier(name)} = any ($2::${type}[])
       and mine.${pg.escapeIdentifier(name)}::text = doubt.key and mine._hash <> ${distrustedHash}`,
    [stream.name, keys],
  )
}

/** Related records come with their assignment: those whose records are missing, or distrusted, are asked for again. */
async function mendRelated(
  client: ClientBase,
  lease: Lease,
  { groups }: RelatedOptions,
  { timeZone, log }: Pick<Mended, 'timeZone' | 'log'>,
): Promise<void> {
  const noted = await queryRows<{ name: string; zones: string | null }>(
    client,
    'select name, read_zones as zones from tidemark.stream where name = any ($1)',
    [groups],
  )
  for (const stream of relatedIn(sourceIn(lease.stream)).filter(({ name }) => groups.includes(name))) {
    const zones = noted.find(({ name }) => name === stream.name)?.zones
    if (zones === zonesOf(stream, timeZone)) continue
    await withinLease(client, lease, async () => {
      if (await distrustZones(client, stream, timeZone)) await readAgain(client, stream)
    })
  }
  const changed = await queryRows<{ name: string; field: string | null }>(
    client,
    `select name, key_field as field from tidemark.stream as known where name = any ($1) and ${isLocallyChangedSql}`,
    [groups],
  )
  for (const { name, field } of changed) {
    const stream = relatedNamed(name)
    if (!stream) continue
    await createTable(client, stream, field === null ? null : { field, type: null }, log)
    await withinLease(client, lease, async () => {
      if ((await actUpon(client, lease, stream)).length > 0) await readAgain(client, stream)
    })
  }
}

export async function readAgain(client: ClientBase, stream: MirroredStream): Promise<void> {
  const tableSchema = await readTableSchema(client, stream)
  const isThere = tableSchema
    ? `exists (
         select from ${qualified(stream)} as mine
         where mine.${pg.escapeIdentifier(tableSchema.key.name)} = ${keyFromSql(tableSchema.key.type, 'link.key')} and mine._hash <> ${distrustedHash}
       )`
    : 'false'
  await client.query(
    'update tidemark.stream set read_through_at = null, first_read_through_at = null where name = $1',
    [stream.name],
  )
  await client.query(
    `update tidemark.related_fetch set retry_at = now()
     where source = ${sourceSql('$1')} and assignment_id in (
       select assignment_id from tidemark.related_link as link where stream = $1 and not ${isThere}
     )`,
    [stream.name],
  )
}

type Zones = { readonly timeZone: string; readonly fieldZones: Readonly<Record<string, string>> }

/** The zones of a stream, as they are kept. The hash of a row does not tell in which it was read: it is the record's. */
const zonesOf = ({ fieldZones = {} }: MirroredStream, timeZone: string): string =>
  JSON.stringify({
    timeZone,
    fieldZones: Object.fromEntries(Object.entries(fieldZones).toSorted()),
  } satisfies Zones)

/** An older program did not note them. If they were others than UTC, nobody knows which. */
const unnoted: Zones = { timeZone: 'UTC', fieldZones: {} }

function zoneOf({ field }: Column, { timeZone, fieldZones }: Zones): string {
  const suffix = zoneSuffix(field, ownValue(fieldZones, foldField(field)))
  if (suffix === '') return timeZone
  return suffix === 'Z' ? 'UTC' : suffix.trim()
}

/**
 * Distrusts all rows with times that are read otherwise now, and has everything read again. Within a transaction that proves the lease.
 * Returns whether there were such rows.
 */
async function rereadInZones(client: ClientBase, lease: Lease, stream: MirroredStream, timeZone: string) {
  const distrusted = await distrustZones(client, stream, timeZone)
  if (distrusted)
    await readFromBeginning(
      client,
      lease,
      'SOURCE_TIMEZONE, FIELD_TIMEZONES or a timezone of the dictionary changed, so everything is read again',
    )
  return distrusted
}

async function distrustZones(client: ClientBase, stream: MirroredStream, timeZone: string) {
  const noted = await queryValue<string>(
    client,
    `insert into tidemark.stream (name, read_zones) values ($1, $2)
     on conflict (name) do update set read_zones = excluded.read_zones
     returning (select read_zones from tidemark.stream where name = $1) as before`,
    [stream.name, zonesOf(stream, timeZone)],
  )
  const before: Zones = noted ? JSON.parse(noted) : unnoted
  const now: Zones = JSON.parse(zonesOf(stream, timeZone))
  const tableSchema = await readTableSchema(client, stream)
  const times = (tableSchema?.columns ?? []).filter(
    (column) => column.type === 'timestamptz' && zoneOf(column, before) !== zoneOf(column, now),
  )
  if (times.length === 0) return false
  return await queryAny(
    client,
    `update ${qualified(stream)} set _hash = ${distrustedHash}
     where ${times.map(({ name }) => `${pg.escapeIdentifier(name)} is not null`).join(' or ')}`,
  )
}
