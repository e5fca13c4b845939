// What the pages read of rows: a page of rows with its query, a single row with what was noted about it, and the rows that a search finds.

import { parseJson } from '../json/parse.ts'
import { type Client, readKeyStory } from '../operator/row-story.ts'
import { storyTable } from '../store/book/row-story.ts'
import {
  numberTypes,
  type RowCursor,
  type RowSearch,
  readRowPage,
  rowTable,
  sqlOf,
} from '../store/book/rows.ts'
import { relatedNamed, type Stream } from '../streams/catalog.ts'
import { isObject } from '../streams/record.ts'

export type RowsShown = NonNullable<Awaited<ReturnType<typeof readRows>>>
export type RowsAsked = {
  readonly search: RowSearch
  /** The columns to show; unknown ones are left out. Empty: `choose` says which. */
  readonly columns: readonly string[]
  readonly choose: (all: readonly string[]) => readonly string[]
  readonly after: RowCursor | null
  readonly limit: number
  /** Longer values are cut to so many characters. */
  readonly mostCharacters: number
  /** The page ends before its values are more than this. */
  readonly mostBytes?: number
  readonly tellsMatched?: boolean
}

export type RecordShown = NonNullable<Awaited<ReturnType<typeof readRecord>>>
export type FoundIn = Awaited<ReturnType<typeof findInAll>>[number]

/** A page of rows with the columns that were wanted, and the query that shows the same. */
export async function readRows(
  pool: Client,
  streams: readonly Stream[],
  name: string,
  { search, columns: wanted, choose, ...range }: RowsAsked,
) {
  const stream = streams.find((one) => one.name === name)
  const table = stream && (await rowTable(pool, stream))
  if (!table) return null
  const all = table.columns.map((column) => column.name)
  const known = wanted.filter((one) => all.includes(one))
  const names = known.length > 0 ? known : choose(all)
  const columns = table.columns.filter((column) => names.includes(column.name))
  const page = readRowPage(pool, table, { columns, search, ...range })
  // The caller may await it later: until then a failure must not count as unhandled.
  page.catch(() => {})
  return {
    /** Names of all columns besides the key. */
    all,
    keyName: table.tableSchema.key.name,
    columns: columns.map((column) => column.name),
    /** Which of them, and of the key, hold numbers and nothing else. */
    numbers: [table.tableSchema.key, ...columns].flatMap(({ name, type }) =>
      numberTypes.includes(type) ? [name] : [],
    ),
    /** The search may take a second. */
    page,
    sql: sqlOf(table, columns, search, range.limit),
  }
}

/** One row, and what was noted about its key. */
export async function readRecord(pool: Client, streams: readonly Stream[], name: string, key: string) {
  const stream = streams.find((one) => one.name === name)
  const mirrored = stream ?? relatedNamed(name)
  if (!mirrored || key.includes('\0')) return null
  const table = await storyTable(pool, mirrored)
  const isKey = table?.takesKey(key) === true
  const story = await readKeyStory(pool, mirrored, isKey ? table : null, key)
  const values = story.row && parseJson(Buffer.from(story.row.text))
  const fields = table?.tableSchema.columns.map((one): [string, string] => [one.name, one.field]) ?? []
  return {
    ...story,
    row: story.row && { ...story.row, values: isObject(values) ? values : {} },
    /** The field of the upstream behind each column. */
    fieldOf: Object.fromEntries(fields),
    /** The upstream can be asked for this one. */
    canCompare: stream?.lookup != null && isKey,
  }
}

const rowsFound = 5
/** For all streams together. */
const findMs = 1_500

/** Some rows of each stream that match. */
export async function findInAll(pool: Client, streams: readonly Stream[], text: string) {
  const enoughMs = findMs / Math.max(1, streams.length)
  const found = []
  for (const stream of streams) {
    const table = await rowTable(pool, stream)
    if (!table) continue
    const names = summaryColumns(table.columns.map(({ name }) => name)).slice(0, 3)
    const columns = table.columns.filter(({ name }) => names.includes(name))
    const search = { text, deleted: 'shown' } as const
    const options = {
      columns,
      search,
      after: null,
      limit: rowsFound,
      mostCharacters: 300,
      enoughMs,
      tellsMatched: true,
    }
    const { rows, next } = await readRowPage(pool, table, options)
    found.push({
      stream: stream.name,
      rows,
      columns: columns.map(({ name }) => name),
      hasMore: next !== null,
    })
  }
  return found
}

// The columns that tell most people which row it is, by their names.
const usualColumns = 6
const summary = [
  /number/,
  /subject|name|title/,
  /status/,
  /customer/,
  /city|place/,
  /text|description|note/,
  /type/,
]

/** Names of the columns to show, when nobody chose any. */
export function summaryColumns(names: readonly string[]): readonly string[] {
  const found = summary.flatMap((pattern) =>
    names.filter((name) => pattern.test(name) && !/_id|idext|uid/.test(name)).slice(0, 1),
  )
  const rest = names.filter((name) => !/^sys_|_id$|_id_|version|uid|idext/.test(name))
  return [...new Set([...found, ...rest, ...names])].slice(0, usualColumns)
}
