// The one place where the values of private fields end (P20): an answer goes through here before anything reads it, whatever it was asked
// for. What cannot be read as JSON, and what comes with an error, is not passed on at all: it may quote a record.

import { type Hiding, hideFields } from '../wire/hidden-fields.ts'
import { isMarkup } from './http/answer.ts'
import type { HttpAnswer } from './http/transport.ts'
import type { Operation } from './operations/table.ts'

const leftOut = 'left out, because fields of these records are private'

export function withoutPrivate(hiding: Hiding | null, operation: Operation, answer: HttpAnswer): HttpAnswer {
  const { bytes, status } = answer
  if (hiding === null || bytes.length === 0) return answer
  const isRead = operation.method === 'GET'
  const isShown = !isRead || status === operation.success
  const seen = isShown ? hideFields(bytes, hiding, isRead && answersList(operation)) : null
  return seen === bytes
    ? answer
    : { ...answer, bytes: seen ?? Buffer.from(isMarkup(bytes) ? `<${leftOut}>` : leftOut) }
}

/** A path that ends with the id of a record answers with that record. */
const answersList = ({ path }: Operation): boolean =>
  !path.endsWith('}') || path.toLowerCase().includes('/neworchanged/')
