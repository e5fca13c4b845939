// Finds volatile fields: they have another value at each look although the record keeps its version, such as the signed address of a
// file. The test looks at a record twice, three times over. From then on, a row that differs in such fields alone counts as
// unchanged (P16).

import { isDeepStrictEqual } from 'node:util'
import { type JsonObject, ownValue } from '../../json/json.ts'
import { readRecords } from '../../streams/record.ts'
import type { ReadingContext } from '../perform-run.ts'
import type { VolatileField } from '../ports/audits.ts'
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
