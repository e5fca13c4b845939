// How each fault looks to the client: another answer, or the right answer delivered wrongly.

import { type Answer, type Incoming, jsonText, problem, wholeBody } from './answer.ts'
import type { Fault } from './faults.ts'
import type { Delivery } from './http.ts'

/** Of the faults that need no right answer. */
export function faultAnswer(fault: Fault): Answer | null {
  if (typeof fault.kind === 'number') {
    const seconds = fault.retryAfterSeconds
    const answer = problem(fault.kind, 'The stand-in was told to fail this request.')
    if (seconds === undefined) return answer
    const date = new Date(Math.ceil((Date.now() + seconds * 1000) / 1000) * 1000)
    const value = fault.retryAfterAs === 'date' ? date.toUTCString() : String(seconds)
    return { ...answer, headers: { 'retry-after': value } }
  }
  if (fault.kind === 'html') {
    const page = '<!DOCTYPE html><html><head><title>Maintenance</title></head><body>Back soon.</body></html>'
    return { ...jsonText(200, page), contentType: 'text/html; charset=utf-8' }
  }
  return null
}

/** Of the faults that spoil a right answer. Every answer that is not a list passes through the last two as it is. */
export function spoiled(fault: Fault, answer: Answer, previousPage: Answer | undefined): Answer {
  switch (fault.kind) {
    case 'truncated': {
      const whole = wholeBody(answer)
      return { ...answer, body: [whole.subarray(0, Math.floor(whole.length / 2))] }
    }
    case 'content-type':
      return { ...answer, contentType: 'application/octet-stream' }
    case 'duplicate-page':
      return previousPage ?? answer
    case 'empty-page':
      return answer.ifEmpty ? { ...answer, body: [answer.ifEmpty], rows: [] } : answer
    default:
      return answer
  }
}

export function deliveryOf(fault: Fault | null): Delivery {
  if (fault?.kind === 'hang') return 'never'
  if (fault?.kind === 'reset') return 'reset'
  if (fault?.kind === 'slow-drip') return { bytesPerSecond: fault.bytesPerSecond ?? 1_000 }
  return 'whole'
}

/** Which list a page belongs to: the same one, whatever row version or page it was asked from. */
export const streamOf = (request: Incoming): string =>
  `${request.service} ${request.path.toLowerCase().replace(/\/-?\d+$/, '')}`
