// The list in an envelope, and how many records the service says there are.

import { describe, expect, it } from 'vitest'
import { dialectNamed, dialectNames, tellsTotal } from '../../src/simulator/dialects.ts'
import { isListLeftOut, toldTotal, wrappedList } from '../../src/upstream/envelopes.ts'

const page = { page: 2, pageSize: 3, total: 17, pages: 6, records: 3, urlOf: (to: number) => `/${to}` }
const list = [{ Id: 4 }, { Id: 5 }, { Id: 6 }]

describe('an envelope', () => {
  it.each(dialectNames)('of %s is opened, and its total is read', (name) => {
    const { envelope, headers } = dialectNamed(name)
    const body = envelope ? JSON.parse(JSON.stringify(envelope(list, page))) : list
    if (envelope) expect(wrappedList(body)).toEqual(list)
    const total = toldTotal(Array.isArray(body) ? null : body, headers?.(page) ?? {})
    // Zoho tells how many records are on this page.
    expect(total).toBe(name === 'zoho' ? 3 : tellsTotal(name) ? 17 : null)
  })

  it.each([
    [{ d: { results: list } }, list],
    [{ hits: { total: { value: 3 }, hits: list } }, list],
    [{ _embedded: { customers: list }, _links: {} }, list],
    [{ data: list, included: [{ Id: 9 }] }, list],
    [{ data: { sort: [], items: list } }, list],
    [{ errors: [], items: [] }, []],
    [{ alerts: [], links: [] }, null],
    [{ assignment: { notes: [] } }, null],
    [{ errors: { items: [] } }, null],
  ])('%j holds %j', (body, expected) => {
    expect(wrappedList(body as never)).toEqual(expected)
  })

  it.each([
    [{ items: null, total: 0 }, true],
    [{ page: { totalElements: 0 } }, true],
    [{ message: 'No rights', data: null }, false],
    [{ message: 'busy', count: 5 }, false],
    [{ AssignmentId: 7 }, false],
    [{}, false],
  ])('%j has left out an empty list: %s', (body, expected) => {
    expect(isListLeftOut(body as never)).toBe(expected)
  })

  it.each([
    ['items 0-9/319', 319],
    ['*/0', 0],
    ['items 0-9/*', null],
  ])('Content-Range %s tells of %s', (range, total) => {
    expect(toldTotal(null, { 'content-range': range })).toBe(total)
  })
})
