// The rows of a stream as people page through them: the newest change first, from one row to the next (keyset), with a search through
// every text and number. Where a search takes long it stops and says how far it came, instead of looking at a million rows. Read-only.

import pg from 'pg'
import type { MirroredStream } from '../../streams/catalog.ts'
import { qualified } from '../schema/places.ts'
import { type Column, readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { queryRow, queryRows, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { keyCheck } from '../types/table.ts'
import type { Within } from './ask.ts'

export const deletedChoices = ['shown', 'hidden', 'only'] as const
export type RowSearch = {
  /** Empty: no search. */
  readonly text: string
  readonly deleted: (typeof deletedChoices)[number]
  /** When it changed here. */
  readonly within?: Within
  /** What one column has to hold; the text `null`: nothing. */
  readonly field?: { readonly column: string; readonly value: string } | null
}
/** Where a page ends; what comes after it has changed earlier, or has a lower key. */
export type RowCursor = { readonly at: string; readonly key: string }

/** What an address says may be anything. */
export function isRowCursor({ at, key }: RowCursor): boolean {
  if (key.length > 1_000 || key.includes('\0')) return false
  const [, day, time] =
    /^([1-9]\d{3}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d{1,6})?[+-]\d\d(?::\d\d)?$/.exec(at) ?? []
  const moment = new Date(`${day}T${time}Z`)
  // There is no 30 February.
  return !Number.isNaN(moment.getTime()) && moment.toISOString().startsWith(day ?? '')
}
export type RowLine = {
  readonly key: string
  readonly changedAt: Date
  readonly isDeleted: boolean
  readonly hasMisfits: boolean
  /** It became visible only after the mirror had passed its version. */
  readonly isLate: boolean
  /** In the order of the columns; null is null. */
  readonly values: readonly (string | null)[]
  /** The first columns that hold the text that was searched for, with what is around it; not the key. */
  readonly matched: readonly { readonly column: string; readonly value: string }[]
}
export type RowPage = {
  readonly rows: readonly RowLine[]
  /** Where to go on; null: that was all. */
  readonly next: RowCursor | null
  /** So many rows were looked at. */
  readonly looked: number
  /** The time was up before the page was full. */
  readonly isCut: boolean
}
export type RowTable = { readonly tableSchema: TableSchema; readonly columns: readonly Column[] }

/** Null while there is no table. */
export async function rowTable(client: Queryable, stream: MirroredStream): Promise<RowTable | null> {
  const tableSchema = await readTableSchema(client, stream)
  return tableSchema && { tableSchema, columns: tableSchema.columns.filter((one) => one !== tableSchema.key) }
}

// ── the condition, for Postgres and for people ───────────────────────────────────────────────────────────────

/** Types of columns that hold numbers and nothing else. */
export const numberTypes: readonly string[] = ['bigint', 'numeric']

/** Conditions in SQL, with quoted values in them; the one for the text is the last. */
function conditions({ tableSchema, columns }: RowTable, search: RowSearch): readonly string[] {
  return [
    ...timeConditions(search),
    search.deleted === 'hidden' ? '_deleted_at is null' : null,
    search.deleted === 'only' ? '_deleted_at is not null' : null,
    search.field ? fieldCondition([tableSchema.key, ...columns], search.field) : null,
    search.text === '' ? null : textCondition([tableSchema.key, ...columns], search.text),
  ].filter((one) => one !== null)
}

/** Rows are looked at in the order of this time: those outside need not be looked at. */
function timeConditions({ within }: RowSearch): readonly string[] {
  const moment = (at: Date) => `timestamptz '${at.toISOString()}'`
  return [
    within?.from ? `_synced_at >= ${moment(within.from)}` : null,
    within?.to ? `_synced_at < ${moment(within.to)}` : null,
  ].filter((one) => one !== null)
}

function fieldCondition(columns: readonly Column[], { column, value }: NonNullable<RowSearch['field']>) {
  const found = columns.find(({ name }) => name === column)
  if (!found) return null
  const name = pg.escapeIdentifier(found.name)
  if (value === 'null') return `${name} is null`
  if (numberTypes.includes(found.type) && numberText.test(value)) return `${name} = ${value}`
  if (found.type === 'boolean' && /^(true|false)$/.test(value)) return `${name} = ${value}`
  return `${found.type === 'text' ? name : `${name}::text`} ilike ${containing(value)}`
}

const numberText = /^-?\d+(\.\d+)?$/

/** The pattern of texts that hold another, quoted. */
const containing = (text: string): string => pg.escapeLiteral(`%${text.replaceAll(/[\\%_]/g, '\\$&')}%`)

/** Which columns may hold a text, and which a number that it may be. */
function searched(columns: readonly Column[], text: string) {
  const named = (wanted: (type: string) => boolean) =>
    columns.filter(({ type }) => wanted(type)).map(({ name }) => name)
  return {
    texts: named((type) => type === 'text' || type === 'uuid' || type === 'jsonb'),
    numbers: numberText.test(text) ? named((type) => numberTypes.includes(type)) : [],
  }
}

function textCondition(columns: readonly Column[], text: string): string {
  const found = searched(columns, text)
  const [texts, numbers] = [found.texts.map(pg.escapeIdentifier), found.numbers.map(pg.escapeIdentifier)]
  const parts = [
    texts.length > 0 && `${joined(texts)} ilike ${containing(text)}`,
    numbers.length > 0 && `${text} in (${numbers.join(', ')})`,
  ].filter(Boolean)
  return parts.length === 0 ? 'false' : `(${parts.join(' or ')})`
}

const mostMatched = 3
const aroundMatch = 30

/** As `matched` of a line of `mine` has them; one column after the other. */
function matchedSql(columns: readonly Column[], text: string): string {
  const { texts, numbers } = searched(columns, text)
  const mine = (name: string) => `mine.${pg.escapeIdentifier(name)}::text`
  const around = (name: string) =>
    `substr(${mine(name)}, greatest(1, strpos(lower(${mine(name)}), lower(${pg.escapeLiteral(text)})) - ${aroundMatch}), ${2 * aroundMatch + text.length})`
  const line = (name: string, value: string) =>
    `jsonb_build_object('column', ${pg.escapeLiteral(name)}, 'value', ${value})`
  const lines = [
    ...texts.map(
      (name) => `case when ${mine(name)} ilike ${containing(text)} then ${line(name, around(name))} end`,
    ),
    ...numbers.map(
      (name) => `case when mine.${pg.escapeIdentifier(name)} = ${text} then ${line(name, mine(name))} end`,
    ),
  ]
  return text === '' || lines.length === 0
    ? `'[]'::jsonb`
    : `(select coalesce(jsonb_agg(line), '[]') from (
        select line from unnest(array[${lines.join(', ')}]) as line where line is not null limit ${mostMatched}
      ) as first)`
}

/** A function of Postgres takes at most 100 arguments. */
const mostJoined = 99

function joined(texts: readonly string[]): string {
  const some = Array.from({ length: Math.ceil(texts.length / mostJoined) }, (_, at) => {
    const part = texts.slice(at * mostJoined, (at + 1) * mostJoined)
    return `concat_ws(' ', ${part.join(', ')})`
  })
  return some.length === 1 ? (some[0] ?? '') : `concat_ws(' ', ${some.join(', ')})`
}

/** What the page shows, as a query that anybody can run. */
export function sqlOf(table: RowTable, columns: readonly Column[], search: RowSearch, limit: number): string {
  const { stream, key } = table.tableSchema
  const names = [key, ...columns].map(({ name }) => pg.escapeIdentifier(name))
  const where = conditions(table, search).join('\n  and ')
  return `select ${[...names, '_synced_at'].join(', ')}
from ${qualified(stream)}${where === '' ? '' : `\nwhere ${where}`}
order by _synced_at desc, ${pg.escapeIdentifier(key.name)} desc
limit ${limit};`
}

// ── a page of rows ───────────────────────────────────────────────────────────────────────────────────────────

type Options = {
  readonly columns: readonly Column[]
  readonly search: RowSearch
  readonly after: RowCursor | null
  readonly limit: number
  /** Of a value. */
  readonly mostCharacters: number
  /** The page ends before its values are more than this, but has at least one row. */
  readonly mostBytes?: number
  /** Also which columns hold the text. */
  readonly tellsMatched?: boolean
  /** No further window is looked at after this long. */
  readonly enoughMs?: number
}

const firstWindow = 2_000
const largestWindow = 50_000
const defaultEnoughMs = 1_200
/** If the page begins with the row of a typed key, this is enough: people have what they look for. */
const enoughForKeyMs = 50

/** Where those begin that follow the row of a typed key. */
const beforeAll = (key: string): RowCursor => ({ at: '9999-12-31 23:59:59+00', key })

export async function readRowPage(client: Queryable, table: RowTable, options: Options): Promise<RowPage> {
  const { search, limit, enoughMs = defaultEnoughMs } = options
  const where = conditions(table, search)
  const startedAtMs = performance.now()
  // Who types a key wants that row first, and not all that mention it.
  // An address may hold anything as the key after which to go on.
  const after =
    options.after && keyCheck(table.tableSchema.key.type)(options.after.key) ? options.after : null
  const meant = await rowOfKey(client, table, where, search.text)
  const first = after === null ? meant : []
  const found: RowCursor[] = [...first]
  let cursor = after
  let looked = 0
  // One more tells whether there is another page.
  let size = where.length === 0 ? limit + 1 : firstWindow
  for (;;) {
    const window = await readWindow(client, table, {
      where,
      cursor,
      size,
      limit: limit + 1 + meant.length,
      times: timeConditions(search),
    })
    looked += window.looked
    found.push(...window.found.filter(({ key }) => !meant.some((one) => one.key === key)))
    const isEnd = window.looked < size
    const tookMs = performance.now() - startedAtMs
    if (found.length > limit || isEnd || tookMs > (first.length > 0 ? enoughForKeyMs : enoughMs)) {
      const shown = await fitting(client, table, options, found.slice(0, limit))
      const isFull = found.length > shown.length
      const next = isFull
        ? (shown.findLast((one) => !first.includes(one)) ?? beforeAll(search.text))
        : isEnd
          ? null
          : window.last
      return {
        rows: await readLines(client, table, options, shown),
        next,
        looked,
        isCut: !isFull && !isEnd,
      }
    }
    cursor = window.last
    // No more rows than fit into the time that is left, judging by what the rows before took.
    const inTime = Math.floor((looked / tookMs) * (enoughMs - tookMs))
    size = Math.max(firstWindow, Math.min(largestWindow, size * 4, inTime))
  }
}

async function rowOfKey(
  client: Queryable,
  { tableSchema: { stream, key } }: RowTable,
  where: readonly string[],
  text: string,
): Promise<readonly RowCursor[]> {
  if (text === '' || !keyCheck(key.type)(text)) return []
  const name = pg.escapeIdentifier(key.name)
  return await queryRows<RowCursor>(
    client,
    `select ${name}::text as key, _synced_at::text as at from ${qualified(stream)}
     where ${[`${name} = $1`, ...where.slice(0, -1)].join(' and ')}`,
    [text],
  )
}

type Window = {
  readonly found: readonly RowCursor[]
  readonly looked: number
  readonly last: RowCursor | null
}

async function readWindow(
  client: Queryable,
  { tableSchema: { stream, key } }: RowTable,
  given: {
    readonly where: readonly string[]
    readonly cursor: RowCursor | null
    readonly size: number
    readonly limit: number
    readonly times: readonly string[]
  },
): Promise<Window> {
  const name = pg.escapeIdentifier(key.name)
  const behind =
    given.cursor === null
      ? 'true'
      : `_synced_at <= $3::timestamptz and (_synced_at, ${name}) < ($3::timestamptz, $4::${key.type})`
  const window = await queryRow<Window>(
    client,
    `with looked as materialized (
       select ${name} as key, _synced_at as at, ${given.where.join(' and ') || 'true'} as fits
       from ${qualified(stream)} where ${[behind, ...given.times].join(' and ')}
       order by _synced_at desc, ${name} desc limit $1
     ), fitting as (
       select key, at from looked where fits order by at desc, key desc limit $2
     )
     select
       coalesce((
         select jsonb_agg(jsonb_build_object('key', key::text, 'at', at::text) order by at desc, key desc) from fitting
       ), '[]') as found,
       (select count(*)::int from looked) as looked,
       (select jsonb_build_object('key', key::text, 'at', at::text) from looked order by at, key limit 1) as last`,
    [given.size, given.limit, ...(given.cursor ? [given.cursor.at, given.cursor.key] : [])],
  )
  return window ?? { found: [], looked: 0, last: null }
}

/** Those of a page that are not too large together (P10). The size of a text is known without reading it. */
async function fitting(
  client: Queryable,
  { tableSchema: { stream, key } }: RowTable,
  { columns, mostCharacters, mostBytes }: Options,
  wanted: readonly RowCursor[],
): Promise<readonly RowCursor[]> {
  if (mostBytes === undefined || wanted.length === 0 || columns.length === 0) return wanted
  const sizes = columns.map(
    ({ name }) => `least(coalesce(octet_length(mine.${pg.escapeIdentifier(name)}::text), 0), 4 * $2::int)`,
  )
  const rowCount = await queryValue<number>(
    client,
    `select count(*)::int from (
       select place, sum(${sizes.join(' + ')}) over (order by place) as bytes
       from unnest($1::text[]) with ordinality as wanted (key, place)
       left join ${qualified(stream)} as mine on mine.${pg.escapeIdentifier(key.name)} = wanted.key::${key.type}
     ) as sized where bytes <= $3 or place = 1`,
    [wanted.map((one) => one.key), mostCharacters, mostBytes],
  )
  return wanted.slice(0, rowCount ?? 1)
}

async function readLines(
  client: Queryable,
  { tableSchema: { stream, key }, columns: all }: RowTable,
  { columns, mostCharacters, search, tellsMatched }: Options,
  wanted: readonly RowCursor[],
): Promise<readonly RowLine[]> {
  if (wanted.length === 0) return []
  const values = columns.map(({ name }) => `left(mine.${pg.escapeIdentifier(name)}::text, $2)`)
  return await queryRows<RowLine>(
    client,
    `select wanted.key, _synced_at as "changedAt", _deleted_at is not null as "isDeleted", _rescued is not null as "hasMisfits",
       exists (select from tidemark.late_arrival as late where late.stream = $3 and late.key = wanted.key) as "isLate",
       to_json(array[${values.join(', ')}]::text[]) as values, ${matchedSql(all, tellsMatched ? search.text : '')} as matched
     from unnest($1::text[]) with ordinality as wanted (key, place)
     join ${qualified(stream)} as mine on mine.${pg.escapeIdentifier(key.name)} = wanted.key::${key.type}
     order by place`,
    [wanted.map((one) => one.key), mostCharacters, stream.name],
  )
}
