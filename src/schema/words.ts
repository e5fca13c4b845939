// What there is to say about a column, in one line, whatever the upstream called its field.

import { count } from '../count.ts'
import type { ColumnMap } from '../mirror/schema-map.ts'

const ownColumns: Readonly<Record<string, string>> = {
  _synced_at: 'when the row last changed in the mirror',
  _observed_at: 'when the row was seen like this',
  _deleted_at: 'when the row was found to be gone',
}

/** Without what would end a line, turn the direction of text, or not be seen. */
export const oneLine = (text: string): string =>
  text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\p{Cf}|[\ufffe\uffff]/gu, '')
    .trim()

export function describeColumn({ name, field, nullShare, firstSeenAt, rescued, note }: ColumnMap): string {
  if (field === null) return ownColumns[name] ?? ''
  return [
    `field ${oneLine(field)}`,
    nullShare === null || nullShare === 0 ? null : `${percent(nullShare)} empty`,
    firstSeenAt === null ? null : `first seen ${firstSeenAt.slice(0, 10)}`,
    rescued === 0 ? null : `${count(rescued)} values did not fit`,
    note === null ? null : oneLine(note),
  ]
    .filter((part) => part !== null)
    .join('; ')
}

/** Never 100 % of what is not wholly empty, nor 0 % of what is not wholly filled. */
function percent(share: number): string {
  const rounded = Math.round(100 * share)
  if (rounded === 0) return 'below 1 %'
  return rounded === 100 && share < 1 ? 'above 99 %' : `${rounded} %`
}
