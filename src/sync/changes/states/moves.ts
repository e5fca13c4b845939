// Where rules of the reader lead: to which state, with which position, and with which note. And what several states ask or see alike.

import { detected } from '../../capabilities.ts'
import { beginListing, type SeenPage } from '../../lists/listing.ts'
import type { SortOrder } from '../../ports/source.ts'
import { isAscending, outOfOrder } from '../../versions.ts'
import type { Move } from '../rules.ts'
import type { Anchor, Ask, Event, ObservedPage, Reading, State } from '../state.ts'

export function pageOf(event: Event): SeenPage {
  if (event.kind !== 'answer') throw new Error(`A ${event.kind} came that nobody asked for`)
  return event.page
}

/** From where to ask so that the answer includes the anchor, whether the upstream's `since` means above or at least. */
export const lowest = (cursor: bigint, anchor: Anchor | null): bigint =>
  anchor === null || anchor.version > cursor ? cursor : anchor.version - 1n

/** If the upstream orders the rows of one version anew each time, it takes many passes to see them all. */
const maxTiePasses = 24

/** Whether answers from the other end, the newest first, are believed. */
export const confirmsEnd = ({ sorting, cutsBeforeSort }: Reading): boolean =>
  sorting === 'proven' && !cutsBeforeSort

export const maySort = ({ sorting, cutsBeforeSort }: Reading): boolean =>
  !cutsBeforeSort && (sorting === 'proven' || sorting === 'unknown')

/** No row is stored, and no record was ever shown. */
export const isNothingKnown = ({ options, cursor, highestServed }: Reading): boolean =>
  cursor === 0n && options.anchor === null && highestServed === null

export const isOutOfOrder = (versions: readonly bigint[]): string | false =>
  !isAscending(versions) && outOfOrder(versions)

export const isCertain = ({ position, cursor, anchor, lacked, cutsBeforeSort }: Reading): boolean =>
  position === cursor && anchor === null && lacked === null && !cutsBeforeSort

/**
 * Whether a page without anything new need not be written, because its records are rows already. A record that cannot be a row has to
 * go into quarantine (P5). One above the highest known row got a version that was given out before the upstream went back (P14).
 */
export const isWritten = ({ cursor, options }: Reading, page: ObservedPage): boolean =>
  page.versions.length === page.received &&
  page.versions.every((version) => version <= (options.known?.[0] ?? cursor))

export function lookAtAnchor({ reading }: { readonly reading: Reading }, asked: Anchor): Move<'anchor'> {
  return {
    reading: { ...reading, state: { name: 'anchor', asked, looks: reading.anchorsTried } },
    effects: { isLeftOut: true },
  }
}

export const askFromAnchor = (reading: Reading, anchor: Anchor): Reading<'next-page'> =>
  nextPage(
    { ...reading, anchor, anchorsTried: reading.anchorsTried + 1 },
    { since: lowest(reading.cursor, anchor) },
  )

/** Goes on at the cursor, unless `asked` says otherwise. */
export const nextPage = (
  reading: Reading,
  asked: Partial<Omit<State<'next-page'>, 'name'>> = {},
): Reading<'next-page'> => ({
  ...reading,
  state: {
    name: 'next-page',
    since: reading.cursor,
    pageSize: reading.options.pageSize,
    below: null,
    ...asked,
  },
})

/** Goes on at the cursor, or below it if the anchor is there. */
export const nextPageWithAnchor = (reading: Reading): Reading<'next-page'> =>
  nextPage(reading, { since: lowest(reading.cursor, reading.anchor) })

/**
 * From where to ask for the newest records: just below a version that was read, so that the answer has to show that record too. A
 * record of the page before (`behind`) serves best, because it was there a moment ago.
 */
function newestSince({ cursor, anchor, options }: Reading, behind: ObservedPage | null): bigint {
  const isRead = (version: bigint) => version <= cursor
  const read =
    behind?.versions.toReversed().find(isRead) ??
    (behind ? options.known?.find(isRead) : anchor && isRead(anchor.version) ? anchor.version : null)
  return read === undefined || read === null ? cursor : read - 1n
}

export const askEnd = (reading: Reading, behind: ObservedPage | null, page = 1): Reading<'end'> => ({
  ...reading,
  state: { name: 'end', since: newestSince(reading, behind), page, behind },
})

/** The upstream refuses `Sorts`: nothing holds any more that was concluded from the order of its answers. */
export const sortsRefused = (reading: Reading, why: string): Move<'next-page'> => ({
  reading: nextPageWithAnchor({ ...reading, sorting: 'refused', unread: null }),
  effects: { detected: [detected('sorting', 'refused', why)] },
})

export const prove = (reading: Reading, since: bigint, answers: readonly SeenPage[]): Reading<'proof'> => ({
  ...reading,
  state: { name: 'proof', since, answers, page: 1 },
})

/** Begins at page 1 with the largest page size: perhaps one answer holds everything. */
export function inPasses(reading: Reading, since: bigint): Reading<'passes'> {
  const { maxPasses, largePageSize } = reading.options
  const begun = beginListing({ askedSize: largePageSize, maxPasses, ceiling: null })
  return { ...reading, state: { name: 'passes', since, listing: begun.listing, question: begun.step } }
}

/** Lists all rows of the version with which the page ends. Asked from `since` on, sorted pages begin with them. */
export function ofOneVersion(
  reading: Reading,
  { since, pageSize, last }: ObservedPage,
): Reading<'one-version'> {
  const begun = beginListing({ askedSize: pageSize, maxPasses: maxTiePasses, ceiling: last })
  return { ...reading, state: { name: 'one-version', since, listing: begun.listing, question: begun.step } }
}

/** The proof was wrong, so nothing holds that was concluded from it, by this run or by those before it. */
export function retract(reading: Reading, held: string): Move<'passes'> {
  return takeBack(reading, `a page sorted by row version held ${held}`)
}

export function takeBack(reading: Reading, evidence: string): Move<'passes'> {
  const before = beforeOrder(reading)
  return {
    reading: inPasses({ ...before, sorting: 'ignored' }, before.cursor),
    effects: { retreat: evidence, detected: [detected('sorting', 'ignored', evidence)] },
  }
}

/** Only small answers are whole, so nothing holds that was concluded from the order of larger ones. */
export const takeCutBack = (reading: Reading, evidence: string): Move<'next-page'> => ({
  reading: nextPage({ ...beforeOrder(reading), cutsBeforeSort: true }),
  effects: { retreat: evidence, detected: [detected('sorted_before_cut', 'no', evidence)] },
})

/** Back to where everything was read without relying on the order. */
function beforeOrder(reading: Reading): Reading {
  const { from, restsFrom = from } = reading.options
  return { ...reading, position: restsFrom, cursor: restsFrom, unread: null }
}

export const giveUp = (reading: Reading, note: string): Reading<'done'> => ({
  ...reading,
  state: { name: 'done', isComplete: false, note, isInconclusive: false },
})

export const neverShown = ({ cursor, highestServed }: Reading): string =>
  `pages above version ${cursor} were empty or short, although the upstream showed version ${highestServed}: perhaps the integration user may not see what is between. What is behind it is read, and the position waits`

export function finish(reading: Reading): Reading<'done'> {
  const { position, cursor, lacked } = reading
  if (position !== cursor) return giveUp(reading, whatWaits(reading))
  // The answers lacked a record that is there, so they show an older state, and nobody knows how old.
  if (lacked !== null) return giveUp(reading, oldState(lacked))
  return { ...reading, state: { name: 'done', isComplete: true, note: null, isInconclusive: false } }
}

const oldState = ({ key }: Anchor): string =>
  `record ${key} is there and was not served: what came is stored, and the stream does not count as current`

const whatWaits = ({ position }: Reading): string =>
  `pages above version ${position} showed nothing, or not all rows of one version: what came behind them is stored, and the position waits`

export const ask = (request: Ask['request'], traits: Partial<Ask> = {}): Ask => ({
  kind: 'ask',
  mayBeNothing: false,
  isOnlyLook: false,
  mayYield: false,
  ...traits,
  request,
})

export const sortsOf = (reading: Reading): SortOrder | null =>
  reading.sorting === 'refused' ? null : 'ascending'
