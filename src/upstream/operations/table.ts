// The table of operations: everything the upstream is known to offer. What a request is made of is in request.ts.

import type { ServiceName } from '../../streams/catalog.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
export type ParameterKind = 'int32' | 'int64' | 'pageNumber' | 'boolean' | 'text' | 'segment'
/** `json` is an object; `any json` is what a description says. */
type BodyKind = 'none' | 'json' | 'form' | 'any json' | 'multipart'
export type Operation = {
  /** Also of metrics. One that no table has is named by its method and path. */
  readonly name: string
  readonly method: Method
  /** Parameters in braces; their types are in `pathParameters`. */
  readonly path: string
  readonly service: ServiceName
  readonly query: Readonly<Record<string, ParameterKind>>
  readonly body: BodyKind
  readonly success: 200 | 201 | 204
}

export const pathParameters = {
  assignmentId: 'int32',
  employeeId: 'int32',
  assignmentNoteId: 'int32',
  rowVersion: 'int64',
  assignmentIdExt: 'segment',
  assignmentNoteIdExt: 'segment',
  webhookSubscriptionId: 'segment',
} as const satisfies Record<string, ParameterKind>

const paged = { Filters: 'text', Sorts: 'text', Page: 'pageNumber', PageSize: 'pageNumber' } as const
const includeFlags = {
  IncludeCustomer: 'boolean',
  IncludeEmployee: 'boolean',
  IncludeAssignmentProduct: 'boolean',
  IncludeAssignmentService: 'boolean',
  IncludeAssignmentQualityControl: 'boolean',
  IncludeAttachment: 'boolean',
  IncludeAttachmentFileData: 'boolean',
  IncludeAssignmentNote: 'boolean',
  IncludeAssignmentObject: 'boolean',
} as const

type Row = Omit<Operation, 'name'>
const assignment = { service: 'assignment', query: {}, body: 'none' } as const
const get = (path: string, query: Row['query'] = {}): Row => ({
  ...assignment,
  method: 'GET',
  path,
  query,
  success: 200,
})
const post = (path: string, body: BodyKind = 'json'): Row => ({
  ...assignment,
  method: 'POST',
  path,
  body,
  success: 201,
})
const put = (path: string): Row => ({ ...assignment, method: 'PUT', path, body: 'json', success: 204 })
const putNothing = (path: string): Row => ({ ...assignment, method: 'PUT', path, success: 200 })
const remove = (path: string): Row => ({ ...assignment, method: 'DELETE', path, success: 204 })

const rows = {
  listAssignments: get('/api/Assignment', paged),
  createAssignment: post('/api/Assignment'),
  updateAssignment: put('/api/Assignment'),
  getAssignment: get('/api/Assignment/Id/{assignmentId}'),
  deleteAssignment: remove('/api/Assignment/Id/{assignmentId}'),
  getAssignmentByIdExt: get('/api/Assignment/IdExt/{assignmentIdExt}'),
  deleteAssignmentByIdExt: remove('/api/Assignment/{assignmentIdExt}'),
  listChangedAssignments: get('/api/Assignment/neworchanged/{rowVersion}', paged),
  getExtendedAssignment: get('/api/Assignment/extended/Id/{assignmentId}', includeFlags),
  addAttachment: post('/api/Assignment/Id/{assignmentId}/attachment', 'form'),
  addAttachmentByIdExt: post('/api/Assignment/IdExt/{assignmentIdExt}/attachment', 'form'),
  addAssignmentProduct: post('/api/Assignment/Id/{assignmentId}/assignmentProduct'),
  addAssignmentProductByIdExt: post('/api/Assignment/IdExt/{assignmentIdExt}/assignmentProduct'),
  addAssignmentService: post('/api/Assignment/Id/{assignmentId}/assignmentService'),
  addAssignmentServiceByIdExt: post('/api/Assignment/IdExt/{assignmentIdExt}/assignmentService'),
  addAssignmentQualityControl: post('/api/Assignment/Id/{assignmentId}/assignmentQualityControl'),
  addAssignmentQualityControlByIdExt: post(
    '/api/Assignment/IdExt/{assignmentIdExt}/assignmentQualityControl',
  ),
  addParticipant: putNothing('/api/Assignment/{assignmentId}/participant/add/{employeeId}'),
  removeParticipant: putNothing('/api/Assignment/{assignmentId}/participant/remove/{employeeId}'),

  listAssignmentNotes: get('/api/AssignmentNote', paged),
  createAssignmentNote: post('/api/AssignmentNote'),
  updateAssignmentNote: put('/api/AssignmentNote'),
  getAssignmentNote: get('/api/AssignmentNote/Id/{assignmentNoteId}'),
  getAssignmentNoteByIdExt: get('/api/AssignmentNote/IdExt/{assignmentNoteIdExt}'),
  listChangedAssignmentNotes: get('/api/AssignmentNote/neworchanged/{rowVersion}', paged),
  deleteAssignmentNoteByIdExt: remove('/api/AssignmentNote/{assignmentNoteIdExt}'),

  listAssignmentObjects: get('/api/AssignmentObject', paged),

  listWebhookDefinitions: get('/api/Webhooks'),
  listWebhookSubscriptions: get('/api/Webhooks/subscription'),
  createWebhookSubscription: post('/api/Webhooks/subscription'),
  updateWebhookSubscription: put('/api/Webhooks/subscription'),
  getWebhookSubscription: get('/api/Webhooks/subscription/{webhookSubscriptionId}'),
  deleteWebhookSubscription: remove('/api/Webhooks/Id/{webhookSubscriptionId}'),

  // `Pagesize`: this service spells it so.
  listTrackerObjects: {
    ...get('/api/TrackerObject', { Page: 'pageNumber', Pagesize: 'pageNumber' }),
    service: 'tracking',
  },
} as const satisfies Record<string, Row>

export type OperationName = keyof typeof rows

export const operations = Object.fromEntries(
  Object.entries(rows).map(([name, row]) => [name, { name, ...row }]),
) as Readonly<Record<OperationName, Operation>>

export const allOperations: readonly Operation[] = Object.values(operations)

/** An operation of the table, or a list that the settings name: `GET /api/Customer`. */
export function operationNamed(name: string): Operation {
  if (Object.hasOwn(operations, name)) return operations[name as OperationName]
  const [, path] = /^GET (\/\S+)$/.exec(name) ?? []
  if (path === undefined) throw new Error(`the table of operations has no ${name}`)
  return { name, ...get(path, path.includes('{') && !path.includes('/neworchanged/') ? {} : paged) }
}
