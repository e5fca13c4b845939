// Reads what a request carries: JSON records whose numbers keep their digits, and the urlencoded attachment form with
// the bounds its fields have.

import { type Answer, type Errors, type Incoming, problem } from './answer.ts'
import type { Fields } from './row.ts'

export type Read<T> = { readonly value: T } | { readonly refusal: Answer }

const jsonTypes = /^(?:application|text)\/json\b|^application\/[\w.-]+\+json\b/i

/** A JSON object, its fields renamed to the upstream's spelling where it has one. */
export function readRecord(request: Incoming, fieldNames: ReadonlyMap<string, string>): Read<Fields> {
  const type = String(request.headers['content-type'] ?? '')
  if (!jsonTypes.test(type)) return { refusal: problem(415, `Content-Type "${type}" is not JSON.`) }
  let value: unknown
  try {
    value = JSON.parse(request.body.toString(), keepDigits)
  } catch {
    return { refusal: problem(400, 'The body is not JSON.', { $: ['The JSON value could not be read.'] }) }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { refusal: problem(400, 'The body is not a JSON object.', { $: ['A record is required.'] }) }
  return {
    value: Object.fromEntries(
      Object.entries(value).map(([name, field]) => [fieldNames.get(name.toLowerCase()) ?? name, field]),
    ),
  }
}

function keepDigits(_name: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source
  if (typeof value !== 'number' || source === undefined || String(value) === source) return value
  return JSON.rawJSON(source)
}

type Check = (text: string) => unknown
const integerText = /^-?(?:0|[1-9]\d*)$/

const integer =
  (minimum: bigint, maximum: bigint): Check =>
  (text) => {
    if (!integerText.test(text)) return undefined
    const value = BigInt(text)
    if (value < minimum || value > maximum) return undefined
    return Number.isSafeInteger(Number(value)) ? Number(value) : JSON.rawJSON(text)
  }
const int32 = integer(-(2n ** 31n), 2n ** 31n - 1n)
const int64 = integer(-(2n ** 63n), 2n ** 63n - 1n)
const uint8 = integer(0n, 255n)
const text =
  (maximum = Number.POSITIVE_INFINITY): Check =>
  (value) =>
    value.length <= maximum ? value : undefined
const matching =
  (pattern: RegExp): Check =>
  (value) =>
    pattern.test(value) ? value : undefined
const flag: Check = (value) => (/^true$/i.test(value) ? true : /^false$/i.test(value) ? false : undefined)
const time = matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,7})?)?(?:Z|[+-]\d\d:\d\d)?$/)
const uuid = matching(/^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i)
const base64 = matching(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/)

const attachmentForm: Readonly<Record<string, Check>> = {
  AttachmentId: int32,
  AttachmentIdext: text(50),
  AttachmentIdtext: text(50),
  AttachmentType: uint8,
  Description: text(100),
  FileName: text(250),
  FileSize: int32,
  FileData: base64,
  IsOnServer: flag,
  RegTime: time,
  RegEmployeeId: int32,
  RegEmployeeIdext: text(),
  UpdateInfoExt: uint8,
  OwnerId: int32,
  OwnerIdext: text(),
  OwnerUID: uuid,
  OwnerType: uint8,
  OwnerIdtag: int32,
  ShowRecord: flag,
  EdokStatus: uint8,
  EdokRegTime: time,
  DatabaseNumber: int32,
  ParentAttachmentId: int32,
  RevisionNumber: int32,
  ScTimeStamp: time,
  Processed: flag,
  UID: uuid,
  SysRowVersion: int64,
  RowVersion: int64,
  SysDeleted: flag,
  SysCreatedBy: int32,
  SysCreatedDateUTC: time,
  SysUpdatedBy: int32,
  SysUpdatedDateUTC: time,
}
const formNames = new Map(Object.keys(attachmentForm).map((name) => [name.toLowerCase(), name]))

export function readAttachmentForm(request: Incoming): Read<Fields> {
  const type = String(request.headers['content-type'] ?? '')
  if (!/^application\/x-www-form-urlencoded\b/i.test(type))
    return { refusal: problem(415, `Content-Type "${type}" is not application/x-www-form-urlencoded.`) }
  if (request.body.length === 0)
    return { refusal: problem(400, 'The form is empty.', { form: ['A form is required.'] }) }
  const fields: Record<string, unknown> = {}
  const errors: Record<string, string[]> = {}
  for (const [name, value] of new URLSearchParams(request.body.toString())) {
    const field = formNames.get(name.toLowerCase())
    if (field === undefined) continue
    const read = attachmentForm[field]?.(value)
    if (read === undefined) errors[field] = [`The value of ${field} is not valid.`]
    else fields[field] = read
  }
  if (Object.keys(errors).length === 0) return { value: fields }
  return { refusal: problem(400, 'The form has errors.', errors satisfies Errors) }
}
