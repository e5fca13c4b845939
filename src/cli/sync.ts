// `tidemark sync`: reads streams once, without a queue, and ends.

import { loadConfig } from '../config/load.ts'
import {
  configuredStreams,
  openContext,
  type ReadOptions,
  type ScheduledKind,
  type SyncContext,
} from '../context.ts'
import { readLookbackState } from '../store/queries/due.ts'
import { pickStreams, type Stream } from '../streams/catalog.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import { UsageError } from '../util/errors.ts'
import { count, formatDuration, plural, visible } from '../util/text.ts'
import { type Call, type Command, type ExitCode, exitCodes } from './command.ts'
import { startProgress } from './progress.ts'

export const sync: Command = {
  name: 'sync',
  summary: 'read streams once, then end',
  usage: '[stream…] [--kind incremental|trailing|related] [--json]',
  options: {
    kind: {
      type: 'string',
      value: 'LANE',
      describe:
        'head (new changes, the default), trailing (the recent past again) or related (records of changed assignments)',
    },
    json: { type: 'boolean', describe: 'print one JSON document' },
  },
  examples: ['tidemark sync', 'tidemark sync assignment assignment_note', 'tidemark sync --kind lookback'],
  run,
}

type SyncedKind = ScheduledKind | 'related'

const canRead: Readonly<Record<SyncedKind, (name: string, kind: Stream['kind']) => boolean>> = {
  incremental: () => true,
  lookback: (_name, kind) => kind === 'changes',
  related: (name) => name === 'assignment',
}

type Result = RunOutcome & { readonly durationMs: number; readonly position: string | null }

async function run({ environment, positionals, values, log, signal, stdout }: Call): Promise<ExitCode> {
  const kind = kindOf(values.kind)
  const config = loadConfig(environment)
  const wanted = pickStreams(positionals, configuredStreams(config))
  const streams = wanted.filter((stream) => canRead[kind](stream.name, stream.kind))
  if (kind === 'related' && config.related.length === 0)
    throw new UsageError(
      'There are no related records to read: set RELATED=true, or to the groups that are wanted',
    )
  if (streams.length === 0)
    throw new UsageError(
      kind === 'related'
        ? 'Only assignment has a related lane'
        : `Only changes streams have a look-back run, and none of ${wanted.map(({ name }) => name).join(', ')} is one`,
    )
  await using context = await openContext({ config, log })
  const results: Result[] = []
  for (const stream of streams) {
    if (signal.aborted) break
    const startedAt = performance.now()
    const progress = startProgress(stream.name, process.stderr)
    const hooks = { signal, onWritten: progress.written }
    const outcome =
      kind === 'related' ? await drainRelated(context, hooks) : await context.read(stream, kind, hooks)
    const result = {
      ...outcome,
      note: outcome.note ?? (await whyNothing(context, stream, outcome)),
      durationMs: Math.round(performance.now() - startedAt),
      position: progress.position(),
    }
    progress.end()
    results.push(result)
    if (outcome.error) log.debug({ err: outcome.error, stream: stream.name }, 'the run failed')
    if (!values.json) stdout.write(visible(`${sentence(stream, result)}\n`))
  }
  if (values.json) stdout.write(`${JSON.stringify({ streams: results.map(asJson) }, null, 2)}\n`)
  return results.some(({ status }) => status === 'failed') ? exitCodes.failed : exitCodes.done
}

/** Whoever has just begun would take an upstream that shows nothing for one that was read. */
async function whyNothing(
  { database }: SyncContext,
  stream: Stream,
  { status, tally }: RunOutcome,
): Promise<string | null> {
  const { inserted, updated, unchanged, quarantined } = tally
  const hasSeen = inserted + updated + unchanged + quarantined > 0
  if (status !== 'done' || hasSeen || stream.kind !== 'changes') return null
  if ((await readLookbackState(database.pool, stream.name))?.hasPosition) return null
  return 'the upstream shows nothing yet: there is no data, or CLIENT_GUID is not yours'
}

/** Turns end after a while; here there is nobody to give way to. */
async function drainRelated(context: SyncContext, hooks: ReadOptions): Promise<RunOutcome> {
  for (;;) {
    const outcome = await context.readRelated(hooks)
    if (!outcome.yielded || outcome.status !== 'done') return outcome
  }
}

function kindOf(value: Call['values'][string]): SyncedKind {
  if (value === undefined || value === 'incremental') return 'incremental'
  if (value === 'lookback' || value === 'related') return value
  throw new UsageError(
    `There is no lane "${value}" to sync: write --kind incremental, --kind lookback or --kind related`,
  )
}

function sentence(stream: Stream, { status, tally, note, error, durationMs, position }: Result): string {
  const { inserted, updated, unchanged, rescued, quarantined, requests } = tally
  const parts = [
    `${count(inserted)} new, ${count(updated)} changed, ${count(unchanged)} unchanged`,
    ...(rescued > 0 ? [`${count(rescued)} values rescued`] : []),
    ...(quarantined > 0 ? [`${count(quarantined)} records in quarantine`] : []),
    ...(stream.kind === 'changes' && position !== null ? [`position ${position}`] : []),
    plural(requests, 'request'),
    formatDuration(durationMs),
  ]
  if (status === 'skipped') return `${stream.name}: skipped, ${note} is reading it`
  if (status === 'failed')
    return `${stream.name}: failed: ${error?.message ?? 'for a reason unknown'} (${parts.join(', ')})`
  return `${stream.name}: ${status}, ${parts.join(', ')}${note ? `; ${note}` : ''}`
}

const asJson = ({
  stream,
  kind,
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
  kind,
  status,
  run: runId,
  position,
  complete: isComplete,
  ...tally,
  duration_ms: durationMs,
  note,
  error: error?.message ?? null,
})
