// A reconcile that a person asks for, with the deletions that the person approved.

import type { SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import type { ListStream, Stream } from '../streams/catalog.ts'
import { pollList } from '../sync/lists/poll.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import type { DifferenceCounts } from '../sync/ports/audits.ts'
import { type ReconcileOutcome, reconcileStream } from '../sync/reconcile/reconcile.ts'
import { count, formatDuration, plural, sentence } from '../util/text.ts'

type Options = {
  /** How many rows may be marked deleted although the listing is empty or lost more than a fifth; 0: none. */
  readonly approved: number
  readonly signal: AbortSignal
  readonly log: Logger
}
export type ReconcileOnce = RunOutcome & { readonly findings: ReconcileOutcome['findings'] | null }

export async function reconcileOnce(
  context: SyncContext,
  stream: Stream,
  { approved, signal, log }: Options,
): Promise<ReconcileOnce> {
  if (stream.kind === 'list')
    return { ...(await listTwice(context, stream, signal, approved)), findings: null }
  const outcome = await reconcileStream({ ...context.contextOf(stream), signal, approved })
  const { missedRows, samples } = outcome.findings
  if (missedRows > 0)
    log.warn(
      { stream: stream.name, missedRows, keys: samples.slice(0, 100).map(({ key }) => key) },
      `the reconcile of ${stream.name} found rows that no other run had brought`,
    )
  return outcome
}

/** Where no look at one record exists, two complete listings in a row are the proof (P7). */
async function listTwice(
  context: SyncContext,
  stream: ListStream,
  signal: AbortSignal,
  approved: number,
): Promise<RunOutcome> {
  const reading = { ...context.contextOf(stream), signal, approved, onWritten: () => {} }
  const first = await pollList(reading)
  return first.status === 'done' && first.isComplete && approved > 0 ? await pollList(reading) : first
}

/** In one line. */
export function reconcileSentence(outcome: ReconcileOnce & { readonly durationMs: number }): string {
  const { stream, status, findings, tally, note, error, durationMs } = outcome
  if (status === 'skipped')
    return `${stream}: skipped, because ${note} is reconciling it now. Try again when that is done.`
  if (status === 'failed')
    return `${stream}: the reconcile failed: ${sentence(error?.message ?? 'no reason was recorded')}`
  const some = (amount: number, what: string) => (amount > 0 ? [`${count(amount)} ${what}`] : [])
  const found = findings
    ? [
        `${count(findings.missedRows)} missed`,
        ...some(findings.late, 'late'),
        ...otherCauses(findings.differences),
        `${count(findings.marked)} marked deleted`,
        ...some(findings.alive, 'not listed but still there'),
        ...some(findings.unclear, 'not listed and without a clear answer'),
      ]
    : []
  const counts = `${count(tally.inserted)} new, ${count(tally.updated)} changed, ${count(tally.unchanged)} unchanged`
  const parts = [...found, counts, plural(tally.requests, 'request'), formatDuration(durationMs)]
  const isNoteworthy = status !== 'done' || note?.includes('blocked') || note?.includes('changed during')
  return `${stream}: ${status}, ${parts.join(', ')}${isNoteworthy && note ? `; ${note}` : ''}`
}

/** Besides those that have counts of their own. */
const otherCauses = ({ late: _late, deleted: _deleted, ...others }: DifferenceCounts): readonly string[] =>
  Object.entries(others).map(([cause, rows]) => `${count(rows)} ${cause}`)
