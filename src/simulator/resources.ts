// The table of resources: how each is named, keyed and filled. Names are those of the mirrored streams where there is one.

import { assignmentExternalId, assignmentParts, type Parts } from './assignment-fields.ts'
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
  webhookSubscriptionFields,
} from './child-fields.ts'
import { hash } from './random.ts'
import { emptyRow, type FreshFields, type Row } from './row.ts'

export type Resource = {
  readonly name: string
  readonly keyField: string
  /** The field by which others know a record, and its generated value. */
  readonly externalField: string | null
  externalId(id: number): string | null
  /** The generated fields; the row versions among a record's own are filled in by the rendering. */
  parts(row: Row): Parts
  /** The assignment a generated record hangs on. */
  assignmentIdOf(id: number): number | null
  /** Lower-case name to the upstream's spelling. */
  readonly fieldNames: ReadonlyMap<string, string>
}

function resource(
  name: string,
  keyField: string,
  given: Partial<Resource> & Pick<Resource, 'parts'>,
): Resource {
  const { own, shared } = given.parts(emptyRow)
  const names = Object.keys({ ...own, ...shared })
  return {
    name,
    keyField,
    externalField: null,
    externalId: () => null,
    assignmentIdOf: () => null,
    fieldNames: new Map(names.map((field) => [field.toLowerCase(), field])),
    ...given,
  }
}

/** `assignments` is how many there were at first: generated notes and objects hang on one of those. */
export function defineResources({
  seed,
  assignments,
}: {
  readonly seed: number
  readonly assignments: number
}) {
  const parentOf = (salt: number) => (id: number) =>
    assignments > 0 ? 1 + (hash(seed, id, salt) % assignments) : null
  const noteParent = parentOf(22)
  const objectParent = parentOf(32)
  const linked = (fields: (seed: number, row: Row) => FreshFields) => ({
    parts: (row: Row): Parts => ({ own: fields(seed, row), shared: null }),
  })
  return {
    assignment: resource('assignment', 'AssignmentId', {
      parts: assignmentParts(seed),
      externalField: 'AssignmentIdExt',
      externalId: assignmentExternalId,
    }),
    assignment_note: resource('assignment_note', 'AssignmentNoteId', {
      parts: (row) => ({ own: noteFields(seed, row, noteParent(row.id)), shared: null }),
      externalField: 'AssignmentNoteIdExt',
      externalId: noteExternalId,
      assignmentIdOf: noteParent,
    }),
    assignment_object: resource('assignment_object', 'AssignmentObjectId', {
      parts: (row) => ({ own: objectFields(seed, row, objectParent(row.id)), shared: null }),
      assignmentIdOf: objectParent,
    }),
    assignment_product: resource('assignment_product', 'AssignmentProductId', linked(productFields)),
    assignment_service: resource('assignment_service', 'AssignmentServiceId', linked(serviceFields)),
    assignment_quality_control: resource(
      'assignment_quality_control',
      'AssignmentQualityControlId',
      linked(qualityControlFields),
    ),
    attachment: resource('attachment', 'AttachmentId', linked(attachmentFields)),
    customer: resource('customer', 'CustomerId', linked(customerFields)),
    employee: resource('employee', 'EmployeeId', linked(employeeFields)),
    tracker_object: resource('tracker_object', 'TrackerObjectId', linked(trackerFields)),
    webhook_definition: resource(
      'webhook_definition',
      'WebhookDefinitionId',
      linked(webhookDefinitionFields),
    ),
    webhook_subscription: resource('webhook_subscription', 'Id', {
      ...linked(webhookSubscriptionFields),
      externalField: 'WebhookSubscriptionId',
      externalId: (id) => subscriptionExternalId(seed, id),
    }),
  }
}

export type ResourceName = keyof ReturnType<typeof defineResources>
