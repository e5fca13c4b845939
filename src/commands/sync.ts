// `tidemark sync`: reads streams once, without a queue, and ends.

import { type Call, type Command, type ExitCode, exitCodes, UsageError } from '../cli/command.ts'
import { pickStreams } from '../cli/pick-streams.ts'
import { loadConfig } from '../config.ts'
import { formatDuration } from '../duration.ts'
import type { Stream } from '../streams.ts'
import type { ScheduledLane } from '../sync/read-stream.ts'
import type { LaneOutcome } from '../sync/run-lane.ts'
import { configuredStreams, openWorkplace } from '../workplace.ts'
import { startProgress } from './sync-progress.ts'

export const sync: Command = {
  name: 'sync',
  summary: 'read streams once, then end',
  usage: '[stream…] [--lane head|trailing] [--json]',
  options: {
    lane: {
      type: 'string',
      value: 'LANE',
      describe: 'head (new changes, the default) or trailing (the recent past again)',
    },
    json: { type: 'boolean', describe: 'print one JSON document' },
  },
  examples: ['tidemark sync', 'tidemark sync assignment assignment_note', 'tidemark sync --lane trailing'],
  run,
}

type Result = LaneOutcome & { readonly durationMs: number; readonly position: string | null }

async function run({ environment, positionals, values, log, signal, stdout }: Call): Promise<ExitCode> {
  const lane = laneOf(values.lane)
  const config = loadConfig(environment)
  const wanted = pickStreams(positionals, configuredStreams(config))
  const streams = lane === 'trailing' ? wanted.filter(({ kind }) => kind === 'changes') : wanted
  if (streams.length === 0)
    throw new UsageError('Only changes streams have a trailing lane: assignment, assignment_note')
  await using workplace = await openWorkplace({ config, log })
  const results: Result[] = []
  for (const stream of streams) {
    if (signal.aborted) break
    const startedAt = performance.now()
    const progress = startProgress(stream.name, process.stderr)
    const outcome = await workplace.read(stream, lane, { signal, onWritten: progress.written })
    const result = {
      ...outcome,
      durationMs: Math.round(performance.now() - startedAt),
      position: progress.position(),
    }
    progress.end()
    results.push(result)
    if (outcome.error) log.debug({ err: outcome.error, stream: stream.name }, 'the run failed')
    if (!values.json) stdout.write(`${sentence(stream, result)}\n`)
  }
  if (values.json) stdout.write(`${JSON.stringify({ streams: results.map(asJson) }, null, 2)}\n`)
  return results.some(({ status }) => status === 'failed') ? exitCodes.failed : exitCodes.done
}

function laneOf(value: Call['values'][string]): ScheduledLane {
  if (value === undefined || value === 'head') return 'head'
  if (value === 'trailing') return value
  throw new UsageError(`There is no lane "${value}" to sync: write --lane head or --lane trailing`)
}

function sentence(stream: Stream, { status, tally, note, error, durationMs, position }: Result): string {
  const { inserted, updated, unchanged, rescued, quarantined, requests } = tally
  const parts = [
    `${number(inserted)} new, ${number(updated)} changed, ${number(unchanged)} unchanged`,
    ...(rescued > 0 ? [`${number(rescued)} values rescued`] : []),
    ...(quarantined > 0 ? [`${number(quarantined)} records in quarantine`] : []),
    ...(stream.kind === 'changes' && position !== null ? [`position ${position}`] : []),
    `${number(requests)} ${requests === 1 ? 'request' : 'requests'}`,
    formatDuration(durationMs),
  ]
  if (status === 'skipped') return `${stream.name}: skipped, ${note} is reading it`
  if (status === 'failed')
    return `${stream.name}: failed: ${error?.message ?? 'for a reason unknown'} (${parts.join(', ')})`
  return `${stream.name}: ${status}, ${parts.join(', ')}${note ? `; ${note}` : ''}`
}

const number = (value: number): string => value.toLocaleString('en')

const asJson = ({
  stream,
  lane,
  status,
  runId,
  note,
  error,
  tally,
  position,
  durationMs,
  isComplete,
}: Result) => ({
  stream,
  lane,
  status,
  run: runId,
  position,
  complete: isComplete,
  ...tally,
  duration_ms: durationMs,
  note,
  error: error?.message ?? null,
})
