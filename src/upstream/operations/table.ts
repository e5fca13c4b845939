// The table of operations: everything the upstream is known to offer. What a request is made of is in request.ts.

import type { ServiceName } from '../../streams/catalog.ts'
import type { ParameterKind } from './parameters.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
/** `json` is an object, `form` that of attachments; `any json` and `any form` are what a description says. */
type BodyKind = 'none' | 'json' | 'form' | 'any json' | 'any form' | 'multipart'
export type Operation = {
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

const assignment = { service: 'assignment', query: {}, body: 'none' } as const
const get = { ...assignment, method: 'GET', success: 200 } as const
const getPaged = { ...get, query: paged } as const
const post = { ...assignment, method: 'POST', body: 'json', success: 201 } as const
const put = { ...assignment, method: 'PUT', body: 'json', success: 204 } as const
const remove = { ...assignment, method: 'DELETE', success: 204 } as const
const postForm = { ...post, body: 'form' } as const
const putNothing = { ...assignment, method: 'PUT', success: 200 } as const

export const operations = {
  listAssignments: { ...getPaged, path: '/api/Assignment' },
  createAssignment: { ...post, path: '/api/Assignment' },
  updateAssignment: { ...put, path: '/api/Assignment' },
  getAssignment: { ...get, path: '/api/Assignment/Id/{assignmentId}' },
  deleteAssignment: { ...remove, path: '/api/Assignment/Id/{assignmentId}' },
  getAssignmentByIdExt: { ...get, path: '/api/Assignment/IdExt/{assignmentIdExt}' },
  deleteAssignmentByIdExt: { ...remove, path: '/api/Assignment/{assignmentIdExt}' },
  listChangedAssignments: { ...getPaged, path: '/api/Assignment/neworchanged/{rowVersion}' },
  getExtendedAssignment: {
    ...get,
    path: '/api/Assignment/extended/Id/{assignmentId}',
    query: includeFlags,
  },
  addAttachment: { ...postForm, path: '/api/Assignment/Id/{assignmentId}/attachment' },
  addAttachmentByIdExt: { ...postForm, path: '/api/Assignment/IdExt/{assignmentIdExt}/attachment' },
  addAssignmentProduct: { ...post, path: '/api/Assignment/Id/{assignmentId}/assignmentProduct' },
  addAssignmentProductByIdExt: {
    ...post,
    path: '/api/Assignment/IdExt/{assignmentIdExt}/assignmentProduct',
  },
  addAssignmentService: { ...post, path: '/api/Assignment/Id/{assignmentId}/assignmentService' },
  addAssignmentServiceByIdExt: {
    ...post,
    path: '/api/Assignment/IdExt/{assignmentIdExt}/assignmentService',
  },
  addAssignmentQualityControl: {
    ...post,
    path: '/api/Assignment/Id/{assignmentId}/assignmentQualityControl',
  },
  addAssignmentQualityControlByIdExt: {
    ...post,
    path: '/api/Assignment/IdExt/{assignmentIdExt}/assignmentQualityControl',
  },
  addParticipant: { ...putNothing, path: '/api/Assignment/{assignmentId}/participant/add/{employeeId}' },
  removeParticipant: {
    ...putNothing,
    path: '/api/Assignment/{assignmentId}/participant/remove/{employeeId}',
  },

  listAssignmentNotes: { ...getPaged, path: '/api/AssignmentNote' },
  createAssignmentNote: { ...post, path: '/api/AssignmentNote' },
  updateAssignmentNote: { ...put, path: '/api/AssignmentNote' },
  getAssignmentNote: { ...get, path: '/api/AssignmentNote/Id/{assignmentNoteId}' },
  getAssignmentNoteByIdExt: { ...get, path: '/api/AssignmentNote/IdExt/{assignmentNoteIdExt}' },
  listChangedAssignmentNotes: { ...getPaged, path: '/api/AssignmentNote/neworchanged/{rowVersion}' },
  deleteAssignmentNoteByIdExt: { ...remove, path: '/api/AssignmentNote/{assignmentNoteIdExt}' },

  listAssignmentObjects: { ...getPaged, path: '/api/AssignmentObject' },

  listWebhookDefinitions: { ...get, path: '/api/Webhooks' },
  listWebhookSubscriptions: { ...get, path: '/api/Webhooks/subscription' },
  createWebhookSubscription: { ...post, path: '/api/Webhooks/subscription' },
  updateWebhookSubscription: { ...put, path: '/api/Webhooks/subscription' },
  getWebhookSubscription: { ...get, path: '/api/Webhooks/subscription/{webhookSubscriptionId}' },
  deleteWebhookSubscription: { ...remove, path: '/api/Webhooks/Id/{webhookSubscriptionId}' },

  // `Pagesize`: this service spells it so.
  listTrackerObjects: {
    ...get,
    path: '/api/TrackerObject',
    service: 'tracking',
    query: { Page: 'pageNumber', Pagesize: 'pageNumber' },
  },
} as const satisfies Record<string, Operation>

const describedOperations = new Map<string, Operation>()

/** One that only the upstream's description of itself names. Returns its name. */
export function describeOperation(operation: Operation): OperationName {
  const name = `${operation.method} ${operation.path}`
  describedOperations.set(name, operation)
  return name as OperationName
}

/** An operation of the table, or a list that the settings name: `GET /api/Customer`. */
export function operationNamed(name: string): Operation {
  if (Object.hasOwn(operations, name)) return operations[name as OperationName]
  const described = describedOperations.get(name)
  if (described) return described
  const [, path] = /^GET (\/\S+)$/.exec(name) ?? []
  if (path === undefined) throw new Error(`the table of operations has no ${name}`)
  return path.includes('{') && !path.includes('/neworchanged/') ? { ...get, path } : { ...getPaged, path }
}

export type OperationName = keyof typeof operations

export const operationNames = Object.keys(operations) as readonly OperationName[]
