// `tidemark reconcile`: lists streams whole, to find what is missing here and what is gone there.

import { loadConfig } from '../config/load.ts'
import { configuredStreams } from '../configured.ts'
import { openContext } from '../context.ts'
import { type ReconcileOnce, reconcileOnce, reconcileSentence } from '../operator/reconcile.ts'
import { pickStream, pickStreams, streams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, json } from './command.ts'
import { type ExitCode, exitCodeOfRun, exitCodes, worst } from './exit.ts'
import { showReading } from './live-progress.ts'
import { act } from './recorded.ts'

export const reconcile: Command = {
  name: 'reconcile',
  summary: 'compare streams with the whole list of the upstream, and correct the rows that differ',
  usage: '[stream…] [--json] | --acknowledge <stream>',
  options: {
    acknowledge: {
      type: 'string',
      value: 'STREAM',
      describe: 'confirm that you have seen the rows that only a reconcile found',
    },
    json,
  },
  examples: [
    'tidemark reconcile',
    'tidemark reconcile assignment',
    'tidemark reconcile --acknowledge assignment',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { environment, positionals, values, log, signal, stdout, stderr } = call
  if (values.acknowledge !== undefined) return await acknowledge(call, String(values.acknowledge))
  const config = loadConfig(environment)
  const known = configuredStreams(config)
  // List streams only when they are named: every poll lists them whole anyway.
  const wanted = pickStreams(positionals, known).filter(
    ({ kind }) => kind === 'changes' || positionals.length > 0,
  )
  await using context = await openContext({ config, log })
  const results: TimedReconcile[] = []
  for (const stream of wanted) {
    if (signal.aborted) break
    const seen = { terminal: stderr, pool: context.database.pool, stream: stream.name }
    const progress = showReading(seen, { reading: 'reconcile' })
    const result = await timed(() => reconcileOnce(context, stream, { approved: 0, signal, log })).finally(
      progress.end,
    )
    results.push(result)
    if (!values.json) stdout.say(reconcileText(result))
  }
  if (values.json) stdout.json({ streams: results.map(reconcileJson) })
  const codes = results.map(reconcileExitCode)
  return worst(results.length < wanted.length ? [...codes, exitCodes.interrupted] : codes)
}

export type TimedReconcile = ReconcileOnce & { readonly durationMs: number }

export async function timed(work: () => Promise<ReconcileOnce>): Promise<TimedReconcile> {
  const startedAt = performance.now()
  const outcome = await work()
  return { ...outcome, durationMs: Math.round(performance.now() - startedAt) }
}

/** Blocked deletions wait for a person; and a list that kept changing proved nothing. */
export function reconcileExitCode(result: ReconcileOnce): ExitCode {
  const { status, isComplete, findings, note } = result
  if (status !== 'done' || isComplete) return exitCodeOfRun(result)
  const isBlocked = findings ? findings.blocked !== null : note?.includes('blocked') === true
  return isBlocked ? exitCodes.failed : exitCodes.upstream
}

async function acknowledge(call: Call, name: string): Promise<ExitCode> {
  if (call.positionals.length > 0)
    throw new UsageError(
      '`tidemark reconcile --acknowledge` takes one stream, e.g. `tidemark reconcile --acknowledge assignment`.',
    )
  return await act(call, 'acknowledge', pickStream(name, streams).name)
}

const mostKeys = 20

export function reconcileText(result: TimedReconcile): string {
  const { stream, findings } = result
  if (!findings || findings.missedRows === 0) return reconcileSentence(result)
  const keys = findings.samples.slice(0, mostKeys).map(({ key }) => key)
  const more = findings.missedRows > mostKeys ? ', …' : ''
  return [
    reconcileSentence(result),
    `  missed rows: ${keys.join(', ')}${more}`,
    `  They are in the mirror now. When you have seen them: tidemark reconcile --acknowledge ${stream}`,
  ].join('\n')
}

export const reconcileJson = ({
  stream,
  status,
  runId,
  findings,
  tally,
  note,
  error,
  isComplete,
  durationMs,
}: TimedReconcile) => ({
  stream,
  status,
  run: runId,
  complete: isComplete,
  inserted: tally.inserted,
  updated: tally.updated,
  unchanged: tally.unchanged,
  quarantined: tally.quarantined,
  misfit_values: tally.rescued,
  requests: tally.requests,
  bytes: tally.bytes,
  ...(findings && {
    missed_rows: findings.missedRows,
    missed_keys: findings.samples.map(({ key }) => key),
    late: findings.late,
    by_cause: findings.differences,
    missing: findings.missing,
    marked: findings.marked,
    alive: findings.alive,
    unclear: findings.unclear,
    blocked: findings.blocked && { missing: findings.blocked.missing, living: findings.blocked.living },
  }),
  duration_ms: durationMs,
  note,
  error: error?.message ?? null,
})
