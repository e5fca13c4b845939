// What a parameter may be. Checked before anything is sent; an error names the parameter and its bound.

import { int64 } from '../../streams/record.ts'

export class ParameterError extends Error {
  override readonly name = 'ParameterError'
}

type IntegerBound = { readonly min: bigint; readonly max: bigint }
const integers = {
  int32: { min: -(2n ** 31n), max: 2n ** 31n - 1n },
  int64,
  pageNumber: { min: 1n, max: 2n ** 31n - 1n },
} as const satisfies Record<string, IntegerBound>

type IntegerKind = keyof typeof integers
export type ParameterKind = IntegerKind | 'boolean' | 'text' | 'segment'

const digits = /^-?(?:0|[1-9]\d*)$/

/** The parameter as it is sent. */
export function parameterText(name: string, kind: ParameterKind, value: unknown): string {
  if (kind === 'boolean') return booleanText(name, value)
  if (kind === 'text') return plainText(name, value)
  if (kind === 'segment') return segmentText(name, value)
  return integerText(name, kind, value)
}

function integerText(name: string, kind: IntegerKind, value: unknown): string {
  const { min, max } = integers[kind]
  const text = integerSource(value)
  if (text === null || BigInt(text) < min || BigInt(text) > max)
    throw new ParameterError(`${name} must be a whole number from ${min} to ${max}, not ${shown(value)}`)
  return text
}

function integerSource(value: unknown): string | null {
  if (typeof value === 'number' && !Number.isSafeInteger(value)) return null
  const text = JSON.isRawJSON(value) ? value.rawJSON : String(value)
  const isText = typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
  return (isText || JSON.isRawJSON(value)) && digits.test(text) && text.length <= 20 ? text : null
}

function booleanText(name: string, value: unknown): string {
  if (value === true || value === 'true') return 'true'
  if (value === false || value === 'false') return 'false'
  throw new ParameterError(`${name} must be true or false, not ${shown(value)}`)
}

function plainText(name: string, value: unknown): string {
  if (typeof value !== 'string') throw new ParameterError(`${name} must be a text, not ${shown(value)}`)
  if (!value.isWellFormed())
    throw new ParameterError(`${name} holds half a character (a lone surrogate) and cannot be sent`)
  return value
}

/** A part of a path. An empty one, or dots, would lead to another path, for example that of the whole list. */
function segmentText(name: string, value: unknown): string {
  const text = plainText(name, value)
  if (text === '' || text === '.' || text === '..')
    throw new ParameterError(`${name} must be a text other than "", "." and "..", not ${shown(value)}`)
  return text
}

export function shown(value: unknown): string {
  if (JSON.isRawJSON(value)) return value.rawJSON.slice(0, 40)
  const text = typeof value === 'bigint' ? `${value}` : (JSON.stringify(value) ?? String(value))
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`
}
