// Reads what a request carries: JSON records and the urlencoded attachment form, each field in its type and within its
// bound, as ASP.NET binds and checks them. A value has two forms: as it is stored, and as the answer repeats it.

import { type Answer, badValueFor, empty, type Incoming, invalid, problem } from './answer.ts'
import type { Field, Schema } from './fields.ts'
import { readInteger } from './filters.ts'
import { notConverted, readMembers, type Token } from './json-body.ts'
import type { Resource } from './resources.ts'
import type { Fields, FreshFields } from './row.ts'
import { parseTime, storedTime, writtenTime } from './times.ts'

export type Read<T> = { readonly value: T } | { readonly refusal: Answer }
/** Only the fields that the request named. */
export type Given = { readonly stored: Fields; readonly echo: Fields }

export type BodyShape = {
  /** The name of the argument that the body becomes, and of its class: both are in error messages. */
  readonly parameter: string
  readonly entity: string
  readonly fields: readonly Field[]
  /** Fields that must not be missing or empty. */
  readonly required: readonly string[]
}

const jsonTypes = /^(?:application|text)\/json\b|^application\/[\w.-]+\+json\b/i

export const bodyShape = (
  schema: Schema,
  parameter: string,
  required: readonly string[] = [],
): BodyShape => ({
  parameter,
  entity: `AssignmentService.Entities.${schema.name}`,
  fields: schema.fields,
  required,
})

export function readRecord(request: Incoming, shape: BodyShape, timeZone: string): Read<Given> {
  if (!jsonTypes.test(String(request.headers['content-type'] ?? ''))) return { refusal: problem(415) }
  const required = { [shape.parameter]: [`The ${shape.parameter} field is required.`] }
  const text = request.body.toString()
  if (text.trim() === '' || text.trim() === 'null')
    return { refusal: invalid({ '': ['A non-empty request body is required.'], ...required }) }
  const fields = new Map(shape.fields.map((field) => [field.name.toLowerCase(), field]))
  const [stored, echo]: [FreshFields, FreshFields] = [{}, {}]
  const mistake = readMembers(text, shape.entity, (name, token) => {
    const field = fields.get(name.toLowerCase())
    if (!field) return
    const value = fromJson(field, token, timeZone)
    if (value === undefined) throw notConverted(className(field), token)
    stored[field.name] = value.stored
    echo[field.name] = value.echo
  })
  if (mistake) return { refusal: invalid({ [mistake.path]: [mistake.message], ...required }) }
  const errors = boundErrors(shape, stored)
  return Object.keys(errors).length > 0 ? { refusal: invalid(errors) } : { value: { stored, echo } }
}

type Value = { readonly stored: unknown; readonly echo: unknown }
const same = (value: unknown): Value => ({ stored: value, echo: value })

/** Undefined when the token is no value of the field. */
function fromJson(field: Field, token: Token, timeZone: string): Value | undefined {
  if (field.type === 'any') return same(null)
  if (field.type === 'record')
    return token.kind === 'object' || token.kind === 'null' ? same(null) : undefined
  if (token.kind === 'null') return field.isNullable || isText(field) ? same(null) : undefined
  if (token.kind === 'object' || token.kind === 'array') return undefined
  if (field.type === 'boolean')
    return token.kind === 'true' || token.kind === 'false' ? same(token.kind === 'true') : undefined
  if (token.kind === 'number') return isNumber(field) ? fromText(field, token.text, timeZone) : undefined
  return token.kind === 'string' ? fromText(field, token.text, timeZone) : undefined
}

const isText = ({ type }: Field) => type === 'string' || type === 'url'
const isNumber = ({ type }: Field) => /^(?:u?int\d+|double|decimal)$/.test(type)
const numberText = /^-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i
const uuidText = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i
/** In fours, which a group of the expression would remember one by one: megabytes are more than its stack holds. */
const isBase64 = (text: string): boolean => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text)

function fromText(field: Field, text: string, timeZone: string): Value | undefined {
  switch (field.type) {
    case 'dateTime': {
      const time = parseTime(text, timeZone)
      return time ? { stored: storedTime(time), echo: writtenTime(time, timeZone) } : undefined
    }
    case 'decimal': {
      if (!numberText.test(text)) return undefined
      return { stored: JSON.rawJSON(storedDecimal(text)), echo: JSON.rawJSON(plainDecimal(text)) }
    }
    case 'double':
      return numberText.test(text) ? same(Number(text)) : undefined
    case 'uuid':
      return uuidText.test(text) ? same(text.toLowerCase()) : undefined
    case 'bytes':
      return isBase64(text) ? same(text) : undefined
    case 'string':
    case 'url':
      return same(text)
    case 'boolean':
      return /^true$/i.test(text) ? same(true) : /^false$/i.test(text) ? same(false) : undefined
    default: {
      const integer = readInteger(field.type, text)
      if (integer === undefined) return undefined
      const number = Number(integer)
      return same(Number.isSafeInteger(number) ? number : JSON.rawJSON(String(integer)))
    }
  }
}

/** A decimal keeps the digits it was given, but no exponent and no leading blanks. */
const plainDecimal = (text: string) =>
  /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/.test(text) ? text : String(Number(text))

/** With four digits behind the point, rounded, as the database keeps it. */
function storedDecimal(text: string): string {
  const [, sign = '', whole = '0', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(plainDecimal(text)) ?? []
  const digits =
    BigInt(whole + fraction.slice(0, 4).padEnd(4, '0')) + (Number(fraction[4] ?? 0) >= 5 ? 1n : 0n)
  const padded = String(digits).padStart(5, '0')
  return `${sign}${padded.slice(0, -4)}.${padded.slice(-4)}`
}

const classNames: Readonly<Record<string, string>> = {
  uint8: 'Byte',
  int16: 'Int16',
  int32: 'Int32',
  int64: 'Int64',
  double: 'Double',
  decimal: 'Decimal',
  boolean: 'Boolean',
  uuid: 'Guid',
  dateTime: 'DateTime',
  bytes: 'Byte[]',
}

function className({ type, isNullable }: Field): string {
  if (type === 'record') return 'AssignmentService.Entities.TblEmployee'
  const name = `System.${classNames[type] ?? 'String'}`
  const isReference = type === 'string' || type === 'url' || type === 'bytes'
  return isNullable && !isReference ? `System.Nullable\`1[${name}]` : name
}

function boundErrors({ fields, required }: BodyShape, stored: Fields): Record<string, string[]> {
  const errors: Record<string, string[]> = {}
  for (const { name, type, maxLength } of fields) {
    const value = stored[name]
    const wrong: string[] = []
    const isMissing = value === undefined || value === null || value === ''
    if (required.includes(name) && isMissing) wrong.push(`The ${name} field is required.`)
    if (maxLength !== null && typeof value === 'string' && value.length > maxLength)
      wrong.push(`The field ${name} must be a string with a maximum length of ${maxLength}.`)
    if (type === 'url' && typeof value === 'string' && !/^(?:https?|ftp):\/\//i.test(value))
      wrong.push(`The ${name} field is not a valid fully-qualified http, https, or ftp URL.`)
    if (wrong.length > 0) errors[name] = wrong
  }
  return errors
}

const mostFormValueBytes = 4_194_304
const formType = /^application\/x-www-form-urlencoded\b/i

/** The attachment form: its fields are those of the record type. */
export function readForm(request: Incoming, shape: BodyShape, timeZone: string): Read<Given> {
  // Another type than this one matches no operation at all: the router refuses it without a word.
  if (!formType.test(String(request.headers['content-type'] ?? ''))) return { refusal: empty(415) }
  const entries = [...new URLSearchParams(request.body.toString())]
  if (entries.some(([, value]) => Buffer.byteLength(value) > mostFormValueBytes))
    return {
      refusal: invalid({
        '': [
          `Failed to read the request form. Form key length limit 2048 or value length limit ${mostFormValueBytes} exceeded.`,
        ],
      }),
    }
  const fields = new Map(shape.fields.map((field) => [field.name.toLowerCase(), field]))
  const [stored, echo]: [FreshFields, FreshFields] = [{}, {}]
  const errors: Record<string, string[]> = {}
  for (const [name, text] of entries) {
    const field = fields.get(name.toLowerCase())
    if (!field || text === '') continue
    const value = fromText(field, field.type === 'dateTime' ? text.trim().replace(' ', 'T') : text, timeZone)
    if (value === undefined) errors[field.name] = [badValueFor(text, field.name)]
    else [stored[field.name], echo[field.name]] = [value.stored, value.echo]
  }
  Object.assign(errors, boundErrors(shape, stored))
  return Object.keys(errors).length > 0 ? { refusal: invalid(errors) } : { value: { stored, echo } }
}

/** For the plain look, which takes whatever is JSON: a record, its fields renamed to the upstream's spelling. */
export function readLaxRecord(request: Incoming, resource: Resource): Read<Given> {
  if (!jsonTypes.test(String(request.headers['content-type'] ?? ''))) return { refusal: problem(415) }
  let value: unknown
  try {
    value = JSON.parse(request.body.toString(), keepDigits)
  } catch {
    return { refusal: invalid({ $: ['The JSON value could not be read.'] }) }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { refusal: invalid({ $: ['A record is required.'] }) }
  const renamed = Object.entries(value).map(([name, field]) => [resource.field(name)?.name ?? name, field])
  const stored = Object.fromEntries(renamed)
  return { value: { stored, echo: stored } }
}

function keepDigits(_name: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source
  if (typeof value !== 'number' || source === undefined || String(value) === source) return value
  return JSON.rawJSON(source)
}
