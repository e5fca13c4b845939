// How changes are read, in thirty lines. Pages and tests use the same words; the table of states is in docs/how-it-works/reading.md.
//
// A run asks `neworchanged` for what is above its position, and moves the position only past versions that were all read (P6). This file
// is the loop: it sends the questions, writes the pages, and commits each page with the position that it justifies (P1). What to ask next
// is decided by machine.ts, which is pure: a reading and an answer go in, the next reading with its question comes out. Its states:
//
//   end             asks newest first, from just below a row that is stored. An answer that reaches down to what is read ends the run:
//                   one request for a quiet poll. Otherwise it says how far there is to read (P12).
//   next-page       asks from the last version that was read, in ascending order, always for page 1. The last version of a page may go
//                   on behind it, so only what is below counts as read.
//   proof           asks four questions that tell whether the upstream sorts (proof-of-sorting.ts), before any order is relied on.
//   recheck-page    asks full pages 1, 2, 4, 8 … again from their middle: a page that was cut before it was sorted lacks rows there.
//   longer-versions looks at the end when versions get one digit longer: an upstream that sorts them as text shows 9 behind 10.
//   ranges          where much is to be read, ranges of versions side by side (read-ranges.ts). The position waits for the lowest one.
//   one-version     lists the rows of a version that fills the largest page, in passes.
//   passes          where nothing sorts: page after page, pass after pass, until a count proves that all was seen (lists/listing.ts).
//   anchor          an answer lacked a record that is known, so nothing that it shows or lacks is believed: the record is looked up (P11).
//   done, broken    the reading is over; the upstream answered with versions that nobody asked for.
//
// Each state is a row of rules in states/: the first that fits is taken. Three things can happen in several of them:
//
// - A page is out of order. Then the proof was wrong, and the position goes back to where it was before the first run that relied on it.
// - A page was cut before it was sorted. Then only small answers are whole, and next-page asks for ranges that hold little.
// - Something cannot be proven. Then the rows are stored all the same, the position waits, the run says why, and the next reconcile
//   brings what is missing.
//
// Before all that, version-field.ts finds the field that `neworchanged` answers to. incremental.ts, lookback.ts and backfill.ts say which
// part is read; pinned-records.ts notices an upstream that went back to an older state (P14).

import { type Records, readRecords } from '../../streams/record.ts'
import { openRoom } from '../../util/room.ts'
import { knownBeliefs } from '../capabilities.ts'
import type { Progress, ReadingContext } from '../perform-run.ts'
import { openPipeline } from '../pipeline.ts'
import type { CommitAlso, Run } from '../ports/store.ts'
import { type Asking, nothing, openAsking } from './asking.ts'
import { openRanges } from './early-ranges.ts'
import { foreseen, next, start } from './machine.ts'
import { readThrough } from './ranges.ts'
import type { RangePage, RangesContext } from './read-ranges.ts'
import type { Anchor, Event, Reading, ReadingOptions, StateName, Transition } from './state.ts'
import { type Versioned, withVersionField } from './version-field.ts'

/** A run that reads by row version. */
type ChangesRun = Run<'incremental' | 'lookback' | 'backfill'>

/** What is read, and who is told. */
type Range = Pick<ReadingOptions, 'from' | 'restsFrom' | 'until' | 'maxPasses' | 'hasAbove'> & {
  /** The highest rows, the highest first: the first of them that is still there has to show up (P11). */
  readonly anchors?: readonly Anchor[]
  /** Whether the run moves a position with what it reads. */
  readonly movesPosition: boolean
  /** Only the incremental run decides which field the row version is, because positions are values of that field. */
  readonly mayFindField?: boolean
  /** Called when what was read before is certain no longer: why, and from which version on it is read again. */
  readonly onTakenBack?: (why: string, to: bigint) => void
  /** Called when a look at an anchor showed an older version than that of its row. */
  readonly onFallen?: (anchor: Anchor) => Promise<void>
}
type Context = Omit<ReadingContext, 'store'> & { readonly run: ChangesRun }

export type ReadOutcome = Omit<Progress, 'share'> & {
  readonly largestAnswer: number
  /** Everything there was is read, and the position says so. */
  readonly isComplete: boolean
  /** No known record was shown, so nothing was proven (P11). */
  readonly isInconclusive: boolean
  readonly yielded: boolean
  readonly note: string | null
  /** Several readers read ranges of versions, while the position waited for the lowest. */
  readonly inRanges?: boolean
}

/** The upstream does not do what `neworchanged` promises; it is not asked again in this run. */
class FeedBroken extends Error {
  override readonly name = 'FeedBroken'
  readonly code = 'UPSTREAM_CONTRACT'
}

const feedBroken = (what: string) => new FeedBroken(`The upstream broke its contract: ${what}`)

async function readChanges(
  context: Context & Range,
  options: ReadingOptions,
  asking: Asking,
): Promise<ReadOutcome> {
  const commits = openCommits(context, options.from)
  let transition = start(options)
  let largestBytes = 0
  let inRanges = false
  const ranges = openRanges((reading) => rangesContextOf(context, { commits, asking, reading, largestBytes }))
  try {
    for (let hasAsked = false; ; hasAsked = true) {
      const { reading, action } = transition
      const step = stepOf(reading)
      if (step !== null) context.run.progress.step(step)
      switch (action.kind) {
        case 'end':
          return { ...outcomeOf(reading, action), inRanges }
        case 'look':
          transition = next(reading, await lookAtAnchor(context, action.anchor))
          break
        case 'breach':
          throw feedBroken(action.what)
        case 'count': {
          await commits.settled()
          const keys = await context.run.seen.countAround(action.around)
          transition = next(reading, { kind: 'count', keys })
          await commits.add(nothing, transition)
          break
        }
        case 'ask': {
          if (hasAsked && action.mayYield && context.shouldYield?.()) return gaveWay(reading)
          const answer = asking.ask(action)
          const likely = foreseen(reading)
          if (likely?.action.kind === 'ranges') ranges.begin(likely.reading, likely.action)
          const fetched = await answer
          largestBytes = Math.max(largestBytes, fetched.bytes)
          transition = next(reading, fetched.event)
          if (transition.action.kind !== 'ranges') ranges.leave()
          if (transition.effects.isKept) asking.keep(action, fetched)
          else await commits.add(fetched.records, transition, fetched.bytes)
          break
        }
        case 'ranges': {
          inRanges = true
          const { end, hasYielded } = await ranges.read(reading, action)
          if (hasYielded) return gaveWay({ ...reading, position: readThrough(end.unread) })
          transition = next(reading, end)
          await commits.add(nothing, transition)
        }
      }
    }
  } finally {
    asking.stop()
    ranges.leave()
    await commits.settled()
  }
}

const steps: Readonly<Partial<Record<StateName, string>>> = {
  'next-page': 'Read by row version',
  'recheck-page': 'Read by row version',
  proof: 'Test whether sorting can be relied on',
  'longer-versions': 'Test whether versions are sorted as text',
  end: 'Compare with what the upstream calls newest',
  passes: 'Read in passes, as nothing is sorted',
  'one-version': 'Read records that share a version',
  anchor: 'Look for a record that is known',
}

/** Null at an end. */
const stepOf = ({ state, options }: Reading): string | null =>
  state.name === 'ranges'
    ? `Read ranges of versions, ${options.load?.readers ?? 1} at a time`
    : (steps[state.name] ?? null)

const gaveWay = (reading: Reading): ReadOutcome => ({
  ...outcomeOf(reading, { isComplete: false, note: 'gave way to another stream' }),
  yielded: true,
})

type ForRanges = {
  readonly commits: Commits
  readonly asking: Asking
  readonly reading: Reading
  readonly largestBytes: number
}

const rangesContextOf = (
  context: Context,
  { commits, asking, reading, largestBytes }: ForRanges,
): RangesContext => ({
  readers: reading.options.load?.readers ?? 1,
  room: context.room ?? openRoom(),
  largestBytes,
  fetch: (ask, signal) =>
    asking.askAmongOthers({ ...ask, request: { ...ask.request, lowPriority: true } }, signal),
  write: (page) => commits.addOfRange(page, reading.highestServed),
  onIdle() {
    const likely = foreseen(reading)
    if (likely?.action.kind === 'ask') asking.begin(likely.action)
  },
  async countAround(page) {
    await commits.settled()
    return await context.run.seen.countAround(page)
  },
  breach: feedBroken,
  shouldYield: () => context.shouldYield?.() ?? false,
  signal: context.signal,
})

const progressOf = ({ position, highestServed }: Reading): Progress => ({ position, highestServed })

const outcomeOf = (
  { position, highestServed, largestAnswer }: Pick<Reading, 'position' | 'highestServed' | 'largestAnswer'>,
  {
    isComplete,
    note,
    isInconclusive = false,
  }: Pick<ReadOutcome, 'isComplete' | 'note'> & Partial<Pick<ReadOutcome, 'isInconclusive'>>,
): ReadOutcome => ({
  position,
  highestServed,
  largestAnswer,
  isComplete,
  isInconclusive,
  yielded: false,
  note,
})

/** Asks for the record of the anchor by its key. Also tells which row could be the anchor instead. */
async function lookAtAnchor(
  { source, stream, anchors = [], onFallen, signal }: Context & Range,
  { key }: Anchor,
): Promise<Event> {
  const after = anchors.findIndex((anchor) => anchor.key === key)
  const mine = anchors[after]
  const nextAnchor = anchors[after + 1] ?? null
  const answer = source.lookup ? await source.lookup(key, signal) : 'unclear'
  if (typeof answer === 'string') return { kind: 'looked', found: answer, next: nextAnchor }
  const [row] = readRecords([answer.found], stream.keyFields, stream.versionFields).rows
  const found = row?.version ?? 'unclear'
  if (mine && found !== 'unclear' && found < mine.version) await onFallen?.(mine)
  return { kind: 'looked', found, next: nextAnchor }
}

/** Writes what answers hold, a few at a time, with the position that each justifies (P1). */
function openCommits({ run, movesPosition, onTakenBack, now, onWritten }: Context & Range, from: bigint) {
  const writes = openPipeline()
  let committed = from

  async function add(records: Records, { reading, effects }: Transition, bytes = 0) {
    const { seen, retreat, detected, isLeftOut } = effects
    if (isLeftOut) return records.release?.()
    if (retreat !== null && movesPosition) {
      await writes.settled()
      await run.position.retreat(retreat, reading.position)
      committed = reading.position
      onTakenBack?.(retreat, reading.position)
    }
    if (detected.length > 0)
      await run.findings.learn(detected.map((belief) => ({ ...belief, testedAt: now() })))
    const position = risingTo(reading.position)
    if (records.rows.length === 0 && records.rejected.length === 0 && position === null)
      return records.release?.()
    await writes.start(() => write({ records, seen }, position, progressOf(reading)), bytes)
  }

  /** Asks for the position only when the write begins: the position depends on all pages whose writes began before. */
  async function addOfRange(page: RangePage, highestServed: bigint | null) {
    await writes.start(async () => {
      try {
        const { position, unread, share } = page.progress()
        await write(page, risingTo(position), { position, highestServed, share }, { unread })
      } finally {
        page.onDone()
      }
    })
  }

  async function write(
    { records, seen }: Pick<RangePage, 'records' | 'seen'>,
    to: bigint | null,
    progress: Progress,
    also: CommitAlso = {},
  ) {
    const written = await run.pages.commit(records, to, also)
    if (seen) await run.seen.add(seen.pageNumber, seen.keys)
    records.release?.()
    onWritten?.(written, progress)
  }

  function risingTo(position: bigint): bigint | null {
    if (!movesPosition || position <= committed) return null
    committed = position
    return position
  }

  return { add, addOfRange, settled: () => writes.settled() }
}
type Commits = ReturnType<typeof openCommits>

export async function readRange(context: Context, range: Range): Promise<ReadOutcome> {
  const { run, pageSize, now, load = { readers: 1 } } = context
  const {
    from,
    restsFrom = from,
    until,
    maxPasses,
    hasAbove = false,
    anchors = [],
    mayFindField = false,
  } = range
  const early = openEarly(context.signal, {
    from,
    restsFrom,
    until,
    maxPasses,
    hasAbove,
    ...knownBeliefs(run.state.beliefs, now()),
    anchor: anchors[0] ?? null,
    known: anchors.map(({ version }) => version),
    pageSize,
    largePageSize: Math.max(pageSize, Math.min(10 * pageSize, 10_000)),
    ...(range.movesPosition && { load: { leastPages, ...load, unread: run.position.unread } }),
  })
  try {
    const versioned = await withVersionField({ ...context, mayFind: mayFindField, onCandidate: early.begin })
    if (versioned === null) {
      // Fine while the stream has never shown a record. If it was read before and shows none now, nothing is proven (P11).
      const isNew = mayFindField && run.state.position === 0n
      const note = mayFindField ? null : 'the next incremental run finds out which field the row version is'
      return outcomeOf(nothingRead(from), { isComplete: isNew, note, isInconclusive: !isNew })
    }
    if (versioned.beginsAnew)
      return { ...outcomeOf(nothingRead(0n), { isComplete: false, note: 'begins anew' }), yielded: true }
    const { asking, options } = early.goOn(versioned)
    const { source, stream } = versioned
    return await readChanges({ ...context, ...range, source, stream }, options, asking)
  } catch (error) {
    // It served records below what was asked for: perhaps `neworchanged` answers to another field.
    if (error instanceof FeedBroken) await run.findings.invalidate('version_field', error.message)
    throw error
  } finally {
    early.stop()
  }
}

/** Sends the first questions of a reading while the version field is still being tested: mostly the first candidate is right. */
function openEarly(signal: AbortSignal, options: ReadingOptions) {
  type Begun = {
    readonly asking: Asking
    readonly options: ReadingOptions
    readonly field: string | undefined
  }
  const open = ({ source, stream }: Versioned, also: Partial<ReadingOptions> = {}): Begun => ({
    asking: openAsking({ ...stream, source, signal }),
    options: { ...options, ...also },
    field: stream.versionFields[0],
  })
  const begun: Begun[] = []
  return {
    /** Called only where the upstream kept to the page size that was asked for. */
    begin(candidate: Versioned) {
      const one = open(candidate, { keepsPageSize: true })
      const { action } = start(one.options)
      if (action.kind === 'ask') one.asking.begin(action)
      begun.push(one)
    },
    goOn: (versioned: Versioned): Begun =>
      begun.find(({ field }) => field === versioned.stream.versionFields[0]) ?? open(versioned),
    stop() {
      for (const { asking } of begun) asking.stop()
    },
  }
}

/** Below this many pages, reading in ranges costs more requests than it saves. */
const leastPages = 10

const nothingRead = (position: bigint) => ({ position, highestServed: null, largestAnswer: 0 })
