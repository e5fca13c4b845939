// Every operation of the table, called by the client over HTTP, and looked at from the server's side.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Json, JsonObject } from '../../src/json/json.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import type { AnyRequest, RequestOf } from '../../src/upstream/operations/request.ts'
import { type OperationName, operationNames, operations } from '../../src/upstream/operations/table.ts'
import { type Client, noSignal, openSimulatorClient } from '../support/client.ts'
import {
  attachment,
  type Case,
  child,
  type Expected,
  form,
  has,
  isList,
  isNothing,
  nothing,
  read,
  send,
} from '../support/operation-cases.ts'

let simulator: Simulator
let assignment: Client
let tracking: Client
/** An external id that has to be encoded. */
const idExt = 'WO/5 ø?#%'
const encodedIdExt = encodeURIComponent(idExt)
let subscriptionId: string
let noteIdExt: string
let deletedNoteIdExt: string

beforeEach(async () => {
  simulator = await startSimulator({ assignments: 20, notes: 5, trackers: 7, objects: 4 })
  assignment = openSimulatorClient(simulator)
  tracking = openSimulatorClient(simulator, 'tracking')
  simulator.source.change('assignment', 5, { AssignmentIdExt: idExt })
  const [first, second] = simulator.source.records('assignment_note')
  noteIdExt = String(first?.AssignmentNoteIdExt)
  deletedNoteIdExt = String(second?.AssignmentNoteIdExt)
  simulator.source.change('assignment', 8, { AssignmentIdExt: 'WO-8' })
  const { body } = await assignment.call(
    'createWebhookSubscription',
    { body: { CallbackUrl: 'http://127.0.0.1:9/' } },
    noSignal,
  )
  subscriptionId = String((body as JsonObject).WebhookSubscriptionId)
  simulator.requests.start()
})
afterEach(() => simulator.close())

const page = { Sorts: '-RowVersion', Page: 2, PageSize: 3 } as const
const pageText = { Sorts: '-RowVersion', Page: '2', PageSize: '3' }
const exact = JSON.rawJSON('123456789012345.50')

const cases: { readonly [Name in OperationName]: Case<Name> } = {
  listAssignments: read(
    () => ({ query: { ...page, Filters: 'AssignmentId>10' } }),
    () => '/api/Assignment',
    isList(3),
    { ...pageText, Filters: 'AssignmentId>10' },
  ),
  createAssignment: send(
    { body: { Subject: 'new', Price: exact } },
    '/api/Assignment',
    201,
    has({ Subject: 'new' }),
  ),
  updateAssignment: send({ body: { AssignmentId: 6, Subject: 'other' } }, '/api/Assignment', 204, isNothing),
  getAssignment: read(
    () => ({ path: { assignmentId: 5 } }),
    () => '/api/Assignment/Id/5',
    has({ AssignmentId: 5 }),
  ),
  deleteAssignment: [() => ({ path: { assignmentId: 7 } }), nothing(() => '/api/Assignment/Id/7', 204)],
  getAssignmentByIdExt: read(
    () => ({ path: { assignmentIdExt: idExt } }),
    () => `/api/Assignment/IdExt/${encodedIdExt}`,
    has({ AssignmentId: 5, AssignmentIdExt: idExt }),
  ),
  deleteAssignmentByIdExt: [
    () => ({ path: { assignmentIdExt: 'WO-8' } }),
    nothing(() => '/api/Assignment/WO-8', 204),
  ],
  listChangedAssignments: read(
    () => ({ path: { rowVersion: 2n }, query: page }),
    () => '/api/Assignment/neworchanged/2',
    isList(3),
    pageText,
  ),
  getExtendedAssignment: read(
    () => ({ path: { assignmentId: 5 }, query: { IncludeCustomer: false, IncludeAttachmentFileData: true } }),
    () => '/api/Assignment/extended/Id/5',
    (body) => {
      expect(body).toMatchObject({ Attachment: expect.any(Array), AssignmentNote: expect.any(Array) })
      expect(body).not.toHaveProperty('Customer')
    },
    { IncludeCustomer: 'false', IncludeAttachmentFileData: 'true' },
  ),
  addAttachment: attachment({ path: { assignmentId: 5 }, body: form }, '/api/Assignment/Id/5/attachment'),
  addAttachmentByIdExt: attachment(
    { path: { assignmentIdExt: idExt }, body: form },
    `/api/Assignment/IdExt/${encodedIdExt}/attachment`,
  ),
  addAssignmentProduct: child(
    { path: { assignmentId: 5 }, body: { Remark: 'new' } },
    '/api/Assignment/Id/5/assignmentProduct',
  ),
  addAssignmentProductByIdExt: child(
    { path: { assignmentIdExt: idExt }, body: { Remark: 'new' } },
    `/api/Assignment/IdExt/${encodedIdExt}/assignmentProduct`,
  ),
  addAssignmentService: child(
    { path: { assignmentId: 5 }, body: { Remark: 'new' } },
    '/api/Assignment/Id/5/assignmentService',
  ),
  addAssignmentServiceByIdExt: child(
    { path: { assignmentIdExt: idExt }, body: { Remark: 'new' } },
    `/api/Assignment/IdExt/${encodedIdExt}/assignmentService`,
  ),
  addAssignmentQualityControl: child(
    { path: { assignmentId: 5 }, body: { Remark: 'new' } },
    '/api/Assignment/Id/5/assignmentQualityControl',
  ),
  addAssignmentQualityControlByIdExt: child(
    { path: { assignmentIdExt: idExt }, body: { Remark: 'new' } },
    `/api/Assignment/IdExt/${encodedIdExt}/assignmentQualityControl`,
  ),
  addParticipant: [
    () => ({ path: { assignmentId: 5, employeeId: 1 } }),
    nothing(() => '/api/Assignment/5/participant/add/1', 200),
  ],
  removeParticipant: [
    () => ({ path: { assignmentId: 5, employeeId: 1 } }),
    nothing(() => '/api/Assignment/5/participant/remove/1', 200),
  ],
  listAssignmentNotes: read(
    () => ({ query: { PageSize: 2 } }),
    () => '/api/AssignmentNote',
    isList(2),
    { PageSize: '2' },
  ),
  createAssignmentNote: send(
    { body: { AssignmentId: 5, NoteText: 'new' } },
    '/api/AssignmentNote',
    201,
    has({ NoteText: 'new' }),
  ),
  updateAssignmentNote: send(
    { body: { AssignmentNoteId: 3, NoteText: 'other' } },
    '/api/AssignmentNote',
    204,
    isNothing,
  ),
  getAssignmentNote: read(
    () => ({ path: { assignmentNoteId: 1 } }),
    () => '/api/AssignmentNote/Id/1',
    has({ AssignmentNoteId: 1 }),
  ),
  getAssignmentNoteByIdExt: read(
    () => ({ path: { assignmentNoteIdExt: noteIdExt } }),
    () => `/api/AssignmentNote/IdExt/${encodeURIComponent(noteIdExt)}`,
    has({ AssignmentNoteId: 1 }),
  ),
  listChangedAssignmentNotes: read(
    () => ({ path: { rowVersion: 0 } }),
    () => '/api/AssignmentNote/neworchanged/0',
    (body) => expect((body as Json[]).length).toBeGreaterThan(3),
  ),
  deleteAssignmentNoteByIdExt: [
    () => ({ path: { assignmentNoteIdExt: deletedNoteIdExt } }),
    nothing(() => `/api/AssignmentNote/${encodeURIComponent(deletedNoteIdExt)}`, 204),
  ],
  listAssignmentObjects: read(
    () => ({ query: { Page: 1 } }),
    () => '/api/AssignmentObject',
    isList(4),
    { Page: '1' },
  ),
  listWebhookDefinitions: read(
    () => ({}),
    () => '/api/Webhooks',
    (body) => expect((body as Json[]).length).toBeGreaterThan(0),
  ),
  listWebhookSubscriptions: read(
    () => ({}),
    () => '/api/Webhooks/subscription',
    (body) => expect(body).toContainEqual(expect.objectContaining({ WebhookSubscriptionId: subscriptionId })),
  ),
  createWebhookSubscription: send(
    { body: { CallbackUrl: 'http://127.0.0.1:9/hook' } },
    '/api/Webhooks/subscription',
    201,
    has({ CallbackUrl: 'http://127.0.0.1:9/hook' }),
  ),
  updateWebhookSubscription: [
    () => ({ body: { WebhookSubscriptionId: subscriptionId, CallbackUrl: 'http://127.0.0.1:9/other' } }),
    () => ({
      target: '/api/Webhooks/subscription',
      body: JSON.stringify({
        WebhookSubscriptionId: subscriptionId,
        CallbackUrl: 'http://127.0.0.1:9/other',
      }),
      contentType: 'application/json',
      status: 204,
      answer: isNothing,
    }),
  ],
  getWebhookSubscription: read(
    () => ({ path: { webhookSubscriptionId: subscriptionId } }),
    () => `/api/Webhooks/subscription/${subscriptionId}`,
    (body) => expect(body).toMatchObject({ WebhookSubscriptionId: subscriptionId }),
  ),
  deleteWebhookSubscription: [
    () => ({ path: { webhookSubscriptionId: subscriptionId } }),
    nothing(() => `/api/Webhooks/Id/${subscriptionId}`, 204),
  ],
  listTrackerObjects: read(
    () => ({ query: { Page: 2, Pagesize: 5 } }),
    () => '/api/TrackerObject',
    isList(2),
    { Page: '2', Pagesize: '5' },
  ),
}

describe('each operation, seen from the server', () => {
  it.each(operationNames)('%s', async (name) => {
    const { method, service, success } = operations[name]
    const [request, describeExpected] = cases[name] as unknown as [() => AnyRequest, () => Expected]
    const expected = describeExpected()
    simulator.requests.clear()
    const client = service === 'tracking' ? tracking : assignment
    const answer = await client.call(name, request() as RequestOf<OperationName>, noSignal)

    const received = simulator.requests.entries.filter((entry) => entry.service !== 'auth')
    expect(received).toHaveLength(1)
    const [seen] = received
    expect(seen).toMatchObject({ method, service, path: expected.target, status: success })
    expect(seen?.query).toEqual(expected.query ?? {})
    expect(seen?.body).toBe(expected.body ?? '')
    expect(seen?.headers['content-type']).toBe(expected.contentType)
    expect(seen?.headers.authorization).toMatch(/^Bearer \S{20,}$/)
    expect(seen?.headers.clientid).toBe(
      service === 'assignment' ? simulator.credentials.clientGuid : undefined,
    )
    expect(seen?.headers['content-length']).toBe(
      method === 'GET' ? undefined : String(Buffer.byteLength(expected.body ?? '')),
    )
    expect(answer.status).toBe(expected.status)
    expect(success).toBe(expected.status)
    expected.answer(answer.body)
  })

  it('changes and deletes reach the records they name', async () => {
    for (const name of [
      'updateAssignment',
      'updateAssignmentNote',
      'deleteAssignment',
      'deleteAssignmentByIdExt',
      'createAssignment',
    ] as const) {
      const [request] = cases[name] as unknown as [() => AnyRequest]
      await assignment.call(name, request() as RequestOf<OperationName>, noSignal)
    }
    const { source } = simulator
    expect(source.record('assignment', 6)).toMatchObject({ Subject: 'other' })
    expect(source.record('assignment_note', 3)).toMatchObject({ NoteText: 'other' })
    expect([7, 8].map((id) => source.record('assignment', id))).toEqual([null, null])
    expect(source.records('assignment').at(-1)).toMatchObject({ Subject: 'new' })
    expect(source.texts('assignment').at(-1)).toContain('"Price":123456789012345.5')
  })

  it('a client without data gets an empty list, not an error', async () => {
    const other = openSimulatorClient(simulator, 'assignment', {
      clientGuid: '00000000-0000-4000-8000-00000000ffff',
    })
    expect(await other.call('listAssignments', {}, noSignal)).toMatchObject({ status: 200, body: [] })
  })
})
