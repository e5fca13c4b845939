// Which rows of a page are written, and in which order. Pure.

import { isDeepStrictEqual } from 'node:util'
import type { Row } from '../record.ts'

export function rowsToWrite(rows: readonly Row[], before: readonly Row[]): readonly Row[] {
  return inKeyOrder(newestOfEachKey(withoutEchoes(rows, before)))
}

/** The rows that the next page may show once more: where its reading begins. */
export function lastRows(rows: readonly Row[]): readonly Row[] {
  const last = rows.at(-1)?.version ?? null
  return last === null ? [] : rows.filter(({ version }) => version === last)
}

function withoutEchoes(rows: readonly Row[], before: readonly Row[]): readonly Row[] {
  const written = new Map(before.map((row) => [row.key, row]))
  return rows.filter((row) => {
    const echo = written.get(row.key)
    return !echo || echo.version !== row.version || !isDeepStrictEqual(echo.record, row.record)
  })
}

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
