// The reading of related records: those of assignments that changed, a batch at a time, until there is no backlog or
// its turn is over. Records first, then what is known of their assignments: whatever ends it in between is read again (P8).

import type { RelatedStream } from '../../streams/catalog.ts'
import { plural } from '../../util/text.ts'
import { performRun, type RunOutcome, type RunReading } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { Due, Run, Store, Written } from '../ports/store.ts'
import { readFamilies } from './batch.ts'

export type RelatedContext = {
  readonly store: Store
  /** Its `lookup` is the extended read of an assignment. */
  readonly source: Source
  /** The groups that are wanted. */
  readonly streams: readonly RelatedStream[]
  readonly now: () => Date
  readonly signal: AbortSignal
  readonly shouldYield?: () => boolean
  readonly onWritten?: (written: Written) => void
}

const pickedAtOnce = 500
const batchSize = 100
/** Files are held in memory until they are written (P10). */
const batchSizeWithFiles = 8
/** A turn ends after this long, so that its rows are told and others come in between. */
const turnMs = 60_000
/** So many reads without one answer are no chance. */
const hopelessReads = 10

export function readRelated(context: RelatedContext): Promise<RunOutcome> {
  const { store, source, signal } = context
  const what = { store, source, stream: { name: 'assignment' }, kind: 'related', signal } as const
  return performRun(what, (run, counted) => readBacklog({ ...context, source: counted }, run))
}

async function readBacklog(context: RelatedContext, run: Run<'related'>): Promise<RunReading> {
  const { signal, streams, now } = context
  const endsAtMs = now().getTime() + turnMs
  const size = streams.some(({ bulkField }) => bulkField) ? batchSizeWithFiles : batchSize
  let asideCount = 0
  const note = () =>
    asideCount > 0
      ? `${plural(asideCount, 'assignment')} could not be read and will be tried again later`
      : null
  for (;;) {
    const picked = await run.backlog.due(pickedAtOnce)
    if (picked.length === 0) {
      await run.backlog.noteComplete()
      return { note: note(), isComplete: true, yielded: false }
    }
    for (let start = 0; start < picked.length; start += size) {
      signal.throwIfAborted()
      asideCount += await readBatch(context, run, picked.slice(start, start + size))
      if (context.shouldYield?.() || now().getTime() >= endsAtMs)
        return { note: note(), isComplete: false, yielded: true }
    }
  }
}

/** Returns how many assignments were set aside. */
async function readBatch(
  context: RelatedContext,
  run: Run<'related'>,
  picked: readonly Due[],
): Promise<number> {
  const { streams } = context
  const living = picked.filter(({ isGone }) => !isGone)
  const { shown, families, aside, pages, failure } = await readFamilies(context, run, living)
  if (!failure && living.length >= hopelessReads && aside.length === living.length)
    throw new Error(
      `None of ${living.length} extended reads could be used: ${aside[0]?.problem}. Check the permissions of the integration user, or remove RELATED.`,
    )
  await run.backlog.link(shown)
  for (const { stream, keyField, records } of pages) {
    const written = await run.pages.commit(records, null, { into: { stream, keyField } })
    context.onWritten?.(written)
  }
  const nothing = streams.map(({ name }) => ({ stream: name, keys: [] }))
  const gone = picked.filter(({ isGone }) => isGone).map((due) => ({ due, children: nothing }))
  await run.backlog.settle([...families, ...gone], aside)
  if (failure) throw failure.error
  return aside.length
}
