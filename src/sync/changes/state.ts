// What the reader of changes knows at any moment, the words in which it talks to the loop around it, and what it sees in an answer.
// Pure, and nothing is decided here: the rules in states/ alone say what comes next.

import type { Detected, Sorting } from '../capabilities.ts'
import type { Listing, ListingQuestion, SeenPage } from '../lists/listing.ts'
import type { ChangesRequest } from '../ports/source.ts'
import type { Unread } from '../ports/store.ts'
import { highest } from '../versions.ts'

/** The highest row whose record the upstream still serves, perhaps marked as deleted. An answer from its version on has to show it (P11). */
export type Anchor = { readonly key: string; readonly version: bigint }

export type ReadingOptions = {
  /** Everything above this position is read. */
  readonly from: bigint
  /** Up to here everything was read without relying on the order; left out: up to `from`. */
  readonly restsFrom?: bigint
  /** Nothing above this version is wanted; null: to the end. */
  readonly until: bigint | null
  readonly pageSize: number
  readonly largePageSize: number
  readonly maxPasses: number
  readonly sorting: Sorting
  /** The most records that one answer has held: a shorter one was not cut by a cap. */
  readonly largestAnswer: number
  /** Null: no row is known yet that an answer has to show. */
  readonly anchor: Anchor | null
  /** Versions of the rows that can serve as the anchor, the highest first. */
  readonly known?: readonly bigint[]
  /** Rows above `from` are stored: a look-back has brought them, or somebody else. */
  readonly hasAbove?: boolean
  /** The upstream cuts answers before it sorts them: only a small one is whole. */
  readonly cutsBeforeSort?: boolean
  /** An answer of this upstream was seen to keep to the size that was asked for. */
  readonly keepsPageSize?: boolean
  /** Left out: all is read from below, one page after the other. */
  readonly load?: LoadOptions
}

/** When much is to be read, ranges of versions are read side by side. */
export type LoadOptions = {
  /** This many at a time. */
  readonly readers: number
  /** With fewer pages to read it is not worth it. */
  readonly leastPages: number
  /** What an earlier run that read in ranges has left. */
  readonly unread: Unread | null
}

// ── states ───────────────────────────────────────────────────────────────────────────────────────────────────

/** An answer to "what is above?", and what can be seen in it however it is sorted. */
export type ObservedPage = SeenPage & {
  readonly since: bigint
  readonly pageSize: number
  readonly versions: readonly bigint[]
  /** The highest version; the cursor where nothing is above it. */
  readonly last: bigint
  readonly isNew: boolean
  /** Above the cursor it holds no other version than the last. */
  readonly isOneVersion: boolean
  /** It holds what is at or below the cursor. */
  readonly hasOld: boolean
  readonly isTooLong: boolean
  /** A short answer may still have been cut by a cap, unless a longer one was seen. */
  readonly isPerhapsCut: boolean
}

type RecheckState = {
  readonly within: ObservedPage
  readonly middle: bigint
  /** Rows that were shown from the middle on, and not by the page. */
  readonly lacked: SeenPage['rows']
  readonly question: 'from the middle' | 'the page again' | 'from the middle again'
}

type ListingState = {
  readonly since: bigint
  readonly listing: Listing
  readonly question: ListingQuestion
}

/** Each state is a question that waits for its answer; the last two are ends. */
type StateData = {
  /** Page 1 of what is above the cursor; key-set reading when sorting is proven. */
  readonly 'next-page': {
    readonly since: bigint
    readonly pageSize: number
    /** Only what is below it; null: everything. */
    readonly below: bigint | null
    /** Probably the newest record is above, and nothing else. */
    readonly isPerhapsLast?: boolean
  }
  readonly proof: {
    readonly since: bigint
    readonly answers: readonly SeenPage[]
    /** The page number of the question that waits; more than 1 when records at an end seem to be hidden. */
    readonly page: number
  }
  /** Are numbers sorted as text? */
  readonly 'longer-versions': { readonly page: ObservedPage }
  /** Which records are the newest, and do they reach down to what is read (P12)? */
  readonly end: {
    readonly since: bigint
    /** More than 1 when pages showed nothing: the user may not see the newest records. */
    readonly page: number
    /** The page that seemed to be the last; null where a poll begins. */
    readonly behind: ObservedPage | null
  }
  /** Asked from the middle of this page, does the upstream show rows that the page lacked? */
  readonly 'recheck-page': RecheckState
  /** Ranges of versions, side by side. `density`: rows per version, as far as is known. */
  readonly ranges: { readonly unread: Unread; readonly density: number }
  /** Everything above `since`, in passes. */
  readonly passes: ListingState
  /** All rows of one version, in passes. */
  readonly 'one-version': ListingState
  /** An answer lacked the anchor. What does the record itself say? */
  readonly anchor: { readonly asked: Anchor; readonly looks: number }
  readonly done: {
    readonly isComplete: boolean
    readonly note: string | null
    /** No known record was shown, so nothing was proven. */
    readonly isInconclusive: boolean
  }
  readonly broken: { readonly what: string }
}
export type StateName = keyof StateData
export type State<Name extends StateName = StateName> = {
  [Each in Name]: { readonly name: Each } & StateData[Each]
}[Name]

export const newReading = (options: ReadingOptions) => ({
  options,
  /** Certain: everything up to here is read, and may be committed with the answer that showed it. */
  position: options.from,
  /** Where the reading goes on. Ahead of the position behind anything that could not be proven complete. */
  cursor: options.from,
  sorting: options.sorting,
  largestAnswer: options.largestAnswer,
  highestServed: null as bigint | null,
  /** The highest version there was at some moment of this reading. It is enough to read up to it: the next run reads what came later. */
  goal: null as bigint | null,
  /** The known record that answers have yet to show; null: they did, or none is known. */
  anchor: options.anchor,
  /** How many anchors were gone, or how often one was asked for again. */
  anchorsTried: 0,
  /** The upstream cuts answers before it sorts them. */
  cutsBeforeSort: options.cutsBeforeSort ?? false,
  /** A page came in an order that only numbers have, not texts. */
  sortsNumbers: false,
  /** Some rows share one version. */
  sharesVersions: false,
  /** How many full pages came. */
  fullPages: 0,
  /** How many times in a row it went on although an answer showed nothing new. */
  blindSteps: 0,
  /** A known record that was not shown although it is there, or may be. Another one became the anchor in its place. */
  lacked: null as Anchor | null,
  /** What is left of a reading in ranges. It goes on when everything up to `rangesAfter` has been read from below. */
  unread: options.load?.unread ?? null,
  rangesAfter: options.from,
})
/** An interface, so that a reading in one state is known to be a reading. */
export interface Reading<Name extends StateName = StateName> extends Readonly<ReturnType<typeof newReading>> {
  readonly state: State<Name>
}

// ── what goes in and out ─────────────────────────────────────────────────────────────────────────────────────

export type Event =
  | { readonly kind: 'answer'; readonly page: SeenPage }
  /** The upstream refused the request because of its `Sorts`. */
  | { readonly kind: 'refused'; readonly status: number; readonly why?: string }
  /** How many keys were seen both by the end of a pass and again after it. */
  | { readonly kind: 'count'; readonly keys: number }
  /** What a look at the record of the anchor showed, and which row could be the anchor instead. */
  | { readonly kind: 'looked'; readonly found: bigint | 'gone' | 'unclear'; readonly next: Anchor | null }
  /** What reading in ranges came to. */
  | RangesEnd

export type RangesEnd = {
  readonly kind: 'ranges'
  readonly unread: Unread
  /** Why the ranges were given up: the order that they rely on does not hold, or `Sorts` was refused. Null: they were not. */
  readonly fell: { readonly how: 'out of order' | 'cut' | 'refused'; readonly why: string } | null
  /** The highest version that came, where some rows share versions; left out: none do. */
  readonly tied?: bigint
}

export type Ask = {
  readonly kind: 'ask'
  readonly request: ChangesRequest
  /** Whether an empty answer is believed at once. A poll asks again soon; anywhere else it is asked for twice, as it would mean the end. */
  readonly mayBeNothing: boolean
  /** The records of the answer are not written: they come again with a later question. */
  readonly isOnlyLook: boolean
  /** Nothing is lost when the reading ends before this question. */
  readonly mayYield: boolean
  /** The questions that follow unless the answer is an odd one: they are sent at once. */
  readonly beside?: readonly Ask[]
}
export type Action =
  | Ask
  | { readonly kind: 'count'; readonly around: number }
  | { readonly kind: 'look'; readonly anchor: Anchor }
  | { readonly kind: 'ranges'; readonly unread: Unread; readonly density: number }
  | {
      readonly kind: 'end'
      readonly isComplete: boolean
      readonly note: string | null
      readonly isInconclusive: boolean
    }
  /** The upstream broke the contract of `neworchanged`; asking again would not help. */
  | { readonly kind: 'breach'; readonly what: string }

export type Effects = {
  /** Remember these keys of the answer as seen on this page. */
  readonly seen: { readonly pageNumber: number; readonly keys: readonly string[] } | null
  /** The position returns to that of the reading, because the order that it relied on does not hold. The reason, in words. */
  readonly retreat: string | null
  readonly detected: readonly Detected[]
  /** Nothing of the answer is written: it lacked a known record, or held only what is stored already. */
  readonly isLeftOut: boolean
  /** The answer is put aside, and judged when the same question comes again. */
  readonly isKept: boolean
}

export type Transition = {
  readonly reading: Reading
  /** The name of the rule that was taken; null at the start. */
  readonly rule: string | null
  readonly action: Action
  readonly effects: Effects
}

// ── what is seen ─────────────────────────────────────────────────────────────────────────────────────────────

/** What any answer shows, whatever was asked. */
export function sawAny(reading: Reading, page: SeenPage): Reading {
  const versions = versionsOf(page)
  return {
    ...reading,
    largestAnswer: Math.max(reading.largestAnswer, page.received),
    highestServed: highest(versions, reading.highestServed),
    anchor: shows(page, reading.anchor) ? null : reading.anchor,
    sharesVersions: reading.sharesVersions || sharesVersions(versions),
  }
}

const sharesVersions = (versions: readonly bigint[]): boolean => {
  const areRising = versions.every(
    (version, index) => index === 0 || version > (versions[index - 1] ?? version),
  )
  return !areRising && new Set(versions).size < versions.length
}

const shows = (page: SeenPage, anchor: Anchor | null): boolean =>
  anchor !== null &&
  page.rows.some(({ key, version }) => key === anchor.key && version !== null && version >= anchor.version)

type SeenRow = SeenPage['rows'][number]

export const isSameRow = (one: SeenRow, other: SeenRow): boolean =>
  one.key === other.key && one.version === other.version

export const holds = (page: SeenPage, row: SeenRow): boolean =>
  page.rows.some((other) => isSameRow(row, other))

/** Call it after `sawAny`, whose `largestAnswer` it uses. */
export function observe(
  { cursor, largestAnswer }: Reading,
  { since, pageSize }: { readonly since: bigint; readonly pageSize: number },
  page: SeenPage,
): ObservedPage {
  const versions = versionsOf(page)
  const last = highest(versions, cursor)
  return {
    ...page,
    since,
    pageSize,
    versions,
    last,
    isNew: last > cursor,
    isOneVersion: versions.every((version) => version <= cursor || version === last),
    hasOld: versions.some((version) => version <= cursor),
    isTooLong: page.received > pageSize,
    isPerhapsCut: page.received >= pageSize || page.received >= largestAnswer,
  }
}

/** All versions of an answer have to be at or above this one, or the upstream broke its contract; null: nothing to check. */
export function leastToServe(state: State): bigint | null {
  if (state.name === 'recheck-page')
    return state.question === 'the page again' ? state.within.since : state.middle
  if (state.name === 'end') return state.since
  if ('page' in state && typeof state.page === 'object') return state.page.since
  return 'since' in state && state.name !== 'proof' ? state.since : null
}

/** Moves the cursor. The position moves with it, unless it waits behind something uncertain. */
export function advance(reading: Reading, to: bigint): Reading {
  const isCertain = reading.position === reading.cursor
  return { ...reading, cursor: to, position: isCertain ? to : reading.position }
}

/** All that was asked for or seen is read. */
export const mayBeAtEnd = ({ options, cursor, highestServed }: Reading): boolean =>
  cursor >= (options.until ?? highestServed ?? cursor)

// ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────

export function versionsOf(page: SeenPage): readonly bigint[] {
  const known = versionsOfPages.get(page)
  if (known) return known
  const versions: bigint[] = []
  for (const { version } of page.rows) if (version !== null) versions.push(version)
  versionsOfPages.set(page, versions)
  return versions
}

/** Many rules ask for them, and a page is long. */
const versionsOfPages = new WeakMap<SeenPage, readonly bigint[]>()
