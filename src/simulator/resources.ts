// The table of resources: how each is named, keyed and filled, in one look or the other. Names are those of the
// mirrored streams where there is one.

import type { Look } from './behaviour.ts'
import { type Field, inferFields, type Schema } from './fields.ts'
import { assignmentExternalId, assignmentParts, type Parts } from './plain-assignments.ts'
import {
  attachmentFields,
  customerFields,
  employeeFields,
  noteExternalId,
  noteFields,
  objectFields,
  productFields,
  qualityControlFields,
  serviceFields,
  subscriptionExternalId,
  trackerFields,
  webhookDefinitionFields,
  webhookEvents,
  webhookSubscriptionFields,
} from './plain-records.ts'
import { hash } from './random.ts'
import {
  type RecordContext,
  recordedAssignment,
  recordedAssignmentId,
  recordedAttachment,
  recordedCustomer,
  recordedDefinition,
  recordedEmployee,
  recordedNote,
  recordedNoteId,
  recordedObject,
  recordedProduct,
  recordedQualityControl,
  recordedService,
  recordedSubscription,
  recordedTracker,
} from './recorded-records.ts'
import { recordedSchemas } from './recorded-schemas.ts'
import { emptyRow, type FreshFields, type Row } from './row.ts'

export const resourceNames = [
  'assignment',
  'assignment_note',
  'assignment_object',
  'assignment_product',
  'assignment_service',
  'assignment_quality_control',
  'attachment',
  'customer',
  'employee',
  'tracker_object',
  'webhook_definition',
  'webhook_subscription',
] as const
export type ResourceName = (typeof resourceNames)[number]

export type Resource = {
  readonly name: string
  readonly look: Look
  readonly schema: Schema
  readonly keyField: string
  /** The field by which others know a record, and its generated value. */
  readonly externalField: string | null
  externalId(row: Row): string | null
  /** The generated fields; the row versions among a record's own are filled in by the rendering. */
  parts(row: Row): Parts
  /** The assignment a generated record hangs on. */
  assignmentIdOf(id: number): number | null
  /** A field by its name in any case. */
  field(name: string): Field | undefined
}

type Given = Pick<Resource, 'keyField' | 'parts'> &
  Partial<Pick<Resource, 'externalField' | 'externalId' | 'assignmentIdOf'>>

type Context = RecordContext & { readonly noteParent: Parent; readonly objectParent: Parent }
type Parent = (id: number) => number | null

/** `assignments` is how many there were at first: generated notes and objects hang on one of those. */
export function defineResources(options: {
  readonly look: Look
  readonly seed: number
  readonly assignments: number
  /** How many ids of assignments were taken before those. */
  readonly first?: number
  readonly timeZone?: string
}): Readonly<Record<ResourceName, Resource>> {
  const { look, seed, assignments, first = 0, timeZone = 'UTC' } = options
  const parentOf = (salt: number) => (id: number) =>
    assignments > 0 ? first + 1 + (hash(seed, id, salt) % assignments) : null
  const context: Context = {
    seed,
    timeZone,
    assignmentOf: parentOf(22),
    noteParent: parentOf(22),
    objectParent: parentOf(32),
  }
  const given = look === 'plain' ? plainResources(context) : recordedResources(context)
  const entries = resourceNames.map((name) => [name, resource(name, look, given[name])])
  return Object.fromEntries(entries) as Record<ResourceName, Resource>
}

const plainSchemaNames: Readonly<Record<ResourceName, string>> = Object.fromEntries(
  Object.entries(recordedSchemas).map(([name, schema]) => [name, schema.name]),
) as Record<ResourceName, string>

function resource(name: ResourceName, look: Look, given: Given): Resource {
  const schema = look === 'recorded' ? recordedSchemas[name] : plainSchema(name, given)
  const fields = new Map(schema.fields.map((field) => [field.name.toLowerCase(), field]))
  return {
    name,
    look,
    schema,
    externalField: null,
    externalId: () => null,
    assignmentIdOf: () => null,
    field: (wanted) => fields.get(wanted.toLowerCase()),
    ...given,
  }
}

function plainSchema(name: ResourceName, { parts }: Given): Schema {
  const { own, shared } = parts(emptyRow)
  return { name: plainSchemaNames[name], describe: '', fields: inferFields({ ...own, ...shared }) }
}

const alone =
  (fields: (row: Row) => FreshFields) =>
  (row: Row): Parts => ({ own: fields(row), shared: null })

function plainResources(context: Context): Readonly<Record<ResourceName, Given>> {
  const { seed, noteParent, objectParent } = context
  const made = (keyField: string, fields: (seed: number, row: Row) => FreshFields): Given => ({
    keyField,
    parts: alone((row) => fields(seed, row)),
  })
  return {
    assignment: {
      keyField: 'AssignmentId',
      parts: assignmentParts(seed),
      externalField: 'AssignmentIdExt',
      externalId: ({ id }) => assignmentExternalId(id),
    },
    assignment_note: {
      keyField: 'AssignmentNoteId',
      parts: alone((row) => noteFields(seed, row, noteParent(row.id))),
      externalField: 'AssignmentNoteIdExt',
      externalId: ({ id }) => noteExternalId(id),
      assignmentIdOf: noteParent,
    },
    assignment_object: {
      keyField: 'AssignmentObjectId',
      parts: alone((row) => objectFields(seed, row, objectParent(row.id))),
      assignmentIdOf: objectParent,
    },
    assignment_product: made('AssignmentProductId', productFields),
    assignment_service: made('AssignmentServiceId', serviceFields),
    assignment_quality_control: made('AssignmentQualityControlId', qualityControlFields),
    attachment: made('AttachmentId', attachmentFields),
    customer: made('CustomerId', customerFields),
    employee: made('EmployeeId', employeeFields),
    tracker_object: made('TrackerObjectId', trackerFields),
    webhook_definition: made('WebhookDefinitionId', webhookDefinitionFields),
    webhook_subscription: {
      ...made('Id', webhookSubscriptionFields),
      externalField: 'WebhookSubscriptionId',
      externalId: ({ id }) => subscriptionExternalId(seed, id),
    },
  }
}

function recordedResources(context: Context): Readonly<Record<ResourceName, Given>> {
  const { seed, noteParent, objectParent } = context
  const made = (keyField: string, fields: (context: RecordContext, row: Row) => FreshFields): Given => ({
    keyField,
    parts: alone((row) => fields(context, row)),
  })
  return {
    assignment: {
      keyField: 'AssignmentId',
      parts: recordedAssignment(context),
      externalField: 'AssignmentIdext',
      externalId: (row) => recordedAssignmentId(seed, row.id, row.createdAtMs),
    },
    assignment_note: {
      ...made('AssignmentNoteId', recordedNote),
      externalField: 'AssignmentNoteIdext',
      externalId: ({ id }) => recordedNoteId(id),
      assignmentIdOf: noteParent,
    },
    assignment_object: {
      keyField: 'AssignmentObjectId',
      parts: alone((row) => recordedObject({ ...context, assignmentOf: objectParent }, row)),
      assignmentIdOf: objectParent,
    },
    assignment_product: made('AssignmentProductId', recordedProduct),
    assignment_service: made('AssignmentServiceId', recordedService),
    assignment_quality_control: made('AssignmentQualityControlId', recordedQualityControl),
    attachment: made('AttachmentId', recordedAttachment),
    customer: made('CustomerId', recordedCustomer),
    employee: made('EmployeeId', recordedEmployee),
    tracker_object: made('TrackerObjectId', recordedTracker),
    webhook_definition: made('WebhookDefinitionId', recordedDefinition(webhookEvents)),
    webhook_subscription: {
      ...made('Id', recordedSubscription),
      externalField: 'WebhookSubscriptionId',
      externalId: ({ id }) => subscriptionExternalId(seed, id),
    },
  }
}
