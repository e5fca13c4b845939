// Reads rows of the mirror back into the values they came from, by nothing but what the README says of columns and
// `_rescued`. Shares no code with what it checks.

import type { Pool } from 'pg'
import type { Json } from '../../src/json/json.ts'

type Column = { readonly name: string; readonly type: string }
export type RecoveredRow = {
  /** The same for all rows. */
  readonly columns: ReadonlyMap<string, Column>
  readonly texts: { readonly [column: string]: string | null }
  readonly rescued: { readonly [name: string]: unknown }
}

/** By key, every column as text; times as they are in this time zone. `source`: a named one. */
export async function readBack(
  pool: Pool,
  stream: string,
  { timeZone = 'UTC', source = '' }: { readonly timeZone?: string; readonly source?: string } = {},
): Promise<ReadonlyMap<string, RecoveredRow>> {
  const fields = await pool.query<{ folded: string; column_name: string; column_type: string }>(
    'select folded, column_name, column_type from tidemark.field where stream = $1 and column_name is not null',
    [source === '' ? stream : `${source}.${stream}`],
  )
  const columns = new Map(
    fields.rows.map(({ folded, column_name: name, column_type: type }) => [folded, { name, type }]),
  )
  const client = await pool.connect()
  try {
    await client.query(`select set_config('timezone', $1, false)`, [timeZone])
    const { rows } = await client.query({
      text: `select * from ${source === '' ? 'mirror' : `${source}_mirror`}.${stream}`,
      types: { getTypeParser: () => String },
    })
    return new Map(
      rows.map((row: Record<string, string | null>) => [
        row[`${stream}_id`] ?? '',
        { columns, texts: row, rescued: JSON.parse(row._rescued ?? '{}', keepNumbers) },
      ]),
    )
  } finally {
    client.release(true)
  }
}

export function recover(row: RecoveredRow | undefined) {
  if (!row) throw new Error('the row is not there')
  return {
    /** Whether the field's value is there, in its column or among the rescued. */
    field(field: string, value: Json): boolean {
      if (value === null) return true
      if (Object.hasOwn(row.rescued, nameOf(field)))
        return isSame(unwrap(row.rescued[nameOf(field)]), plain(value))
      const column = row.columns.get(printable(field.toLowerCase()))
      const text = column && row.texts[column.name]
      return (
        column !== undefined &&
        typeof text === 'string' &&
        isBlocked(column.type, text, isLocalTime(field, value) ? `${value}${offsetOf(text)}` : value)
      )
    },
    /** Whether the earlier values of repeated fields are there. */
    repeated(earlier: Json | undefined): boolean {
      if (earlier === undefined) return !Object.hasOwn(row.rescued, '$repeated')
      return isSame(unwrap(row.rescued.$repeated), plain(earlier))
    },
  }
}

const keepNumbers = (_key: string, value: unknown, context?: { source: string }): unknown =>
  typeof value === 'number' && context ? JSON.rawJSON(context.source) : value

const isOdd = (text: string): boolean => text.includes('\0') || !text.isWellFormed()
const printable = (field: string): string => (isOdd(field) ? JSON.stringify(field) : field)
const nameOf = (field: string): string =>
  isOdd(field) || field.startsWith('$') ? `$json:${JSON.stringify(field)}` : field

/** `{"$json": "<text>"}` stands for the value of that text. */
function unwrap(value: unknown): unknown {
  const wrapped =
    typeof value === 'object' && value !== null ? (value as { $json?: unknown }).$json : undefined
  return typeof wrapped === 'string' ? JSON.parse(wrapped, keepNumbers) : value
}

const plain = (value: Json): unknown => JSON.parse(JSON.stringify(value), keepNumbers)

function isBlocked(type: string, text: string, value: Json): boolean {
  switch (type) {
    case 'bigint':
    case 'numeric':
      return isNumber(value) && isSameNumber(text, JSON.stringify(value))
    case 'boolean':
      return value === (text === 't')
    case 'uuid':
      return typeof value === 'string' && value.toLowerCase() === text
    case 'timestamptz':
      return typeof value === 'string' && microseconds(text) === microseconds(value)
    case 'text':
      return value === text
    default:
      return isSame(JSON.parse(text, keepNumbers), plain(value))
  }
}

const isNumber = (value: unknown): boolean => typeof value === 'number' || JSON.isRawJSON(value)

/** Deep, field order aside; numbers by their decimal value. */
function isSame(one: unknown, other: unknown): boolean {
  if (isNumber(one) && isNumber(other)) return isSameNumber(JSON.stringify(one), JSON.stringify(other))
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null)
    return one === other
  if (isNumber(one) || isNumber(other) || Array.isArray(one) !== Array.isArray(other)) return false
  const names = Object.keys(one)
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isSame(one[name as never], other[name as never]))
  )
}

const isSameNumber = (one: string, other: string): boolean => one === other || decimal(one) === decimal(other)

/** Sign, digits without zeros at either end, and the exponent that belongs to them. */
function decimal(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  const kept = digits.replace(/0+$/, '')
  if (kept === '') return '0'
  return `${sign}${kept}e${Number(exponent) - fraction.length + digits.length - kept.length}`
}

/** Without an offset, and in no field that says UTC: the clock on the wall where the source is. */
const isLocalTime = (field: string, value: Json): value is string =>
  typeof value === 'string' && !/utc$/i.test(field) && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?$/.test(value)
const offsetOf = (text: string): string => /[+-]\d\d(?::\d\d)?$/.exec(text)?.[0] ?? ''

/** Since 1970, cut. Reads what Postgres writes as well as ISO; without an offset UTC is meant. */
function microseconds(text: string): bigint {
  const parts =
    /^(\d{4,})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:Z|([+-])(\d\d):?(\d\d)?)?( BC)?$/.exec(
      text,
    )
  if (!parts) throw new Error(`not a date-time: ${text}`)
  const [
    ,
    year,
    month,
    day,
    hour,
    minute,
    second = '0',
    fraction = '',
    sign = '+',
    offsetHours = '0',
    offsetMinutes = '0',
  ] = parts
  const date = new Date(0)
  date.setUTCFullYear(parts[11] ? 1 - Number(year) : Number(year), Number(month) - 1, Number(day))
  date.setUTCHours(Number(hour), Number(minute), Number(second))
  const offsetMs = (sign === '-' ? -1 : 1) * (Number(offsetHours) * 60 + Number(offsetMinutes)) * 60_000
  return BigInt(date.getTime() - offsetMs) * 1000n + BigInt(fraction.padEnd(6, '0').slice(0, 6))
}
