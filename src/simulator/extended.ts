// The extended read: an assignment with the groups its Include flags ask for, and who takes part in it. Products,
// services, quality controls and attachments that were there from the start follow from the seed and are stored nowhere.

import { type Answer, type Incoming, invalid, jsonText } from './answer.ts'
import { hash } from './random.ts'
import type { Rendering } from './rendering.ts'
import type { ResourceName } from './resources.ts'
import type { Fields, FreshFields, Row } from './row.ts'
import type { Table } from './table.ts'
import type { Tables } from './writes.ts'

export type Extended = {
  answer(assignment: Row, request: Incoming): Answer
  participants(assignment: Row): ReadonlySet<number>
  setParticipant(assignment: Row, employeeId: number, takesPart: boolean): void
}

/** Created children get ids above those that follow from an assignment's. */
export const firstCreatedChildId = 1_500_000_000

type Group = { readonly name: string; readonly resource: ResourceName; readonly most: number }

const childGroups: readonly Group[] = [
  { name: 'AssignmentProduct', resource: 'assignment_product', most: 3 },
  { name: 'AssignmentService', resource: 'assignment_service', most: 2 },
  { name: 'AssignmentQualityControl', resource: 'assignment_quality_control', most: 2 },
  { name: 'Attachment', resource: 'attachment', most: 2 },
  { name: 'AssignmentNote', resource: 'assignment_note', most: 0 },
  { name: 'AssignmentObject', resource: 'assignment_object', most: 0 },
]
/** In the order in which they are answered. */
const groupNames = ['Customer', 'Employee', ...childGroups.map(({ name }) => name)]

type Parts = {
  readonly readTables: () => Tables
  readonly rendering: Rendering
  readonly seed: number
  /** Without it, an assignment has only the children that were created. */
  readonly hasGeneratedChildren: boolean
}

export function openExtended(parts: Parts): Extended {
  const { readTables, rendering } = parts
  const changed = new Map<number, ReadonlySet<number>>()

  function participants(assignment: Row): ReadonlySet<number> {
    const known = changed.get(assignment.id)
    if (known) return known
    const fields = rendering.fields(readTables().assignment.resource, assignment)
    const responsible = fields.ResponsibleEmployeeId ?? fields.EmployeeId
    return new Set(typeof responsible === 'number' ? [responsible] : [])
  }

  return {
    answer(assignment, request) {
      const includes = (name: string): boolean =>
        (
          request.query.get(`include${name.toLowerCase()}`) || String(name !== 'AttachmentFileData')
        ).toLowerCase() === 'true'
      if (includes('AttachmentFileData') && !includes('Attachment')) return invalid(onlyWithAttachments)
      const tables = readTables()
      const groups = groupTexts({ ...parts, tables, participants }, assignment, includes)
      const record = recordText({ tables, rendering }, 'assignment', assignment)
      const text =
        tables.assignment.resource.look === 'plain'
          ? flat(record, groups, rendering)
          : nested(record, groups, rendering)
      return jsonText(200, text, [assignment])
    },
    participants,
    setParticipant(assignment, employeeId, takesPart) {
      const set = new Set(participants(assignment))
      if (takesPart) set.add(employeeId)
      else set.delete(employeeId)
      changed.set(assignment.id, set)
    },
  }
}

const onlyWithAttachments = {
  IncludeAttachmentFileData: ['IncludeAttachmentFileData is only valid when IncludeAttachment is true.'],
}

type Groups = ReadonlyMap<string, string>

/** The recorded service has the assignment in a member of its own, and null for a group that was not asked for. */
function nested(record: string, groups: Groups, { cased }: Rendering): string {
  const members = groupNames.map((name) => `${JSON.stringify(cased(name))}:${groups.get(name) ?? 'null'}`)
  return `{${[`${JSON.stringify(cased('Assignment'))}:${record}`, ...members].join(',')}}`
}

function flat(record: string, groups: Groups, { cased }: Rendering): string {
  const members = [...groups].map(([name, text]) => `${JSON.stringify(cased(name))}:${text}`)
  return `${[record.slice(0, -1), ...members].join(',')}}`
}

type Reading = { readonly tables: Tables; readonly rendering: Rendering }

function recordText(
  { tables, rendering }: Reading,
  resource: ResourceName,
  row: Row,
  change?: Fields,
): string {
  const fields: FreshFields = { ...rendering.fields(tables[resource].resource, row), ...change }
  return rendering.stringify(fields)
}

function groupTexts(
  parts: Parts & Reading & { readonly participants: Extended['participants'] },
  assignment: Row,
  includes: (name: string) => boolean,
): Groups {
  const { tables, rendering } = parts
  const { CustomerId } = rendering.fields(tables.assignment.resource, assignment)
  const customer = tables.customer.find(Number(CustomerId ?? 0))
  const employees = [...parts.participants(assignment)].flatMap((id) => tables.employee.find(id) ?? [])
  const groups: [string, string][] = [
    ['Customer', customer ? recordText(parts, 'customer', customer) : 'null'],
    ['Employee', `[${employees.map((row) => recordText(parts, 'employee', row)).join(',')}]`],
  ]
  const isPlain = tables.assignment.resource.look === 'plain'
  for (const group of childGroups) {
    const { name, resource } = group
    if (!includes(name)) continue
    const hidden = resource === 'attachment' && !includes('AttachmentFileData')
    const change = hidden ? { FileData: isPlain ? undefined : null } : undefined
    const rows = childrenOf(parts, group, assignment)
    groups.push([name, `[${rows.map((row) => recordText(parts, resource, row, change)).join(',')}]`])
  }
  return new Map(groups.filter(([name]) => includes(name)))
}

function childrenOf(parts: Parts & Reading, { resource, most }: Group, assignment: Row): Row[] {
  const table = parts.tables[resource]
  const field = resource === 'attachment' ? 'OwnerId' : 'AssignmentId'
  const isGenerated = parts.hasGeneratedChildren && most > 0
  return [
    ...(isGenerated ? generated(parts, resource, assignment, most) : []),
    ...stored(table, field, assignment.id),
  ]
}

function generated(parts: Parts & Reading, resource: ResourceName, assignment: Row, most: number): Row[] {
  const { tables, rendering, seed } = parts
  const count = hash(seed, assignment.id, resource.length) % (most + 1)
  const { AssignmentIdext, UID } = rendering.fields(tables.assignment.resource, assignment)
  const owner = {
    OwnerId: assignment.id,
    ...(AssignmentIdext !== undefined && { OwnerIdext: AssignmentIdext, OwnerUID: UID }),
  }
  const own = resource === 'attachment' ? owner : { AssignmentId: assignment.id }
  return Array.from({ length: count }, (_, index) => ({
    ...assignment,
    id: assignment.id * 4 + index,
    revision: 0,
    own,
    raw: null,
    cached: null,
  }))
}

const stored = ({ byId, resource }: Table, field: string, assignmentId: number): Row[] =>
  byId
    .slice(0, Number.POSITIVE_INFINITY)
    .filter((row) => (row.own?.[field] ?? resource.assignmentIdOf(row.id)) === assignmentId)
