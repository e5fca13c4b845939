// Lists a stream in the order of its keys, each page from behind the last key of the page before: `Filters=<key>>last&Sorts=<key>`. That
// needs no page numbers, so rows that come, go or change meanwhile move no other row, and a cap, ties or nulls cut nothing off. It
// rests on two beliefs, that filters and sorting by the key are honoured; each page is checked for both. Pure but for its questions.

import type { Json } from '../../json/json.ts'
import { isObject, readVersion } from '../../streams/record.ts'
import type { Source } from '../ports/source.ts'

/** A page of the list behind a key. `received` counts its records, also those without a usable key. */
export type KeyPage = { readonly received: number; readonly keys: readonly bigint[] }

export type KeyListing<Page extends KeyPage> = {
  /** Records with a key above `after`, lowest first; null: all. */
  ask(request: {
    readonly after: bigint | null
    readonly page: number
    readonly pageSize: number
  }): Promise<Page>
  /** The highest key that the list has; null when it shows none. */
  askHighest(): Promise<bigint | null>
  readonly pageSize: number
}

/** The list does not honour the filter or the order that it was believed to honour. */
export class KeyOrderBroken extends Error {
  override readonly name = 'KeyOrderBroken'
}

/** How many pages in a row may be empty although the list goes on behind them: rights may hide all records of a page. */
const mostEmptyPages = 20

/** Yields each page that shows something. Returns whether the end was confirmed from the other end. */
export async function* listByKey<Page extends KeyPage>(
  listing: KeyListing<Page>,
  { from = null, to = null }: { readonly from?: bigint | null; readonly to?: bigint | null } = {},
): AsyncGenerator<Page, { readonly isWhole: boolean }> {
  let after = from
  let emptyPages = 0
  for (;;) {
    const page = await askTwice(listing, { after, page: 1 + emptyPages, pageSize: listing.pageSize })
    expectOrder(page.keys, after)
    const last = page.keys.at(-1)
    if (last !== undefined) {
      yield page
      after = last
      emptyPages = 0
    } else {
      const highest = (await listing.askHighest()) ?? (await listing.askHighest())
      // A list that showed records and has no highest one hides something; one that shows nothing at all is for others to doubt.
      if (highest === null) return { isWhole: after === null }
      if (after !== null && highest <= after) return { isWhole: true }
      if (to !== null && after !== null && after >= to) return { isWhole: true }
      emptyPages += 1
      if (emptyPages > mostEmptyPages) return { isWhole: false }
    }
    if (to !== null && after !== null && after >= to) return { isWhole: true }
  }
}

/** An upstream may answer nothing, once; that would look like the end. */
async function askTwice<Page extends KeyPage>(
  { ask }: KeyListing<Page>,
  request: Parameters<KeyListing<Page>['ask']>[0],
): Promise<Page> {
  const page = await ask(request)
  return page.received === 0 ? await ask(request) : page
}

function expectOrder(keys: readonly bigint[], after: bigint | null): void {
  let before = after
  for (const key of keys) {
    // Two records with one key stand side by side.
    if (before !== null && (before === after ? key <= before : key < before))
      throw new KeyOrderBroken(
        `key ${key} was served behind ${before}, although keys above it were asked for in their order`,
      )
    before = key
  }
}

export type KeyOrderVerdict = {
  readonly value: 'honoured' | 'ignored' | 'undecided'
  readonly evidence: string
}

/** Asks for the first records, for those behind one of them, and for the highest: are filters and sorting by key honoured? */
export async function proveKeyOrder({
  ask,
  askHighest,
}: Pick<KeyListing<KeyPage>, 'ask' | 'askHighest'>): Promise<KeyOrderVerdict> {
  const asked = 10
  const first = await ask({ after: null, page: 1, pageSize: asked })
  const middle = first.keys[Math.floor(first.keys.length / 2)]
  if (middle === undefined) return { value: 'undecided', evidence: 'the list showed no record' }
  const page = await ask({ after: middle, page: 1, pageSize: asked })
  if (page.received > asked)
    return { value: 'ignored', evidence: `asked for ${asked} records it served ${page.received}` }
  if (page.keys.length < 2)
    return { value: 'undecided', evidence: `only ${page.keys.length} records behind key ${middle}` }
  try {
    expectOrder(page.keys, middle)
  } catch (error) {
    if (!(error instanceof KeyOrderBroken)) throw error
    return { value: 'ignored', evidence: error.message }
  }
  const highest = await askHighest()
  const last = page.keys.at(-1) ?? middle
  if (highest === null || highest < last)
    return { value: 'ignored', evidence: `the highest key was said to be ${highest}, below ${last}` }
  return {
    value: 'honoured',
    evidence: `${page.keys.length} keys ascending behind ${middle}, the highest is ${highest}`,
  }
}

/** Keys of a page as they came, and its records; those without a usable key are told by `received` alone. */
export type RecordPage = KeyPage & { readonly records: readonly Json[] }

/** The list of an upstream, for keys that are whole numbers. */
export function keyListing(list: {
  readonly source: Pick<Source, 'list'>
  readonly keyField: string
  readonly pageSize: number
  readonly signal: AbortSignal
}): KeyListing<RecordPage> {
  const { source, keyField, pageSize, signal } = list
  const ask = async (order: 'ascending' | 'descending', after: bigint | null, page: number, size: number) => {
    const byKey = { field: keyField, after, order }
    const { records } = await source.list({ page, pageSize: size, byKey }, signal)
    const keys = records.filter(isObject).flatMap((record) => readVersion(record, keyField) ?? [])
    return { received: records.length, keys, records }
  }
  return {
    pageSize,
    ask: (request) => ask('ascending', request.after, request.page, request.pageSize),
    async askHighest() {
      const { keys } = await ask('descending', null, 1, 1)
      return keys[0] ?? null
    },
  }
}
