// `tidemark backfill`: reads a part of a stream's past again, beside the live worker. The request is stored first. This program or a
// worker does it, whichever comes first, and this program shows how far it has come.

import { setTimeout as wait } from 'node:timers/promises'
import { loadConfig } from '../config/load.ts'
import { configuredStreams } from '../configured.ts'
import { openContext, type SyncContext } from '../context.ts'
import { backfills } from '../documents/positions.ts'
import { actions } from '../operator/actions.ts'
import {
  backfillJson,
  backfillSentence,
  findSpan,
  planBackfill,
  readSpanOptions,
} from '../operator/backfill.ts'
import { asChangesStream } from '../operator/positions.ts'
import { readBackfill } from '../store/book/backfills.ts'
import { type ChangesStream, pickStream } from '../streams/catalog.ts'
import { runNextBackfill } from '../sync/changes/backfill.ts'
import type { Backfill } from '../sync/ports/store.ts'
import { UsageError } from '../util/errors.ts'
import { count } from '../util/text.ts'
import { type Call, type Command, flag, json, option, textsOf } from './command.ts'
import { type ExitCode, exitCodeOfRun, exitCodes } from './exit.ts'
import { showReading } from './live-progress.ts'
import { listFromMirror } from './mirror.ts'
import { act, actThere, actUpstream } from './recorded.ts'

export const backfill: Command = {
  name: 'backfill',
  summary: 'read a part of the past again, while the worker goes on',
  usage:
    '<stream> [--from-version N | --from-checkpoint ID | --at TIME] [--to-version N] [--dry-run] [--json] | --list [stream] | --cancel ID',
  options: {
    'from-version': option('N', 'everything above this row version'),
    'from-checkpoint': option('ID', 'from a checkpoint that `tidemark checkpoints` lists'),
    at: option('TIME', 'from the position at this time, e.g. 2025-01-31T14:30:00Z'),
    'to-version': option('N', 'up to this row version (the current position)'),
    'dry-run': flag('only estimate what it would take'),
    list: flag('list the backfills'),
    cancel: option('ID', 'cancel one; what it has written stays'),
    json,
  },
  examples: [
    'tidemark backfill assignment --at 2025-01-31T14:30:00Z',
    'tidemark backfill assignment --from-version 0 --to-version 50000 --dry-run',
    'tidemark backfill assignment    # goes on with one that was interrupted',
    'tidemark backfill --list',
  ],
  async run(call) {
    const { positionals, values } = call
    if (positionals.length > 1) throw new UsageError('`tidemark backfill` takes one stream.')
    if (values.list && values.cancel !== undefined)
      throw new UsageError('Use either --list or --cancel, not both.')
    if (values.cancel !== undefined && positionals.length > 0)
      throw new UsageError('`tidemark backfill --cancel` takes an id, and no stream.')
    const other = values.list ? 'list' : values.cancel !== undefined ? 'cancel' : null
    const wrong = [...spanOptions, 'dry-run'].find((name) => values[name] !== undefined)
    if (other !== null && wrong !== undefined)
      throw new UsageError(`--${wrong} goes with a new backfill, not with --${other}.`)
    if (values.list) return await listAll(call)
    if (values.cancel !== undefined) return await act(call, 'cancelBackfill', String(values.cancel))
    return await begin(call)
  },
}

async function begin(call: Call): Promise<ExitCode> {
  const { environment, positionals, values, log, stdout } = call
  const [name] = positionals
  if (name === undefined)
    throw new UsageError(
      '`tidemark backfill` needs a stream, e.g. `tidemark backfill assignment --from-version N`.',
    )
  const asked = textsOf(call, spanOptions)
  const isDryRun = values['dry-run'] === true
  const there = await actThere(call, 'backfill', name, { ...asked, 'dry-run': isDryRun ? 'yes' : null })
  if (there !== null) return there
  const config = loadConfig(environment)
  const known = configuredStreams(config, call.catalogue)
  const stream = asChangesStream(pickStream(name, known), known)
  const { from, to } = readSpanOptions(values)
  await using context = await openContext({ config, log, migrates: !isDryRun })
  const { pool } = context.database
  if (from === null) {
    const unfinished = await context.store.nextBackfill(stream.name)
    if (!unfinished || to !== null || isDryRun)
      throw new UsageError(
        'Say where the backfill begins: --from-version N, --from-checkpoint ID (`tidemark checkpoints` lists them) or --at TIME.',
      )
    return await work(call, context, stream, unfinished)
  }
  if (isDryRun) {
    const span = await findSpan(pool, stream, { from, to })
    const plan = await planBackfill(context, stream, span)
    if (values.json) stdout.json(plan.json)
    else stdout.tell(plan.text)
    return exitCodes.done
  }
  const { detail } = await actUpstream(call, context, ['backfill', actions.backfill], stream.name, asked)
  return detail ? await work(call, context, stream, detail) : exitCodes.failed
}

const spanOptions = ['from-version', 'from-checkpoint', 'at', 'to-version']
const pollMs = 500

/** Works on the stream's backfills until this one is over: the oldest first, failed ones last. Waits while another program works on them. */
async function work(
  { values, signal, log, stdout, stderr }: Call,
  context: SyncContext,
  stream: ChangesStream,
  { id }: Pick<Backfill, 'id'>,
): Promise<ExitCode> {
  const { pool } = context.database
  const progress = showReading(
    { terminal: stderr, pool, stream: stream.name },
    {
      reading: 'backfill',
      title: `backfill ${id}`,
      hint: 'Ctrl-C stops it here; the next worker continues it',
    },
  )
  try {
    for (;;) {
      const outcome = await runNextBackfill({ ...context.contextOf(stream), signal })
      const current = await readBackfill(pool, id)
      if (!current) throw new Error(`Backfill ${id} is no longer in the database.`)
      const isOver = current.status === 'done' || current.status === 'cancelled'
      // The span could not be read completely, and is tried again later.
      const waits = current.status === 'waiting' && current.error !== null && outcome?.status !== 'skipped'
      if (isOver || waits || outcome?.status === 'failed' || signal.aborted) {
        progress.end()
        if (outcome?.error) log.debug({ err: outcome.error, stream: stream.name }, 'the backfill failed')
        if (values.json) stdout.json(backfillJson(current))
        else stdout.tell(backfillSentence(current))
        if (current.status === 'done') return exitCodes.done
        if (outcome?.status === 'failed') return exitCodeOfRun(outcome)
        if (waits) return exitCodes.upstream
        return isOver ? exitCodes.failed : exitCodes.interrupted
      }
      if (outcome?.status === 'skipped') await wait(pollMs, undefined, { signal }).catch(() => {})
    }
  } finally {
    progress.end()
  }
}

/** It needs the mirror alone. */
async function listAll(call: Call): Promise<ExitCode> {
  const [name] = call.positionals
  return await listFromMirror(call, backfills, {
    asked: { stream: name },
    none: `There was no backfill${name === undefined ? '' : ` of ${name}`} yet.`,
    columns: [
      ['ID', ({ id }) => id],
      ['STREAM', ({ stream }) => stream],
      ['STATUS', ({ status }) => status],
      ['FROM', ({ from }) => from],
      ['TO', ({ to }) => to],
      ['POSITION', ({ position }) => position],
      ['ROWS READ', ({ rows_read }) => count(rows_read)],
      ['REQUESTED BY', ({ requested_by }) => requested_by],
      ['NOTE', ({ error, note }) => error ?? note ?? ''],
    ],
  })
}
