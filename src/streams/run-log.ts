// What a run did, line by line with the time of each: from its steps and its line in the ledger, so that a log has to be kept nowhere else. Pure.

import { count, formatDuration, plural, sentence } from '../util/text.ts'
import type { RunStep } from './run-steps.ts'

export type LoggedRun = {
  readonly stream: string
  readonly kind: string
  readonly status: string
  readonly startedAt: Date
  readonly finishedAt: Date | null
  readonly inserted: number
  readonly updated: number
  readonly unchanged: number
  readonly markedDeleted: number
  readonly error: string | null
  readonly note: string | null
  /** How many runs share the line. */
  readonly polls: number
  readonly steps: readonly RunStep[] | null
}
export type LogLine = { readonly at: Date; readonly text: string }

/** The lines in the order of time. Empty if runs share a ledger line: it has only the steps of the last one, and not when that began. */
export function runLog(run: LoggedRun): readonly LogLine[] {
  if (run.polls > 1) return []
  const { startedAt, finishedAt, steps } = run
  const after = (ms: number) => new Date(startedAt.getTime() + ms)
  return [
    { at: startedAt, text: `${run.kind} of ${run.stream} begins` },
    ...(steps ?? []).flatMap((step) => [
      { at: after(step.from), text: stepInWords(step) },
      ...step.waits.map(({ from, to, what }) => ({
        at: after(from),
        text: `waits ${formatDuration(to - from)}: ${what}`,
      })),
    ]),
    ...(finishedAt === null ? [] : [{ at: finishedAt, text: endInWords(run) }]),
  ]
}

function stepInWords({ what, from, to, requests, records }: RunStep): string {
  const parts = [
    formatDuration(to - from),
    requests > 0 && plural(requests, 'request'),
    records > 0 && plural(records, 'record'),
  ]
  return `${what}: ${parts.filter(Boolean).join(', ')}`
}

function endInWords({ status, inserted, updated, unchanged, markedDeleted, error, note }: LoggedRun): string {
  const wrote = `${count(inserted)} new, ${count(updated)} changed, ${count(unchanged)} unchanged, ${count(markedDeleted)} marked deleted`
  return [`${status}: ${wrote}`, error, note]
    .filter((part) => part !== null)
    .map(sentence)
    .join(' ')
}
