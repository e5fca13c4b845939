// Compares a table of the mirror with what the stand-in serves, row by row and value by value.

import type { Pool } from 'pg'
import type { Json, JsonObject } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import type { Simulator } from '../../src/simulator/simulator.ts'
import { readBack, recover } from './recovered.ts'

const keyFields = { assignment: 'assignmentid', assignment_note: 'assignmentnoteid' } as const

/** What differs, in words; empty when the mirror equals the source. Rows that are marked deleted count as gone. `source`: a named one. */
export async function differences(
  pool: Pool,
  simulator: Pick<Simulator, 'source' | 'behaviour'>,
  stream: keyof typeof keyFields,
  source = '',
): Promise<string[]> {
  const schema = source === '' ? 'mirror' : `${source}_mirror`
  const mirrored = await readBack(pool, stream, { timeZone: simulator.behaviour.timeZone, source })
  const gone = new Set(
    (
      await pool.query<{ key: string }>(
        `select ${stream}_id::text as key from ${schema}.${stream} where _deleted_at is not null and _deleted_reason = 'absent'`,
      )
    ).rows.map(({ key }) => key),
  )
  const found: string[] = []
  const sourceKeys = new Set<string>()
  for (const text of simulator.source.texts(stream)) {
    const record = parseJson(Buffer.from(text))
    if (typeof record !== 'object' || record === null || Array.isArray(record)) continue
    const fields = record as JsonObject
    const key = String(Object.entries(fields).find(([name]) => name.toLowerCase() === keyFields[stream])?.[1])
    sourceKeys.add(key)
    const row = mirrored.get(key)
    if (!row || gone.has(key)) {
      found.push(`${key}: missing`)
      continue
    }
    const recovered = recover(row)
    for (const [field, value] of Object.entries(fields))
      if (!recovered.field(field, value) && !recovered.field(field, asNumber(value)))
        found.push(`${key}: ${field} should be ${JSON.stringify(value)}`)
  }
  for (const key of mirrored.keys())
    if (!sourceKeys.has(key) && !gone.has(key)) found.push(`${key}: no longer there`)
  return found
}

/** A row version may come as a string of digits, and is a number in its column. */
const asNumber = (value: Json): Json =>
  typeof value === 'string' && /^\d+$/.test(value) ? JSON.rawJSON(value) : value
