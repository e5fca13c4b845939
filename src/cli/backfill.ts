// `tidemark backfill`: reads a part of a stream's past again, beside the live worker. The request is stored first; whoever
// has the lane works on it, this program or another one, and this program shows how far it has come.

import { setTimeout as wait } from 'node:timers/promises'
import { loadConfig } from '../config/load.ts'
import { configuredStreams, openContext, type SyncContext } from '../context.ts'
import { findSpan, planBackfill, readSpanOptions } from '../operator/backfill.ts'
import { asChangesStream } from '../operator/positions.ts'
import { cancelBackfill, requestBackfill } from '../store/admin/requests.ts'
import { listBackfills, readBackfill } from '../store/queries/backfills.ts'
import { type ChangesStream, pickStream, streams } from '../streams/catalog.ts'
import { parseInt64 } from '../streams/record.ts'
import { runNextBackfill } from '../sync/changes/incremental.ts'
import type { Backfill } from '../sync/ports/store.ts'
import { UsageError } from '../util/errors.ts'
import { count } from '../util/text.ts'
import { alignedTable, type Call, type Command, type ExitCode, exitCodes, operator } from './command.ts'
import { withDatabase } from './database.ts'
import { backfillJson, backfillSentence, startBackfillProgress } from './progress.ts'

// `tidemark backfill --list` and `--cancel`: the requests that are stored. They need the mirror alone.
export async function listAll(call: Call): Promise<ExitCode> {
  const { positionals, values, stdout } = call
  const [name] = positionals
  const stream = name === undefined ? null : pickStream(name, streams).name
  return await withDatabase(call, async (pool) => {
    const found = await listBackfills(pool, stream)
    const rows = found.map((one) => [
      one.id,
      one.stream,
      one.status,
      `${one.from}`,
      `${one.to}`,
      `${one.position}`,
      count(one.rowsRead),
      one.requestedBy,
      one.error ?? one.note ?? '',
    ])
    const header = ['id', 'stream', 'status', 'from', 'to', 'position', 'rows read', 'requested by', 'note']
    if (values.json) stdout.write(`${JSON.stringify(found.map(backfillJson), null, 2)}\n`)
    else stdout.write(rows.length === 0 ? 'There was no backfill yet.\n' : alignedTable(header, rows))
  })
}

export async function cancelOne(call: Call, text: string): Promise<ExitCode> {
  const id = parseInt64(text)
  if (id === null)
    throw new UsageError(`--cancel ${text}: write an id that \`tidemark backfill --list\` shows`)
  return await withDatabase(call, async (pool) => {
    const isCancelled = await cancelBackfill(pool, id.toString(), operator())
    const backfill = await readBackfill(pool, id.toString())
    if (!backfill)
      throw new UsageError(`There is no backfill ${id}: \`tidemark backfill --list\` shows those there are`)
    if (!isCancelled) throw new UsageError(`Backfill ${id} is over already: ${backfill.status}`)
    call.stdout.write(
      call.values.json ? `${JSON.stringify(backfillJson(backfill))}\n` : `${backfillSentence(backfill)}\n`,
    )
  })
}

export const backfill: Command = {
  name: 'backfill',
  summary: 'read a part of the past again, beside the live worker',
  usage:
    '<stream> [--from-version N | --from-checkpoint ID | --at TIME] [--to-version N] [--dry-run] [--json] | --list [stream] | --cancel ID',
  options: {
    'from-version': { type: 'string', value: 'N', describe: 'everything above this row version' },
    'from-checkpoint': {
      type: 'string',
      value: 'ID',
      describe: 'from a position that `tidemark checkpoints` shows',
    },
    at: {
      type: 'string',
      value: 'TIME',
      describe: 'from the position that was held then, e.g. 2025-01-31T14:30:00Z',
    },
    'to-version': {
      type: 'string',
      value: 'N',
      describe: 'up to this row version; otherwise up to the live position',
    },
    'dry-run': { type: 'boolean', describe: 'only say what it would take' },
    list: { type: 'boolean', describe: 'show the backfills there are' },
    cancel: { type: 'string', value: 'ID', describe: 'end one; what it has written stays' },
    json: { type: 'boolean', describe: 'print one JSON document' },
  },
  examples: [
    'tidemark backfill assignment --at 2025-01-31T14:30:00Z',
    'tidemark backfill assignment --from-version 0 --to-version 50000 --dry-run',
    'tidemark backfill assignment    # goes on with one that was interrupted',
    'tidemark backfill --list',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { environment, positionals, values, log, stdout } = call
  if (positionals.length > 1) throw new UsageError('`tidemark backfill` takes one stream')
  if (values.list && values.cancel !== undefined)
    throw new UsageError('--list and --cancel exclude each other')
  if (values.cancel !== undefined && positionals.length > 0)
    throw new UsageError('`tidemark backfill --cancel` takes the id behind it, and no stream')
  if (values.list) return await listAll(call)
  if (values.cancel !== undefined) return await cancelOne(call, String(values.cancel))
  const [name] = positionals
  if (name === undefined)
    throw new UsageError('`tidemark backfill` needs a stream: tidemark backfill assignment --from-version N')
  const config = loadConfig(environment)
  const known = configuredStreams(config)
  const stream = asChangesStream(pickStream(name, known), known)
  const { from, to } = readSpanOptions(values)
  await using context = await openContext({ config, log })
  const { pool } = context.database
  if (from === null) {
    const unfinished = await context.store.nextBackfill(stream.name)
    if (!unfinished || to !== null || values['dry-run'])
      throw new UsageError(
        `\`tidemark backfill ${stream.name}\` needs to know where from: --from-version, --from-checkpoint or --at`,
      )
    return await work(call, context, stream, unfinished)
  }
  const span = await findSpan(pool, stream, { from, to })
  if (values['dry-run']) {
    const plan = await planBackfill(pool, stream, span, config.pageSize)
    stdout.write(values.json ? `${JSON.stringify(plan.json)}\n` : `${plan.text}\n`)
    return exitCodes.done
  }
  const requested = await requestBackfill(pool, { stream: stream.name, ...span, by: operator() })
  return await work(call, context, stream, requested)
}

const pollMs = 500

/** Works on the stream's backfills, the oldest first, until this one is over; waits while another program has the lane. */
async function work(
  { values, signal, log, stdout }: Call,
  context: SyncContext,
  stream: ChangesStream,
  { id }: Pick<Backfill, 'id'>,
): Promise<ExitCode> {
  const { pool } = context.database
  const progress = startBackfillProgress(process.stderr, () => readBackfill(pool, id))
  try {
    for (;;) {
      const outcome = await runNextBackfill({
        ...context.contextOf(stream),
        signal,
        onWritten: progress.written,
      })
      const current = await readBackfill(pool, id)
      if (!current) throw new Error(`backfill ${id} is no longer known to the database`)
      const isOver = current.status === 'done' || current.status === 'cancelled'
      // It could not be read completely, and is tried again later.
      const waits = current.status === 'waiting' && current.error !== null && outcome?.status !== 'skipped'
      const hasEnded = isOver || waits || outcome?.status === 'failed' || signal.aborted
      if (hasEnded) {
        progress.end()
        if (outcome?.error) log.debug({ err: outcome.error, stream: stream.name }, 'the backfill failed')
        stdout.write(
          values.json ? `${JSON.stringify(backfillJson(current))}\n` : `${backfillSentence(current)}\n`,
        )
        return current.status === 'done' || signal.aborted ? exitCodes.done : exitCodes.failed
      }
      if (outcome?.status === 'skipped') {
        await progress.show()
        await wait(pollMs, undefined, { signal }).catch(() => {})
      }
    }
  } finally {
    progress.end()
  }
}
