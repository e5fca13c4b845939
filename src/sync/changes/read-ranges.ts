// Reads what is above the position in ranges of versions, side by side: each reader walks through the states of machine.ts for its
// range, and looks for a part of another range when it has none. All readers commit in one order, so that the position and the unread
// ranges that a commit stores tell of everything written before it (P1, P6).

import type { Records } from '../../streams/record.ts'
import type { Room } from '../../util/room.ts'
import { openTurns } from '../../util/turns.ts'
import type { Unread, VersionRange } from '../ports/store.ts'
import { highest, provesNumbers } from '../versions.ts'
import { type Fetched, nothing } from './asking.ts'
import { lookUpBorders } from './look-up-borders.ts'
import { next, start } from './machine.ts'
import {
  type Border,
  bordersByDensity,
  isMiscounted,
  type Plan,
  planOf,
  type Range,
  rangeOf,
  readThrough,
  sawRows,
  shareRead,
  splitRange,
  uncounted,
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

type ReadRanges = Omit<Extract<Action, { kind: 'ranges' }>, 'kind'>
type Reader = { range: Range; transition: Transition }
type Shared = ReturnType<typeof openShared>

const openShared = (context: RangesContext, base: Reading, { unread, density }: ReadRanges) => {
  const readers = unread.ranges.map((range) => openReader(base, rangeOf(range)))
  return {
    context,
    base,
    unread,
    density,
    /** The lowest first, also those that are done. */
    readers,
    /** Not begun yet. */
    waiting: [...readers],
    /** How many readers read a range, or look up where one can be split. */
    busy: 0,
    /** The version of a rank can be looked up. */
    hasRanks: true,
    /** A page came in an order that only numbers have, not texts. */
    sortsNumbers: base.sortsNumbers,
    largestBytes: context.largestBytes,
    pageRows: Math.max(1, base.largestAnswer),
    fullPages: base.fullPages,
    alone: openTurns(),
    stop: new AbortController(),
    fell: null as RangesEnd['fell'],
    hasYielded: false,
    wasIdle: false,
    failure: null as { readonly error: unknown } | null,
    /** Resolves when an idle reader may find something to do. */
    news: Promise.withResolvers<void>(),
  }
}

export async function readInRanges(
  context: RangesContext,
  base: Reading,
  action: ReadRanges,
): Promise<RangesOutcome> {
  const shared = openShared(context, base, action)
  context.whenCertain?.catch((error) => fail(shared, error))
  const reading = Array.from({ length: context.readers }, () =>
    readOn(shared).catch((error) => fail(shared, error)),
  )
  await Promise.all(reading)
  if (shared.failure) throw shared.failure.error
  const left = unreadOf(rangesOf(shared), action.unread.upTo)
  const end = { kind: 'ranges', unread: left, fell: shared.fell } as const
  return {
    end: sharesVersions(shared) ? { ...end, tied: reachOf(shared) } : end,
    hasYielded: shared.hasYielded,
  }
}

const sharesVersions = ({ base, readers }: Shared): boolean =>
  base.sharesVersions || readers.some(({ transition }) => transition.reading.sharesVersions)

const reachOf = ({ readers }: Shared): bigint =>
  highest(
    readers.map(({ range }) => range.reach),
    0n,
  )

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
    // Taken before it looks around: what is told meanwhile has to wake it, too.
    const news = shared.news.promise
    const mine = shared.waiting.shift()
    if (mine) await busyWith(shared, 1, () => readRange(shared, mine))
    else if (shared.readers.every(({ range }) => range.isOver)) return
    else if (!(await shareOut(shared))) {
      beIdle(shared)
      // Another reader may still find that so much is left in its range that a part can be taken over.
      await news
    }
  }
}

async function busyWith<Result>(
  shared: Shared,
  readers: number,
  work: () => Promise<Result>,
): Promise<Result> {
  shared.busy += readers
  try {
    return await work()
  } finally {
    shared.busy -= readers
  }
}

function beIdle(shared: Shared): void {
  // A reader that is in the middle of something may still find much behind it.
  const mayFindMore = ({ isWhole, isProbed, isOver }: Range) => (isWhole || isProbed) && !isOver
  if (shared.wasIdle || sharesVersions(shared) || rangesOf(shared).some(mayFindMore)) return
  shared.wasIdle = true
  shared.context.onIdle?.()
}

/** Splits the range with most left, for all idle readers at once. Returns whether anything is known now that was not. */
async function shareOut(shared: Shared): Promise<boolean> {
  const { readers, context, waiting, busy } = shared
  const plan = planOf(rangesOf(shared), shared, context.readers - busy - waiting.length)
  const owner = plan && readers[plan.index]
  if (!owner) return false
  owner.range = { ...owner.range, isProbed: true }
  const known = { readers: readers.length, belowRank: owner.range.belowRank }
  const { borders, belowRank } = await busyWith(shared, plan.offsets.length, () =>
    findBorders(shared, owner.range, plan),
  )
  owner.range = { ...owner.range, isProbed: false }
  const last = borders.reduce((lower, border) => split(shared, lower, border), owner)
  last.range = { ...last.range, belowRank: Math.min(last.range.belowRank, belowRank) }
  const isNews = readers.length > known.readers || belowRank < known.belowRank
  if (isNews) tellNews(shared)
  return isNews
}

async function findBorders(shared: Shared, range: Range, { offsets }: Plan) {
  const { context, stop } = shared
  if (shared.hasRanks) {
    const signal = AbortSignal.any([context.signal, stop.signal])
    const found = await lookUpBorders((asked) => context.fetch(asked, signal), range, offsets)
    shared.sortsNumbers ||= provesNumbers(found.borders.map(({ at }) => at))
    if (!found.isRefused) return found
    if (!isStopped(shared)) giveUpRanks(shared)
  }
  return { borders: bordersByDensity(range, offsets, shared), belowRank: range.belowRank }
}

function giveUpRanks(shared: Shared): void {
  shared.hasRanks = false
  for (const reader of shared.readers) reader.range = { ...reader.range, ...uncounted, density: null }
}

/** Returns whose range ends where that of the owner did. */
function split(shared: Shared, owner: Reader, border: Border): Reader {
  const { range, transition } = owner
  // Its reader may have come further meanwhile.
  if (range.isOver || border.at <= range.reach || border.at >= range.upTo) return owner
  const [lower, upper] = splitRange(range, border)
  const { reading } = transition
  owner.range = lower
  // The owner may be waiting for a page. What that page shows above the new end is left to the new reader.
  owner.transition = {
    ...transition,
    reading: { ...reading, options: { ...reading.options, until: lower.upTo } },
  }
  const mine = openReader(shared.base, upper)
  shared.readers.splice(shared.readers.indexOf(owner) + 1, 0, mine)
  shared.waiting.push(mine)
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
      await see(shared, mine, { asked: null, event: { kind: 'count', keys }, records: nothing, onDone() {} })
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
    isWritten = await see(shared, mine, { asked, event, records, onDone: place.leave })
  } finally {
    if (!isWritten) place.leave()
  }
}

type Seen = {
  readonly asked: Ask | null
  readonly event: Event
  readonly records: Records
  readonly onDone: () => void
}

/** Returns whether the records are being written. */
async function see(shared: Shared, mine: Reader, { asked, event, records, onDone }: Seen): Promise<boolean> {
  const before = mine.transition.reading
  // Full pages are counted over all ranges, so that pages are looked at from inside as often as in a single reading.
  const { fullPages, sortsNumbers } = shared
  const transition = next({ ...before, fullPages, sortsNumbers }, event)
  const { reading, action, effects } = transition
  shared.fullPages = reading.fullPages
  shared.sortsNumbers ||= reading.sortsNumbers
  shared.fell ??= whatFell(transition, event)
  if (shared.fell) {
    leaveOff(shared)
    return false
  }
  mine.transition = transition
  if (event.kind === 'answer') shared.pageRows = Math.max(shared.pageRows, event.page.received)
  if (event.kind === 'answer' && asked?.isOnlyLook === false) count(shared, mine, versionsOf(event.page))
  mine.range = {
    ...mine.range,
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

function count(shared: Shared, mine: Reader, versions: readonly bigint[]): void {
  const isAtEnd = versions.some((version) => version > mine.range.upTo)
  mine.range = sawRows(mine.range, versions)
  if (isMiscounted(mine.range, isAtEnd, shared.pageRows)) giveUpRanks(shared)
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
