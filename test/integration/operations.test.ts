// Every operation of the table, sent by the client over HTTP as a person would write it, and looked at from the server's side: what must
// arrive, and what comes back.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { findOperation } from '../../src/upstream/operations/find.ts'
import { operations } from '../../src/upstream/operations/table.ts'
import { noSignal, openSimulatorClient } from '../support/client.ts'

/** An external id that has to be encoded, and the id of a subscription that is there. */
const idExt = 'WO/5 ø?#%'
const known = { IDEXT: encodeURIComponent(idExt), SUBSCRIPTION: '' }

/** Name, request, status, and part of the answer (nothing: it has no body; a number: so many records). */
const exchanges = `
listAssignments GET /api/Assignment?Filters=AssignmentId%3E10&Sorts=-RowVersion&Page=2&PageSize=3 -> 200 3
createAssignment POST /api/Assignment {"Subject":"new","Price":123456789012345.50} -> 201 {"Subject":"new"}
updateAssignment PUT /api/Assignment {"AssignmentId":6,"Subject":"other"} -> 204
getAssignment GET /api/Assignment/Id/5 -> 200 {"AssignmentId":5}
deleteAssignment DELETE /api/Assignment/Id/7 -> 204
getAssignmentByIdExt GET /api/Assignment/IdExt/IDEXT -> 200 {"AssignmentId":5}
deleteAssignmentByIdExt DELETE /api/Assignment/WO-8 -> 204
listChangedAssignments GET /api/Assignment/neworchanged/2?Sorts=-RowVersion&Page=2&PageSize=3 -> 200 3
getExtendedAssignment GET /api/Assignment/extended/Id/5?IncludeCustomer=false&IncludeAttachmentFileData=true -> 200 {"AssignmentId":5}
addAttachment POST /api/Assignment/Id/5/attachment FileName=%C3%B8.txt&FileData=aGk%3D&AttachmentType=3 -> 201 {"FileName":"ø.txt","FileData":"aGk=","AttachmentType":3,"OwnerId":5}
addAttachmentByIdExt POST /api/Assignment/IdExt/IDEXT/attachment FileName=a.txt -> 201 {"FileName":"a.txt","OwnerId":5}
addAssignmentProduct POST /api/Assignment/Id/5/assignmentProduct {"Remark":"new"} -> 201 {"AssignmentId":5,"Remark":"new"}
addAssignmentProductByIdExt POST /api/Assignment/IdExt/IDEXT/assignmentProduct {"Remark":"new"} -> 201 {"AssignmentId":5,"Remark":"new"}
addAssignmentService POST /api/Assignment/Id/5/assignmentService {"Remark":"new"} -> 201 {"AssignmentId":5,"Remark":"new"}
addAssignmentServiceByIdExt POST /api/Assignment/IdExt/IDEXT/assignmentService {"Remark":"new"} -> 201 {"AssignmentId":5,"Remark":"new"}
addAssignmentQualityControl POST /api/Assignment/Id/5/assignmentQualityControl {"Remark":"new"} -> 201 {"AssignmentId":5,"Remark":"new"}
addAssignmentQualityControlByIdExt POST /api/Assignment/IdExt/IDEXT/assignmentQualityControl {"Remark":"new"} -> 201 {"AssignmentId":5,"Remark":"new"}
addParticipant PUT /api/Assignment/5/participant/add/1 -> 200
removeParticipant PUT /api/Assignment/5/participant/remove/1 -> 200
listAssignmentNotes GET /api/AssignmentNote?PageSize=2 -> 200 2
createAssignmentNote POST /api/AssignmentNote {"AssignmentId":5,"NoteText":"new"} -> 201 {"NoteText":"new"}
updateAssignmentNote PUT /api/AssignmentNote {"AssignmentNoteId":3,"NoteText":"other"} -> 204
getAssignmentNote GET /api/AssignmentNote/Id/1 -> 200 {"AssignmentNoteId":1}
getAssignmentNoteByIdExt GET /api/AssignmentNote/IdExt/IDEXT -> 200 {"AssignmentNoteId":1}
listChangedAssignmentNotes GET /api/AssignmentNote/neworchanged/0?Sorts=RowVersion&Page=1&PageSize=4&Filters=AssignmentNoteId%3E0 -> 200 4
deleteAssignmentNoteByIdExt DELETE /api/AssignmentNote/IDEXT -> 204
listAssignmentObjects GET /api/AssignmentObject?Page=1 -> 200 4
listWebhookDefinitions GET /api/Webhooks -> 200 6
listWebhookSubscriptions GET /api/Webhooks/subscription -> 200 1
createWebhookSubscription POST /api/Webhooks/subscription {"CallbackUrl":"http://127.0.0.1:9/hook"} -> 201 {"CallbackUrl":"http://127.0.0.1:9/hook"}
updateWebhookSubscription PUT /api/Webhooks/subscription {"WebhookSubscriptionId":"SUBSCRIPTION","CallbackUrl":"http://127.0.0.1:9/other"} -> 204
getWebhookSubscription GET /api/Webhooks/subscription/SUBSCRIPTION -> 200 {"WebhookSubscriptionId":"SUBSCRIPTION"}
deleteWebhookSubscription DELETE /api/Webhooks/Id/SUBSCRIPTION -> 204
listTrackerObjects GET /api/TrackerObject?Page=2&Pagesize=5 -> 200 2`

const lines = exchanges.trim().split('\n')

let simulator: Simulator
beforeEach(async () => {
  simulator = await startSimulator({ assignments: 20, notes: 5, trackers: 7, objects: 4 })
  simulator.source.change('assignment', 5, { AssignmentIdExt: idExt })
  simulator.source.change('assignment', 8, { AssignmentIdExt: 'WO-8' })
  simulator.source.change('assignment_note', 1, { AssignmentNoteIdExt: idExt })
  const request = { body: { CallbackUrl: 'http://127.0.0.1:9/' } }
  const { body } = await openSimulatorClient(simulator).call('createWebhookSubscription', request, noSignal)
  known.SUBSCRIPTION = String((body as JsonObject).WebhookSubscriptionId)
  simulator.requests.start()
})
afterEach(() => simulator.close())

function exchangeIn(line: string) {
  const filled = line.replaceAll(/IDEXT|SUBSCRIPTION/g, (name) => known[name as keyof typeof known])
  const [, name = '', method = '', target = '', body = '', status = '', answer = ''] =
    /^(\w+) ([A-Z]+) (\S+)(?: (\S+))? -> (\d+)(?: (.+))?$/.exec(filled) ?? []
  const [path = '', query = ''] = target.split('?')
  return { name, method, path, query: Object.fromEntries(new URLSearchParams(query)), body, status, answer }
}

async function send({ method, path, query, body }: ReturnType<typeof exchangeIn>) {
  const found = findOperation(method, path)
  if ('nearest' in found) throw new Error(`${method} ${path} is no operation`)
  const isJson = body.startsWith('{')
  const given = isJson ? parseJson(Buffer.from(body)) : Object.fromEntries(new URLSearchParams(body))
  const client = openSimulatorClient(simulator, found.operation.service)
  const request = { path: found.path, query, ...(body !== '' && { body: given }) }
  return { found, answer: await client.call(found.operation, request, noSignal) }
}

describe('each operation, seen from the server', () => {
  it('is here once', () => {
    const names = lines.map((line) => exchangeIn(line).name)
    expect(names.toSorted()).toEqual(Object.keys(operations).toSorted())
  })

  it.each(lines)('%s', async (line) => {
    const exchange = exchangeIn(line)
    const { name, method, path, query, body, status, answer: expected } = exchange
    const { found, answer } = await send(exchange)
    expect(found.operation).toMatchObject({ name, method, success: Number(status) })
    expect(answer.status).toBe(Number(status))
    if (/^\d+$/.test(expected)) expect(answer.body).toHaveLength(Number(expected))
    else if (expected === '') expect(answer.body).toBeNull()
    else expect(answer.body).toMatchObject(JSON.parse(expected))

    const received = simulator.requests.entries.filter((entry) => entry.service !== 'auth')
    expect(received).toMatchObject([{ method, path, body, status: Number(status) }])
    const { headers = {}, query: seen } = received[0] ?? {}
    expect(seen).toEqual(query)
    const { service } = found.operation
    const isForm = body !== '' && !body.startsWith('{')
    expect(headers).toMatchObject({ authorization: expect.stringMatching(/^Bearer \S{20,}$/) })
    expect([headers['content-type'], headers.clientid, headers['content-length']]).toEqual([
      body === '' ? undefined : isForm ? 'application/x-www-form-urlencoded' : 'application/json',
      service === 'assignment' ? simulator.credentials.clientGuid : undefined,
      method === 'GET' ? undefined : String(Buffer.byteLength(body)),
    ])
  })

  it('changes and deletes reach the records they name', async () => {
    for (const line of lines) {
      const exchange = exchangeIn(line)
      if (/^(?:create|update|delete)Assignment/.test(exchange.name)) await send(exchange)
    }
    const { source } = simulator
    expect(source.record('assignment', 6)).toMatchObject({ Subject: 'other' })
    expect(source.record('assignment_note', 3)).toMatchObject({ NoteText: 'other' })
    expect([7, 8].map((id) => source.record('assignment', id))).toEqual([null, null])
    expect(source.records('assignment').at(-1)).toMatchObject({ Subject: 'new' })
    expect(source.texts('assignment').at(-1)).toContain('"Price":123456789012345.5')
  })

  it('groups of records come with an assignment as their flags say', async () => {
    const extended = lines.find((line) => line.startsWith('getExtendedAssignment')) ?? ''
    const { body } = (await send(exchangeIn(extended))).answer
    expect(body).toMatchObject({ Attachment: expect.any(Array), AssignmentNote: expect.any(Array) })
    expect(body).not.toHaveProperty('Customer')
  })

  it('a client without data gets an empty list, not an error', async () => {
    const clientGuid = '00000000-0000-4000-8000-00000000ffff'
    const other = openSimulatorClient(simulator, 'assignment', { clientGuid })
    expect(await other.call('listAssignments', {}, noSignal)).toMatchObject({ status: 200, body: [] })
  })
})
