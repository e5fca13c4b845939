// The extended read: an assignment with the groups its Include flags ask for, and who takes part in it. Products,
// services, quality controls and attachments that were there from the start follow from the seed and are kept nowhere.

import { type Answer, type Incoming, jsonText, problem } from './answer.ts'
import { hash } from './random.ts'
import type { Rendering } from './rendering.ts'
import type { ResourceName } from './resources.ts'
import type { Row } from './row.ts'
import type { Table } from './table.ts'
import type { Tables } from './writes.ts'

export type Extended = {
  answer(assignment: Row, request: Incoming): Answer
  setParticipant(assignment: Row, employeeId: number, takesPart: boolean): void
}

/** Created children get ids above those that follow from an assignment's. */
export const firstCreatedChildId = 1_500_000_000

const childGroups: readonly {
  readonly name: string
  readonly resource: ResourceName
  readonly most: number
}[] = [
  { name: 'AssignmentProduct', resource: 'assignment_product', most: 3 },
  { name: 'AssignmentService', resource: 'assignment_service', most: 2 },
  { name: 'AssignmentQualityControl', resource: 'assignment_quality_control', most: 2 },
  { name: 'Attachment', resource: 'attachment', most: 2 },
  { name: 'AssignmentNote', resource: 'assignment_note', most: 0 },
  { name: 'AssignmentObject', resource: 'assignment_object', most: 0 },
]
const flagNames = ['Customer', 'Employee', ...childGroups.map(({ name }) => name), 'AttachmentFileData']

export function openExtended(parts: {
  readonly tables: Tables
  readonly rendering: Rendering
  readonly seed: number
}): Extended {
  const { tables, rendering, seed } = parts
  const participants = new Map<number, ReadonlySet<number>>()

  function participantsOf(assignment: Row): ReadonlySet<number> {
    const { ResponsibleEmployeeId } = rendering.fields(tables.assignment.resource, assignment)
    return participants.get(assignment.id) ?? new Set([Number(ResponsibleEmployeeId)])
  }

  function recordText(resource: ResourceName, row: Row, without: readonly string[] = []): string {
    const fields = { ...rendering.fields(tables[resource].resource, row) }
    for (const name of without) delete fields[name]
    return rendering.stringify(fields)
  }

  function groupTexts(assignment: Row, includes: (name: string) => boolean): [string, string][] {
    const { CustomerId } = rendering.fields(tables.assignment.resource, assignment)
    const customer = tables.customer.find(Number(CustomerId))
    const employees = [...participantsOf(assignment)].flatMap((id) => tables.employee.find(id) ?? [])
    const groups: [string, string][] = [
      ['Customer', customer ? recordText('customer', customer) : 'null'],
      ['Employee', `[${employees.map((row) => recordText('employee', row)).join(',')}]`],
    ]
    for (const { name, resource, most } of childGroups) {
      if (!includes(name)) continue
      const rows = [
        ...generated(seed, resource, assignment, most),
        ...stored(tables[resource], parentField(resource), assignment.id),
      ]
      const without = resource === 'attachment' && !includes('AttachmentFileData') ? ['FileData'] : []
      groups.push([name, `[${rows.map((row) => recordText(resource, row, without)).join(',')}]`])
    }
    return groups.filter(([name]) => includes(name))
  }

  return {
    answer(assignment, request) {
      const flags = readFlags(request)
      if ('refusal' in flags) return flags.refusal
      if (flags.value.get('AttachmentFileData') && !flags.value.get('Attachment'))
        return problem(400, 'IncludeAttachmentFileData is only valid when IncludeAttachment is true.')
      const groups = groupTexts(assignment, (name) => flags.value.get(name) === true)
      const members = groups.map(([name, text]) => `${JSON.stringify(rendering.cased(name))}:${text}`)
      const record = recordText('assignment', assignment)
      return jsonText(200, `${[record.slice(0, -1), ...members].join(',')}}`, [assignment])
    },
    setParticipant(assignment, employeeId, takesPart) {
      const set = new Set(participantsOf(assignment))
      if (takesPart) set.add(employeeId)
      else set.delete(employeeId)
      participants.set(assignment.id, set)
    },
  }
}

const parentField = (resource: ResourceName) => (resource === 'attachment' ? 'OwnerId' : 'AssignmentId')

function generated(seed: number, resource: ResourceName, assignment: Row, most: number): Row[] {
  const count = most === 0 ? 0 : hash(seed, assignment.id, resource.length) % (most + 1)
  return Array.from({ length: count }, (_, index) => ({
    ...assignment,
    id: assignment.id * 4 + index,
    revision: 0,
    own: { [parentField(resource)]: assignment.id },
    raw: null,
    cached: null,
  }))
}

const stored = ({ byId, resource }: Table, field: string, assignmentId: number): Row[] =>
  byId
    .slice(0, Number.POSITIVE_INFINITY)
    .filter((row) => (row.own?.[field] ?? resource.assignmentIdOf(row.id)) === assignmentId)

function readFlags(request: Incoming): { value: ReadonlyMap<string, boolean> } | { refusal: Answer } {
  const flags = new Map<string, boolean>()
  for (const name of flagNames) {
    const text = request.query.get(`include${name.toLowerCase()}`)?.toLowerCase()
    if (text !== undefined && text !== 'true' && text !== 'false')
      return { refusal: problem(400, `Include${name} is neither true nor false.`) }
    flags.set(name, text === undefined ? name !== 'AttachmentFileData' : text === 'true')
  }
  return { value: flags }
}
