// The loop around the decisions of machine.ts: fetches, writes and commits. The next page is fetched while the last is written.

import { isDeepStrictEqual } from 'node:util'
import type { ChangesStream } from '../../streams/catalog.ts'
import { type Records, readRecords } from '../../streams/record.ts'
import { withoutTwins } from '../../streams/twins.ts'
import { openRoom, type Room } from '../../util/room.ts'
import { seenPage } from '../lists/listing.ts'
import { confirmEmpty, openPipeline } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { Run, Store, Written } from '../ports/store.ts'
import { knownBeliefs } from './hypotheses.ts'
import { next, start } from './machine.ts'
import { readThrough } from './ranges.ts'
import { type Fetched, type RangePage, type RangesContext, readInRanges } from './read-ranges.ts'
import type { Anchor, Ask, Event, Reading, ReadingOptions, StateName, Transition } from './state.ts'
import { withVersionField } from './version-field.ts'

/** A run that reads by row version. */
type ChangesRun = Run<'incremental' | 'lookback' | 'backfill'>

export type ReadChangesContext = {
  readonly source: Pick<Source, 'changes' | 'lookup'>
  readonly run: Pick<ChangesRun, 'pages' | 'findings' | 'position' | 'seen' | 'progress'>
  readonly keyFields: readonly string[]
  readonly versionFields: readonly string[]
  /** The highest rows, the highest first: the first of them that is still there has to show up (P11). */
  readonly anchors: readonly Anchor[]
  /** Whether the run moves a position with what it reads. */
  readonly movesPosition: boolean
  /** Told when what was read before proves doubtful, and where reading goes on from. */
  readonly onTakenBack?: (why: string, to: bigint) => void
  readonly now: () => Date
  /** For what ranges hold that are read side by side. */
  readonly room?: Room
  readonly signal: AbortSignal
  /** Asked between pages: come to an end here, another stream is waiting. */
  readonly shouldYield?: () => boolean
  readonly onWritten?: (written: Written, progress: Progress) => void
}

export type Progress = {
  readonly position: bigint
  readonly highestServed: bigint | null
  /** Of a reading in ranges, where the position waits for the lowest: how much of the versions is read. */
  readonly share?: number
}
export type ReadOutcome = Omit<Progress, 'share'> & {
  readonly largestAnswer: number
  /** Everything there was is read, and the position says so. */
  readonly isComplete: boolean
  /** Nothing that is known was shown, so nothing was proven (P11). */
  readonly isInconclusive: boolean
  readonly yielded: boolean
  readonly note: string | null
}

/** The upstream does not do what `neworchanged` promises; it is not asked again in this run. */
class ContractBreach extends Error {
  override readonly name = 'ContractBreach'
  readonly code = 'UPSTREAM_CONTRACT'
}

const contractBreach = (what: string) => new ContractBreach(`The upstream broke its contract: ${what}`)

const pagesInFlight = 2
const nothing: Records = { rows: [], rejected: [] }

async function readChanges(
  context: ReadChangesContext,
  options: Omit<ReadingOptions, 'anchor'>,
): Promise<ReadOutcome> {
  const commits = openCommits(context, options)
  const asking = openAsking(context)
  const known = context.anchors.map(({ version }) => version)
  let transition = start({ ...options, anchor: context.anchors[0] ?? null, known })
  let largestBytes = 0
  try {
    for (let hasAsked = false; ; hasAsked = true) {
      const { reading, action } = transition
      const step = stepOf(reading)
      if (step !== null) context.run.progress.step(step)
      switch (action.kind) {
        case 'end':
          return outcomeOf(reading, action)
        case 'look':
          transition = next(reading, await lookAtAnchor(context, action.anchor))
          break
        case 'breach':
          throw contractBreach(action.what)
        case 'count': {
          await commits.settled()
          transition = next(reading, {
            kind: 'count',
            keys: await context.run.seen.countAround(action.around),
          })
          await commits.add(nothing, transition)
          break
        }
        case 'ask': {
          if (hasAsked && action.mayYield && context.shouldYield?.()) return gaveWay(reading)
          const { event, records, bytes } = await asking.ask(action)
          largestBytes = Math.max(largestBytes, bytes)
          transition = next(reading, event)
          await commits.add(records, transition, bytes)
          break
        }
        case 'ranges': {
          const rangesContext = rangesContextOf(context, commits, reading, largestBytes)
          const { end, hasYielded } = await readInRanges(rangesContext, reading, action)
          if (hasYielded) return gaveWay({ ...reading, position: readThrough(end.unread) })
          transition = next(reading, end)
          await commits.add(nothing, transition)
        }
      }
    }
  } finally {
    asking.stop()
    await commits.settled()
  }
}

const steps: Readonly<Partial<Record<StateName, string>>> = {
  ahead: 'Read by row version',
  inside: 'Read by row version',
  behind: 'Look behind records that cannot be rows',
  proof: 'Test whether sorting can be relied on',
  text: 'Test whether versions are sorted as text',
  newest: 'Compare with what the upstream calls newest',
  top: 'Ask for the highest version',
  scan: 'Read in passes, as nothing is sorted',
  tie: 'Read records that share a version',
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

const rangesContextOf = (
  context: ReadChangesContext,
  commits: Commits,
  { options, highestServed }: Reading,
  largestBytes: number,
): RangesContext => ({
  readers: options.load?.readers ?? 1,
  room: context.room ?? openRoom(),
  largestBytes,
  fetch: (ask, signal) =>
    fetchAnswer(context, { ...ask, request: { ...ask.request, givesWay: true } }, signal),
  write: (page) => commits.addOfRange(page, highestServed),
  async countAround(page) {
    await commits.settled()
    return await context.run.seen.countAround(page)
  },
  breach: contractBreach,
  shouldYield: () => context.shouldYield?.() ?? false,
  signal: context.signal,
})

const progressOf = ({ position, highestServed }: Reading): Progress => ({ position, highestServed })

const outcomeOf = (
  reading: Reading,
  end: Pick<ReadOutcome, 'isComplete' | 'note'> & Partial<Pick<ReadOutcome, 'isInconclusive'>>,
): ReadOutcome => ({
  ...progressOf(reading),
  largestAnswer: reading.largestAnswer,
  isComplete: end.isComplete,
  isInconclusive: end.isInconclusive ?? false,
  yielded: false,
  note: end.note,
})

/** What the rules see of the answer, and what of it is to be written. */
async function fetchAnswer(
  { source, keyFields, versionFields }: ReadChangesContext,
  { request, mayBeNothing, isOnlyLook }: Ask,
  signal: AbortSignal,
): Promise<Fetched> {
  signal.throwIfAborted()
  const fetch = () => source.changes(request, signal)
  const answer = await (mayBeNothing ? fetch() : confirmEmpty(fetch))
  if ('refused' in answer) {
    const { refused: status, why } = answer
    const event: Event = { kind: 'refused', status, ...(why !== undefined && { why }) }
    return { event, records: nothing, bytes: 0 }
  }
  const records = readRecords(answer.records, keyFields, versionFields)
  const event: Event = { kind: 'answer', page: seenPage(answer.records.length, records) }
  if (!isOnlyLook) return { event, records: withoutTwins(records), bytes: answer.bytes }
  records.release?.()
  return { event, records: nothing, bytes: answer.bytes }
}

/** What is asked beside another question is kept until it is its turn. */
function openAsking(context: ReadChangesContext) {
  const stopping = new AbortController()
  const signal = AbortSignal.any([context.signal, stopping.signal])
  let beside: { readonly request: Ask['request']; readonly answer: Promise<Fetched> } | null = null
  return {
    ask(asked: Ask): Promise<Fetched> {
      const isHere = beside !== null && isDeepStrictEqual(beside.request, asked.request)
      const answer = isHere && beside ? beside.answer : fetchAnswer(context, asked, signal)
      beside = asked.beside
        ? { request: asked.beside, answer: fetchAnswer(context, { ...asked, request: asked.beside }, signal) }
        : null
      // Told when it is its turn.
      beside?.answer.catch(() => {})
      return answer
    },
    stop: () => stopping.abort(new Error('the reading is over')),
  }
}

/** The record itself, past every list; and the next row that could be looked for instead. */
async function lookAtAnchor(
  { source, anchors, keyFields, versionFields, signal }: ReadChangesContext,
  { key }: Anchor,
): Promise<Event> {
  const after = anchors.findIndex((anchor) => anchor.key === key)
  const nextAnchor = anchors[after + 1] ?? null
  const answer = source.lookup ? await source.lookup(key, signal) : 'unclear'
  if (typeof answer === 'string') return { kind: 'looked', found: answer, next: nextAnchor }
  const [row] = readRecords([answer.found], keyFields, versionFields).rows
  return { kind: 'looked', found: row?.version ?? 'unclear', next: nextAnchor }
}

/** Writes what answers hold, a few at a time, with the position that each justifies (P1). */
function openCommits(
  { run, movesPosition, onTakenBack, now, onWritten }: ReadChangesContext,
  { from }: Pick<ReadingOptions, 'from'>,
) {
  const writes = openPipeline(pagesInFlight)
  let committed = from

  async function add(records: Records, { reading, effects }: Transition, bytes = 0) {
    const { seen, retreat, learnt, isLeftOut } = effects
    if (isLeftOut) return records.release?.()
    if (retreat !== null && movesPosition) {
      await writes.settled()
      await run.position.retreat(retreat, reading.position)
      committed = reading.position
      onTakenBack?.(retreat, reading.position)
    }
    if (learnt.length > 0) await run.findings.learn(learnt.map((belief) => ({ ...belief, testedAt: now() })))
    const position = risingTo(reading.position)
    if (records.rows.length === 0 && records.rejected.length === 0 && position === null)
      return records.release?.()
    await writes.start(async () => {
      const written = await run.pages.commit(records, position)
      if (seen) await run.seen.add(seen.pageNumber, seen.keys)
      records.release?.()
      onWritten?.(written, progressOf(reading))
    }, bytes)
  }

  /** Which position its commit justifies is known when those before it have begun. */
  async function addOfRange(page: RangePage, highestServed: bigint | null) {
    const { records, seen, progress, onDone } = page
    await writes.start(async () => {
      try {
        const { position, unread, share } = progress()
        const written = await run.pages.commit(records, risingTo(position), { unread })
        if (seen) await run.seen.add(seen.pageNumber, seen.keys)
        records.release?.()
        onWritten?.(written, { position, highestServed, share })
      } finally {
        onDone()
      }
    })
  }

  function risingTo(position: bigint): bigint | null {
    if (!movesPosition || position <= committed) return null
    committed = position
    return position
  }

  return { add, addOfRange, settled: () => writes.settled() }
}
type Commits = ReturnType<typeof openCommits>

// What the kinds of runs of a changes stream have in common: each reads a part of it, with what earlier runs learnt about the upstream.
export type ChangesContext = {
  readonly store: Store
  readonly source: Source
  readonly stream: ChangesStream
  readonly pageSize: number
  /** The operator's choice of the field that holds the row version; null: it is found out. */
  readonly versionField?: string | null
  /** Where much is to be read: this many ranges of versions at a time. */
  readonly load?: { readonly readers: number; readonly leastPages?: number }
  /** For what those hold, shared with other streams. */
  readonly room?: Room
  readonly now: () => Date
  readonly signal: AbortSignal
  readonly shouldYield?: () => boolean
  readonly onWritten?: (written: Written, progress: Progress) => void
}

type Range = Pick<ReadingOptions, 'from' | 'restsFrom' | 'until' | 'maxPasses'> &
  Pick<ReadChangesContext, 'onTakenBack' | 'movesPosition'> & {
    readonly anchors?: readonly Anchor[]
    /** Only one kind of run decides which field the row version is: positions are numbers of it. */
    readonly mayFindField?: boolean
  }

export async function readRange(
  context: Omit<ChangesContext, 'store'> & { readonly run: ChangesRun },
  { movesPosition, onTakenBack, anchors = [], ...range }: Range,
): Promise<ReadOutcome> {
  const { run, pageSize, now, load = { readers: 1 } } = context
  const versioned = await withVersionField({ ...context, mayFind: range.mayFindField ?? false })
  if (versioned === null) {
    // Nothing is known yet, or what is known is not shown (P11).
    const isNew = range.mayFindField === true && run.state.position === 0n
    const note = range.mayFindField
      ? null
      : 'the next incremental run finds out which field the row version is'
    return { ...nothingRead(range.from, { isComplete: isNew, note }), isInconclusive: !isNew }
  }
  if (versioned.beginsAnew)
    return { ...nothingRead(0n, { isComplete: false, note: 'begins anew' }), yielded: true }
  const { stream, source } = versioned
  const { keyFields, versionFields } = stream
  try {
    return await readChanges(
      {
        ...{ ...context, source, keyFields, versionFields, anchors, movesPosition },
        ...(onTakenBack && { onTakenBack }),
      },
      {
        ...range,
        ...knownBeliefs(run.state.beliefs, now()),
        pageSize,
        largePageSize: Math.max(pageSize, Math.min(10 * pageSize, 10_000)),
        ...(movesPosition && { load: { leastPages, ...load, unread: run.position.unread } }),
      },
    )
  } catch (error) {
    // What was served was not what was asked for: perhaps it answers to another field.
    if (error instanceof ContractBreach) await run.findings.doubt('version_field', error.message)
    throw error
  }
}

/** Below so many pages, ranges ask for more than they save. */
const leastPages = 10

const nothingRead = (position: bigint, end: Pick<ReadOutcome, 'isComplete' | 'note'>): ReadOutcome => ({
  position,
  highestServed: null,
  largestAnswer: 0,
  isInconclusive: false,
  yielded: false,
  ...end,
})
