// `tidemark reconcile`: lists streams whole, to find what is missing here and what is gone there.

import { loadConfig } from '../config/load.ts'
import { configuredStreams } from '../configured.ts'
import { openContext } from '../context.ts'
import { type ReconcileOnce, reconcileOnce, reconcileSentence } from '../operator/reconcile.ts'
import { pickStream, pickStreams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { snakeCased } from '../util/text.ts'
import { type Call, type Command, json, option } from './command.ts'
import { readEach, requestRuns, runJson, type Timed } from './each-stream.ts'
import { type ExitCode, exitCodeOfRun, exitCodes } from './exit.ts'
import { act } from './recorded.ts'
import { openRemote } from './remote.ts'

export const reconcile: Command = {
  name: 'reconcile',
  summary: 'compare streams with the whole list of the upstream, and correct the rows that differ',
  usage: '[stream…] [--json] | --acknowledge <stream>',
  options: {
    acknowledge: option('STREAM', 'confirm that you have seen the rows that only a reconcile found'),
    json,
  },
  examples: [
    'tidemark reconcile',
    'tidemark reconcile assignment',
    'tidemark reconcile --acknowledge assignment',
  ],
  async run(call) {
    const { environment, positionals, values, log, signal, stdout } = call
    if (values.acknowledge !== undefined) return await acknowledge(call, String(values.acknowledge))
    const remote = openRemote(call)
    if (remote !== null) return await requestRuns(call, remote, 'reconcile')
    const config = loadConfig(environment)
    const known = configuredStreams(config, call.catalogue)
    // List streams only when they are named: every poll lists them whole anyway.
    const wanted = pickStreams(positionals, known).filter(
      ({ kind }) => kind === 'changes' || positionals.length > 0,
    )
    await using context = await openContext({ config, log })
    const { results, code } = await readEach<ReconcileOnce>(call, context, wanted, {
      reading: 'reconcile',
      read: (stream) => reconcileOnce(context, stream, { approved: 0, signal, log }),
      tell: (result) => values.json || stdout.say(reconcileText(result)),
      codeOf: reconcileExitCode,
    })
    if (values.json) stdout.json({ streams: results.map(reconcileJson) })
    return code
  },
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
  return await act(call, 'acknowledge', pickStream(name, call.catalogue).name)
}

const mostKeys = 20

export function reconcileText(result: Timed<ReconcileOnce>): string {
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

export function reconcileJson(result: Timed<ReconcileOnce>) {
  const { findings, durationMs } = result
  const { rescued, ...tally } = result.tally
  const { samples = [], differences, blocked, ...counts } = findings ?? {}
  return {
    ...runJson(result),
    ...tally,
    misfit_values: rescued,
    ...(findings && {
      ...snakeCased(counts),
      missed_keys: samples.map(({ key }) => key),
      by_cause: differences,
      blocked: blocked && { missing: blocked.missing, living: blocked.living },
    }),
    duration_ms: durationMs,
  }
}
