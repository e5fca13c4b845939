// Every operation of the interface, called over HTTP, and what the server saw of it.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Caller, openCaller } from '../support/simulator-caller.ts'

let simulator: Simulator
let caller: Caller

beforeAll(async () => {
  simulator = await startSimulator({ assignments: 20, notes: 30, trackers: 4, objects: 6 })
  caller = await openCaller(simulator)
  simulator.requests.start()
})
beforeEach(() => simulator.requests.clear())
afterAll(() => simulator.close())

const record = (reply: { json(): unknown }) => reply.json() as Record<string, unknown>

describe('assignments', () => {
  it('are created, changed and deleted, by id and by external id', async () => {
    const created = await caller.assignment('POST /api/Assignment', {
      body: { assignmentidext: 'MINE-1', Subject: 'New' },
    })
    expect(created.status).toBe(201)
    const { AssignmentId: id, RowVersion: version } = record(created)
    expect(record(created)).toMatchObject({ AssignmentIdExt: 'MINE-1', Subject: 'New', SysDeleted: false })
    expect(JSON.parse(simulator.requests.entries[0]?.body ?? '')).toMatchObject({ Subject: 'New' })

    const changed = await caller.assignment('PUT /api/Assignment', {
      body: { AssignmentId: id, Subject: 'Changed' },
    })
    expect([changed.status, changed.text]).toEqual([204, ''])
    const after = record(await caller.assignment(`GET /api/Assignment/Id/${id}`))
    expect(after.Subject).toBe('Changed')
    expect(Number(after.RowVersion)).toBeGreaterThan(Number(version))

    expect(
      (await caller.assignment('PUT /api/Assignment', { body: { AssignmentIdExt: 'MINE-1' } })).status,
    ).toBe(204)
    expect((await caller.assignment('DELETE /api/Assignment/MINE-1')).status).toBe(204)
    expect((await caller.assignment(`GET /api/Assignment/Id/${id}`)).status).toBe(404)
    expect((await caller.assignment(`DELETE /api/Assignment/Id/${id}`)).status).toBe(404)
    expect((await caller.assignment('DELETE /api/Assignment/Id/20')).status).toBe(204)
  })

  it('keep every digit of a number they were created with', async () => {
    const price = '12345678901234567890.10'
    const created = await caller.assignment('POST /api/Assignment', {
      body: { Price: JSON.rawJSON(price) },
      headers: { 'content-type': 'text/json' },
    })
    expect(created.status).toBe(201)
    expect(created.text).toContain(`"Price":${price},`)
    const { AssignmentId } = record(created)
    expect((await caller.assignment(`GET /api/Assignment/Id/${AssignmentId}`)).text).toContain(
      `"Price":${price},`,
    )
  })

  it('take participants and give them back, as the extended read shows', async () => {
    const employees = async () =>
      record(await caller.assignment('GET /api/Assignment/extended/Id/3')).Employee as {
        EmployeeId: number
      }[]
    const before = (await employees()).map(({ EmployeeId }) => EmployeeId)
    const newcomer = before.includes(7) ? 8 : 7
    const added = await caller.assignment(`PUT /api/Assignment/3/participant/add/${newcomer}`)
    expect([added.status, added.text]).toEqual([200, ''])
    expect((await employees()).map(({ EmployeeId }) => EmployeeId)).toEqual([...before, newcomer])
    expect((await caller.assignment(`PUT /api/Assignment/3/participant/remove/${newcomer}`)).status).toBe(200)
    expect((await employees()).map(({ EmployeeId }) => EmployeeId)).toEqual(before)
    expect((await caller.assignment('PUT /api/Assignment/3/participant/add/999')).status).toBe(404)
  })

  it.each(['Id/4', 'IdExt/WO-0000004'])('get children and attachments under %s', async (name) => {
    const before = await extended('')
    for (const child of ['assignmentProduct', 'assignmentService', 'assignmentQualityControl']) {
      const reply = await caller.assignment(`POST /api/Assignment/${name}/${child}`, { body: { UID: null } })
      expect(reply.status).toBe(201)
      expect(record(reply)).toMatchObject({ AssignmentId: 4, UID: null })
    }
    const form = {
      FileName: 'a b.txt',
      FileData: 'aGVsbG8=',
      AttachmentType: '2',
      IsOnServer: 'true',
      FileSize: '5',
    }
    const attached = await caller.assignment(`POST /api/Assignment/${name}/attachment`, { form })
    expect(attached.status).toBe(201)
    expect(record(attached)).toMatchObject({
      OwnerId: 4,
      FileName: 'a b.txt',
      AttachmentType: 2,
      IsOnServer: true,
    })
    const entry = simulator.requests.entries.at(-1)
    expect(entry?.headers['content-type']).toMatch(/^application\/x-www-form-urlencoded/)
    expect(entry?.body).toBe(new URLSearchParams(form).toString())
    const after = await extended('')
    for (const group of ['AssignmentProduct', 'AssignmentService', 'AssignmentQualityControl', 'Attachment'])
      expect(after[group]?.length).toBe((before[group]?.length ?? 0) + 1)
  })

  async function extended(query: string): Promise<Record<string, unknown[]>> {
    return record(await caller.assignment(`GET /api/Assignment/extended/Id/4${query}`)) as Record<
      string,
      unknown[]
    >
  }

  it('are read extended with the groups that were asked for', async () => {
    const groups = [
      'Customer',
      'Employee',
      'AssignmentProduct',
      'AssignmentService',
      'AssignmentQualityControl',
    ]
    const all = [...groups, 'Attachment', 'AssignmentNote', 'AssignmentObject']
    expect(await extended('')).toMatchObject(Object.fromEntries(all.map((name) => [name, expect.anything()])))
    for (const name of all) expect(await extended(`?Include${name}=false`)).not.toHaveProperty(name)
    const noteParents = simulator.source
      .records('assignment_note')
      .filter(({ AssignmentId }) => AssignmentId === 4)
    expect((await extended('')).AssignmentNote).toEqual(noteParents)
  })

  it('show file data only when it is asked for together with the attachments', async () => {
    await caller.assignment('POST /api/Assignment/Id/4/attachment', { form: { FileData: 'aGVsbG8=' } })
    expect((await extended('')).Attachment?.at(-1)).not.toHaveProperty('FileData')
    expect((await extended('?includeattachmentfiledata=TRUE')).Attachment?.at(-1)).toHaveProperty(
      'FileData',
      'aGVsbG8=',
    )
    const refused = '?IncludeAttachment=false&IncludeAttachmentFileData=true'
    expect((await caller.assignment(`GET /api/Assignment/extended/Id/4${refused}`)).status).toBe(400)
  })
})

describe('wrong requests', () => {
  it.each([
    ['GET /api/Assignment?Page=0', 400],
    ['GET /api/Assignment?PageSize=2147483648', 400],
    ['GET /api/Assignment?PageSize=ten', 400],
    ['GET /api/Assignment/neworchanged/9223372036854775808', 400],
    ['GET /api/Assignment/Id/2147483648', 400],
    ['GET /api/Assignment/Id/one', 400],
    ['GET /api/Assignment/Id/999', 404],
    ['GET /api/Assignment/IdExt/nobody', 404],
    ['GET /api/Assignment/extended/Id/1?IncludeCustomer=perhaps', 400],
    ['GET /api/Nothing', 404],
    ['PATCH /api/Assignment', 405],
  ])('%s is answered with %i', async (line, status) => {
    const reply = await caller.assignment(line)
    expect(reply.status).toBe(status)
    if (reply.text !== '') expect(record(reply)).toMatchObject({ status })
  })

  it('refuses bodies that are no record, and forms out of bounds', async () => {
    const post = (path: string, options: object) => caller.assignment(`POST ${path}`, options)
    expect((await post('/api/Assignment', { body: [] })).status).toBe(400)
    expect(
      (await post('/api/Assignment', { body: {}, headers: { 'content-type': 'text/plain' } })).status,
    ).toBe(415)
    expect((await post('/api/Assignment', { headers: { 'content-type': 'application/json' } })).status).toBe(
      400,
    )
    expect((await post('/api/Assignment', { body: { AssignmentIdExt: 'WO-0000001' } })).status).toBe(409)
    expect((await caller.assignment('PUT /api/Assignment', { body: { Subject: 'whose?' } })).status).toBe(400)
    expect((await caller.assignment('PUT /api/Assignment', { body: { AssignmentId: 999 } })).status).toBe(404)
    const attachment = '/api/Assignment/Id/1/attachment'
    expect((await post(attachment, { body: {} })).status).toBe(415)
    for (const [name, value] of Object.entries({
      AttachmentType: '256',
      FileSize: '2147483648',
      SysRowVersion: '9223372036854775808',
      Description: 'x'.repeat(101),
      FileData: 'not base64',
      OwnerUID: 'not a uuid',
      RegTime: 'yesterday',
      IsOnServer: 'perhaps',
    }))
      expect([name, (await post(attachment, { form: { [name]: value } })).status]).toEqual([name, 400])
    expect((await post(attachment, { form: { AttachmentType: '255' } })).status).toBe(201)
  })

  it('has no records for a client it does not know', async () => {
    const headers = { clientId: '00000000-0000-4000-8000-000000000000' }
    for (const path of [
      'Assignment',
      'Assignment/neworchanged/0',
      'AssignmentNote',
      'AssignmentObject',
      'Webhooks',
    ]) {
      const reply = await caller.assignment(`GET /api/${path}`, { headers })
      expect([path, reply.status, reply.text]).toEqual([path, 200, '[]'])
    }
    expect((await caller.assignment('GET /api/Assignment/Id/1', { headers })).status).toBe(404)
  })
})
