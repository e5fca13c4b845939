// Does what every run does around its reading: takes the lease, counts requests and rows, and writes the end into the ledger, whatever
// the end is.

import type { ChangesStream, RunKind, Stream } from '../streams/catalog.ts'
import { errorOf } from '../util/errors.ts'
import { onBehalfOf } from '../util/on-behalf.ts'
import type { Room } from '../util/room.ts'
import { learn } from './capabilities.ts'
import { withPageEnds } from './lists/page-ends.ts'
import type { DifferenceCounts } from './ports/audits.ts'
import type { Answer, Refusal, Source } from './ports/source.ts'
import {
  type Run,
  type RunEnd,
  type RunProgress,
  type Store,
  stoppedNote,
  type WriteCounts,
  type Written,
} from './ports/store.ts'

export type Tally = WriteCounts & { readonly requests: number; readonly bytes: number }

export type RunOutcome = {
  readonly stream: string
  readonly kind: RunKind
  /** `stopped`: told to end between two pages. `skipped`: another run holds the lease, as the note says. */
  readonly status: 'done' | 'failed' | 'inconclusive' | 'skipped' | 'stopped'
  readonly runId: string | null
  readonly note: string | null
  readonly error: Error | null
  readonly tally: Tally
  /** How many differences it found, by cause; left out by runs that compare nothing. */
  readonly differences?: DifferenceCounts
  /** A search found more missing than it marks: the whole list is to be compared now. */
  readonly wantsReconcile?: boolean
  /** The run read everything there was. */
  readonly isComplete: boolean
  readonly yielded: boolean
}
export type RunReading = Pick<RunOutcome, 'isComplete' | 'wantsReconcile'> &
  Partial<Pick<RunOutcome, 'note' | 'yielded'>> &
  Pick<RunEnd, 'isHidden' | 'settled' | 'knowsDeletions' | 'differences'> & {
    /** The upstream showed no record that we know, so the run proves nothing (P11). */
    readonly isInconclusive?: boolean
  }

/** What every reading of a stream is given, of whatever kind. */
export type ReadingContext<Read extends Stream = ChangesStream> = {
  readonly store: Store
  readonly source: Source
  readonly stream: Read
  readonly pageSize: number
  /** The operator's choice of a list stream's key, which goes before the usual names. */
  readonly keyField?: string | null
  /** The operator's choice of the field that holds the row version; null: it is found out. */
  readonly versionField?: string | null
  /** Where much is to be read, this many ranges of versions are read side by side. */
  readonly load?: { readonly readers: number; readonly leastPages?: number }
  /** Memory for the answers of ranges, shared with other streams. */
  readonly room?: Room
  readonly now: () => Date
  readonly signal: AbortSignal
  /** Asked between pages. True: end here, another stream is waiting. */
  readonly shouldYield?: () => boolean
  readonly onWritten?: (written: Written, progress: Progress | null) => void
}

/** How far a reading of changes is. */
export type Progress = {
  readonly position: bigint
  readonly highestServed: bigint | null
  /** How much of the versions is read, for a reading in ranges: there the position tells little, as it waits for the lowest range. */
  readonly share?: number
}

type RunContext<Kind extends RunKind> = Pick<ReadingContext, 'source' | 'signal'> &
  Partial<Pick<ReadingContext, 'now'>> & {
    readonly store: Pick<Store, 'openRun'>
    readonly stream: Pick<Stream, 'name'>
    readonly kind: Kind
    /** For a backfill: the one to continue. */
    readonly id?: string
  }

export const performRun = <Kind extends RunKind>(
  context: RunContext<Kind>,
  read: (run: Run<Kind>, source: Source) => Promise<RunReading>,
): Promise<RunOutcome> =>
  onBehalfOf({ stream: context.stream.name, kind: context.kind }, () => perform(context, read))

async function perform<Kind extends RunKind>(
  context: RunContext<Kind>,
  read: (run: Run<Kind>, source: Source) => Promise<RunReading>,
): Promise<RunOutcome> {
  const { store, kind, signal, id, now = () => new Date() } = context
  const stream = context.stream.name
  const tally = { inserted: 0, updated: 0, unchanged: 0, rescued: 0, quarantined: 0, requests: 0, bytes: 0 }
  const outcome = { stream, kind, tally, note: null, error: null, isComplete: false, yielded: false }
  const run = await store.openRun(kind, stream, id === undefined ? {} : { id })
  if ('busy' in run) return { ...outcome, status: 'skipped', runId: null, note: run.busy }
  const ended = { ...outcome, runId: run.id }
  let reading: RunReading
  try {
    const ends = withPageEnds(countingSource(context.source, tally, run.progress))
    reading = await read(countingRun(run, tally), ends.source)
    await learn(run, ends.detected(), now())
  } catch (cause) {
    // Only the abort itself counts as stopped. Any other error is a failure, even while the run is told to stop.
    if (signal.aborted && cause === signal.reason) {
      await run.finish({ ...endOf(tally), note: stoppedNote, isCutShort: true })
      return { ...ended, status: 'stopped', note: stoppedNote }
    }
    const error = errorOf(cause)
    await run.finish({ ...endOf(tally), status: 'failed', error: error.message, errorCode: codeOf(error) })
    return { ...ended, status: 'failed', error }
  }
  // Outside of the try on purpose: a run ends once. If its end cannot be written down, the caller gets the error.
  const { yielded = false, isInconclusive = false, wantsReconcile: _, ...told } = reading
  const status = isInconclusive ? 'inconclusive' : 'done'
  await run.finish({ ...endOf(tally), ...told, status, isCutShort: yielded })
  return { ...ended, ...reading, status }
}

/** The end of a run that proved nothing; the caller adds what is different. */
const endOf = ({ requests, bytes }: Tally): RunEnd => ({
  requests,
  bytes,
  status: 'done',
  error: null,
  errorCode: null,
  note: null,
  isComplete: false,
})

const codeOf = (error: Error): string | null =>
  'code' in error && typeof error.code === 'string' ? error.code : null

type Counter = { -readonly [Name in keyof Tally]: number }

function countingSource(
  source: Source,
  counter: Counter,
  progress: RunProgress,
  came = { records: 0 },
): Source {
  const told = () => progress.asked({ requests: counter.requests, bytes: counter.bytes, ...came })
  const count = async <Result extends Answer | Refusal>(answering: Promise<Result>): Promise<Result> => {
    counter.requests += 1
    const answer = await answering
    if ('records' in answer) {
      counter.bytes += answer.bytes
      came.records += answer.records.length
    }
    told()
    return answer
  }
  const { lookup } = source
  return {
    sortedBy: (field) => countingSource(source.sortedBy(field), counter, progress, came),
    changes: (request, signal) => count(source.changes(request, signal)),
    list: (request, signal) => count(source.list(request, signal)),
    listHasPages: source.listHasPages,
    lookup:
      lookup &&
      ((key, signal) => {
        counter.requests += 1
        told()
        return lookup(key, signal)
      }),
  }
}

const countingRun = <Kind extends RunKind>(run: Run<Kind>, counter: Counter): Run<Kind> => ({
  ...run,
  pages: {
    async commit(...page) {
      const written = await run.pages.commit(...page)
      for (const name of ['inserted', 'updated', 'unchanged', 'rescued', 'quarantined'] as const)
        counter[name] += written[name]
      return written
    },
  },
})
