// What verbs share that read streams one after the other: progress, Ctrl-C, how long it took, and the document of a run. Where there is no
// DATABASE_URL but a TIDEMARK_URL, a worker is asked for the runs, and they are waited for.

import { setTimeout as wait } from 'node:timers/promises'
import type { SyncContext } from '../context.ts'
import { type RunLine, runs } from '../documents/runs.ts'
import { streams as streamsDocument } from '../documents/status.ts'
import type { Stream } from '../streams/catalog.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import { UsageError } from '../util/errors.ts'
import { count, plural } from '../util/text.ts'
import type { Call } from './command.ts'
import { type ExitCode, exitCodes, Interrupted, worst } from './exit.ts'
import { showReading } from './live-progress.ts'
import type { Remote } from './remote.ts'

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
  stream,
  status,
  run: runId,
  complete: isComplete,
  note,
  error: error?.message ?? null,
})

// ── over the API of a worker ─────────────────────────────────────────────────────────────────────────────────

const pollMs = 1_000
type Kind = 'incremental' | 'lookback' | 'reconcile'

/** Without names of all streams that have such runs. Ctrl-C ends only the waiting. */
export async function requestRuns(call: Call, remote: Remote, kind: Kind): Promise<ExitCode> {
  const { positionals, values, stdout } = call
  const known = await remote.read(streamsDocument, {})
  const all = known.filter((one) => kind === 'incremental' || one.kind === 'changes')
  const names = positionals.length > 0 ? positionals : all.map(({ stream }) => stream)
  const ended: RunLine[] = []
  for (const name of names) {
    if (known.find(({ stream }) => stream === name)?.paused)
      throw new UsageError(`${name} is paused, so no worker reads it. First: tidemark resume ${name}`)
    const run = await requestRun(call, remote, name, kind)
    ended.push(run)
    if (!values.json) stdout.tell(runInWords(run))
  }
  if (values.json) stdout.json({ streams: ended })
  return worst(ended.map(codeOfLine))
}

async function requestRun({ signal }: Call, remote: Remote, name: string, kind: Kind): Promise<RunLine> {
  // A list is read whole by each of its runs.
  const newest = async () => {
    const [found] = await remote.read(runs, {
      stream: name,
      limit: 1,
      ...(kind !== 'incremental' && { kind }),
    })
    return found
  }
  const before = await newest()
  await remote.act('sync', name, { kind })
  for (;;) {
    await wait(pollMs, undefined, { signal }).catch(() => {
      throw new Interrupted(`Interrupted. The worker goes on: tidemark runs list ${name}`)
    })
    const run = await newest()
    // Runs in a row that find nothing share a line.
    if (run && run.finished_at !== null && (run.id !== before?.id || run.polls !== before.polls)) return run
  }
}

function runInWords({ id, stream, kind, status, error, note, ...run }: RunLine): string {
  const wrote = `${count(run.inserted)} new, ${count(run.updated)} changed, ${count(run.marked_deleted)} marked deleted`
  const why = error ?? note
  return `${stream}: ${kind} ${status} (run ${id}), ${wrote}, ${plural(run.requests, 'request')}${why === null ? '' : `; ${why}`}`
}

/** Blocked deletions wait for a person. */
function codeOfLine({ status, note }: RunLine): ExitCode {
  if (status === 'failed' || note?.includes('blocked')) return exitCodes.failed
  return status === 'inconclusive' ? exitCodes.upstream : exitCodes.done
}
