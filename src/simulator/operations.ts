// What the operations of the assignment and tracking services do, one function each. Paths and methods are in routes.ts.

import { type Answer, type Incoming, noContent, problem } from './answer.ts'
import type { Extended } from './extended.ts'
import type { Lists } from './lists.ts'
import { type Read, readAttachmentForm, readRecord } from './request-bodies.ts'
import type { ResourceName } from './resources.ts'
import type { Fields, Row } from './row.ts'
import type { Tables, Writes } from './writes.ts'

export type ServiceState = {
  readonly tables: Tables
  readonly writes: Writes
  readonly lists: Lists
  readonly extended: Extended
}
export type Parameters = Readonly<Record<string, string>>
export type Operation = (state: ServiceState, request: Incoming, parameters: Parameters) => Answer

const int32 = { min: -(2n ** 31n), max: 2n ** 31n - 1n }
const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n }

function integer(text: string | undefined, range: { min: bigint; max: bigint }): bigint | null {
  if (text === undefined || !/^-?\d+$/.test(text)) return null
  const value = BigInt(text)
  return value >= range.min && value <= range.max ? value : null
}

const notValid = (name: string, value: string | undefined) =>
  problem(400, `${name} is not valid.`, { [name]: [`The value '${value}' is not valid.`] })
const notFound = (resource: ResourceName) => problem(404, `There is no such ${resource}.`)

export const list =
  (resource: ResourceName): Operation =>
  ({ tables, lists }, request) =>
    lists.answer(tables[resource], request)

export const listWhole =
  (resource: ResourceName): Operation =>
  ({ tables, lists }) =>
    lists.whole(tables[resource])

export const listChanged =
  (resource: ResourceName): Operation =>
  ({ tables, lists }, request, { rowVersion }) => {
    const since = integer(rowVersion, int64)
    return since === null
      ? notValid('rowVersion', rowVersion)
      : lists.answer(tables[resource], request, since)
  }

/** Finds the record of the path, by its id or its external id, and goes on with it. */
const withRow =
  (
    resource: ResourceName,
    by: 'id' | 'externalId',
    goOn: (state: ServiceState, row: Row, request: Incoming) => Answer,
  ): Operation =>
  (state, request, parameters) => {
    const text = parameters[by]
    const id = by === 'id' ? integer(text, int32) : null
    if (by === 'id' && id === null) return notValid('id', text)
    const table = state.tables[resource]
    const row = id === null ? table.findExternal(text ?? '') : table.find(Number(id))
    return row ? goOn(state, row, request) : notFound(resource)
  }

export const read = (resource: ResourceName, by: 'id' | 'externalId'): Operation =>
  withRow(resource, by, ({ tables, lists }, row) => lists.record(200, tables[resource], row))

export const remove = (resource: ResourceName, by: 'id' | 'externalId'): Operation =>
  withRow(resource, by, ({ writes }, row) => {
    writes.remove(resource, row.id)
    return noContent(204)
  })

export const readExtended: Operation = withRow('assignment', 'id', ({ extended }, row, request) =>
  extended.answer(row, request),
)

function insert(state: ServiceState, resource: ResourceName, own: Fields): Answer {
  const { tables, writes, lists } = state
  const { keyField, externalField } = tables[resource].resource
  const externalId = externalField === null ? null : own[externalField]
  if (typeof externalId === 'string' && tables[resource].findExternal(externalId))
    return problem(409, `${externalField} is in use.`)
  const { [keyField]: _given, ...rest } = own
  const fields =
    externalField !== null && !externalId
      ? Object.fromEntries(Object.entries(rest).filter(([name]) => name !== externalField))
      : rest
  const row = writes.insert(resource, fields)
  return lists.record(201, tables[resource], row)
}

export const create =
  (resource: ResourceName): Operation =>
  (state, request) => {
    const body = readRecord(request, state.tables[resource].resource.fieldNames)
    return 'refusal' in body ? body.refusal : insert(state, resource, body.value)
  }

/** How a PUT names its record is not known: the id wins, then the external id, then the UID. */
export const change =
  (resource: ResourceName): Operation =>
  ({ tables, writes }, request) => {
    const table = tables[resource]
    const { keyField, externalField, fieldNames } = table.resource
    const body = readRecord(request, fieldNames)
    if ('refusal' in body) return body.refusal
    const { [keyField]: id, ...rest } = body.value
    const externalId = externalField === null ? undefined : rest[externalField]
    const row =
      (typeof id === 'number' && id !== 0 ? table.find(id) : undefined) ??
      (typeof externalId === 'string' ? table.findExternal(externalId) : undefined)
    if (id === undefined && externalId === undefined)
      return problem(400, `The body has neither ${keyField} nor ${externalField}.`)
    if (!row) return notFound(resource)
    writes.change(resource, row.id, rest)
    return noContent(204)
  }

const child = (
  resource: ResourceName,
  by: 'id' | 'externalId',
  readBody: (state: ServiceState, request: Incoming) => Read<Fields>,
) =>
  withRow('assignment', by, (state, assignment, request) => {
    const body = readBody(state, request)
    if ('refusal' in body) return body.refusal
    const link = resource === 'attachment' ? { OwnerId: assignment.id } : { AssignmentId: assignment.id }
    return insert(state, resource, { ...body.value, ...link })
  })

export const addChild = (resource: ResourceName, by: 'id' | 'externalId'): Operation =>
  child(resource, by, ({ tables }, request) => readRecord(request, tables[resource].resource.fieldNames))

export const addAttachment = (by: 'id' | 'externalId'): Operation =>
  child('attachment', by, (_state, request) => readAttachmentForm(request))

export const setParticipant =
  (how: 'add' | 'remove'): Operation =>
  (state, request, parameters) => {
    const employeeId = integer(parameters.employeeId, int32)
    if (employeeId === null) return notValid('employeeId', parameters.employeeId)
    if (!state.tables.employee.find(Number(employeeId))) return notFound('employee')
    return withRow('assignment', 'id', ({ extended, writes }, row) => {
      extended.setParticipant(row, Number(employeeId), how === 'add')
      writes.change('assignment', row.id, null)
      return noContent(200)
    })(state, request, parameters)
  }
