// In which time zones the times of a stream were read. If the settings name others now, its rows are distrusted, and it is read again (P4).

import pg, { type ClientBase } from 'pg'
import { ownValue } from '../../json/json.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { foldField } from '../../streams/dictionary.ts'
import { queryCount, queryValue } from '../book/ask.ts'
import { qualified } from '../schema/places.ts'
import { type Column, distrustedHash, readTableSchema } from '../schema/table-schema.ts'
import { zoneSuffix } from '../types/timestamptz.ts'
import type { Lease } from './lease.ts'
import { readFromBeginning } from './positions.ts'

type Zones = { readonly timeZone: string; readonly fieldZones: Readonly<Record<string, string>> }

/** The zones of a stream, as they are kept. The hash of a row does not tell in which it was read: it is the record's. */
export const zonesOf = ({ fieldZones = {} }: MirroredStream, timeZone: string): string =>
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
export async function rereadInZones(
  client: ClientBase,
  lease: Lease,
  stream: MirroredStream,
  timeZone: string,
): Promise<boolean> {
  const distrusted = await distrustZones(client, stream, timeZone)
  if (distrusted)
    await readFromBeginning(
      client,
      lease,
      'SOURCE_TIMEZONE, FIELD_TIMEZONES or a timezone of the dictionary changed, so everything is read again',
    )
  return distrusted
}

export async function distrustZones(client: ClientBase, stream: MirroredStream, timeZone: string) {
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
  return (
    (await queryCount(
      client,
      `update ${qualified(stream)} set _hash = ${distrustedHash}
     where ${times.map(({ name }) => `${pg.escapeIdentifier(name)} is not null`).join(' or ')}`,
    )) > 0
  )
}
