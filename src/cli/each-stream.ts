// What verbs share that read streams one after the other: progress, Ctrl-C, how long it took, and the document of a run.

import type { SyncContext } from '../context.ts'
import type { Stream } from '../streams/catalog.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import type { Call } from './command.ts'
import { type ExitCode, exitCodes, worst } from './exit.ts'
import { showReading } from './live-progress.ts'

export type Timed<Outcome> = Outcome & { readonly durationMs: number }

async function timed<Outcome>(work: () => Promise<Outcome>): Promise<Timed<Outcome>> {
  const startedAt = performance.now()
  const outcome = await work()
  return { ...outcome, durationMs: Math.round(performance.now() - startedAt) }
}

type Reading<Outcome> = {
  /** Which reading of the stream the progress shows; left out: whatever it is. */
  readonly reading?: string
  readonly read: (stream: Stream) => Promise<Outcome>
  readonly tell: (result: Timed<Outcome>) => void
  readonly codeOf: (result: Timed<Outcome>) => ExitCode
}

export async function readEach<Outcome extends RunOutcome>(
  { signal, log, stderr }: Call,
  { database }: SyncContext,
  streams: readonly Stream[],
  { read, tell, codeOf, ...shown }: Reading<Outcome>,
): Promise<{ readonly results: readonly Timed<Outcome>[]; readonly code: ExitCode }> {
  const results: Timed<Outcome>[] = []
  for (const stream of streams) {
    if (signal.aborted) break
    const progress = showReading({ terminal: stderr, pool: database.pool, stream: stream.name }, shown)
    const result = await timed(() => read(stream)).finally(progress.end)
    if (result.error) log.debug({ err: result.error, stream: stream.name }, `the ${result.kind} run failed`)
    results.push(result)
    tell(result)
  }
  const codes = results.map(codeOf)
  return { results, code: worst(results.length < streams.length ? [...codes, exitCodes.interrupted] : codes) }
}

export const runJson = ({ stream, status, runId, isComplete, note, error }: RunOutcome) => ({
  ...{ stream, status, run: runId, complete: isComplete, note },
  error: error?.message ?? null,
})
