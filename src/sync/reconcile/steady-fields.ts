// Whether a field that is called volatile still is: a reconcile compares a few records with what they were at the one before it. A field
// that stayed the same three times in a row is compared again like any other (P16).

import { createHash } from 'node:crypto'
import type { JsonObject } from '../../json/json.ts'
import type { Records } from '../../streams/record.ts'
import type { FieldLook, FieldSample, WatchedField } from '../ports/audits.ts'

const recordsLookedAt = 20
/** Fewer than these prove nothing, unless there are no more. */
const fewestCompared = 3
/** An address that is signed anew each day stays the same for hours. */
const soonestMs = 12 * 3_600_000

export type SteadyFields = {
  see(page: Records): void
  /** When everything was listed. */
  looks(): readonly FieldLook[]
}

export function openSteadyFields(fields: readonly WatchedField[], now: Date): SteadyFields {
  const wanted = new Set(fields.flatMap(({ sample }) => Object.keys(sample?.records ?? {})))
  const shown = new Map<string, { readonly version: string; readonly record: JsonObject }>()
  let others = 0
  return {
    see({ rows }) {
      if (fields.length === 0) return
      for (const row of rows) {
        if (!wanted.has(row.key) && others >= recordsLookedAt) continue
        if (!wanted.has(row.key) && !shown.has(row.key)) others++
        shown.set(row.key, { version: row.version?.toString() ?? '', record: row.record })
      }
    },
    looks() {
      return fields.flatMap(({ field, sample }): FieldLook[] => {
        if (sample !== null && now.getTime() - Date.parse(sample.at) < soonestMs) return []
        const seen = new Map(
          [...shown].map(([key, one]) => [
            key,
            { version: one.version, value: contentOf(one.record, field) },
          ]),
        )
        const kept = Object.fromEntries([...seen].slice(0, recordsLookedAt))
        return [{ field, outcome: compare(sample, seen), sample: { at: now.toISOString(), records: kept } }]
      })
    },
  }
}

function compare(
  sample: FieldSample | null,
  seen: ReadonlyMap<string, FieldSample['records'][string]>,
): FieldLook['outcome'] {
  const known = Object.entries(sample?.records ?? {})
  // A record that really changed says nothing.
  const comparable = known.filter(([key, { version }]) => seen.get(key)?.version === version)
  if (comparable.some(([key, { value }]) => seen.get(key)?.value !== value)) return 'changed'
  return known.length > 0 && comparable.length >= Math.min(fewestCompared, known.length)
    ? 'steady'
    : 'unknown'
}

function contentOf(record: JsonObject, folded: string): string {
  const name = Object.keys(record).find((one) => one.toLowerCase() === folded)
  const text = JSON.stringify(name === undefined ? null : record[name])
  return createHash('sha256').update(text).digest('base64url').slice(0, 22)
}
