// Why a row differs from its record (P16). Pure: what the two looked like goes in, the cause comes out.

import type { Json } from '../../json/json.ts'
import type { Row } from '../../streams/record.ts'
import type { Cause, Difference } from '../ports/audits.ts'

type Rule = { readonly cause: Cause | null; readonly when: (one: Difference, position: bigint) => boolean }

const isAbove = (version: bigint | null, position: bigint): boolean => version !== null && version > position
const isDeletionAlone = ({ columns }: Difference): boolean => columns.every((name) => name === '_deleted_at')

/** The first rule that holds gives the cause. Null: nobody has to know of this difference. */
const rules: readonly Rule[] = [
  { cause: 'deleted', when: ({ kind }) => kind === 'extra' },
  // Only the hash differs: an earlier version made it in another way, or a field was not yet known to be volatile.
  { cause: null, when: ({ kind, columns }) => kind !== 'missing' && columns.length === 0 },
  { cause: 'undeleted', when: (one) => one.isLocal && one.isBack && isDeletionAlone(one) },
  { cause: 'local damage', when: ({ isLocal }) => isLocal },
  { cause: 'restored', when: ({ isRewound }) => isRewound },
  // The incremental run has yet to read it.
  { cause: null, when: ({ version }, position) => isAbove(version, position) },
  // Or the row was written only a moment ago: a look at the record itself will tell.
  { cause: 'fell back', when: (one, position) => isAbove(one.mirrored, position) && isOlder(one) },
  { cause: 'undeleted', when: ({ isBack }) => isBack },
  // A stream without versions: the record changed since the last poll.
  { cause: null, when: ({ version }) => version === null },
  { cause: 'late', when: ({ kind }) => kind === 'missing' || kind === 'stale' },
  { cause: 'fell back', when: (one) => isOlder(one) },
  { cause: 'silent', when: () => true },
]

const isOlder = ({ version, mirrored }: Difference): boolean =>
  version !== null && mirrored !== null && version < mirrored

export const causeOf = (difference: Difference, position: bigint): Cause | null =>
  rules.find(({ when }) => when(difference, position))?.cause ?? null

/** Keys that two different records of one page share. The same record shown twice does not count. */
export function twinsIn(rows: readonly Row[]): ReadonlySet<string> {
  const first = new Map<string, Json>()
  const twins = new Set<string>()
  for (const { key, record } of rows) {
    const other = first.get(key)
    if (other === undefined) first.set(key, record)
    else if (JSON.stringify(other) !== JSON.stringify(record)) twins.add(key)
  }
  return twins
}
