// Lists a stream in the order of its keys, each page from behind the last key of the page before: `Filters=<key>>last&Sorts=<key>`. That
// needs no page numbers, so rows that come, go or change meanwhile move no other row, and a cap, ties or nulls cut nothing off. It
// rests on two beliefs, that filters and sorting by the key are honoured; each page is checked for both. Pure but for its questions.

import { versionsIn } from '../../streams/record.ts'
import { messageOf } from '../../util/errors.ts'
import type { RecordList } from '../../wire/record-page.ts'
import { detected, ignored, learn, undecided, usable, type Verdict } from '../capabilities.ts'
import { ListRefused, type SortOrder, type Source } from '../ports/source.ts'
import type { RunCore } from '../ports/store.ts'

/** Keys of a page as they came, and its records. `received` counts them all, also those without a usable key. */
type KeyPage = {
  readonly received: number
  readonly keys: readonly bigint[]
  readonly records: RecordList
}
type BehindKey = { readonly after: bigint | null; readonly page: number; readonly pageSize: number }

type KeyListing = {
  /** Records with a key above `after`, lowest first; null: all. */
  ask(request: BehindKey): Promise<KeyPage>
  /** The highest key that the list shows; null when it shows none of its last records. */
  askHighest(): Promise<bigint | null>
  /** Keys of a page that is asked for the highest first. */
  askFromEnd(pageSize: number): Promise<readonly bigint[]>
  readonly pageSize: number
}

/** The list does not honour the filter or the order that it was believed to honour. */
export class KeyOrderBroken extends Error {
  override readonly name = 'KeyOrderBroken'
}

/** So many of the highest records are tried. If all are hidden, the list shows no highest key. */
const mostHiddenEnds = 8
/** How many pages in a row may be empty although the list goes on behind them: rights may hide all records of a page. */
const mostEmptyPages = 20

/** Yields each page that shows something. Returns whether the end was confirmed from the other end. */
export async function* listByKey(
  listing: KeyListing,
  from: bigint | null = null,
): AsyncGenerator<KeyPage, { readonly isWhole: boolean }> {
  let after = from
  let emptyPages = 0
  let [pageSize, largest] = [listing.pageSize, 0]
  for (;;) {
    const page = await askTwice(listing, { after, page: 1 + emptyPages, pageSize })
    expectOrder(page.keys, after)
    const last = page.keys.at(-1)
    largest = Math.max(largest, page.received)
    if (last !== undefined && emptyPages > 0 && largest < pageSize) {
      // Perhaps its answers are cut. Then an empty page was shorter than those that were skipped for it.
      emptyPages = 1
      pageSize = largest
    } else if (last !== undefined) {
      yield page
      after = last
      emptyPages = 0
      pageSize = listing.pageSize
    } else {
      const highest = (await listing.askHighest()) ?? (await listing.askHighest())
      // A list that showed records and shows no highest one hides something. One that shows nothing at all is left to the caller to doubt.
      if (highest === null) return { isWhole: after === null }
      if (after !== null && highest <= after)
        return { isWhole: highest === after || (await isHighest(listing, highest, after)) }
      emptyPages += 1
      if (emptyPages > mostEmptyPages) return { isWhole: false }
    }
  }
}

/** A list that is cut before it is sorted names one that is not: then it shows others behind it. Or else the one that was shown last is gone. */
async function isHighest({ ask }: KeyListing, key: bigint, shown: bigint): Promise<boolean> {
  const { keys } = await ask({ after: key, page: 1, pageSize: 1 })
  return keys.every((behind) => behind > shown)
}

/** An upstream may answer with nothing by mistake, which would look like the end: so that is asked for twice. */
async function askTwice({ ask }: KeyListing, request: BehindKey): Promise<KeyPage> {
  const page = await ask(request)
  return page.received === 0 ? await ask(request) : page
}

function expectOrder(keys: readonly bigint[], after: bigint | null): void {
  let before = after
  for (const key of keys) {
    // Within a page, two records may share a key, and then stand side by side.
    if (before !== null && (before === after ? key <= before : key < before))
      throw new KeyOrderBroken(
        `key ${key} was served behind ${before}, although keys above it were asked for in their order`,
      )
    before = key
  }
}

const proofSize = 10
/** Where the range of the keys is asked, as shares of it. Between keys as well as at one. */
const proofPoints = [0.25, 0.5, 0.75, 0.95]

type KeyOrderProof = {
  /** Does the filter leave out what is at or below a key? */
  readonly filters: Verdict
  /** And does the list come in the order of the keys, both ways? */
  readonly order: Verdict
}

/** Asks for the first records, for the last, for the highest, for what is behind several points between them, and behind the highest. */
export async function proveKeyOrder(listing: Omit<KeyListing, 'pageSize'>): Promise<KeyOrderProof> {
  const ask = (after: bigint | null) => listing.ask({ after, page: 1, pageSize: proofSize })
  const first = await ask(null)
  const lowest = first.keys[0]
  if (first.received > proofSize) {
    const evidence = `asked for ${proofSize} records the list served ${first.received}`
    // A list that knows no pages may filter all the same, and be cut.
    return { filters: undecided(evidence), order: ignored(evidence) }
  }
  if (lowest === undefined) {
    const verdict = undecided('the list showed no record')
    return { filters: verdict, order: verdict }
  }
  const highest = await listing.askHighest()
  const fromEnd = await listing.askFromEnd(proofSize)
  const inMiddle = first.keys[Math.floor(first.keys.length / 2)] ?? lowest
  const points =
    highest === null || highest < inMiddle ? [inMiddle] : pointsBetween(inMiddle, lowest, highest)
  const pages: Behind<bigint>[] = []
  for (const after of points) pages.push({ after, page: await ask(after) })
  return { filters: judgeFilters(pages, highest), order: judgeOrder({ first, fromEnd, pages, highest }) }
}

function pointsBetween(inMiddle: bigint, lowest: bigint, highest: bigint): readonly bigint[] {
  const range = Number(highest - lowest)
  const points = proofPoints.map((share) => lowest + BigInt(Math.floor(range * share)))
  return [...new Set([inMiddle, ...points, highest])].sort((a, b) => (a < b ? -1 : 1))
}

type Behind<Key> = { readonly after: Key; readonly page: KeyPage }

function judgeFilters(pages: readonly Behind<bigint>[], highest: bigint | null): Verdict {
  for (const { after, page } of pages) {
    const below = page.keys.find((key) => key <= after)
    if (below !== undefined) return ignored(`asked for keys above ${after} the list served ${below}`)
  }
  const asked = pages.map(({ after }) => after)
  if (highest === null || pages.length < 2) return undecided('there are too few records to tell')
  return {
    value: 'honoured',
    evidence: `nothing at or below keys ${asked.join(', ')} when asked for what is above`,
  }
}

type Shown = {
  readonly first: KeyPage
  readonly fromEnd: readonly bigint[]
  readonly pages: readonly Behind<bigint>[]
  readonly highest: bigint | null
}

function judgeOrder({ first, fromEnd, pages, highest }: Shown): Verdict {
  const answers: readonly Behind<bigint | null>[] = [{ after: null, page: first }, ...pages]
  // A list that ignores the order may stand in that of its keys by chance, but not in both.
  const rising = fromEnd.findIndex((key, index) => key > (fromEnd[index - 1] ?? key))
  if (rising > 0)
    return ignored(
      `asked for the highest keys first the list served ${fromEnd[rising]} behind ${fromEnd[rising - 1]}`,
    )
  for (const { after, page } of answers) {
    if (page.received > proofSize)
      return ignored(`asked for ${proofSize} records the list served ${page.received}`)
    try {
      expectOrder(page.keys, after)
    } catch (error) {
      if (!(error instanceof KeyOrderBroken)) throw error
      return ignored(error.message)
    }
  }
  const compared = new Set(answers.flatMap(({ page }) => page.keys))
  const last = [...compared].reduce((a, b) => (a > b ? a : b))
  // A record that was made meanwhile is above the highest key, and came when it was asked for what is above that.
  const above = pages.find(({ after }) => after === highest)?.page.keys ?? []
  // The user may not be allowed to see it. That is no disorder, so what rested on the order stays.
  if (highest === null) return undecided('the list does not show its highest key')
  if (highest < last && !above.includes(last))
    return ignored(`the highest key was said to be ${highest}, below ${last}`)
  // Answers of one record each tell something only when they are compared. A record may also have vanished between two of them.
  for (const answer of answers) {
    const { after, page } = answer
    const skipped = [...compared].find((key) => isSkipped(key, answer))
    if (skipped !== undefined)
      return undecided(
        `asked for ${after === null ? 'the lowest keys' : `keys above ${after}`} the list served ${page.keys.at(-1)}, although it has ${skipped}`,
      )
  }
  if (fromEnd[0] !== undefined && fromEnd[0] < highest)
    return undecided(`asked twice for the highest key the list served ${highest} and ${fromEnd[0]}`)
  // Too few keys prove no order.
  if (compared.size < 4) return undecided(`only ${compared.size} records to compare`)
  return {
    value: 'honoured',
    evidence: `${compared.size} keys ascending behind ${pages.length} points from ${first.keys[0]}, the highest is ${highest}`,
  }
}

/** Whether the page should have shown this key, if it is in the order of the keys. */
const isSkipped = (key: bigint, { after, page: { keys } }: Behind<bigint | null>): boolean =>
  (after === null || key > after) && key < (keys.at(-1) ?? key) && !keys.includes(key)

/** The list of an upstream, and the field of its keys. */
export type KeyedList = {
  readonly source: Pick<Source, 'list'>
  readonly keyField: string
  readonly pageSize: number
  readonly signal: AbortSignal
}

/** For keys that are whole numbers. */
export function keyListing({ source, keyField, pageSize, signal }: KeyedList): KeyListing {
  const ask = async (order: SortOrder, after: bigint | null, page: number, size: number) => {
    const byKey = { field: keyField, after, order }
    const { records } = await source.list({ page, pageSize: size, byKey }, signal).catch((error) => {
      throw error instanceof ListRefused ? new KeyOrderBroken(error.message) : error
    })
    return { received: records.length, keys: versionsIn(records, keyField), records }
  }
  return {
    pageSize,
    ask: (request) => ask('ascending', request.after, request.page, request.pageSize),
    askFromEnd: async (size) => (await ask('descending', null, 1, size)).keys,
    async askHighest() {
      for (let page = 1; page <= mostHiddenEnds; page++) {
        const [key] = (await ask('descending', null, page, 1)).keys
        if (key !== undefined) return key
      }
      return null
    },
  }
}

// ── for a run ────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether a list can be filtered and sorted by key, as a run may rely on it: known from an earlier run, or found out now. */
export type KeyOrderContext = KeyedList & {
  readonly run: Pick<RunCore, 'state' | 'findings' | 'progress'>
  readonly now: () => Date
}

/** `doubtsIgnored`: what was ignored once is tested again: perhaps paging or sorting failed just then. What was refused is not asked again so soon. */
export async function keyOrderOf(
  context: KeyOrderContext,
  doubtsIgnored = false,
): Promise<{ readonly order: string; readonly filters: string }> {
  const { run, now } = context
  const known = usable(run.state.beliefs, 'key_order', now())
  if (known && !(doubtsIgnored && known.value === 'ignored'))
    return {
      order: known.value,
      filters: usable(run.state.beliefs, 'filters', now())?.value ?? untested(known.value),
    }
  run.progress.step('Test whether the list can be read by key')
  const { filters, order } = await testKeyOrder(context)
  const decided = [
    detected('filters', filters.value, filters.evidence),
    detected('key_order', order.value, order.evidence),
  ].filter(({ value }) => value !== 'undecided')
  await learn(run, decided, now())
  return { order: order.value, filters: filters.value }
}

/** A list that refuses to be read by key may refuse filters alone as well, or answer them with everything. */
const untested = (order: string) => (order === 'refused' ? 'refused' : 'undecided')

/** If requests fail that filter or sort, and a plain one works, the list refuses both. */
export async function testKeyOrder(tested: KeyedList): Promise<KeyOrderProof> {
  try {
    return await proveKeyOrder(keyListing(tested))
  } catch (error) {
    if (!(error instanceof KeyOrderBroken)) {
      tested.signal.throwIfAborted()
      if (!isAboutRequest(error)) throw error
      await tested.source.list({ page: 1, pageSize: 1 }, tested.signal)
    }
    const verdict = { value: 'refused', evidence: messageOf(error) } as const
    return { filters: verdict, order: verdict }
  }
}

/** Some upstreams answer 500 to a name that they do not know. */
const isAboutRequest = (error: unknown): boolean =>
  error instanceof Error && 'status' in error && error.status === 500
