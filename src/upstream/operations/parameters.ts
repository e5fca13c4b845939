// What a parameter may be. Checked before anything is sent; an error names the parameter and its bound.

import { attachmentFields, type Field } from '../../streams/field-types.ts'
import { int64, isUuid } from '../../streams/record.ts'
import { nearest } from '../../util/text.ts'

export class ParameterError extends Error {
  override readonly name = 'ParameterError'
}

type IntegerBound = { readonly min: bigint; readonly max: bigint }
const integers = {
  uint8: { min: 0n, max: 255n },
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

function plainText(name: string, value: unknown, maxLength = Number.POSITIVE_INFINITY): string {
  if (typeof value !== 'string') throw new ParameterError(`${name} must be a text, not ${shown(value)}`)
  if (!value.isWellFormed())
    throw new ParameterError(`${name} holds half a character (a lone surrogate) and cannot be sent`)
  if (value.length > maxLength)
    throw new ParameterError(
      `${name} must have at most ${maxLength} characters, but has ${value.length}: ${shown(value)}`,
    )
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

// The form that attaches a file: its fields, each with its type and bound. Which of them the upstream requires is not
// known, so none is required here.
/** The form as it is sent, without fields that are null. */
export function attachmentFormText(form: object): string {
  const fields: { readonly [name: string]: Field } = attachmentFields
  const encoded = new URLSearchParams()
  for (const [name, value] of Object.entries(form)) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (!field) throw new ParameterError(`the attachment form has no field ${shown(name)}${advice(name)}`)
    if (value !== null && value !== undefined) encoded.append(name, fieldText(name, field, value))
  }
  if (encoded.size === 0) throw new ParameterError('the attachment form must have at least one field')
  return encoded.toString()
}

function advice(name: string): string {
  const [near] = nearest(name, Object.keys(attachmentFields))
  return near ? `: did you mean ${near}?` : ''
}

function fieldText(name: string, { kind, maxLength }: Field, value: unknown): string {
  switch (kind) {
    case 'uint8':
    case 'int32':
    case 'int64':
      return integerText(name, kind, value)
    case 'boolean':
      return booleanText(name, value)
    default: {
      const text = plainText(name, value, maxLength)
      if (kind === 'text' || textShapes[kind].fits(text)) return text
      throw new ParameterError(`${name} must be ${textShapes[kind].is}, not ${shown(value)}`)
    }
  }
}

const textShapes = {
  base64: {
    is: 'base64: A–Z, a–z, 0–9, + and / in groups of four, the last filled up with =',
    fits: (text: string) => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text),
  },
  uuid: {
    is: 'a UUID such as 123e4567-e89b-12d3-a456-426614174000',
    fits: isUuid,
  },
  'date-time': { is: 'a date-time such as 2026-01-31T12:00:00Z', fits: isDateTime },
} as const

const dateTime =
  /^(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?$/i

/** Takes date-times without an offset as well, because the upstream itself writes them so. */
function isDateTime(text: string): boolean {
  const [, year, month, day] = dateTime.exec(text) ?? []
  if (year === undefined) return false
  const date = new Date(Date.UTC(2000, Number(month) - 1, Number(day)))
  // Years below 100 would be taken for 19xx.
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day)
}
