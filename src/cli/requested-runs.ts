// Runs that the terminal asks a worker for over its API, and waits for to their end: what `tidemark sync` and `reconcile` do themselves
// where there is a DATABASE_URL.

import { setTimeout as wait } from 'node:timers/promises'
import { type RunLine, runs } from '../documents/runs.ts'
import { streams as streamsDocument } from '../documents/status.ts'
import { UsageError } from '../util/errors.ts'
import { count, plural } from '../util/text.ts'
import type { Call } from './command.ts'
import { type ExitCode, exitCodes, Interrupted, worst } from './exit.ts'
import type { Remote } from './remote.ts'

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
    if (!values.json) stdout.tell(inWords(run))
  }
  if (values.json) stdout.json({ streams: ended })
  return worst(ended.map(codeOf))
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

function inWords({ id, stream, kind, status, error, note, ...run }: RunLine): string {
  const wrote = `${count(run.inserted)} new, ${count(run.updated)} changed, ${count(run.marked_deleted)} marked deleted`
  const why = error ?? note
  return `${stream}: ${kind} ${status} (run ${id}), ${wrote}, ${plural(run.requests, 'request')}${why === null ? '' : `; ${why}`}`
}

/** Blocked deletions wait for a person. */
function codeOf({ status, note }: RunLine): ExitCode {
  if (status === 'failed' || note?.includes('blocked')) return exitCodes.failed
  return status === 'inconclusive' ? exitCodes.upstream : exitCodes.done
}
