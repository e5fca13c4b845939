// Expects a page of new rows after a page of new rows, as a first reading brings them: such a page can be copied straight into its
// table. After a page whose rows were all there unchanged it expects another such page: of that only hashes are needed. Where one holds
// another row after all, it is refused and written once more.

import { isDeepStrictEqual } from 'node:util'
import type { Row } from '../../streams/record.ts'

export type NewRows = {
  areExpected(): boolean
  /** All rows are expected to be in the table already, just as they are. */
  noneIsExpected(): boolean
  /** Of the next page. */
  nextPage(rows: readonly Row[]): NextPage
  wereWritten(page: { readonly areAllNew: boolean; readonly areAllKnown: boolean }): void
  /** False when no new rows were expected. */
  wereRefused(): boolean
  /** Where none was expected. */
  wereWanted(): void
}

export type NextPage = {
  /** What is to be written. */
  readonly rows: readonly Row[]
  /** How many of these rows the page before it held as well. */
  readonly repeatedCount: number
  /** It has another record of a row that the page before it held: which of them stays is only known behind that page. */
  readonly sharesRows: () => boolean
}

/** A source may go on changing while it is read. */
const mostRefusals = 5

export function expectNewRows(): NewRows {
  let wasAllNew = false
  let wasAllKnown = false
  let refusals = 0
  let surprises = 0
  let before: readonly Row[] = []
  let keysBefore: readonly string[] = []
  const areExpected = () => wasAllNew && refusals < mostRefusals

  return {
    areExpected,
    noneIsExpected: () => wasAllKnown && surprises < mostRefusals,
    nextPage(rows) {
      const repeated = repeatedRows(rows, before)
      const others = keysBefore
      // Not asked of pages of new rows.
      const sharesRows = () => {
        const keys = new Set(others)
        return rows.some((row) => keys.has(row.key) && !repeated.has(row))
      }
      if (rows.length > 0) {
        before = lastRows(rows)
        // Of the rows only these: a row keeps the bytes of its page.
        keysBefore = rows.map(({ key }) => key)
      }
      if (repeated.size === 0 || !areExpected()) return { rows, repeatedCount: repeated.size, sharesRows }
      return { rows: rows.filter((row) => !repeated.has(row)), repeatedCount: 0, sharesRows }
    },
    wereWritten({ areAllNew, areAllKnown }) {
      wasAllNew = areAllNew
      wasAllKnown = areAllKnown
    },
    wereRefused() {
      if (!wasAllNew) return false
      wasAllNew = false
      refusals++
      return true
    },
    wereWanted() {
      wasAllKnown = false
      surprises++
    },
  }
}

/** The rows that the next page may show once more: where its reading begins. */
function lastRows(rows: readonly Row[]): readonly Row[] {
  const last = rows.at(-1)?.version ?? null
  if (last === null) return []
  // Parsed: what a row was found in does not outlast its commit.
  return rows
    .filter(({ version }) => version === last)
    .map(({ key, version, record }) => ({ key, version, record }))
}

/** Those that are just as the page before showed them. */
function repeatedRows(rows: readonly Row[], before: readonly Row[]): ReadonlySet<Row> {
  const shown = new Map(before.map((row) => [row.key, row]))
  // All of them have one version.
  const version = before[0]?.version ?? null
  const isRepeated = (row: Row) => {
    const other = version !== null && row.version === version ? shown.get(row.key) : undefined
    // The records last: to look at one is to parse it.
    return other !== undefined && isDeepStrictEqual(other.record, row.record)
  }
  return new Set(rows.filter(isRepeated))
}
