// The form that attaches a file: its fields, each with its type and bound. Which of them the upstream requires is not
// known, so none is required here.

import { attachmentFields, type Field, type FieldKind } from '../attachment-fields.ts'
import { nearest } from '../nearest.ts'
import { isUuid } from '../uuid.ts'
import {
  booleanText,
  type IntegerValue,
  integerText,
  ParameterError,
  plainText,
  shown,
} from './parameters.ts'

type FieldValue<Kind extends FieldKind> = Kind extends 'uint8' | 'int32' | 'int64'
  ? IntegerValue
  : Kind extends 'boolean'
    ? boolean | 'true' | 'false'
    : string
type Fields = typeof attachmentFields
/** A field that is null or missing is not sent. */
export type AttachmentForm = { readonly [Name in keyof Fields]?: FieldValue<Fields[Name]['kind']> | null }

/** The form as it is sent. */
export function attachmentFormText(form: { readonly [field: string]: unknown }): string {
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
      if (kind === 'text' || shapes[kind].fits(text)) return text
      throw new ParameterError(`${name} must be ${shapes[kind].is}, not ${shown(value)}`)
    }
  }
}

const shapes = {
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

/** Without an offset as well: the upstream writes them so itself. */
function isDateTime(text: string): boolean {
  const [, year, month, day] = dateTime.exec(text) ?? []
  if (year === undefined) return false
  const date = new Date(Date.UTC(2000, Number(month) - 1, Number(day)))
  // Years below 100 would be taken for 19xx.
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day)
}
