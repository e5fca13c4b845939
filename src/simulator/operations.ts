// What the operations of the assignment and tracking services do, one function each. Paths, methods and parameters are
// in routes.ts; a request comes here when its parameters were found right.

import { randomUUID } from 'node:crypto'
import { type Answer, type Errors, empty, type Incoming, invalid, jsonText, problem } from './answer.ts'
import type { Behaviour } from './behaviour.ts'
import type { Extended } from './extended.ts'
import type { Lists } from './lists.ts'
import { wholeNumber } from './parameters.ts'
import { recordedSchemas } from './recorded-schemas.ts'
import type { Rendering } from './rendering.ts'
import { bodyShape, type Given, type Read, readForm, readLaxRecord, readRecord } from './request-bodies.ts'
import type { ResourceName } from './resources.ts'
import type { Fields, FreshFields, Row, Versions } from './row.ts'
import { externalIdOf, type Table } from './table.ts'
import { localClock, storedLocal, storedUtc, utcClock, writtenTime } from './times.ts'
import type { Tables, Writes } from './writes.ts'

export type ServiceState = {
  readonly tables: Tables
  /** What reads see: the same tables, or how they were some time ago. */
  readonly readTables: () => Tables
  readonly writes: Writes
  readonly lists: Lists
  readonly extended: Extended
  readonly rendering: Rendering
  readonly behaviour: Behaviour
  readonly versions: Versions
  /** Whether any client has this record: that is what the database checks. */
  exists(resource: ResourceName, id: number): boolean
}
export type Call = {
  readonly request: Incoming
  /** The parameters of the path. */
  readonly values: Readonly<Record<string, string>>
}
export type Operation = (state: ServiceState, call: Call) => Answer

/** Whom the service writes down as the one who did it: the user of the sign-in. */
const integrationUser = 9001

export const list =
  (resource: ResourceName): Operation =>
  ({ readTables, lists }, { request }) =>
    lists.answer(readTables()[resource], request)

export const listWhole =
  (resource: ResourceName): Operation =>
  ({ readTables, lists }) =>
    lists.whole(readTables()[resource])

export const listChanged =
  (resource: ResourceName): Operation =>
  ({ readTables, lists }, { request, values }) =>
    lists.answer(readTables()[resource], request, { since: BigInt(values.rowVersion ?? '0') })

export const listTrackers: Operation = (state, { request }) => {
  const table = state.readTables().tracker_object
  if (table.resource.look === 'plain') return state.lists.answer(table, request)
  const page = wholeNumber(request.query, 'page') ?? 1
  const pageSize = wholeNumber(request.query, 'pagesize') ?? 100
  if (page < 1 || pageSize < 0) return problem(500)
  return state.lists.answer(table, request, { defaultPageSize: 100 })
}

type IdParameter =
  | 'assignmentId'
  | 'assignmentIdExt'
  | 'assignmentNoteId'
  | 'assignmentNoteIdExt'
  | 'webhookSubscriptionId'

const find = (table: Table, by: IdParameter, value = ''): Row | undefined =>
  by === 'assignmentId' || by === 'assignmentNoteId' ? table.find(Number(value)) : table.findExternal(value)

export const read =
  (resource: ResourceName, by: IdParameter): Operation =>
  ({ readTables, lists, behaviour }, { values }) => {
    const table = readTables()[resource]
    const row = find(table, by, values[by])
    return row && !(row.isDeleted && behaviour.hideDeleted) ? lists.record(200, table, row) : problem(404)
  }

export const remove =
  (resource: ResourceName, by: IdParameter): Operation =>
  ({ tables, writes, behaviour }, { values }) => {
    const row = find(tables[resource], by, values[by])
    if (!row || row.isDeleted) return problem(404)
    const how = resource === 'webhook_subscription' ? 'hard' : behaviour.deletes
    writes.remove(resource, row.id, how, updated(tables[resource]))
    return empty(204)
  }

export const readExtended: Operation = ({ readTables, extended, behaviour }, { request, values }) => {
  const row = readTables().assignment.find(Number(values.assignmentId))
  return row && !behaviour.extendedOff ? extended.answer(row, request) : problem(404)
}

const updated = ({ resource }: Table): Fields | null =>
  resource.look === 'plain' || resource.name.startsWith('webhook')
    ? null
    : { SysUpdatedBy: integrationUser, SysUpdatedDateUTC: storedUtc(Date.now()) }

/** How a body is bound: the name of the argument is part of error messages. */
const parameterNames: Partial<Record<ResourceName, string>> = {
  assignment: 'assignment',
  assignment_note: 'note',
  assignment_product: 'product',
  assignment_service: 'service',
  assignment_quality_control: 'qualityControl',
  webhook_subscription: 'model',
}

function readBody({ tables, behaviour }: ServiceState, name: ResourceName, request: Incoming): Read<Given> {
  const { resource } = tables[name]
  if (resource.look === 'plain') return readLaxRecord(request, resource)
  const required = name === 'webhook_subscription' ? ['Url'] : []
  const read = readRecord(
    request,
    bodyShape(resource.schema, parameterNames[name] ?? name, required),
    behaviour.timeZone,
  )
  if ('refusal' in read || name !== 'webhook_subscription') return read
  const definition = tables.webhook_definition.find(Number(read.value.stored.WebhookDefinitionId ?? 0))
  const errors: Errors = { WebhookDefinitionId: ['Unknown webhook definition.'] }
  return definition ? read : { refusal: invalid(errors) }
}

/** Where the answer to a POST says that the new record is. */
const locations: Partial<Record<ResourceName, (row: Row, externalId: string | null) => string>> = {
  assignment: ({ id }) => `/api/Assignment/Id/${id}`,
  assignment_note: ({ id }) => `/api/AssignmentNote/Id/${id}`,
  webhook_subscription: (_row, externalId) => `/api/Webhooks/subscription/${externalId}`,
}

export const create =
  (name: ResourceName): Operation =>
  (state, { request }) => {
    const body = readBody(state, name, request)
    return 'refusal' in body ? body.refusal : insert(state, name, request, body.value)
  }

function insert(state: ServiceState, name: ResourceName, request: Incoming, given: Given): Answer {
  const { resource } = state.tables[name]
  const { keyField, externalField } = resource
  const { [keyField]: _key, ...stored } = given.stored
  const externalId = externalField === null ? null : stored[externalField]
  const isTaken = typeof externalId === 'string' && state.tables[name].findExternal(externalId)
  if (isTaken && name !== 'webhook_subscription') return problem(409)
  if (breaksReference(state, name, stored)) {
    // The id that the database had taken is lost with the version.
    state.tables[name].takeId()
    return problem(500)
  }
  const made = resource.look === 'plain' ? plainRecord(stored, externalField) : newRecord(state, name, given)
  const row = state.writes.insert(name, made.stored)
  const location = locations[name]?.(row, externalIdOf(row, resource))
  const fields = { ...state.rendering.fields(resource, row), ...made.echo }
  return {
    ...jsonText(201, state.rendering.stringify(fields), [row]),
    ...(location && { headers: { location: `${request.baseUrl ?? ''}${location}` } }),
  }
}

/** A record with an empty external id gets a generated one. */
function plainRecord(stored: Fields, externalField: string | null): Given {
  const own =
    externalField !== null && !stored[externalField]
      ? Object.fromEntries(Object.entries(stored).filter(([name]) => name !== externalField))
      : stored
  return { stored: own, echo: {} }
}

const references: Readonly<Record<string, ResourceName>> = {
  CustomerId: 'customer',
  EmployeeId: 'employee',
  AssignmentId: 'assignment',
}

/** The database refuses the write, and the version it had taken for it is lost. */
function breaksReference(state: ServiceState, name: ResourceName, stored: Fields): boolean {
  const { look, keyField } = state.tables[name].resource
  if (look === 'plain') return false
  const breaks = Object.entries(references).some(([field, resource]) => {
    const id = stored[field]
    return field !== keyField && typeof id === 'number' && !state.exists(resource, id)
  })
  if (breaks) state.versions.next()
  return breaks
}

const setByService = [
  'SysRowVersion',
  'SysCreatedBy',
  'SysCreatedDateUTC',
  'SysUpdatedBy',
  'SysUpdatedDateUTC',
]
const registrationTimes: readonly string[] = ['RegTime', 'NoteDate']

/** Every field of the schema, empty where the request did not name it. */
function emptied({ resource }: Table): FreshFields {
  const empties = resource.schema.fields.filter(({ name }) => name !== resource.keyField)
  return Object.fromEntries(empties.filter(({ isNullable }) => isNullable).map(({ name }) => [name, null]))
}

const without = (fields: Fields, names: readonly string[]): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))

function newRecord(state: ServiceState, name: ResourceName, given: Given): Given {
  const { timeZone } = state.behaviour
  const table = state.tables[name]
  const nowMs = Date.now()
  const hidden = [...setByService, table.resource.keyField]
  const [stored, echo]: [FreshFields, FreshFields] = [
    { ...emptied(table), ...without(given.stored, hidden) },
    { ...without(given.echo, hidden) },
  ]
  if (name === 'webhook_subscription') {
    const isActive = given.stored.Active ?? true
    const id = randomUUID()
    return { stored: { ...stored, WebhookSubscriptionId: id, Active: isActive }, echo: { Secret: null } }
  }
  stored.UID = given.stored.UID ?? randomUUID()
  for (const field of registrationTimes) {
    if (!(field in stored) || field in given.stored) continue
    stored[field] = storedLocal(nowMs, timeZone)
    echo[field] = writtenTime(localClock(nowMs, timeZone, ticks()), timeZone)
  }
  for (const who of ['SysCreated', 'SysUpdated']) {
    stored[`${who}By`] = integrationUser
    stored[`${who}DateUTC`] = storedUtc(nowMs)
    echo[`${who}DateUTC`] = writtenTime(utcClock(nowMs, ticks()), timeZone)
  }
  return { stored, echo }
}

const ticks = () => 1 + Math.floor(Math.random() * 4_998)

/** How a PUT names its record: by its id, otherwise by its external id, which may be that there is none. */
export const change =
  (name: ResourceName): Operation =>
  (state, { request }) => {
    const table = state.tables[name]
    const body = readBody(state, name, request)
    if ('refusal' in body) return body.refusal
    const { stored } = body.value
    const row = namedRow(table, stored)
    if (row === 'unnamed') return invalid({ [table.resource.keyField]: ['The body names no record.'] })
    if (!row) return problem(404)
    if (breaksReference(state, name, stored)) return problem(500)
    const { [table.resource.keyField]: _key, ...rest } = stored
    const own = state.behaviour.puts === 'merge' ? rest : replaced(state, table, row, stored)
    state.writes.change(name, row.id, own)
    return empty(204)
  }

function namedRow(table: Table, stored: Fields): Row | undefined | 'unnamed' {
  const { keyField, externalField, look } = table.resource
  const id = stored[keyField]
  const externalId = externalField === null ? undefined : stored[externalField]
  const byId = typeof id === 'number' && id !== 0 ? table.find(id) : undefined
  if (byId) return byId
  if (typeof externalId === 'string') return table.findExternal(externalId)
  if (look === 'plain') return id === undefined && externalId === undefined ? 'unnamed' : undefined
  if (typeof id === 'number' && id !== 0) return undefined
  return table.byPlace
    .slice(0, Number.POSITIVE_INFINITY)
    .find((row) => externalIdOf(row, table.resource) === null)
}

/** What a PUT leaves of a record: what it names, what only the service sets, and nothing else. */
function replaced({ rendering }: ServiceState, table: Table, row: Row, stored: Fields): Fields {
  const before = rendering.fields(table.resource, row)
  const kept = ['UID', 'SysCreatedBy', 'SysCreatedDateUTC', 'WebhookSubscriptionId']
  const isKept = (name: string) => kept.includes(name) && name in before
  return {
    ...emptied(table),
    ...without(stored, [...setByService, table.resource.keyField]),
    ...Object.fromEntries(Object.entries(before).filter(([name]) => isKept(name))),
    ...updated(table),
    ...(table.resource.name.startsWith('webhook')
      ? { Active: stored.Active ?? true }
      : { SysDeleted: stored.SysDeleted ?? false }),
  }
}

type Owner = 'assignmentId' | 'assignmentIdExt'

const child =
  (
    name: ResourceName,
    by: Owner,
    readGiven: (state: ServiceState, request: Incoming) => Read<Given>,
  ): Operation =>
  (state, { request, values }) => {
    const body = readGiven(state, request)
    if ('refusal' in body) return body.refusal
    const assignment = find(state.tables.assignment, by, values[by])
    if (!assignment || assignment.isDeleted) return problem(404)
    const link = name === 'attachment' ? ownerLink(state, assignment) : { AssignmentId: assignment.id }
    const { stored, echo } = body.value
    return insert(state, name, request, { stored: { ...stored, ...link }, echo: { ...echo, ...link } })
  }

function ownerLink({ tables, rendering }: ServiceState, assignment: Row): Fields {
  const { resource } = tables.assignment
  if (resource.look === 'plain') return { OwnerId: assignment.id }
  const { AssignmentIdext, UID } = rendering.fields(resource, assignment)
  return { OwnerId: assignment.id, OwnerIdext: AssignmentIdext, OwnerUID: UID, OwnerType: 1 }
}

export const addChild = (name: ResourceName, by: Owner): Operation =>
  child(name, by, (state, request) => readBody(state, name, request))

const attachmentShape = bodyShape(recordedSchemas.attachment, 'attachment')

export const addAttachment = (by: Owner): Operation =>
  child('attachment', by, ({ behaviour }, request) => {
    const read = readForm(request, attachmentShape, behaviour.timeZone)
    if ('refusal' in read) return read
    const { stored, echo } = read.value
    if (typeof stored.FileData !== 'string' || stored.FileSize !== undefined) return read
    const size = { FileSize: Buffer.from(stored.FileData, 'base64').length }
    return { value: { stored: { ...stored, ...size }, echo: { ...echo, ...size } } }
  })

export const setParticipant =
  (how: 'add' | 'remove'): Operation =>
  (state, { values }) => {
    const { tables, extended, writes, versions } = state
    const row = tables.assignment.find(Number(values.assignmentId))
    const employee = tables.employee.find(Number(values.employeeId))
    if (!row || row.isDeleted || !employee) return problem(404)
    const isAdd = how === 'add'
    if (extended.participants(row).has(employee.id) === isAdd) return isAdd ? empty(200) : problem(404)
    extended.setParticipant(row, employee.id, isAdd)
    writes.change('assignment', row.id, updated(tables.assignment))
    // The record of who takes part has a version too, from the same counter.
    if (isAdd) versions.next()
    return empty(200)
  }
