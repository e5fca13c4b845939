// The loop around the decisions of changes.ts: fetches, writes and commits. The next page is fetched while the last is written.

import type { ChangesStream } from '../../streams/catalog.ts'
import { type Records, readRecords } from '../../streams/record.ts'
import { seenPage } from '../lists/listing.ts'
import { confirmEmpty, openPipeline } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { Belief, Run, Store, Written } from '../ports/store.ts'
import { knownBeliefs } from './hypotheses.ts'
import { beginReading, sawAnswer, sawRefusal, sawSeenAround } from './machine.ts'
import type { Decision, Learnt, ReadingOptions } from './state.ts'

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

export async function readChanges(
  context: ReadChangesContext,
  options: ReadingOptions,
): Promise<ReadOutcome> {
  const { run, signal } = context
  const writes = openPipeline(pagesInFlight)
  let hasAsked = false
  let committed = options.from
  let decision = beginReading(options)
  const progress = (): Progress => ({
    position: decision.reading.position,
    highestServed: decision.reading.highestServed,
  })
  const outcome = (isComplete: boolean, note: string | null, yielded = false): ReadOutcome => ({
    ...progress(),
    largestAnswer: decision.reading.largestAnswer,
    isComplete,
    yielded,
    note,
  })

  const commit = async (records: Records, made: Decision) => {
    const at: Progress = { position: made.reading.position, highestServed: made.reading.highestServed }
    if (made.retreat !== null && context.movesPosition) {
      await writes.settled()
      await run.position.retreat(made.retreat)
      committed = options.from
    }
    if (made.learnt.length > 0) await run.findings.learn(beliefs(made.learnt, context.now()))
    const position = context.movesPosition && at.position > committed ? at.position : null
    if (position !== null) committed = position
    if (records.rows.length === 0 && records.rejected.length === 0 && position === null) return
    await writes.start(async () => {
      const written = await run.pages.commit(records, position)
      if (made.seen) await run.seen.add(made.seen.pageNumber, made.seen.keys)
      context.onWritten?.(written, at)
    })
  }

  try {
    for (;;) {
      const { reading, step } = decision
      if (step.kind === 'end') return outcome(step.isComplete, step.note)
      if (step.kind === 'breach') throw new ContractBreach(`The upstream broke its contract: ${step.what}`)
      if (step.kind === 'count') {
        await writes.settled()
        decision = sawSeenAround(reading, await run.seen.countAround(step.around))
        await commit(nothing, decision)
        continue
      }
      if (hasAsked && reading.phase.name === 'ahead' && context.shouldYield?.())
        return outcome(false, 'gave way to another stream', true)
      signal.throwIfAborted()
      const fetchAnswer = () => context.source.changes(step.request, signal)
      const answer = await (step.mayBeNothing ? fetchAnswer() : confirmEmpty(fetchAnswer))
      hasAsked = true
      if ('refused' in answer) {
        decision = sawRefusal(reading, answer.refused)
        await commit(nothing, decision)
        continue
      }
      const records = readRecords(answer.records, context.keyFields, context.versionFields)
      decision = sawAnswer(reading, seenPage(answer.records.length, records))
      // What was only looked at comes again in its turn.
      const isOnlyLook = reading.phase.name === 'proof' || reading.phase.name === 'text'
      await commit(isOnlyLook ? nothing : records, decision)
    }
  } finally {
    await writes.settled()
  }
}

const beliefs = (learnt: readonly Learnt[], testedAt: Date): Belief[] =>
  learnt.map((belief) => ({ ...belief, testedAt }))

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
