// Every operation of the interface: method, path and what it does.

import type { Service } from './answer.ts'
import {
  addAttachment,
  addChild,
  change,
  create,
  list,
  listChanged,
  listWhole,
  type Operation,
  type Parameters,
  read,
  readExtended,
  remove,
  setParticipant,
} from './operations.ts'

type Route = {
  readonly service: Service
  readonly method: string
  readonly segments: readonly string[]
  /** Lists are empty for a client that has no data. */
  readonly isList: boolean
  readonly operation: Operation
}

function route(line: string, operation: Operation, service: Service = 'assignment'): Route {
  const [method = '', path = ''] = line.split(' ')
  const namesRecord = path.includes('{id}') || path.includes('{externalId}')
  return {
    service,
    method,
    segments: path.split('/').slice(1),
    isList: method === 'GET' && !namesRecord,
    operation,
  }
}

const routes: readonly Route[] = [
  route('GET /api/Assignment', list('assignment')),
  route('POST /api/Assignment', create('assignment')),
  route('PUT /api/Assignment', change('assignment')),
  route('GET /api/Assignment/Id/{id}', read('assignment', 'id')),
  route('DELETE /api/Assignment/Id/{id}', remove('assignment', 'id')),
  route('GET /api/Assignment/IdExt/{externalId}', read('assignment', 'externalId')),
  route('DELETE /api/Assignment/{externalId}', remove('assignment', 'externalId')),
  route('GET /api/Assignment/neworchanged/{rowVersion}', listChanged('assignment')),
  route('GET /api/Assignment/extended/Id/{id}', readExtended),
  route('POST /api/Assignment/Id/{id}/attachment', addAttachment('id')),
  route('POST /api/Assignment/IdExt/{externalId}/attachment', addAttachment('externalId')),
  route('POST /api/Assignment/Id/{id}/assignmentProduct', addChild('assignment_product', 'id')),
  route(
    'POST /api/Assignment/IdExt/{externalId}/assignmentProduct',
    addChild('assignment_product', 'externalId'),
  ),
  route('POST /api/Assignment/Id/{id}/assignmentService', addChild('assignment_service', 'id')),
  route(
    'POST /api/Assignment/IdExt/{externalId}/assignmentService',
    addChild('assignment_service', 'externalId'),
  ),
  route(
    'POST /api/Assignment/Id/{id}/assignmentQualityControl',
    addChild('assignment_quality_control', 'id'),
  ),
  route(
    'POST /api/Assignment/IdExt/{externalId}/assignmentQualityControl',
    addChild('assignment_quality_control', 'externalId'),
  ),
  route('PUT /api/Assignment/{id}/participant/add/{employeeId}', setParticipant('add')),
  route('PUT /api/Assignment/{id}/participant/remove/{employeeId}', setParticipant('remove')),
  route('GET /api/AssignmentNote', list('assignment_note')),
  route('POST /api/AssignmentNote', create('assignment_note')),
  route('PUT /api/AssignmentNote', change('assignment_note')),
  route('GET /api/AssignmentNote/Id/{id}', read('assignment_note', 'id')),
  route('GET /api/AssignmentNote/IdExt/{externalId}', read('assignment_note', 'externalId')),
  route('GET /api/AssignmentNote/neworchanged/{rowVersion}', listChanged('assignment_note')),
  route('DELETE /api/AssignmentNote/{externalId}', remove('assignment_note', 'externalId')),
  route('GET /api/AssignmentObject', list('assignment_object')),
  route('GET /api/Webhooks', listWhole('webhook_definition')),
  route('GET /api/Webhooks/subscription', listWhole('webhook_subscription')),
  route('POST /api/Webhooks/subscription', create('webhook_subscription')),
  route('PUT /api/Webhooks/subscription', change('webhook_subscription')),
  route('GET /api/Webhooks/subscription/{externalId}', read('webhook_subscription', 'externalId')),
  route('DELETE /api/Webhooks/Id/{externalId}', remove('webhook_subscription', 'externalId')),
  route('GET /api/TrackerObject', list('tracker_object'), 'tracking'),
]

export type Found = { readonly route: Route; readonly parameters: Parameters }

/** The route of a request; the methods its path knows when it is not this one; null for an unknown path. */
export function findRoute(
  service: Service,
  method: string,
  path: string,
): Found | { readonly allowed: readonly string[] } | null {
  const segments = path.split('/').slice(1)
  const allowed: string[] = []
  for (const candidate of routes) {
    if (candidate.service !== service) continue
    const parameters = matched(candidate.segments, segments)
    if (!parameters) continue
    if (candidate.method === method) return { route: candidate, parameters }
    allowed.push(candidate.method)
  }
  return allowed.length > 0 ? { allowed } : null
}

function matched(pattern: readonly string[], segments: readonly string[]): Parameters | null {
  if (pattern.length !== segments.length) return null
  const parameters: Record<string, string> = {}
  for (const [index, part] of pattern.entries()) {
    const segment = decoded(segments[index] ?? '')
    if (part.startsWith('{')) {
      if (segment === '') return null
      parameters[part.slice(1, -1)] = segment
    } else if (part.toLowerCase() !== segment.toLowerCase()) return null
  }
  return parameters
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
