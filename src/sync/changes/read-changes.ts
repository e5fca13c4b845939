// The loop around the decisions of machine.ts: fetches, writes and commits. The next page is fetched while the last is written.

import type { ChangesStream } from '../../streams/catalog.ts'
import { type Records, readRecords } from '../../streams/record.ts'
import { seenPage } from '../lists/listing.ts'
import { confirmEmpty, openPipeline } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { Run, Store, Written } from '../ports/store.ts'
import { knownBeliefs } from './hypotheses.ts'
import { next, start } from './machine.ts'
import type { Ask, Event, Reading, ReadingOptions, Transition } from './state.ts'

/** A run that reads by row version. */
type ChangesRun = Run<'incremental' | 'lookback' | 'backfill'>

export type ReadChangesContext = {
  readonly source: Pick<Source, 'changes'>
  readonly run: Pick<ChangesRun, 'pages' | 'findings' | 'position' | 'seen'>
  readonly keyFields: readonly string[]
  readonly versionFields: readonly string[]
  /** Whether the run moves a position with what it reads. */
  readonly movesPosition: boolean
  readonly now: () => Date
  readonly signal: AbortSignal
  /** Asked between pages: come to an end here, another stream is waiting. */
  readonly shouldYield?: () => boolean
  readonly onWritten?: (written: Written, progress: Progress) => void
}

export type Progress = { readonly position: bigint; readonly highestServed: bigint | null }
export type ReadOutcome = Progress & {
  readonly largestAnswer: number
  /** Everything there was is read, and the position says so. */
  readonly isComplete: boolean
  readonly yielded: boolean
  readonly note: string | null
}

/** The upstream does not do what `neworchanged` promises; it is not asked again in this run. */
class ContractBreach extends Error {
  override readonly name = 'ContractBreach'
  readonly code = 'UPSTREAM_CONTRACT'
}

const pagesInFlight = 2
const nothing: Records = { rows: [], rejected: [] }

async function readChanges(context: ReadChangesContext, options: ReadingOptions): Promise<ReadOutcome> {
  const commits = openCommits(context, options.from)
  let transition = start(options)
  try {
    for (let hasAsked = false; ; hasAsked = true) {
      const { reading, action } = transition
      switch (action.kind) {
        case 'end':
          return outcomeOf(reading, action)
        case 'breach':
          throw new ContractBreach(`The upstream broke its contract: ${action.what}`)
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
          if (hasAsked && action.mayYield && context.shouldYield?.())
            return {
              ...outcomeOf(reading, { isComplete: false, note: 'gave way to another stream' }),
              yielded: true,
            }
          const { event, records } = await fetchAnswer(context, action)
          transition = next(reading, event)
          await commits.add(records, transition)
        }
      }
    }
  } finally {
    await commits.settled()
  }
}

const progressOf = ({ position, highestServed }: Reading): Progress => ({ position, highestServed })

const outcomeOf = (reading: Reading, end: Pick<ReadOutcome, 'isComplete' | 'note'>): ReadOutcome => ({
  ...progressOf(reading),
  largestAnswer: reading.largestAnswer,
  isComplete: end.isComplete,
  yielded: false,
  note: end.note,
})

/** What the rules see of the answer, and what of it is to be written. */
async function fetchAnswer(
  { source, keyFields, versionFields, signal }: ReadChangesContext,
  { request, mayBeNothing, isOnlyLook }: Ask,
): Promise<{ readonly event: Event; readonly records: Records }> {
  signal.throwIfAborted()
  const fetch = () => source.changes(request, signal)
  const answer = await (mayBeNothing ? fetch() : confirmEmpty(fetch))
  if ('refused' in answer) return { event: { kind: 'refused', status: answer.refused }, records: nothing }
  const records = readRecords(answer.records, keyFields, versionFields)
  const event: Event = { kind: 'answer', page: seenPage(answer.records.length, records) }
  return { event, records: isOnlyLook ? nothing : records }
}

/** Writes what answers hold, a few at a time, with the position that each justifies (P1). */
function openCommits({ run, movesPosition, now, onWritten }: ReadChangesContext, from: bigint) {
  const writes = openPipeline(pagesInFlight)
  let committed = from

  async function add(records: Records, { reading, effects }: Transition) {
    const { seen, retreat, learnt } = effects
    if (retreat !== null && movesPosition) {
      await writes.settled()
      await run.position.retreat(retreat)
      committed = from
    }
    if (learnt.length > 0) await run.findings.learn(learnt.map((belief) => ({ ...belief, testedAt: now() })))
    const position = movesPosition && reading.position > committed ? reading.position : null
    if (position !== null) committed = position
    if (records.rows.length === 0 && records.rejected.length === 0 && position === null) return
    await writes.start(async () => {
      const written = await run.pages.commit(records, position)
      if (seen) await run.seen.add(seen.pageNumber, seen.keys)
      onWritten?.(written, progressOf(reading))
    })
  }

  return { add, settled: () => writes.settled() }
}

// What the lanes of a changes stream have in common: each reads a part of it, with what earlier runs learnt about the upstream.
export type ChangesContext = {
  readonly store: Store
  readonly source: Source
  readonly stream: ChangesStream
  readonly pageSize: number
  readonly now: () => Date
  readonly signal: AbortSignal
  readonly shouldYield?: () => boolean
  readonly onWritten?: (written: Written, progress: Progress) => void
}

type Range = Pick<ReadingOptions, 'from' | 'until' | 'maxPasses'> & { readonly movesPosition: boolean }

export function readRange(
  context: Omit<ChangesContext, 'store'> & { readonly run: ChangesRun },
  { movesPosition, ...range }: Range,
): Promise<ReadOutcome> {
  const { stream, run, pageSize, now } = context
  const { keyFields, versionFields } = stream
  return readChanges(
    { ...context, keyFields, versionFields, movesPosition },
    {
      ...range,
      ...knownBeliefs(run.state.beliefs, now()),
      pageSize,
      largePageSize: Math.max(pageSize, Math.min(10 * pageSize, 10_000)),
    },
  )
}
