// Reads the related records of assignments that changed, a batch at a time, until there is no backlog or the turn of this run is over.
// It writes the records first, and then notes that their assignments were read: if it is killed in between, they are read again (P8).

import { type RelatedStream, relatedIn } from '../../streams/catalog.ts'
import { assignmentsBeside, sourceIn } from '../../streams/names.ts'
import { plural } from '../../util/text.ts'
import { performRun, type ReadingContext, type RunOutcome, type RunReading } from '../perform-run.ts'
import { doubtfulWith } from '../ports/audits.ts'
import type { Due } from '../ports/related.ts'
import type { Run } from '../ports/store.ts'
import { type Batch, type Budget, readFamilies } from './batch.ts'

/** The `lookup` of the source is the extended read of an assignment. */
export type RelatedContext = Omit<ReadingContext, 'stream' | 'pageSize'> & {
  /** The groups that are wanted. */
  readonly streams: readonly RelatedStream[]
  /** Something of an assignment could not be read, and will be tried again. */
  readonly onIncomplete?: (assignmentId: string, problem: string) => void
  /** Gives back at once what long answers took and nobody needs any more (P10). */
  readonly freeMemory?: () => void
}

const pickedAtOnce = 500
const batchSize = 100
/** JSON of the answers of a batch: what they become takes a few times as much. */
const batchBytes = 4 * 1024 * 1024
/** What an answer of this length becomes on its way takes more than the heap has room for. */
const longAnswerBytes = 1024 * 1024
/** A turn ends after this long, so that its rows are told and others come in between. */
const turnMs = 60_000
/** When so many reads bring no usable answer, that is no accident: the run fails. */
const hopelessReads = 10

export function readRelated(context: RelatedContext): Promise<RunOutcome> {
  const { store, source, signal } = context
  const what = {
    store,
    source,
    stream: { name: assignmentsBeside(context.streams[0]?.name ?? '') },
    kind: 'related',
    signal,
  } as const
  return performRun(what, (run, counted) => readBacklog({ ...context, source: counted }, run))
}

async function readBacklog(context: RelatedContext, run: Run<'related'>): Promise<RunReading> {
  const { signal, now } = context
  const endsAtMs = now().getTime() + turnMs
  const budget: Budget = { mostBytes: batchBytes, largestBytes: 0 }
  // Within the last day, also by other runs.
  let { marked: markedCount } = await run.shown.beforehand()
  let asideCount = 0
  const note = () =>
    asideCount > 0
      ? `${plural(asideCount, 'assignment')} could not be read and will be tried again later`
      : null
  for (;;) {
    const picked = await run.backlog.due(pickedAtOnce)
    if (picked.length === 0) {
      // Assignments that still wait are left to the next run.
      const { isDone } = await run.backlog.noteEnd(false)
      return { note: note(), isComplete: isDone }
    }
    for (let start = 0; start < picked.length; ) {
      signal.throwIfAborted()
      const wanted = picked.slice(start, start + batchSize)
      const batch = await readBatch({ ...context, budget, markedCount }, run, wanted)
      if (batch.bytes >= longAnswerBytes) context.freeMemory?.()
      asideCount += batch.asideCount
      markedCount += batch.markedCount
      start += batch.doneCount
      if (context.shouldYield?.() || now().getTime() >= endsAtMs) {
        await run.backlog.noteEnd(true)
        return { note: note(), isComplete: false, yielded: true }
      }
    }
  }
}

/** How many of these were done with, the first ones, how many of them were set aside, and how many marked as deleted. */
type Done = {
  readonly doneCount: number
  readonly asideCount: number
  readonly markedCount: number
  readonly bytes: number
}

async function readBatch(
  context: RelatedContext & { readonly budget: Budget; readonly markedCount: number },
  run: Run<'related'>,
  wanted: readonly Due[],
): Promise<Done> {
  const living = wanted.filter(({ isGone }) => !isGone)
  const askedAt = await run.shown.clock()
  run.progress.step('Read assignments with their related records')
  const batch = await readFamilies(context, run, living)
  // The answers are records by now: their bytes and text can go.
  if (batch.bytes >= longAnswerBytes) context.freeMemory?.()
  const next = living[batch.askedCount]
  const picked = next && !batch.failure ? wanted.slice(0, wanted.indexOf(next)) : wanted
  const { shown, families, pages, failure } = batch
  await run.backlog.link(shown)
  for (const { stream, keyField, records } of pages) {
    const written = await run.pages.commit(records, null, { into: { stream, keyField } })
    context.onWritten?.(written, null)
  }
  // Also of groups that are switched off: nobody looks at this assignment again when they are switched on. But which assignments share
  // one of their records may have changed since.
  const nothing = relatedIn(sourceIn(context.streams[0]?.name ?? ''))
    .filter(({ name, belongsTo }) => belongsTo === 'one' || context.streams.some((one) => one.name === name))
    .map(({ name }) => ({ stream: name, keys: [] }))
  const gone = picked.filter(({ isGone }) => isGone).map((due) => ({ due, children: nothing }))
  const isBelieved = !failure && batch.gone.length > 0 && (await mayBeGone(context, run, batch))
  const setAsideGone = batch.gone.map((due) => ({
    due,
    problem: 'the upstream says that there is no such assignment',
  }))
  const aside = [...batch.aside, ...(isBelieved ? [] : setAsideGone)]
  // Before anything is thrown below: what is set aside now comes later, and the next run begins with others.
  await run.backlog.settle([...families, ...gone], [...aside, ...batch.incomplete])
  for (const { due, problem } of batch.incomplete) context.onIncomplete?.(due.assignmentId, problem)
  const evident = batch.gone.map(({ assignmentId }) => ({ key: assignmentId, evidence: goneEvidence }))
  const markedCount = isBelieved ? await run.shown.markGone(evident, askedAt) : 0
  // Not marked: written since this run began, or a person has to decide about deletions. They would be due at once again.
  const isKept = isBelieved && markedCount < batch.gone.length
  if (isKept) await run.backlog.settle([], setAsideGone)
  if (failure) throw failure.error
  if (batch.askedCount >= hopelessReads && aside.length === batch.askedCount)
    throw new Error(
      `None of ${batch.askedCount} extended reads could be used: ${aside[0]?.problem}. Check the permissions of the integration user, or remove RELATED.`,
    )
  const asideCount = aside.length + batch.incomplete.length + (isKept ? setAsideGone.length - markedCount : 0)
  return { doneCount: picked.length, asideCount, markedCount, bytes: batch.bytes }
}

const goneEvidence = 'asked for with its related records, and then by its id, it is gone'

/**
 * A 404 is believed only for few assignments, and while another one is shown (P7): a wrong client, or a lost right, hides all of them.
 * `markedCount`: within the last day.
 */
async function mayBeGone(
  { source, signal, markedCount }: RelatedContext & { readonly markedCount: number },
  run: Run<'related'>,
  batch: Batch,
): Promise<boolean> {
  const missing = batch.gone.length
  const living = (await run.shown.counts())?.living ?? 0
  const shortfall = { living, missing, seen: Math.max(0, living - missing) }
  if (doubtfulWith(shortfall, markedCount)) return false
  if (batch.families.length > 0) return true
  const other = await run.backlog.otherRead(batch.gone.map(({ assignmentId }) => assignmentId))
  return other !== null && typeof (await source.lookup?.(other, signal)) === 'object'
}
