// What an extended read says about an assignment's related records. Pure. A group may come as a list, as one object or as null;
// one that is not in the answer at all says nothing.

import type { Json, JsonObject } from '../../json/json.ts'
import type { RelatedStream } from '../../streams/catalog.ts'
import { isFlaggedDeleted, isObject, keyParts } from '../../streams/record.ts'
import type { LeftOut } from '../ports/source.ts'

/** The records of a group, as rows of its table are made of them; null when the answer does not have the group. */
export function groupRecords(
  answer: JsonObject,
  stream: RelatedStream,
  assignmentId: string,
): readonly Json[] | null {
  const value = fieldOf(answer, stream.group)
  if (value === undefined) return null
  const records = value === null ? [] : Array.isArray(value) ? (value as readonly Json[]) : [value]
  return records.flatMap((record): readonly Json[] => {
    if (!isObject(record)) return [record]
    const shaped = stream.bulkField ? bulkOf(record, stream) : withoutBulk(record, stream)
    return shaped ? [stream.belongsTo === 'one' ? withParent(shaped, assignmentId) : shaped] : []
  })
}

/** Whether the field of this stream is missing only because the request left it out. */
export const isLeftOut = (leftOut: LeftOut | null | undefined, { bulkField }: RelatedStream): boolean =>
  !!leftOut && leftOut.field === bulkField

/** Fields that are kept in a table of their own, by the group they come in. */
const bulkFields: Readonly<Record<string, string>> = { Attachment: 'FileData' }

function withoutBulk(record: JsonObject, { group }: RelatedStream): JsonObject {
  const bulk = bulkFields[group]
  if (bulk === undefined || fieldOf(record, bulk) === undefined) return record
  return Object.fromEntries(Object.entries(record).filter(([name]) => !isSameName(name, bulk)))
}

const deletionFlag = 'SysDeleted'

/** The key fields and the bulk; null when there is none. And whether the source says that the record is deleted: then its bulk is too. */
function bulkOf(record: JsonObject, { bulkField = '', keyFields }: RelatedStream): JsonObject | null {
  const bulk = fieldOf(record, bulkField)
  if (bulk === undefined || bulk === null) return null
  const wanted = [
    ...keyFields.flatMap(keyParts),
    bulkField,
    ...(isFlaggedDeleted(record) ? [deletionFlag] : []),
  ]
  return Object.fromEntries(
    Object.entries(record).filter(([name]) => wanted.some((field) => isSameName(name, field))),
  )
}

const parentField = 'AssignmentId'

/** With a reference to its assignment, unless it has one. */
function withParent(record: JsonObject, assignmentId: string): JsonObject {
  const own = fieldOf(record, parentField)
  if (own !== undefined && own !== null) return record
  const name = Object.keys(record).find((field) => isSameName(field, parentField)) ?? parentField
  return { ...record, [name]: JSON.rawJSON(assignmentId) }
}

/** In the spelling that is there. */
function fieldOf(record: JsonObject, field: string): Json | undefined {
  if (Object.hasOwn(record, field)) return record[field]
  const name = Object.keys(record).find((other) => isSameName(other, field))
  return name === undefined ? undefined : record[name]
}

const isSameName = (name: string, other: string): boolean => name.toLowerCase() === other.toLowerCase()
