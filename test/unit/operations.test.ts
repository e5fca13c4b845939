import { describe, expect, it } from 'vitest'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { findOperation } from '../../src/upstream/operations/find.ts'
import { type AnyRequest, pathParameterNames, prepareRequest } from '../../src/upstream/operations/request.ts'
import {
  allOperations,
  type OperationName,
  operations,
  pathParameters,
} from '../../src/upstream/operations/table.ts'

const includes = [
  'Customer',
  'Employee',
  'AssignmentProduct',
  'AssignmentService',
  'AssignmentQualityControl',
]
  .concat(['Attachment', 'AttachmentFileData', 'AssignmentNote', 'AssignmentObject'])
  .map((group) => `Include${group}`)

const prepare = (name: OperationName, request: AnyRequest) => prepareRequest(operations[name], request)

describe('the table of operations', () => {
  it('names the parameters of the interface, whose operations are in the test of exchanges', () => {
    for (const { name, query, path } of allOperations) {
      const isPaged = /^list(?:Changed)?Assignment/.test(name)
      const wanted = isPaged
        ? ['Filters', 'Sorts', 'Page', 'PageSize']
        : { listTrackerObjects: ['Page', 'Pagesize'], getExtendedAssignment: includes }[name]
      expect(Object.keys(query), path).toEqual(wanted ?? [])
    }
  })

  it('says of each parameter of a path what it may be', () => {
    const named = allOperations.flatMap(({ path }) => pathParameterNames(path))
    expect([...new Set(named)].toSorted()).toEqual(Object.keys(pathParameters).toSorted())
  })

  it('asks the tracking service only for its trackers', () => {
    const tracking = allOperations.filter(({ service }) => service === 'tracking')
    expect(tracking).toEqual([operations.listTrackerObjects])
  })

  it('knows what the streams are read by, on their own service', () => {
    for (const stream of streams) {
      const names = [stream.list, stream.lookup, stream.kind === 'changes' ? stream.changes : null]
      for (const name of names.filter((name) => name !== null))
        expect(operations[name], name).toMatchObject({ method: 'GET', service: stream.service })
    }
  })
})

describe('prepareRequest', () => {
  it('writes path and query, with every character that means something encoded', () => {
    expect(prepare('getAssignmentByIdExt', { path: { assignmentIdExt: 'a/b ?#%ø..' } }).target).toBe(
      '/api/Assignment/IdExt/a%2Fb%20%3F%23%25%C3%B8..',
    )
    const query = { Filters: 'Name==a b+c,Id>5', Sorts: '-RowVersion', Page: 1, PageSize: '1000' }
    expect(prepare('listChangedAssignments', { path: { rowVersion: -1n }, query }).target).toBe(
      '/api/Assignment/neworchanged/-1?Filters=Name%3D%3Da%20b%2Bc%2CId%3E5&Sorts=-RowVersion&Page=1&PageSize=1000',
    )
    expect(prepare('listTrackerObjects', { query: { Page: 2, Pagesize: 50 } }).target).toBe(
      '/api/TrackerObject?Page=2&Pagesize=50',
    )
  })

  it.each(['', '.', '..'])('never lets the external id "%s" make another path of it', (assignmentIdExt) => {
    expect(() => prepare('deleteAssignmentByIdExt', { path: { assignmentIdExt } })).toThrow(
      'assignmentIdExt must be',
    )
  })

  it('P4: sends bodies to the last digit', () => {
    const body = { AssignmentId: JSON.rawJSON('9007199254740993'), Price: JSON.rawJSON('10.50') }
    expect(prepare('updateAssignment', { body })).toEqual({
      target: '/api/Assignment',
      contentType: 'application/json',
      body: '{"AssignmentId":9007199254740993,"Price":10.50}',
    })
  })

  it.each<[OperationName, AnyRequest, string]>([
    ['getAssignment', { path: {} }, 'assignmentId must be a whole number from -2147483648 to 2147483647'],
    ['getAssignment', { path: { assignmentId: 1, id: 2 } }, 'has no parameter id: it takes assignmentId'],
    [
      'listAssignments',
      { query: { Pagesize: 5 } },
      'has no parameter Pagesize: it takes Filters, Sorts, Page, PageSize',
    ],
    ['listAssignments', { query: { Page: 0 } }, 'Page must be a whole number from 1 to 2147483647, not 0'],
    ['listAssignments', { body: {} }, 'takes no body'],
    ['createAssignment', {}, 'needs a body that is a JSON object, and has none'],
    ['createAssignment', { body: [] }, 'needs a body that is a JSON object, not []'],
    ['addAttachment', { path: { assignmentId: 1 } }, 'needs the fields of a form'],
    [
      'getExtendedAssignment',
      { path: { assignmentId: 1 }, query: { IncludeAttachmentFileData: true, IncludeAttachment: false } },
      'only valid when IncludeAttachment is true',
    ],
  ])('%s refuses %j', (name, request, message) => {
    expect(() => prepare(name, request)).toThrow(message)
  })

  it('sends file data with attachments, whose flag is true by itself', () => {
    const path = { assignmentId: 1 }
    for (const flags of [{}, { IncludeAttachment: true }]) {
      const query = { ...flags, IncludeAttachmentFileData: true }
      expect(prepare('getExtendedAssignment', { path, query }).target).toContain(
        'IncludeAttachmentFileData=true',
      )
    }
  })
})

describe('the attachment form', () => {
  const form = (body: object) => prepare('addAttachment', { path: { assignmentId: 1 }, body })

  it('is encoded field by field, without those that are null', () => {
    const uid = '9F1E0C52-3A8B-4B7B-9C53-0A4E1B7D2F10'
    const body = {
      FileName: 'ø & +.txt',
      FileData: 'aGk+',
      AttachmentType: '255',
      UID: uid,
      Processed: false,
      OwnerId: null,
    }
    expect(
      form({
        ...body,
        RowVersion: JSON.rawJSON(`${2n ** 63n - 1n}`),
        RegTime: '0001-02-28T23:59:59.1234567+01:00',
      }),
    ).toEqual({
      target: '/api/Assignment/Id/1/attachment',
      contentType: 'application/x-www-form-urlencoded',
      body: `FileName=%C3%B8+%26+%2B.txt&FileData=aGk%2B&AttachmentType=255&UID=${uid}&Processed=false&RowVersion=9223372036854775807&RegTime=0001-02-28T23%3A59%3A59.1234567%2B01%3A00`,
    })
  })

  it('sends no half characters, and not nothing', () => {
    expect(() => form({ FileName: '\ud800' })).toThrow('FileName holds half a character')
    expect(() => form({ OwnerId: null })).toThrow('needs at least one field of its form')
  })

  it('takes large files', () => {
    const data = Buffer.alloc(6_000_000, 7).toString('base64')
    expect(form({ FileData: data }).body).toHaveLength('FileData='.length + encodeURIComponent(data).length)
  })
})

describe('findOperation', () => {
  const find = (method: string, path: string) => findOperation(method, path)

  it.each<[string, string, OperationName, object]>([
    ['GET', '/api/assignment/id/5', 'getAssignment', { assignmentId: '5' }],
    ['DELETE', '/api/Assignment/WO-5', 'deleteAssignmentByIdExt', { assignmentIdExt: 'WO-5' }],
    ['GET', '/api/Assignment/IdExt/a%2Fb', 'getAssignmentByIdExt', { assignmentIdExt: 'a/b' }],
    ['GET', '/api/Webhooks/subscription', 'listWebhookSubscriptions', {}],
    ['GET', '/api/Webhooks/subscription/x', 'getWebhookSubscription', { webhookSubscriptionId: 'x' }],
  ])('%s %s is %s', (method, path, name, values) => {
    expect(find(method, path)).toMatchObject({ operation: operations[name], path: values })
  })

  it.each<[string, string, string]>([
    ['GET', '/api/Asignment', 'GET /api/Assignment'],
    ['PUT', '/api/Assignment/Id/5', 'GET /api/Assignment/Id/{assignmentId}'],
    ['DELETE', '/api/Assignment/Id', 'DELETE /api/Assignment/Id/{assignmentId}'],
    ['DELETE', '/api/AssignmentNote/Id/5', 'DELETE /api/AssignmentNote/{assignmentNoteIdExt}'],
    ['GET', '/api/Assignment/neworchangd/123456', 'GET /api/Assignment/neworchanged/{rowVersion}'],
    ['GET', '/api/Trackers', 'GET /api/TrackerObject'],
    ['GET', '/api/Assignment/Id/{assignmentId}', 'GET /api/Assignment/Id/{assignmentId}'],
  ])('%s %s is none, but near %s', (method, path, near) => {
    expect(find(method, path)).toMatchObject({ nearest: expect.arrayContaining([near]) })
  })

  it.each(['/api/Assignment/Id', '/api/Assignment/neworchanged', '/api/Assignment/'])(
    'does not delete by a word of the path itself: %s',
    (path) => {
      expect(find('DELETE', path)).toHaveProperty('nearest')
    },
  )
})
