// Guesses what the next page holds by what the page before held. After a page of new rows another one is expected, as in a first load:
// it can be copied straight into its table. After a page whose rows were all stored and unchanged another such one is expected: only its
// hashes are made. Where the guess is wrong, the attempt is rolled back, and the page is written once more in the usual way.

import { isDeepStrictEqual } from 'node:util'
import type { Row } from '../../streams/record.ts'

export type NewRows = ReturnType<typeof expectNewRows>
export type NextPage = ReturnType<NewRows['nextPage']>

/** After so many wrong guesses no more are made: the source is changing while it is read. */
const mostRefusals = 5

export function expectNewRows() {
  let wasAllNew = false
  let wasAllKnown = false
  let refusals = 0
  let surprises = 0
  let before: readonly Row[] = []
  let keysBefore: readonly string[] = []
  const areExpected = () => wasAllNew && refusals < mostRefusals

  return {
    areExpected,
    /** All rows are expected to be in the table already, just as they are. */
    noneIsExpected: () => wasAllKnown && surprises < mostRefusals,
    /** Call it for each page, in order. Returns what is to be written. */
    nextPage(rows: readonly Row[]) {
      const repeated = repeatedRows(rows, before)
      const others = keysBefore
      /**
       * It has another record of a row that the page before holds too: which one stays is only known when that page is written. Worked out
       * only when asked for: pages of new rows need it not.
       */
      const sharesRows = () => {
        const keys = new Set(others)
        return rows.some((row) => keys.has(row.key) && !repeated.has(row))
      }
      if (rows.length > 0) {
        before = lastRows(rows)
        // Only the keys are kept: a row would keep the bytes of its whole page in memory.
        keysBefore = rows.map(({ key }) => key)
      }
      const leavesOut = repeated.size > 0 && areExpected()
      return {
        rows: leavesOut ? rows.filter((row) => !repeated.has(row)) : rows,
        /** How many of these rows the page before it held as well. */
        repeatedCount: leavesOut ? 0 : repeated.size,
        sharesRows,
      }
    },
    wereWritten(page: { readonly areAllNew: boolean; readonly areAllKnown: boolean }): void {
      wasAllNew = page.areAllNew
      wasAllKnown = page.areAllKnown
    },
    /** Returns false when no new rows were expected. */
    wereRefused(): boolean {
      if (!wasAllNew) return false
      wasAllNew = false
      refusals++
      return true
    },
    /** Some rows had to be written although none was expected to change. */
    wereWanted(): void {
      wasAllKnown = false
      surprises++
    },
  }
}

/** The rows that the next page may show once more: where its reading begins. */
function lastRows(rows: readonly Row[]): readonly Row[] {
  const last = rows.at(-1)?.version ?? null
  if (last === null) return []
  // The records are parsed here, because the bytes of a page are reused once it is committed.
  return rows
    .filter(({ version }) => version === last)
    .map(({ key, version, record }) => ({ key, version, record }))
}

/** The rows that are exactly as the page before showed them. */
function repeatedRows(rows: readonly Row[], before: readonly Row[]): ReadonlySet<Row> {
  const shown = new Map(before.map((row) => [row.key, row]))
  // All of them have one version.
  const version = before[0]?.version ?? null
  const isRepeated = (row: Row) => {
    const other = version !== null && row.version === version ? shown.get(row.key) : undefined
    // Records are compared last, because looking at one parses it.
    return other !== undefined && isDeepStrictEqual(other.record, row.record)
  }
  return new Set(rows.filter(isRepeated))
}
