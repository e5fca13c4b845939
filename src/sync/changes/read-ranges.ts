// Reads what is above the position in ranges of versions, side by side: each reader walks through the states of machine.ts for its
// range, and takes over a part of another range when it is done. All readers commit in one order, so that the position and the unread
// ranges that a commit stores tell of everything written before it (P1, P6).

import { isDeepStrictEqual } from 'node:util'
import type { Records } from '../../streams/record.ts'
import type { Room } from '../../util/room.ts'
import type { Unread, VersionRange } from '../ports/store.ts'
import { type Fetched, nothing } from './asking.ts'
import { next, start } from './machine.ts'
import {
  cut,
  densityOf,
  partsFor,
  type Range,
  rangeOf,
  readThrough,
  shareRead,
  splitOf,
  splitRange,
  unreadOf,
} from './ranges.ts'
import {
  type Action,
  type Ask,
  type Event,
  type RangesEnd,
  type Reading,
  type Transition,
  versionsOf,
} from './state.ts'

/** How far all readers are, together. */
export type RangesProgress = {
  readonly position: bigint
  readonly unread: Unread
  /** How much is read of the versions that were left when this reading began. */
  readonly share: number
}

export type RangesContext = {
  readonly readers: number
  /** Memory for answers that were asked for and are not written yet, shared with the ranges of other streams. */
  readonly room: Room
  /** The length of the largest answer so far. */
  readonly largestBytes: number
  readonly fetch: (ask: Ask, signal: AbortSignal) => Promise<Fetched>
  /** Resolves when the write has begun. It calls `progress` in that moment, and `onDone` when the write is over. */
  readonly write: (page: RangePage) => Promise<void>
  readonly countAround: (page: number) => Promise<number>
  readonly breach: (what: string) => Error
  readonly shouldYield: () => boolean
  /** Called once, when a reader finds nothing to do: the last pages are on their way. */
  readonly onIdle?: () => void
  /** For ranges that are begun on suspicion: answers are looked at when this resolves, and never if it rejects. Left out: at once. */
  readonly whenCertain?: Promise<void>
  readonly signal: AbortSignal
}
export type RangePage = {
  readonly records: Records
  readonly seen: Transition['effects']['seen']
  readonly progress: () => RangesProgress
  readonly onDone: () => void
}

export type RangesOutcome = { readonly end: RangesEnd; readonly hasYielded: boolean }

type Reader = { range: Range; transition: Transition }
type Shared = {
  readonly context: RangesContext
  readonly base: Reading
  readonly unread: Unread
  readonly density: number
  /** The lowest first, also those that are done. */
  readonly readers: Reader[]
  /** Not begun yet. */
  readonly waiting: Reader[]
  readonly alone: Alone
  readonly stop: AbortController
  largestBytes: number
  pageRows: number
  fullPages: number
  fell: RangesEnd['fell']
  hasYielded: boolean
  wasIdle: boolean
  failure: { readonly error: unknown } | null
  /** Resolves when an idle reader may find something to do. */
  news: PromiseWithResolvers<void>
}

type ReadRanges = Extract<Action, { kind: 'ranges' }>

export type Ranges = {
  /** Begins to ask before it is certain that these ranges are to be read. */
  begin(base: Reading, action: ReadRanges): void
  read(base: Reading, action: ReadRanges): Promise<RangesOutcome>
  /** Drops what was begun and is not to be read. */
  leave(): void
}

export function openRanges(contextOf: (base: Reading) => RangesContext): Ranges {
  let begun: {
    readonly action: ReadRanges
    readonly certainty: PromiseWithResolvers<void>
    readonly outcome: Promise<RangesOutcome>
  } | null = null
  const leave = () => {
    begun?.certainty.reject(new Error('these ranges are not to be read'))
    begun = null
  }
  return {
    begin(base, action) {
      const certainty = Promise.withResolvers<void>()
      const outcome = readInRanges({ ...contextOf(base), whenCertain: certainty.promise }, base, action)
      // `read` reports a failure. Until then it must not count as an unhandled rejection.
      outcome.catch(() => {})
      begun = { action, certainty, outcome }
    },
    async read(base, action) {
      if (!isDeepStrictEqual(begun?.action, action)) leave()
      const outcome = begun?.outcome ?? readInRanges(contextOf(base), base, action)
      begun?.certainty.resolve()
      begun = null
      return await outcome
    },
    leave,
  }
}

export async function readInRanges(
  context: RangesContext,
  base: Reading,
  { unread, density }: Pick<ReadRanges, 'unread' | 'density'>,
): Promise<RangesOutcome> {
  const pageRows = Math.max(1, base.largestAnswer)
  const parts = Math.min(context.readers, partsFor(unread, { pageRows, density }))
  const readers = cut(unread.ranges, parts).map((range) => openReader(base, rangeOf(range)))
  const shared: Shared = {
    ...{ context, base, unread, density, readers, pageRows },
    waiting: [...readers],
    largestBytes: context.largestBytes,
    alone: openTurns(),
    stop: new AbortController(),
    fullPages: base.fullPages,
    fell: null,
    hasYielded: false,
    wasIdle: false,
    failure: null,
    news: Promise.withResolvers(),
  }
  context.whenCertain?.catch((error) => fail(shared, error))
  const reading = Array.from({ length: context.readers }, () =>
    readOn(shared).catch((error) => fail(shared, error)),
  )
  await Promise.all(reading)
  if (shared.failure) throw shared.failure.error
  const left = unreadOf(rangesOf(shared), unread.upTo)
  return { end: { kind: 'ranges', unread: left, fell: shared.fell }, hasYielded: shared.hasYielded }
}

function openReader(base: Reading, range: Range): Reader {
  const { sorting, largestAnswer } = base
  const { load, ...options } = base.options
  const { above: from, upTo: until } = range
  return { range, transition: start({ ...options, from, until, sorting, largestAnswer, anchor: null }) }
}

const rangesOf = ({ readers }: Shared): readonly Range[] => readers.map(({ range }) => range)

const isStopped = ({ fell, hasYielded, failure }: Shared): boolean =>
  fell !== null || hasYielded || failure !== null

/** Keeps the first failure. The other readers are aborted because of it, and their errors do not count. */
function fail(shared: Shared, error: unknown): void {
  if (!shared.fell) shared.failure ??= { error }
  leaveOff(shared)
}

/** Ends all readers, without waiting for the answers they have asked for. */
function leaveOff(shared: Shared): void {
  shared.stop.abort(new Error('another reader of these ranges ended their reading'))
  tellNews(shared)
}

function tellNews(shared: Shared): void {
  shared.news.resolve()
  shared.news = Promise.withResolvers()
}

// ── one reader ───────────────────────────────────────────────────────────────────────────────────────────────

async function readOn(shared: Shared): Promise<void> {
  while (!isStopped(shared)) {
    const mine = shared.waiting.shift() ?? takeOver(shared)
    if (mine) await readRange(shared, mine)
    else if (shared.readers.every(({ range }) => range.isOver)) return
    else {
      beIdle(shared)
      // Another reader may still find that so much is left in its range that a part can be taken over.
      await shared.news.promise
    }
  }
}

function beIdle(shared: Shared): void {
  // A reader that is in the middle of something may still find much behind it.
  if (shared.wasIdle || rangesOf(shared).some(({ isWhole, isOver }) => isWhole && !isOver)) return
  shared.wasIdle = true
  shared.context.onIdle?.()
}

function takeOver(shared: Shared): Reader | null {
  const { readers, base } = shared
  const split = splitOf(rangesOf(shared), shared)
  const owner = split && readers[split.index]
  if (!split || !owner) return null
  const [lower, upper] = splitRange(owner.range, split.at)
  const { reading } = owner.transition
  owner.range = lower
  // The owner may be waiting for a page. What that page shows above the new end is left to the new reader.
  owner.transition = {
    ...owner.transition,
    reading: { ...reading, options: { ...reading.options, until: lower.upTo } },
  }
  const mine = openReader(base, upper)
  readers.splice(split.index + 1, 0, mine)
  return mine
}

async function readRange(shared: Shared, mine: Reader): Promise<void> {
  const isTie = () => mine.transition.reading.state.name === 'one-version'
  const takeSteps = async (areThese: boolean) => {
    while (isTie() === areThese && !isStopped(shared) && !mine.range.isOver) {
      await takeStep(shared, mine)
      tellNews(shared)
    }
  }
  while (!isStopped(shared) && !mine.range.isOver) {
    await takeSteps(false)
    // One reader at a time: a run can remember the keys of only one listing.
    if (isTie()) await shared.alone(() => takeSteps(true))
  }
}

async function takeStep(shared: Shared, mine: Reader): Promise<void> {
  const { context } = shared
  const { action } = mine.transition
  switch (action.kind) {
    case 'ask':
      return await ask(shared, mine, action)
    case 'count': {
      const keys = await context.countAround(action.around)
      await see(shared, mine, { event: { kind: 'count', keys }, records: nothing, onDone() {} })
      return
    }
    case 'breach':
      throw context.breach(action.what)
    default:
      throw new Error(`A range was to ${action.kind}`)
  }
}

async function ask(shared: Shared, mine: Reader, asked: Ask): Promise<void> {
  const { context, stop } = shared
  const signal = AbortSignal.any([context.signal, stop.signal])
  // How long the answer will be is unknown: take room for the longest so far.
  const place = await context.room.take(shared.largestBytes, signal)
  let isWritten = false
  try {
    if (isStopped(shared)) return
    if (asked.mayYield && context.shouldYield()) {
      shared.hasYielded = true
      return
    }
    const { event, records, bytes } = await context.fetch(asked, signal)
    place.holds(bytes)
    shared.largestBytes = Math.max(shared.largestBytes, bytes)
    await context.whenCertain
    if (shared.fell || shared.failure) return
    isWritten = await see(shared, mine, { event, records, onDone: place.leave })
  } finally {
    if (!isWritten) place.leave()
  }
}

type Seen = { readonly event: Event; readonly records: Records; readonly onDone: () => void }

/** Returns whether the records are being written. */
async function see(shared: Shared, mine: Reader, { event, records, onDone }: Seen): Promise<boolean> {
  const before = mine.transition.reading
  // Full pages are counted over all ranges, so that pages are looked at from inside as often as in a single reading.
  const transition = next({ ...before, fullPages: shared.fullPages }, event)
  const { reading, action, effects } = transition
  shared.fullPages = reading.fullPages
  shared.fell ??= whatFell(transition, event)
  if (shared.fell) {
    leaveOff(shared)
    return false
  }
  mine.transition = transition
  if (event.kind === 'answer') shared.pageRows = Math.max(shared.pageRows, event.page.received)
  mine.range = {
    ...mine.range,
    cursor: reading.cursor,
    density: (event.kind === 'answer' ? densityOf(versionsOf(event.page)) : null) ?? mine.range.density,
    isWhole: reading.state.name !== 'next-page',
    // A scan would not stop at the end of the range, so the range is given up.
    isOver: action.kind === 'end' || reading.state.name === 'passes',
  }
  const progress = (): RangesProgress => {
    mine.range = { ...mine.range, written: reading.position }
    return progressOf(shared)
  }
  await shared.context.write({
    records: ownRecords(records, mine.range, reading),
    seen: effects.seen,
    progress,
    onDone,
  })
  return true
}

function whatFell({ reading, effects: { retreat } }: Transition, event: Event): RangesEnd['fell'] {
  if (retreat !== null) return { how: reading.cutsBeforeSort ? 'cut' : 'out of order', why: retreat }
  if (event.kind !== 'refused') return null
  return { how: 'refused', why: event.why ?? `status ${event.status}` }
}

function progressOf(shared: Shared): RangesProgress {
  const { unread } = shared
  const left = unreadOf(rangesOf(shared), unread.upTo)
  return { position: readThrough(left), unread: left, share: shareRead(left, unread) }
}

/** The records that are to be written: those of this range alone, without those that the next question shows again. */
function ownRecords(
  { rows, ...others }: Records,
  { above, upTo }: VersionRange,
  { state }: Reading,
): Records {
  const comesAgain =
    state.name === 'next-page' ? state.since : state.name === 'recheck-page' ? state.within.last - 1n : upTo
  const last = comesAgain < upTo ? comesAgain : upTo
  return {
    ...others,
    rows: rows.filter(({ version }) => version === null || (version > above && version <= last)),
  }
}

type Alone = (work: () => Promise<void>) => Promise<void>

/** One at a time, in the order in which they came. */
function openTurns(): Alone {
  let last: Promise<void> = Promise.resolve()
  return (work) => {
    const mine = last.then(work)
    last = mine.catch(() => {})
    return mine
  }
}
