// What is around a list: services put it into an object, under one of a few names, and tell beside it, or in a header, how many records
// there are on all pages.

import type { Json, JsonObject } from '../json/json.ts'
import { holdsComplaints, isObject } from '../streams/record.ts'
import type { RecordList } from '../wire/record-page.ts'

/** The names of the list, the usual ones first. Other lists may stand beside it: sort orders, links, what else was found. */
const listNames = ['items', 'data', 'value', 'values', 'results', 'content', 'records', 'rows', 'hits']

/** The list inside an object: the only one there is, or the one with a usual name; otherwise one with such a name a level below. */
export function wrappedList(body: Json | null): RecordList | null {
  if (!isObject(body)) return null
  const lists = listsIn(body)
  if (lists.length === 1) return lists[0]?.list ?? null
  if (lists.length > 1) return usualIn(lists)
  const below = Object.entries(body).flatMap(([field, value]) => {
    if (!isObject(value) || holdsComplaints(field)) return []
    const inside = listsIn(value)
    const only = field === '_embedded' && inside.length === 1 ? inside[0]?.list : usualIn(inside)
    return only ? [only] : []
  })
  return below.length === 1 ? (below[0] ?? null) : null
}

function usualIn(lists: ReturnType<typeof listsIn>): RecordList | null {
  for (const name of listNames) {
    const named = lists.filter(({ field }) => field.toLowerCase() === name)
    if (named.length === 1) return named[0]?.list ?? null
  }
  return null
}

const listsIn = (object: JsonObject) =>
  Object.entries(object).flatMap(([field, value]) =>
    Array.isArray(value) && !holdsComplaints(field) ? [{ field, list: value }] : [],
  )

/** Some services leave the list out, or write null in its place, when nothing is in it: what tells of pages is still there. */
export function isListLeftOut(body: Json | null): boolean {
  if (!isObject(body) || listsIn(body).length > 0) return false
  const isNullList = Object.entries(body).some(
    ([field, value]) => value === null && listNames.includes(field.toLowerCase()),
  )
  const complains = Object.keys(body).some(holdsComplaints)
  return !complains && (isNullList || totalIn(body) !== null)
}

const totalNames = [
  ...['total', 'totalcount', 'totalelements', 'totalrecords', 'totalresults', 'totalitems', 'totalrows'],
  ...['@odata.count', 'odata.count', 'recordcount', 'count'],
]
const totalHeaders = ['x-total-count', 'x-total', 'x-wp-total', 'x-total-results-count', 'total-count']

/** How many records the answer says there are on all pages; null: it does not say. It may also count what the user may not see. */
export function toldTotal(
  body: Json | null,
  headers: Readonly<Record<string, string | string[] | undefined>>,
): number | null {
  for (const name of totalHeaders) {
    const total = wholeNumber(headers[name])
    if (total !== null) return total
  }
  const [, ofRange] = /\/(\d+)$/.exec(String(headers['content-range'] ?? '')) ?? []
  return wholeNumber(ofRange) ?? (isObject(body) ? totalIn(body) : null)
}

/** At the top, or beside it in an object like `meta`, `page`, or `pagination`. */
function totalIn(body: JsonObject): number | null {
  const objects = [body, ...Object.values(body).filter(isObject)]
  for (const name of totalNames)
    for (const object of objects)
      for (const [field, value] of Object.entries(object)) {
        const total = field.toLowerCase().replaceAll('_', '') === name ? wholeNumber(value) : null
        if (total !== null) return total
      }
  return null
}

function wholeNumber(value: Json | string | string[] | undefined): number | null {
  const text = JSON.isRawJSON(value) ? value.rawJSON : String(value ?? '')
  return /^\d{1,15}$/.test(text) ? Number(text) : null
}
