// What every run has around its reading: the lease is taken, requests and rows are counted, and the end is written into the
// ledger, whatever the end is.

import type { RunKind, Stream } from '../streams/catalog.ts'
import { errorOf } from '../util/errors.ts'
import type { DifferenceCounts } from './ports/audits.ts'
import type { Answer, Refusal, Source } from './ports/source.ts'
import type { Run, RunEnd, RunProgress, Store, WriteCounts } from './ports/store.ts'

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
  /** By cause, of runs that compare. */
  readonly differences?: DifferenceCounts
  /** Everything there was is read. */
  readonly isComplete: boolean
  readonly yielded: boolean
}
export type RunReading = Pick<RunOutcome, 'note' | 'isComplete' | 'yielded'> &
  Pick<RunEnd, 'isHidden' | 'settled' | 'knowsDeletions' | 'differences'> & {
    /** The upstream showed nothing that is known, so that nothing was proven (P11). */
    readonly isInconclusive?: boolean
  }

export type RunContext<Kind extends RunKind> = {
  readonly store: Pick<Store, 'openRun'>
  readonly source: Source
  readonly stream: Pick<Stream, 'name'>
  readonly kind: Kind
  /** The backfill to go on with. */
  readonly id?: string
  readonly signal: AbortSignal
}

export async function performRun<Kind extends RunKind>(
  context: RunContext<Kind>,
  read: (run: Run<Kind>, source: Source) => Promise<RunReading>,
): Promise<RunOutcome> {
  const { store, kind, signal, id } = context
  const stream = context.stream.name
  const tally = { inserted: 0, updated: 0, unchanged: 0, rescued: 0, quarantined: 0, requests: 0, bytes: 0 }
  const outcome = { stream, kind, tally, note: null, error: null, isComplete: false, yielded: false }
  const run = await store.openRun(kind, stream, id === undefined ? {} : { id })
  if ('busy' in run) return { ...outcome, status: 'skipped', runId: null, note: run.busy }
  const ended = { ...outcome, runId: run.id }
  let reading: RunReading
  try {
    const source = countingSource(context.source, tally, run.progress)
    reading = await read(countingRun(run, tally), source)
  } catch (cause) {
    // What fails while the run is told to stop has failed.
    if (signal.aborted && cause === signal.reason) {
      const note = 'stopped between two pages'
      await run.finish({ ...endOf(tally), note, isCutShort: true })
      return { ...ended, status: 'stopped', note }
    }
    const error = errorOf(cause)
    await run.finish({ ...endOf(tally), status: 'failed', error: error.message, errorCode: codeOf(error) })
    return { ...ended, status: 'failed', error }
  }
  // A run ends once: that its end cannot be written down is the caller's trouble.
  const { yielded, isInconclusive = false, ...told } = reading
  const status = isInconclusive ? 'inconclusive' : 'done'
  await run.finish({ ...endOf(tally), ...told, status, isCutShort: yielded })
  return { ...ended, ...reading, status }
}

/** As of a run that proved nothing. */
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
  came: { records: number } = { records: 0 },
): Source {
  const told = () =>
    progress.asked({ requests: counter.requests, bytes: counter.bytes, records: came.records })
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

// An upstream may slip and answer nothing, once. Where that would look like the end, it is asked a second time.
export async function confirmEmpty<Any extends Answer | Refusal>(ask: () => Promise<Any>): Promise<Any> {
  const answer = await ask()
  const isNothing = 'records' in answer && answer.records.length === 0
  return isNothing ? ask() : answer
}

// Lets a few pages be written while the next is fetched, and no more: memory stays bounded (P10). A failed write is told at
// the next call, and nothing is started after it.
export type Pipeline = {
  /** Waits for a free place and for room, then starts the write. `bytes` is how much JSON it is about. */
  start(write: () => Promise<void>, bytes?: number): Promise<void>
  settled(): Promise<void>
}

/** Of writes that are under way; what it becomes takes a few times as much. A single one may be larger. */
const mostBytes = 20 * 1024 * 1024

export function openPipeline(most: number): Pipeline {
  const underWay = new Set<Promise<void>>()
  let held = 0
  let failure: { readonly error: unknown } | null = null
  const throwFailure = () => {
    if (failure) throw failure.error
  }
  return {
    async start(write, bytes = 0) {
      const isFull = () => underWay.size >= most || (underWay.size > 0 && held + bytes > mostBytes)
      while (isFull()) await Promise.race(underWay)
      throwFailure()
      held += bytes
      const writing = write().then(
        () => {},
        (error: unknown) => {
          failure ??= { error }
        },
      )
      underWay.add(writing)
      void writing.then(() => {
        held -= bytes
        underWay.delete(writing)
      })
    },
    async settled() {
      await Promise.all(underWay)
      throwFailure()
    },
  }
}
