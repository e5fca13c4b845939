// What an extended read says, in every shape a group may come in.

import { describe, expect, it } from 'vitest'
import type { Json, JsonObject } from '../../src/json/json.ts'
import { relatedStreams } from '../../src/streams/catalog.ts'
import { groupRecords } from '../../src/sync/related/answer.ts'

const plain = (records: readonly Json[] | null) => JSON.parse(JSON.stringify(records))

function records(name: (typeof relatedStreams)[number]['name'], answer: JsonObject) {
  const stream = relatedStreams.find((one) => one.name === name)
  if (!stream) throw new Error('unreachable')
  return plain(groupRecords(answer, stream, '5'))
}

describe('a group of the extended read', () => {
  it('may be a list, one object, or null', () => {
    expect(records('customer', { Customer: [{ CustomerId: 1 }] })).toEqual([{ CustomerId: 1 }])
    expect(records('customer', { Customer: { CustomerId: 1 } })).toEqual([{ CustomerId: 1 }])
    expect(records('customer', { Customer: null })).toEqual([])
  })

  it('that is not there says nothing (P7)', () => {
    expect(records('customer', { Employee: [] })).toBeNull()
  })

  it('is found in any spelling', () => {
    expect(records('employee', { employee: [{ employeeId: 1 }] })).toEqual([{ employeeId: 1 }])
  })

  it('keeps what is no object, so that it can go to quarantine (P5)', () => {
    expect(records('employee', { Employee: ['x', null] })).toEqual(['x', null])
    expect(records('employee', { Employee: 7 })).toEqual([7])
  })

  it('refers to its assignment, unless the record does so itself', () => {
    const answer = {
      AssignmentProduct: [{ Id: 1 }, { Id: 2, assignmentId: null }, { Id: 3, AssignmentId: 9 }],
    }
    expect(records('assignment_product', answer)).toEqual([
      { Id: 1, AssignmentId: 5 },
      { Id: 2, assignmentId: 5 },
      { Id: 3, AssignmentId: 9 },
    ])
    expect(records('customer', { Customer: { Id: 1 } })).toEqual([{ Id: 1 }])
  })

  it('leaves the bytes of files to a table of their own', () => {
    const answer = {
      Attachment: [
        { AttachmentId: 1, FileName: 'a', FileData: 'AA==' },
        { AttachmentId: 2, FileName: 'b', FileData: null },
        { AttachmentId: 3, FileName: 'c', FileData: 'AQ==', SysDeleted: true },
        { AttachmentId: 4, FileName: 'd', FileData: 'Ag==', SysDeleted: false },
      ],
    }
    expect(records('attachment', answer)).toEqual([
      { AttachmentId: 1, FileName: 'a', AssignmentId: 5 },
      { AttachmentId: 2, FileName: 'b', AssignmentId: 5 },
      { AttachmentId: 3, FileName: 'c', SysDeleted: true, AssignmentId: 5 },
      { AttachmentId: 4, FileName: 'd', SysDeleted: false, AssignmentId: 5 },
    ])
    expect(records('attachment_data', answer)).toEqual([
      { AttachmentId: 1, FileData: 'AA==', AssignmentId: 5 },
      { AttachmentId: 3, FileData: 'AQ==', SysDeleted: true, AssignmentId: 5 },
      { AttachmentId: 4, FileData: 'Ag==', AssignmentId: 5 },
    ])
  })
})
