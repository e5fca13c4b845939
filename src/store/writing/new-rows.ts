// Expects a page of new rows after a page of new rows, as a first reading brings them: such a page can be copied straight into its
// table. Where one holds another row after all, it is refused and written once more.

import { isDeepStrictEqual } from 'node:util'
import type { Row } from '../../streams/record.ts'

export type NewRows = {
  areExpected(): boolean
  /** Of the next page, what is to be written, and how many of these rows the page before it held as well. */
  nextPage(rows: readonly Row[]): { readonly rows: readonly Row[]; readonly repeatedCount: number }
  wereWritten(areAllNew: boolean): void
  /** False when no new rows were expected. */
  wereRefused(): boolean
}

/** A source may go on changing while it is read. */
const mostRefusals = 5

export function expectNewRows(): NewRows {
  let wasAllNew = false
  let refusals = 0
  let before: readonly Row[] = []
  const areExpected = () => wasAllNew && refusals < mostRefusals

  return {
    areExpected,
    nextPage(rows) {
      const repeated = repeatedRows(rows, before)
      if (rows.length > 0) before = lastRows(rows)
      return areExpected()
        ? { rows: rows.filter((row) => !repeated.has(row)), repeatedCount: 0 }
        : { rows, repeatedCount: repeated.size }
    },
    wereWritten(areAllNew) {
      wasAllNew = areAllNew
    },
    wereRefused() {
      if (!wasAllNew) return false
      wasAllNew = false
      refusals++
      return true
    },
  }
}

/** The rows that the next page may show once more: where its reading begins. */
function lastRows(rows: readonly Row[]): readonly Row[] {
  const last = rows.at(-1)?.version ?? null
  return last === null ? [] : rows.filter(({ version }) => version === last)
}

/** Those that are just as the page before showed them. */
function repeatedRows(rows: readonly Row[], before: readonly Row[]): ReadonlySet<Row> {
  const shown = new Map(before.map((row) => [row.key, row]))
  const isRepeated = ({ key, version, record }: Row) => {
    const other = shown.get(key)
    return other !== undefined && other.version === version && isDeepStrictEqual(other.record, record)
  }
  return new Set(rows.filter(isRepeated))
}
