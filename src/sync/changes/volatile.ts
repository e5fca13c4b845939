// Finds volatile fields: they have another value at each look although the record keeps its version, such as the signed address of a
// file. The test looks at a record twice, three times over. From then on, a row that differs in such fields alone counts as
// unchanged (P16).

import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { type JsonObject, ownValue } from '../../json/json.ts'
import { type Records, readRecords } from '../../streams/record.ts'
import type { ReadingContext } from '../perform-run.ts'
import type { FieldLook, FieldSample, VolatileField, WatchedField } from '../ports/audits.ts'
import type { RunCore } from '../ports/store.ts'

const pairsOfLooks = 3

type Looking = Pick<ReadingContext, 'source' | 'stream' | 'signal'> & {
  readonly run: Pick<RunCore, 'findings'>
}

/** `keys` are of records that came with other content at the same version. Returns the fields that are newly known to be volatile. */
export async function findVolatile(
  looking: Looking,
  keys: readonly string[],
): Promise<readonly VolatileField[]> {
  if (keys.length === 0) return []
  let fields: readonly string[] | null = null
  for (let pair = 0; pair < pairsOfLooks; pair++) {
    const differing = await lookTwice(looking, keys[pair % keys.length] ?? '')
    fields = fields === null ? differing : fields.filter((field) => differing.includes(field))
    if (fields.length === 0) return []
  }
  return await looking.run.findings.setVolatile(
    fields ?? [],
    `two looks at one record, moments apart, showed two values at one row version, ${pairsOfLooks} times out of ${pairsOfLooks}`,
  )
}

/** Fields that the second look shows otherwise; none when the record changed in between, or cannot be looked at. */
async function lookTwice({ source, stream, signal }: Looking, key: string): Promise<readonly string[]> {
  const looks: JsonObject[] = []
  while (looks.length < 2) {
    signal.throwIfAborted()
    const answer = await source.lookup?.(key, signal)
    if (answer === undefined || typeof answer === 'string') return []
    looks.push(answer.found)
  }
  const [one, other] = readRecords(looks, stream.keyFields, stream.versionFields).rows
  if (!one || !other || one.version !== other.version) return []
  const names = new Set([...Object.keys(one.record), ...Object.keys(other.record)])
  return [...names].filter(
    (name) => !isDeepStrictEqual(ownValue(one.record, name), ownValue(other.record, name)),
  )
}

export const volatileNote = (fields: readonly string[]): string =>
  `volatile from now on, so not compared: ${fields.join(', ')}`

export const steadyNote = (fields: readonly string[]): string =>
  `volatile no more, so compared again: ${fields.join(', ')}`

// ── steady again ─────────────────────────────────────────────────────────────────────────────────────────────
// A reconcile compares a few records with what they were at the one before it. A field that stayed the same three times in a row is
// compared again like any other.

const recordsLookedAt = 20
/** Fewer than these prove nothing, unless there are no more. */
const fewestCompared = 3
/** An address that is signed anew each day stays the same for hours. */
const soonestMs = 12 * 3_600_000

export function openSteadyFields(fields: readonly WatchedField[], now: Date) {
  const wanted = new Set(fields.flatMap(({ sample }) => Object.keys(sample?.records ?? {})))
  const shown = new Map<string, { readonly version: string; readonly record: JsonObject }>()
  let others = 0
  return {
    see({ rows }: Records) {
      if (fields.length === 0) return
      for (const row of rows) {
        if (!wanted.has(row.key) && others >= recordsLookedAt) continue
        if (!wanted.has(row.key) && !shown.has(row.key)) others++
        shown.set(row.key, { version: row.version?.toString() ?? '', record: row.record })
      }
    },
    /** When everything was listed. */
    looks(): readonly FieldLook[] {
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
