// The state of one reading of a changes stream, and the words in which decisions about it are told.

import type { Listing, SeenPage } from '../lists/listing.ts'
import type { ChangesRequest } from '../ports/source.ts'

export type Sorting = 'unknown' | 'proven' | 'ignored' | 'refused'

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
}

/** A page of key-set reading that showed something new. */
export type SortedPage = SeenPage & {
  readonly since: bigint
  readonly pageSize: number
  readonly last: bigint
  readonly isOneVersion: boolean
}

/** Of the records whose versions have as many digits as the last one of a page. */
export type Count = {
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

export type Phase =
  /** Page 1 of what lies above the position; key-set reading when sorting is proven. */
  | { readonly name: 'ahead'; readonly since: bigint; readonly pageSize: number }
  /** Page 1 held nothing but what cannot be a row. Is there anything behind it? */
  | {
      readonly name: 'behind'
      readonly since: bigint
      readonly pageSize: number
      readonly page: SeenPage
    }
  | { readonly name: 'proof'; readonly since: bigint; readonly answers: readonly SeenPage[] }
  /** Are numbers sorted as text? */
  | { readonly name: 'text'; readonly page: SortedPage; readonly count: Count | null }
  /** Is there anything behind this page? */
  | { readonly name: 'tail'; readonly page: SortedPage }
  /** There is; how far does it go now? */
  | { readonly name: 'goal'; readonly page: SortedPage }
  | { readonly name: 'listing'; readonly since: bigint; readonly listing: Listing }
  | { readonly name: 'ended' }

export type Reading = {
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
  readonly phase: Phase
}

export type Step =
  | {
      readonly kind: 'ask'
      readonly request: ChangesRequest
      /** A poll may be answered with nothing, the next one asks again. Anywhere else that would look like the end. */
      readonly mayBeNothing: boolean
    }
  | { readonly kind: 'count'; readonly around: number }
  | { readonly kind: 'end'; readonly isComplete: boolean; readonly note: string | null }
  /** The upstream broke the contract of `neworchanged`; asking again would not help. */
  | { readonly kind: 'breach'; readonly what: string }

export type Learnt = { readonly name: string; readonly value: string; readonly evidence: string }

export type Decision = {
  readonly reading: Reading
  readonly step: Step
  /** Remember these keys of the answer as seen on this page. */
  readonly seen: { readonly pageNumber: number; readonly keys: readonly string[] } | null
  readonly retreat: string | null
  readonly learnt: readonly Learnt[]
}

/** Moves on; the position with it, unless it waits behind something uncertain. */
export function advance(reading: Reading, to: bigint): Reading {
  const isCertain = reading.position === reading.cursor
  return { ...reading, cursor: to, position: isCertain ? to : reading.position }
}

export function lookAhead(
  reading: Reading,
  since = reading.cursor,
  pageSize = reading.options.pageSize,
): Decision {
  return ask(
    { ...reading, phase: { name: 'ahead', since, pageSize } },
    { since, page: 1, pageSize, sorts: sortsOf(reading) },
    mayBeAtEnd(reading),
  )
}

/** All that was asked for or seen is read. */
export const mayBeAtEnd = ({ options, cursor, highestServed }: Reading): boolean =>
  cursor >= (options.until ?? highestServed ?? cursor)

export const ask = (reading: Reading, request: ChangesRequest, mayBeNothing = false): Decision =>
  decide(reading, { kind: 'ask', request, mayBeNothing })

export function end(reading: Reading, note: string | null = null): Decision {
  const isComplete = reading.position === reading.cursor
  const told = isComplete
    ? note
    : `the rows of one version could not be proven complete: the position waits at ${reading.position}`
  return decide({ ...reading, phase: { name: 'ended' } }, { kind: 'end', isComplete, note: told })
}

export const decide = (reading: Reading, step: Step): Decision => ({
  reading,
  step,
  seen: null,
  retreat: null,
  learnt: [],
})

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

export const sortsOf = (reading: Reading) => (reading.sorting === 'refused' ? null : 'RowVersion')
