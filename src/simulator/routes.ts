// Every operation of the interface: method, path, parameters, bodies, and what it does. Requests are matched and
// checked by this table, and the description at /openapi/v1.json is written from it.

import type { Service } from './answer.ts'
import type { Behaviour } from './behaviour.ts'
import {
  addAttachment,
  addChild,
  change,
  create,
  list,
  listChanged,
  listTrackers,
  listWhole,
  type Operation,
  read,
  readExtended,
  remove,
  setParticipant,
} from './operations.ts'
import {
  includeParameters,
  listParameters,
  type Parameter,
  pathParameters,
  trackerParameters,
} from './parameters.ts'
import type { ResourceName } from './resources.ts'

type Documented = {
  readonly summary?: string
  readonly parameters?: readonly Parameter[]
  /** What the path's row version is called in the description. */
  readonly rowVersion?: string
  readonly body?: ResourceName
  readonly isForm?: boolean
  /** What a success answers; without it a status alone. */
  readonly answers?: ResourceName | 'extended'
  readonly isArray?: boolean
  readonly status?: 200 | 201 | 204
  readonly service?: Service
  /** Served and described only while the stand-in has more lists than the interface names. */
  readonly isExtra?: boolean
}

export type Route = Documented & {
  readonly service: Service
  readonly method: string
  readonly path: string
  readonly segments: readonly string[]
  readonly status: 200 | 201 | 204
  readonly parameters: readonly Parameter[]
  /** Lists are empty for a client that has no data. */
  readonly isList: boolean
  readonly operation: Operation
}

function route(line: string, operation: Operation, documented: Documented = {}): Route {
  const [method = '', path = ''] = line.split(' ')
  const own = pathParameters(path, documented.rowVersion)
  const query = documented.parameters ?? []
  return {
    service: 'assignment',
    status: 200,
    ...documented,
    method,
    path,
    segments: path.split('/').slice(1),
    parameters: [...own, ...query],
    isList: method === 'GET' && own.every(({ name }) => name === 'rowVersion'),
    operation,
  }
}

const created = { status: 201 } as const
const changed = { status: 204 } as const
const listed = { parameters: listParameters, isArray: true } as const

const assignments: readonly Route[] = [
  route('GET /api/Assignment', list('assignment'), {
    ...listed,
    summary: 'Gets assignments.',
    answers: 'assignment',
  }),
  route('POST /api/Assignment', create('assignment'), {
    ...created,
    summary: 'Creates an assignment.',
    body: 'assignment',
    answers: 'assignment',
  }),
  route('PUT /api/Assignment', change('assignment'), {
    ...changed,
    summary: 'Changes an assignment.',
    body: 'assignment',
  }),
  route('GET /api/Assignment/neworchanged/{rowVersion}', listChanged('assignment'), {
    ...listed,
    rowVersion: 'Row version.',
    summary: 'Gets assignments that are new or changed since the row version.',
    answers: 'assignment',
  }),
  route('GET /api/Assignment/Id/{assignmentId}', read('assignment', 'assignmentId'), {
    summary: 'Gets an assignment by id.',
    answers: 'assignment',
  }),
  route('DELETE /api/Assignment/Id/{assignmentId}', remove('assignment', 'assignmentId'), {
    ...changed,
    summary: 'Deletes an assignment by id.',
  }),
  route('GET /api/Assignment/IdExt/{assignmentIdExt}', read('assignment', 'assignmentIdExt'), {
    summary: 'Gets an assignment by external id.',
    answers: 'assignment',
  }),
  route('GET /api/Assignment/extended/Id/{assignmentId}', readExtended, {
    summary: 'Gets an assignment with its related records.',
    parameters: includeParameters,
    answers: 'extended',
  }),
  route('DELETE /api/Assignment/{assignmentIdExt}', remove('assignment', 'assignmentIdExt'), {
    ...changed,
    summary: 'Deletes an assignment by external id.',
  }),
]

type Owner = {
  readonly parameter: 'assignmentId' | 'assignmentIdExt'
  readonly path: string
  readonly words: string
}
const owners: readonly Owner[] = [
  { parameter: 'assignmentId', path: 'Id/{assignmentId}', words: 'to an assignment' },
  { parameter: 'assignmentIdExt', path: 'IdExt/{assignmentIdExt}', words: 'to an assignment by external id' },
]

const attachments = owners.map(({ parameter, path, words }) =>
  route(`POST /api/Assignment/${path}/attachment`, addAttachment(parameter), {
    ...created,
    summary: `Adds an attachment ${words}.`,
    body: 'attachment',
    isForm: true,
    answers: 'attachment',
  }),
)

const children = (
  [
    ['assignmentProduct', 'assignment_product', 'product'],
    ['assignmentService', 'assignment_service', 'service'],
    ['assignmentQualityControl', 'assignment_quality_control', 'quality control'],
  ] as const
).flatMap(([segment, resource, noun]) =>
  owners.map(({ parameter, path, words }) =>
    route(`POST /api/Assignment/${path}/${segment}`, addChild(resource, parameter), {
      ...created,
      summary: `Adds a ${noun} ${words}.`,
      body: resource,
      answers: resource,
    }),
  ),
)

const participants: readonly Route[] = [
  route('PUT /api/Assignment/{assignmentId}/participant/add/{employeeId}', setParticipant('add'), {
    summary: 'Adds a participant to an assignment.',
  }),
  route('PUT /api/Assignment/{assignmentId}/participant/remove/{employeeId}', setParticipant('remove'), {
    summary: 'Removes a participant from an assignment.',
  }),
]

const notes: readonly Route[] = [
  route('GET /api/AssignmentNote', list('assignment_note'), {
    ...listed,
    summary: 'Gets notes.',
    answers: 'assignment_note',
  }),
  route('POST /api/AssignmentNote', create('assignment_note'), {
    ...created,
    summary: 'Creates a note.',
    body: 'assignment_note',
    answers: 'assignment_note',
  }),
  route('PUT /api/AssignmentNote', change('assignment_note'), {
    ...changed,
    summary: 'Changes a note.',
    body: 'assignment_note',
  }),
  route('GET /api/AssignmentNote/neworchanged/{rowVersion}', listChanged('assignment_note'), {
    ...listed,
    summary: 'Gets notes that are new or changed since the row version.',
    answers: 'assignment_note',
  }),
  route('GET /api/AssignmentNote/Id/{assignmentNoteId}', read('assignment_note', 'assignmentNoteId'), {
    summary: 'Gets a note by id.',
    answers: 'assignment_note',
  }),
  route(
    'GET /api/AssignmentNote/IdExt/{assignmentNoteIdExt}',
    read('assignment_note', 'assignmentNoteIdExt'),
    {
      summary: 'Gets a note by external id.',
      answers: 'assignment_note',
    },
  ),
  route(
    'DELETE /api/AssignmentNote/{assignmentNoteIdExt}',
    remove('assignment_note', 'assignmentNoteIdExt'),
    {
      ...changed,
      summary: 'Deletes a note by external id.',
    },
  ),
]

const others: readonly Route[] = [
  route('GET /api/AssignmentObject', list('assignment_object'), {
    parameters: listParameters,
    summary: 'Gets assignment objects.',
  }),
  route('GET /api/Webhooks', listWhole('webhook_definition'), {
    summary: 'Gets the webhook definitions.',
    answers: 'webhook_definition',
    isArray: true,
  }),
  route('GET /api/Webhooks/subscription', listWhole('webhook_subscription'), {
    summary: 'Gets the webhook subscriptions.',
    answers: 'webhook_subscription',
    isArray: true,
  }),
  route('POST /api/Webhooks/subscription', create('webhook_subscription'), {
    ...created,
    summary: 'Creates a webhook subscription.',
    body: 'webhook_subscription',
    answers: 'webhook_subscription',
  }),
  route('PUT /api/Webhooks/subscription', change('webhook_subscription'), {
    ...changed,
    summary: 'Changes a webhook subscription.',
    body: 'webhook_subscription',
  }),
  route(
    'GET /api/Webhooks/subscription/{webhookSubscriptionId}',
    read('webhook_subscription', 'webhookSubscriptionId'),
    { summary: 'Gets a webhook subscription.', answers: 'webhook_subscription' },
  ),
  route(
    'DELETE /api/Webhooks/Id/{webhookSubscriptionId}',
    remove('webhook_subscription', 'webhookSubscriptionId'),
    { ...changed, summary: 'Deletes a webhook subscription.' },
  ),
  route('GET /api/TrackerObject', listTrackers, {
    service: 'tracking',
    parameters: trackerParameters,
    summary: 'Gets the tracker objects that the user can see.',
    answers: 'tracker_object',
    isArray: true,
  }),
]

/** Lists that the interface does not name, as such services have them. */
const extras: readonly Route[] = (
  [
    ['Customer', 'customer', 'customers'],
    ['Employee', 'employee', 'employees'],
  ] as const
).flatMap(([segment, resource, noun]) => [
  route(`GET /api/${segment}`, list(resource), {
    ...listed,
    isExtra: true,
    summary: `Gets ${noun}.`,
    answers: resource,
  }),
  route(`GET /api/${segment}/neworchanged/{rowVersion}`, listChanged(resource), {
    ...listed,
    isExtra: true,
    summary: `Gets ${noun} that are new or changed since the row version.`,
    answers: resource,
  }),
])

export const routes: readonly Route[] = [
  ...assignments,
  ...attachments,
  ...children,
  ...participants,
  ...notes,
  ...others,
  ...extras,
]

export type Found = { readonly route: Route; readonly values: Readonly<Record<string, string>> }

/** The route of a request; the methods its path knows when it is not this one; null for an unknown path. */
export function findRoute(
  service: Service,
  method: string,
  path: string,
  { moreLists, escapedSlashes }: Pick<Behaviour, 'moreLists' | 'escapedSlashes'>,
): Found | { readonly allowed: readonly string[] } | null {
  const keptSlashes =
    escapedSlashes === 'kept' ? path.replace(/%2f/gi, '%25$&').replaceAll('%25%', '%25') : path
  const segments = keptSlashes.replace(/\/$/, '').split('/').slice(1)
  const allowed: string[] = []
  for (const candidate of routes) {
    if (candidate.service !== service || (candidate.isExtra && !moreLists)) continue
    const values = matched(candidate.segments, segments)
    if (!values) continue
    if (candidate.method === method) return { route: candidate, values }
    allowed.push(candidate.method)
  }
  return allowed.length > 0 ? { allowed: [...new Set(allowed)].sort() } : null
}

function matched(pattern: readonly string[], segments: readonly string[]): Record<string, string> | null {
  if (pattern.length !== segments.length) return null
  const values: Record<string, string> = {}
  for (const [index, part] of pattern.entries()) {
    const segment = decoded(segments[index] ?? '')
    if (part.startsWith('{')) {
      if (segment === '') return null
      values[part.slice(1, -1)] = segment
    } else if (part.toLowerCase() !== segment.toLowerCase()) return null
  }
  return values
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
