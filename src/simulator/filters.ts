// Filters and Sorts as Sieve reads them: `Name>=value`, several names with `|` in brackets, several values with `|`,
// conditions with commas between. What cannot be applied is told to the caller, who decides what becomes of the list.

import type { Field } from './fields.ts'
import { type ClockTime, localClock, parseTime, storedTime } from './times.ts'

type Comparison = '==' | '!=' | '>' | '<' | '>=' | '<='
type TextTest = '@=' | '_=' | '_-='
type Operator = {
  readonly base: Comparison | TextTest
  readonly isNegated: boolean
  readonly ignoresCase: boolean
}

/** One value that one field is held against. */
export type Condition = Operator & { readonly field: Field; readonly wanted: Wanted }
type Wanted = string | number | bigint | boolean | null
/** Holds when one of its conditions does. */
export type Filter = readonly Condition[]

export class NotApplicable extends Error {}

// Commas and bars that a backslash stands before are part of a value.
const comma = /(?<!(?:^|[^\\])(?:\\\\)*\\),\s*/
const bar = /(?<!(?:^|[^\\])(?:\\\\)*\\)\|/
const operators =
  /(?<!\\)(!@=\*|!_=\*|!=\*|!@=|!_-=\*|!_-=|!_=|==\*|@=\*|_=\*|_-=\*|==|!=|>=|<=|>|<|@=|_=|_-=)/

export type FilterContext = {
  /** The field of that name, or undefined when nothing is known by it. */
  readonly find: (name: string) => Field | undefined
  readonly timeZone: string
  /** Unknown names and unreadable values are left out, instead of being refused. */
  readonly skipsUnknown: boolean
}

export function parseFilters(text: string, context: FilterContext): Filter[] {
  return text
    .split(comma)
    .filter((part) => part.trim() !== '')
    .flatMap((part) => {
      try {
        return parseFilter(part, context)
      } catch (error) {
        if (error instanceof NotApplicable && context.skipsUnknown) return []
        throw error
      }
    })
}

function parseFilter(part: string, context: FilterContext): Filter[] {
  const [namesText = '', operatorText, valuesText = ''] = part.split(operators).map((piece) => piece.trim())
  const fields = namesText
    .replace(/^\((.*)\)$/, '$1')
    .split(bar)
    .map((name) => {
      const field = context.find(name.trim())
      if (!field) throw new NotApplicable(`There is no field ${name} to filter by.`)
      return field
    })
  // A known name without an operator is no condition.
  if (operatorText === undefined) return []
  const operator = readOperator(operatorText)
  const values = valuesText.split(bar)
  return [
    fields.flatMap((field) =>
      values.map((value) => ({ ...operator, field, wanted: readValue(field, operator, value, context) })),
    ),
  ]
}

function readOperator(text: string): Operator {
  const ignoresCase = text.endsWith('*')
  const plain = ignoresCase ? text.slice(0, -1) : text
  const isNegated = plain.startsWith('!') && plain !== '!='
  return { base: (isNegated ? plain.slice(1) : plain) as Operator['base'], isNegated, ignoresCase }
}

const isTextTest = (base: Operator['base']): base is TextTest =>
  base === '@=' || base === '_=' || base === '_-='
const withoutBackslashes = (text: string) => text.replace(/\\([,|\\]|null$|[!@_=<>-])/g, '$1')

function readValue(field: Field, operator: Operator, text: string, { timeZone }: FilterContext): Wanted {
  const { type, isNullable } = field
  const isText = type === 'string' || type === 'url' || type === 'any'
  if (isText && type !== 'any' && ['>', '<', '>=', '<='].includes(operator.base))
    throw new NotApplicable(`${field.name} is a text: it is neither more nor less than another.`)
  if (text.toLowerCase() === 'null') {
    if (!isText && (!isNullable || isTextTest(operator.base) || operator.ignoresCase))
      throw new NotApplicable(`${field.name} is not to be compared with null like this.`)
    return null
  }
  const value = withoutBackslashes(text)
  if (isText) return value
  if (isTextTest(operator.base) || operator.ignoresCase || type === 'bytes' || type === 'record')
    throw new NotApplicable(`${field.name} is no text.`)
  const read = readTyped(type, value.trim(), timeZone)
  if (read === undefined) throw new NotApplicable(`"${text}" is no value of ${field.name}.`)
  if ((type === 'boolean' || type === 'uuid') && operator.base !== '==' && operator.base !== '!=')
    throw new NotApplicable(`${field.name} has no order.`)
  return read
}

const integerBounds: Readonly<Record<string, readonly [bigint, bigint]>> = {
  uint8: [0n, 255n],
  int16: [-(2n ** 15n), 2n ** 15n - 1n],
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
}

export function readInteger(type: string, text: string): bigint | undefined {
  const bounds = integerBounds[type]
  if (!bounds) return undefined
  const [, digits] = /^(?:0x|#|&h)([0-9a-f]+)$/i.exec(text) ?? []
  if (digits === undefined && !/^[+-]?\d+$/.test(text)) return undefined
  const value = BigInt(digits === undefined ? text.replace(/^\+/, '') : `0x${digits}`)
  return value >= bounds[0] && value <= bounds[1] ? value : undefined
}

function readTyped(type: Field['type'], text: string, timeZone: string): Wanted | undefined {
  switch (type) {
    case 'boolean':
      return /^true$/i.test(text) ? true : /^false$/i.test(text) ? false : undefined
    case 'uuid':
      return /^\{?[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\}?$/i.test(text)
        ? text.replace(/[{}]/g, '').toLowerCase()
        : undefined
    case 'dateTime': {
      const time = parseTime(text.replace(' ', 'T'), timeZone)
      return time ? storedTime(localOf(time, timeZone)) : undefined
    }
    case 'double':
    case 'decimal':
      return /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i.test(text) ? Number(text) : undefined
    default:
      return readInteger(type, text)
  }
}

/** A time with a Z is taken for the local time of that moment, whatever the field means. */
const localOf = (time: ClockTime, timeZone: string): ClockTime =>
  time.kind === 'utc' ? localClock(time.clockMs, timeZone, time.ticks) : time

/** Whether a record's value meets the condition; null meets nothing but a null that is asked for. */
export function meets({ base, isNegated, ignoresCase, wanted }: Condition, value: unknown): boolean {
  const isNull = value === null || value === undefined
  // Nothing is more or less than null.
  if (wanted === null) return base === '==' ? isNull : base === '!=' && !isNull
  if (isNull) return false
  const holds = isTextTest(base)
    ? testText(base, String(value), String(wanted), ignoresCase)
    : compares(base, orderOf(value, wanted, ignoresCase))
  return holds !== isNegated
}

function testText(base: TextTest, value: string, wanted: string, ignoresCase: boolean): boolean {
  const [text, part] = ignoresCase ? [value.toUpperCase(), wanted.toUpperCase()] : [value, wanted]
  if (base === '@=') return text.includes(part)
  return base === '_=' ? text.startsWith(part) : text.endsWith(part)
}

function compares(base: Comparison, order: number): boolean {
  if (base === '==') return order === 0
  if (base === '!=') return order !== 0
  if (base === '>') return order > 0
  if (base === '<') return order < 0
  return base === '>=' ? order >= 0 : order <= 0
}

const sign = (a: string | bigint | number, b: string | bigint | number) => (a < b ? -1 : a > b ? 1 : 0)

function orderOf(value: unknown, wanted: Exclude<Wanted, null>, ignoresCase: boolean): number {
  if (typeof wanted === 'boolean') return value === wanted ? 0 : 1
  if (typeof wanted === 'bigint') return sign(integerOf(value) ?? numberOf(value), wanted)
  if (typeof wanted === 'number') return sign(numberOf(value), wanted)
  const text = JSON.isRawJSON(value) ? value.rawJSON : String(value)
  const digits = integerOf(text)
  if (digits !== null && integerOf(wanted) !== null) return sign(digits, integerOf(wanted) ?? 0n)
  return ignoresCase ? sign(text.toUpperCase(), wanted.toUpperCase()) : sign(text, wanted)
}

const numberOf = (value: unknown) => Number(JSON.isRawJSON(value) ? value.rawJSON : value)

function integerOf(value: unknown): bigint | null {
  if (typeof value === 'bigint') return value
  const text = JSON.isRawJSON(value) ? value.rawJSON : value
  if (typeof text === 'number' && Number.isInteger(text)) return BigInt(text)
  return typeof text === 'string' && /^-?\d+$/.test(text) ? BigInt(text) : null
}

/** The order of two values of one field; null is less than everything. */
export function compareValues(a: unknown, b: unknown): number {
  if (a === b) return 0
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : -1
  if (b === null || b === undefined) return 1
  if (typeof a === 'number' && typeof b === 'number') return a - b
  const left = integerOf(a)
  const right = integerOf(b)
  if (left !== null && right !== null) return sign(left, right)
  if (JSON.isRawJSON(a) || JSON.isRawJSON(b)) return sign(numberOf(a), numberOf(b))
  return sign(String(a), String(b))
}

export type Sort = { readonly field: Field; readonly isDescending: boolean }

/** Blanks may follow a comma; anywhere else they are part of a name that nothing is known by. */
export function parseSorts(text: string, context: Pick<FilterContext, 'find' | 'skipsUnknown'>): Sort[] {
  return text
    .split(comma)
    .filter((part) => part.trim() !== '')
    .flatMap((part) => {
      const written = context.skipsUnknown ? part.trim() : part
      const isDescending = written.startsWith('-')
      const field = context.find(isDescending ? written.slice(1) : written)
      if (field) return [{ field, isDescending }]
      if (context.skipsUnknown) return []
      throw new NotApplicable(`There is no field ${part} to sort by.`)
    })
}
