// What the reader of changes knows at any moment, the words in which it talks to the loop around it, and what it sees in an answer.
// Pure, and nothing is decided here: machine.ts alone says what comes next.

import type { Listing, ListingQuestion, SeenPage } from '../lists/listing.ts'
import type { ChangesRequest } from '../ports/source.ts'

export type Sorting = 'unknown' | 'proven' | 'ignored' | 'refused'

/** The highest living row that is read: every answer to what is at or above its version shows it (P11). */
export type Anchor = { readonly key: string; readonly version: bigint }

export type ReadingOptions = {
  /** Everything above this position is read. */
  readonly from: bigint
  /** Nothing above this version is wanted; null: to the end. */
  readonly until: bigint | null
  readonly pageSize: number
  readonly largePageSize: number
  readonly maxPasses: number
  readonly sorting: Sorting
  /** Most records that one answer was seen to hold: a shorter one was not cut by a cap. */
  readonly largestAnswer: number
  /** Null: nothing is known yet that an answer could show. */
  readonly anchor: Anchor | null
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

/** Of the records whose versions have as many digits as the last one of a page. */
export type DigitCount = {
  /** There are as many. */
  readonly shown: number
  /** And fewer than this; null: nobody knows yet. */
  readonly beyond: number | null
  readonly asked: { readonly isOfAll: boolean; readonly row: number }
  /** How far ahead to ask next while there are more. */
  readonly stride: number
  readonly questions: number
  /** When asked about all records, whatever their versions: there was none in this place, */
  readonly noneInAll: number | null
  /** and there was one in this. */
  readonly oneInAll: number | null
}

type ListingState = {
  readonly since: bigint
  readonly listing: Listing
  readonly question: ListingQuestion
}

/** Each state is a question that waits for its answer; the last two are ends. */
type StateData = {
  /** Page 1 of what is above the cursor; key-set reading when sorting is proven. */
  readonly ahead: { readonly since: bigint; readonly pageSize: number }
  /** Page 1 held nothing but what cannot be a row. Is there anything behind it? */
  readonly behind: { readonly page: ObservedPage }
  readonly proof: { readonly since: bigint; readonly answers: readonly SeenPage[] }
  /** Are numbers sorted as text? The count is null while only the end is looked at. */
  readonly text: { readonly page: ObservedPage; readonly count: DigitCount | null }
  /** Is there anything behind this page? */
  readonly tail: { readonly page: ObservedPage }
  /** There is; how far does it go now? */
  readonly goal: { readonly page: ObservedPage }
  /** Everything above `since`, in passes. */
  readonly scan: ListingState
  /** All rows of one version, in passes. */
  readonly tie: ListingState
  /** An answer lacked the anchor. What does the record itself say? */
  readonly anchor: { readonly asked: Anchor; readonly looks: number }
  readonly done: {
    readonly isComplete: boolean
    readonly note: string | null
    /** Nothing that is known was shown, so nothing was proven. */
    readonly isInconclusive: boolean
  }
  readonly broken: { readonly what: string }
}
export type StateName = keyof StateData
export type State<Name extends StateName = StateName> = {
  [Each in Name]: { readonly name: Each } & StateData[Each]
}[Name]

export type Reading<Name extends StateName = StateName> = {
  readonly options: ReadingOptions
  /** Certain: everything up to here is read, and may be committed with the answer that showed it. */
  readonly position: bigint
  /** Where the reading goes on. Ahead of the position after a version whose rows could not be proven complete. */
  readonly cursor: bigint
  readonly sorting: Sorting
  readonly largestAnswer: number
  readonly highestServed: bigint | null
  /** The highest version there was at some moment of this reading: everything through it is enough. */
  readonly goal: bigint | null
  /** What the answers have yet to show; null: they did, or there is nothing known. */
  readonly anchor: Anchor | null
  /** How many anchors were gone, or how often one was asked for again. */
  readonly anchorsTried: number
  /** A known record that was not shown although it is there, or may be; others were. */
  readonly lacked: Anchor | null
  readonly state: State<Name>
}

// ── what goes in and out ─────────────────────────────────────────────────────────────────────────────────────

export type Event =
  | { readonly kind: 'answer'; readonly page: SeenPage }
  /** The upstream refused the request because of its `Sorts`. */
  | { readonly kind: 'refused'; readonly status: number }
  /** So many keys were seen both by the end of a pass and again after it. */
  | { readonly kind: 'count'; readonly keys: number }
  /** What the record of the anchor said of itself, and which is the next highest row, where it is gone. */
  | { readonly kind: 'looked'; readonly found: bigint | 'gone' | 'unclear'; readonly next: Anchor | null }

export type Ask = {
  readonly kind: 'ask'
  readonly request: ChangesRequest
  /** A poll may be answered with nothing, the next one asks again. Anywhere else that would look like the end. */
  readonly mayBeNothing: boolean
  /** What the answer holds is only looked at: it comes again in its turn. */
  readonly isOnlyLook: boolean
  /** Nothing is lost when the reading ends before this question. */
  readonly mayYield: boolean
}
export type Action =
  | Ask
  | { readonly kind: 'count'; readonly around: number }
  | { readonly kind: 'look'; readonly anchor: Anchor }
  | {
      readonly kind: 'end'
      readonly isComplete: boolean
      readonly note: string | null
      readonly isInconclusive: boolean
    }
  /** The upstream broke the contract of `neworchanged`; asking again would not help. */
  | { readonly kind: 'breach'; readonly what: string }

export type Learnt = { readonly name: string; readonly value: string; readonly evidence: string }

export type Effects = {
  /** Remember these keys of the answer as seen on this page. */
  readonly seen: { readonly pageNumber: number; readonly keys: readonly string[] } | null
  /** The position returns to where the reading began, for this reason. */
  readonly retreat: string | null
  readonly learnt: readonly Learnt[]
  /** Nothing of the answer is written: it lacked what is known, or showed nothing else. */
  readonly isLeftOut: boolean
}

export type Transition = {
  readonly reading: Reading
  /** Of the rule that was taken; null at the start. */
  readonly rule: string | null
  readonly action: Action
  readonly effects: Effects
}

// ── what is seen ─────────────────────────────────────────────────────────────────────────────────────────────

/** What any answer shows, whatever was asked. */
export const sawAny = (reading: Reading, page: SeenPage): Reading => ({
  ...reading,
  largestAnswer: Math.max(reading.largestAnswer, page.received),
  highestServed: highest(versionsOf(page), reading.highestServed),
  anchor: shows(page, reading.anchor) ? null : reading.anchor,
})

const shows = (page: SeenPage, anchor: Anchor | null): boolean =>
  anchor !== null &&
  page.rows.some(({ key, version }) => key === anchor.key && version !== null && version >= anchor.version)

/** After `sawAny`. */
export function observe({ state, cursor, largestAnswer }: Reading<'ahead'>, page: SeenPage): ObservedPage {
  const { since, pageSize } = state
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

/** All versions of an answer have to be at or above this; null where it was asked for what has been read. */
export function leastToServe(state: State): bigint | null {
  if (state.name === 'proof' || state.name === 'anchor' || state.name === 'done' || state.name === 'broken')
    return null
  return 'page' in state ? state.page.since : state.since
}

/** Moves on; the position with it, unless it waits behind something uncertain. */
export function advance(reading: Reading, to: bigint): Reading {
  const isCertain = reading.position === reading.cursor
  return { ...reading, cursor: to, position: isCertain ? to : reading.position }
}

/** All that was asked for or seen is read. */
export const mayBeAtEnd = ({ options, cursor, highestServed }: Reading): boolean =>
  cursor >= (options.until ?? highestServed ?? cursor)

// ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────

export const versionsOf = (page: SeenPage): readonly bigint[] =>
  page.rows.flatMap(({ version }) => version ?? [])

export function highest<Known extends bigint | null>(
  versions: readonly bigint[],
  known: Known,
): bigint | Known {
  return versions.reduce<bigint | Known>(
    (most, version) => (most === null || version > most ? version : most),
    known,
  )
}

export function isAscending(versions: readonly bigint[]): boolean {
  return versions.every((version, index) => index === 0 || version >= (versions[index - 1] ?? version))
}

/** What is wrong with the order of a page that was sorted. */
export function outOfOrder(versions: readonly bigint[]): string {
  const at = versions.findIndex((version, index) => index > 0 && version < (versions[index - 1] ?? version))
  return at < 0 ? 'no row version at all' : `${versions[at]} behind ${versions[at - 1]}`
}
