// What the pages read of rows: a page of rows with its query, a single row with what was noted about it, and the rows that a search finds.

import type { Json } from '../json/json.ts'
import { parseJson } from '../json/parse.ts'
import { type Client, type KeyStory, readKeyStory } from '../operator/row-story.ts'
import { type RowStory, storyTable } from '../store/book/row-story.ts'
import {
  numberTypes,
  type RowCursor,
  type RowLine,
  type RowPage,
  type RowSearch,
  readRowPage,
  rowTable,
  sqlOf,
} from '../store/book/rows.ts'
import { relatedNamed, type Stream } from '../streams/catalog.ts'
import { isObject } from '../streams/record.ts'

/** A page of rows with the columns that were wanted, and the query that shows the same. */
export type RowsShown = {
  /** Names of all columns besides the key. */
  readonly all: readonly string[]
  readonly keyName: string
  readonly columns: readonly string[]
  /** Which of them, and of the key, hold numbers and nothing else. */
  readonly numbers: readonly string[]
  /** The search may take a second. */
  readonly page: Promise<RowPage>
  readonly sql: string
}
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

/** One row, and what was noted about its key. */
export type RecordShown = Omit<KeyStory, 'row'> & {
  readonly row: (RowStory & { readonly values: Readonly<Record<string, Json>> }) | null
  /** The field of the upstream behind each column. */
  readonly fieldOf: Readonly<Record<string, string>>
  /** The upstream can be asked for this one. */
  readonly canCompare: boolean
}

/** Some rows of one stream that match. */
export type FoundIn = {
  readonly stream: string
  readonly rows: readonly RowLine[]
  readonly columns: readonly string[]
  readonly hasMore: boolean
}

export async function readRows(
  pool: Client,
  streams: readonly Stream[],
  name: string,
  { search, columns: wanted, choose, ...range }: RowsAsked,
): Promise<RowsShown | null> {
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
    all,
    keyName: table.tableSchema.key.name,
    columns: columns.map((column) => column.name),
    numbers: [table.tableSchema.key, ...columns].flatMap(({ name, type }) =>
      numberTypes.includes(type) ? [name] : [],
    ),
    page,
    sql: sqlOf(table, columns, search, range.limit),
  }
}

export async function readRecord(
  pool: Client,
  streams: readonly Stream[],
  name: string,
  key: string,
): Promise<RecordShown | null> {
  const stream = streams.find((one) => one.name === name)
  const mirrored = stream ?? relatedNamed(name)
  if (!mirrored || key.includes('\0')) return null
  const table = await storyTable(pool, mirrored)
  const isKey = table?.takesKey(key) === true
  const story = await readKeyStory(pool, mirrored, isKey ? table : null, key)
  const values = story.row && parseJson(Buffer.from(story.row.text))
  return {
    ...story,
    row: story.row && { ...story.row, values: isObject(values) ? values : {} },
    fieldOf: Object.fromEntries(table?.tableSchema.columns.map((one) => [one.name, one.field]) ?? []),
    canCompare: stream?.lookup != null && isKey,
  }
}

const rowsFound = 5
/** For all streams together. */
const findMs = 1_500

export async function findInAll(
  pool: Client,
  streams: readonly Stream[],
  text: string,
): Promise<readonly FoundIn[]> {
  const enoughMs = findMs / Math.max(1, streams.length)
  const found: FoundIn[] = []
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
