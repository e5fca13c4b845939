// The subset of Sieve's filter language that is worth having: `Field==value`, `!=`, `>`, `<`, `>=`, `<=`, `@=`
// (contains), joined by commas. What cannot be read, or names no field, is ignored, as Sieve does.

import type { Fields } from './row.ts'

export type Filter = (fields: Fields) => boolean

const expression = /^\s*([A-Za-z_]\w*)\s*(==|!=|>=|<=|@=|>|<)\s*(.*?)\s*$/

export function parseFilters(text: string, fieldNames: ReadonlyMap<string, string>): Filter[] {
  return text.split(',').flatMap((part) => {
    const [, name = '', operator = '', wanted = ''] = expression.exec(part) ?? []
    const field = fieldNames.get(name.toLowerCase())
    return field === undefined ? [] : [(fields: Fields) => holds(fields[field], operator, wanted)]
  })
}

function holds(value: unknown, operator: string, wanted: string): boolean {
  if (operator === '@=')
    return typeof value === 'string' && value.toLowerCase().includes(wanted.toLowerCase())
  if (value === null || value === undefined) return (wanted === 'null') === (operator === '==')
  const order = compareWith(value, wanted)
  switch (operator) {
    case '==':
      return order === 0
    case '!=':
      return order !== 0
    case '>':
      return order > 0
    case '<':
      return order < 0
    case '>=':
      return order >= 0
    default:
      return order <= 0
  }
}

function compareWith(value: unknown, wanted: string): number {
  if (typeof value === 'number') return value - Number(wanted)
  const integer = integerOf(value)
  if (integer !== null && integerOf(wanted) !== null) return sign(integer, integerOf(wanted) ?? 0n)
  return sign(String(value), wanted)
}

const sign = <T extends string | bigint>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)

function integerOf(value: unknown): bigint | null {
  const text = JSON.isRawJSON(value) ? value.rawJSON : value
  return typeof text === 'string' && /^-?\d+$/.test(text) ? BigInt(text) : null
}

/** The order of two values of one field; nulls first, as the database has it. */
export function compareValues(a: unknown, b: unknown): number {
  if (a === b) return 0
  if (a === null || a === undefined) return -1
  if (b === null || b === undefined) return 1
  if (typeof a === 'number' && typeof b === 'number') return a - b
  const left = integerOf(a)
  const right = integerOf(b)
  if (left !== null && right !== null) return sign(left, right)
  return sign(String(a), String(b))
}
