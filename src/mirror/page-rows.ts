// Which rows of a page are written, and in which order. Pure.

import type { Row } from '../record.ts'

export const rowsToWrite = (rows: readonly Row[]): readonly Row[] => inKeyOrder(newestOfEachKey(rows))

/** The newest version of each key; of equal versions the one that came last. */
function newestOfEachKey(rows: readonly Row[]): readonly Row[] {
  const newest = new Map<string, Row>()
  for (const row of rows) {
    const other = newest.get(row.key)
    if (!other || other.version === null || row.version === null || row.version >= other.version)
      newest.set(row.key, row)
  }
  return newest.size === rows.length ? rows : [...newest.values()]
}

/** All writers take their row locks in the same order. The merge sorts for itself, and knows how other keys than numbers sort. */
const inKeyOrder = (rows: readonly Row[]): readonly Row[] =>
  rows.toSorted((one, other) => Number(one.key) - Number(other.key))
