// Which records of a description are those of each stream: by the path that lists them, or by the name of their type where no answer is
// described. Pure.

import type { MirroredStream, RelatedStream, ServiceName, Stream } from '../streams/catalog.ts'
import { keyParts } from '../streams/record.ts'
import { operationNamed, operations } from '../upstream/operations/table.ts'
import type { DescribedField, DescribedOperation, Description, RecordType } from './description.ts'

type OfService = { readonly service: ServiceName; readonly description: Description }

/** The record type of each stream, by the stream's name. Streams that no description covers are missing. */
export function describedStreams(
  descriptions: readonly OfService[],
  streams: readonly MirroredStream[],
): ReadonlyMap<string, RecordType> {
  return new Map(
    streams.flatMap((stream) => {
      const own = stream.kind === 'related' ? 'assignment' : stream.service
      // One description may be that of both services.
      const ownFirst = descriptions.toSorted((a, b) => Number(b.service === own) - Number(a.service === own))
      for (const { description } of ownFirst) {
        const type =
          stream.kind === 'related' ? relatedType(description, stream) : listedType(description, stream)
        if (type !== null) return [[stream.name, type] as const]
      }
      return []
    }),
  )
}

function listedType(description: Description, stream: Stream): RecordType | null {
  const listed = [stream.list, ...(stream.kind === 'changes' ? [stream.changes] : [])]
  for (const name of listed) {
    const answers = operationAt(description, pathOf(name))?.answers
    // An answer without a list that can be seen may wrap its records in some other way. It is not taken for a record.
    const type = answers?.isList ? typeIn(description, answers.type) : null
    if (type !== null) return type
  }
  const path = pathOf(stream.list)
  return operationAt(description, path) ? typeNamedAfter(description, path) : null
}

const pathOf = (name: string): string => operationNamed(name).path

const typeIn = (description: Description, name: string): RecordType | null =>
  Object.hasOwn(description.types, name) ? (description.types[name] ?? null) : null

/** Finds a path in the description. There, parameters may have other names, and the path may hold a version or another beginning. */
export function operationAt(
  description: Description,
  path: string,
  wantedMethod = 'GET',
): DescribedOperation | undefined {
  const wanted = comparable(path)
  const reading = description.operations.filter(({ method }) => method === wantedMethod)
  return (
    reading.find((one) => comparable(one.path) === wanted) ??
    reading.find((one) => comparable(one.path).endsWith(wanted)) ??
    reading.find((one) => withoutVersion(comparable(one.path)).endsWith(wanted))
  )
}

/** `/api/assignment` for `/api/v1/assignment`. */
const withoutVersion = (path: string): string => path.replaceAll(/\/v\d+(?:\.\d+)*(?=\/)/g, '')

const comparable = (path: string): string =>
  path
    .toLowerCase()
    .replaceAll(/\{[^{}]*\}/g, '{}')
    .replace(/\/$/, '')

/** `TblAssignmentObject` for `/api/AssignmentObject`, whose answer is not described. */
function typeNamedAfter(description: Description, path: string): RecordType | null {
  const segment = path.split('/').at(-1)?.toLowerCase() ?? ''
  const named = Object.values(description.types).filter(({ name }) => plainName(name) === segment)
  return named.length === 1 ? (named[0] ?? null) : null
}

const plainName = (name: string): string =>
  name
    .replace(/^.*[.+]/, '')
    .replace(/^(?:Tbl|Tb|T_)(?=[A-Z])/, '')
    .replace(/(?:Dto|DTO|Model|ViewModel|Entity|Record)$/, '')
    .toLowerCase()

const extendedPath = operations.getExtendedAssignment.path
const parentField: DescribedField = {
  name: 'assignmentId',
  says: 'integer int32',
  kind: 'int32',
  isNullable: false,
  isRequired: true,
  describe: null,
  values: null,
  bounds: null,
  holds: null,
}

/** The type of a group of the extended read as its table stores it: with the parent's key, and with the bytes of files apart. */
function relatedType(description: Description, stream: RelatedStream): RecordType | null {
  const answer = operationAt(description, extendedPath)?.answers
  const groups = answer ? typeIn(description, answer.type) : null
  const group = groups?.fields.find(({ name }) => isSame(name, stream.group))
  const type = group?.holds ? typeIn(description, group.holds) : null
  if (type === null) return null
  const bulk = stream.group === 'Attachment' ? 'FileData' : ''
  const isWanted = ({ name }: DescribedField) =>
    stream.bulkField
      ? [...stream.keyFields.flatMap(keyParts), stream.bulkField].some((wanted) => isSame(name, wanted))
      : !isSame(name, bulk)
  const fields = type.fields.filter(isWanted)
  const hasParent = fields.some(({ name }) => isSame(name, parentField.name))
  return { ...type, fields: stream.belongsTo === 'many' || hasParent ? fields : [...fields, parentField] }
}

const isSame = (name: string, other: string): boolean => name.toLowerCase() === other.toLowerCase()
