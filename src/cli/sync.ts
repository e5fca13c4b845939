// `tidemark sync`: reads streams once, without a queue, and ends.

import type { Config } from '../config/load.ts'
import { configuredStreams } from '../configured.ts'
import { openContext, type ReadOptions, type SyncContext } from '../context.ts'
import { readDueState } from '../store/book/due.ts'
import { pickStreams, type Stream } from '../streams/catalog.ts'
import { isAssignments, keyIn } from '../streams/names.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import { UsageError } from '../util/errors.ts'
import { count, formatDuration, plural } from '../util/text.ts'
import { type Call, type Command, json, oneOf, option } from './command.ts'
import { readEach, requestRuns, runJson, type Timed } from './each-stream.ts'
import { exitCodeOfRun } from './exit.ts'
import { loadConfigHere } from './mirror.ts'
import { openRemote } from './remote.ts'

export const sync: Command = {
  name: 'sync',
  summary: 'read streams once, then exit',
  usage: '[stream…] [--kind incremental|lookback|related] [--json]',
  options: {
    kind: option(
      'KIND',
      'incremental (new changes, the default), lookback (the recent past again) or related (records of changed assignments)',
    ),
    json,
  },
  examples: ['tidemark sync', 'tidemark sync assignment assignment_note', 'tidemark sync --kind lookback'],
  async run(call) {
    const { environment, values, log, signal, stdout } = call
    const kind = oneOf(values, 'kind', syncedKinds) ?? 'incremental'
    const remote = openRemote(call)
    if (remote !== null && kind !== 'related') return await requestRuns(call, remote, kind)
    const config = loadConfigHere(environment)
    const streams = wantedStreams(call, kind, config)
    await using context = await openContext({ config, log })
    const { results, code } = await readEach<Synced>(call, context, streams, {
      read: (stream) => syncOne(context, stream, kind, signal),
      tell: (result) => values.json || stdout.say(sentence(result)),
      codeOf: exitCodeOfRun,
    })
    if (values.json) stdout.json({ streams: results.map(asJson) })
    return code
  },
}

const syncedKinds = ['incremental', 'lookback', 'related'] as const
type SyncedKind = (typeof syncedKinds)[number]

const canRead: Readonly<Record<SyncedKind, (name: string, kind: Stream['kind']) => boolean>> = {
  incremental: () => true,
  lookback: (_name, kind) => kind === 'changes',
  related: isAssignments,
}

type Synced = RunOutcome & { readonly position: string | null }

function wantedStreams(
  { positionals, catalogue }: Call,
  kind: SyncedKind,
  config: Config,
): readonly Stream[] {
  const wanted = pickStreams(positionals, configuredStreams(config, catalogue))
  if (kind === 'related' && config.related.length === 0)
    throw new UsageError(
      'No related records are configured. Set RELATED=true for all of them, or name the groups you want.',
    )
  const assignments = keyIn(config.source, 'assignment')
  const streams = wanted.filter((stream) => canRead[kind](stream.name, stream.kind))
  if (streams.length > 0) return streams
  throw new UsageError(
    kind === 'related'
      ? `Only ${assignments} has related records: \`tidemark sync ${assignments} --kind related\`.`
      : `A look-back needs a stream with row versions, and ${wanted.map(({ name }) => name).join(', ')} has none: it is read whole every time.`,
  )
}

async function syncOne(
  context: SyncContext,
  stream: Stream,
  kind: SyncedKind,
  signal: AbortSignal,
): Promise<Synced> {
  let position: string | null = null
  const hooks: ReadOptions = {
    signal,
    onWritten: (_written, reached) => {
      position = reached?.position.toString() ?? null
    },
  }
  const outcome = await (kind === 'related'
    ? drainRelated(context, stream.name, hooks)
    : context.read(stream, kind, { ...hooks, reach: 'whole' }))
  return { ...outcome, note: outcome.note ?? (await whyNothing(context, stream, outcome)), position }
}

/** Explains why nothing came: a newcomer would take an upstream that shows nothing for one that was read. */
async function whyNothing(
  { database }: SyncContext,
  stream: Stream,
  { status, tally }: RunOutcome,
): Promise<string | null> {
  const { inserted, updated, unchanged, quarantined } = tally
  const hasSeen = inserted + updated + unchanged + quarantined > 0
  if (status !== 'done' || hasSeen || stream.kind !== 'changes') return null
  const { streams } = await readDueState(database.pool, [stream.name])
  if (streams[0]?.isQuiet) return null
  return 'the upstream shows no records yet: it has none, or CLIENT_GUID is not yours'
}

/** Reads until the backlog is empty: a run of related records gives way after a while, but here nobody else waits. */
async function drainRelated(context: SyncContext, stream: string, hooks: ReadOptions): Promise<RunOutcome> {
  for (;;) {
    const outcome = await context.readRelated(hooks, stream)
    if (outcome.isComplete || outcome.status !== 'done') return outcome
  }
}

function sentence({ stream, kind, status, tally, note, error, durationMs, position }: Timed<Synced>): string {
  const { inserted, updated, unchanged, rescued, quarantined, requests } = tally
  const parts = [
    `${count(inserted)} new, ${count(updated)} changed, ${count(unchanged)} unchanged`,
    ...(rescued > 0 ? [plural(rescued, 'misfit value')] : []),
    ...(quarantined > 0 ? [`${plural(quarantined, 'record')} in quarantine`] : []),
    ...(kind !== 'list' && position !== null ? [`position ${position}`] : []),
    plural(requests, 'request'),
    formatDuration(durationMs),
  ]
  if (status === 'skipped') return `${stream}: skipped, because it is being read already (${note}).`
  if (status === 'failed')
    return [
      `${stream}: failed. ${error?.message ?? 'No reason was given.'}`,
      ...(inserted + updated + unchanged > 0 ? [`  Stored before that: ${parts.join(', ')}`] : []),
    ].join('\n')
  return `${stream}: ${status}, ${parts.join(', ')}${note ? `; ${note}` : ''}`
}

const asJson = (result: Timed<Synced>) => ({
  ...runJson(result),
  kind: result.kind,
  position: result.position,
  ...result.tally,
  duration_ms: result.durationMs,
})
