// A case for one operation: the request, and what the server must see and answer. The words in which the table of cases is
// written.

import { expect } from 'vitest'
import type { Json } from '../../src/json/json.ts'
import type { RequestOf } from '../../src/upstream/operations/request.ts'
import type { OperationName } from '../../src/upstream/operations/table.ts'

export type Expected = {
  readonly target: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: string
  readonly contentType?: string
  readonly status: 200 | 201 | 204
  readonly answer: (body: Json | null) => void
}
export type Case<Name extends OperationName> = readonly [
  request: () => RequestOf<Name>,
  expected: () => Expected,
]

export const isList = (length: number) => (body: Json | null) => expect(body).toHaveLength(length)
export const has = (fields: object) => (body: Json | null) => expect(body).toMatchObject(fields)
export const isNothing = (body: Json | null) => expect(body).toBeNull()

export const read = <Name extends OperationName>(
  request: () => RequestOf<Name>,
  target: () => string,
  answer: Expected['answer'],
  query: Expected['query'] = {},
): Case<Name> => [request, () => ({ target: target(), query, status: 200, answer })]

export function send<Name extends OperationName>(
  request: RequestOf<Name>,
  target: string,
  status: 201 | 204,
  answer: Expected['answer'],
): Case<Name> {
  const body = JSON.stringify(request.body)
  return [() => request, () => ({ target, body, contentType: 'application/json', status, answer })]
}

export const child = <Name extends OperationName>(request: RequestOf<Name>, target: string): Case<Name> =>
  send(request, target, 201, has({ AssignmentId: 5, Remark: 'new' }))

export const form = { FileName: 'ø.txt', FileData: 'aGk=', AttachmentType: 3 }
export const attachment = <Name extends OperationName>(
  request: RequestOf<Name>,
  target: string,
): Case<Name> => [
  () => request,
  () => ({
    target,
    body: 'FileName=%C3%B8.txt&FileData=aGk%3D&AttachmentType=3',
    contentType: 'application/x-www-form-urlencoded',
    status: 201,
    answer: has({ FileName: 'ø.txt', FileData: 'aGk=', AttachmentType: 3, OwnerId: 5 }),
  }),
]

export const nothing = (target: () => string, status: 200 | 204) => (): Expected => ({
  target: target(),
  status,
  answer: isNothing,
})
