// The form that attaches a file: its fields, each with its type and bound. Which of them the upstream requires is not
// known, so none is required here.

import { nearest } from '../cli/suggest.ts'
import {
  booleanText,
  type IntegerValue,
  integerText,
  ParameterError,
  plainText,
  shown,
} from './parameters.ts'

type FieldKind = 'uint8' | 'int32' | 'int64' | 'boolean' | 'text' | 'base64' | 'uuid' | 'date-time'
type Field = { readonly kind: FieldKind; readonly maxLength?: number }

const attachmentFields = {
  AttachmentId: { kind: 'int32' },
  AttachmentIdext: { kind: 'text', maxLength: 50 },
  AttachmentIdtext: { kind: 'text', maxLength: 50 },
  AttachmentType: { kind: 'uint8' },
  Description: { kind: 'text', maxLength: 100 },
  FileName: { kind: 'text', maxLength: 250 },
  FileSize: { kind: 'int32' },
  FileData: { kind: 'base64' },
  IsOnServer: { kind: 'boolean' },
  RegTime: { kind: 'date-time' },
  RegEmployeeId: { kind: 'int32' },
  RegEmployeeIdext: { kind: 'text' },
  UpdateInfoExt: { kind: 'uint8' },
  OwnerId: { kind: 'int32' },
  OwnerIdext: { kind: 'text' },
  OwnerUID: { kind: 'uuid' },
  OwnerType: { kind: 'uint8' },
  OwnerIdtag: { kind: 'int32' },
  ShowRecord: { kind: 'boolean' },
  EdokStatus: { kind: 'uint8' },
  EdokRegTime: { kind: 'date-time' },
  DatabaseNumber: { kind: 'int32' },
  ParentAttachmentId: { kind: 'int32' },
  RevisionNumber: { kind: 'int32' },
  ScTimeStamp: { kind: 'date-time' },
  Processed: { kind: 'boolean' },
  UID: { kind: 'uuid' },
  SysRowVersion: { kind: 'int64' },
  RowVersion: { kind: 'int64' },
  SysDeleted: { kind: 'boolean' },
  SysCreatedBy: { kind: 'int32' },
  SysCreatedDateUTC: { kind: 'date-time' },
  SysUpdatedBy: { kind: 'int32' },
  SysUpdatedDateUTC: { kind: 'date-time' },
} as const satisfies Record<string, Field>

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
    fits: (text: string) => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text),
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
