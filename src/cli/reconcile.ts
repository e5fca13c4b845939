// `tidemark reconcile`: lists streams whole, to find what is missing and what is gone; and the two words an operator may say
// about its findings.

import { loadConfig } from '../config/load.ts'
import { configuredStreams, openContext } from '../context.ts'
import {
  acknowledgedSentence,
  type ReconcileOnce,
  reconcileOnce,
  reconcileSentence,
} from '../operator/reconcile.ts'
import { acknowledgeMissedRows } from '../store/admin/streams.ts'
import { pickStream, pickStreams, streams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { visible } from '../util/text.ts'
import { type Call, type Command, type ExitCode, exitCodes, operator } from './command.ts'
import { withDatabase } from './database.ts'

export const reconcile: Command = {
  name: 'reconcile',
  summary: 'list streams whole, to find what is missing and what is gone',
  usage: '[stream…] [--json] | --release <stream> | --acknowledge <stream>',
  options: {
    release: {
      type: 'string',
      value: 'STREAM',
      describe:
        'take another reconcile of this stream and believe it, even when it is empty or lost more than a fifth',
    },
    acknowledge: {
      type: 'string',
      value: 'STREAM',
      describe: 'take note of the missed rows that reconciles found',
    },
    json: { type: 'boolean', describe: 'print one JSON document' },
  },
  examples: [
    'tidemark reconcile',
    'tidemark reconcile assignment',
    'tidemark reconcile --release assignment',
    'tidemark reconcile --acknowledge assignment',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { environment, positionals, values, log } = call
  const { release, acknowledge } = values
  if (release !== undefined && acknowledge !== undefined)
    throw new UsageError('--release and --acknowledge exclude each other')
  if ((release ?? acknowledge) !== undefined && positionals.length > 0)
    throw new UsageError(
      `\`tidemark reconcile --${release === undefined ? 'acknowledge' : 'release'}\` takes the one stream behind it`,
    )
  if (acknowledge !== undefined) return await takeNote(call, String(acknowledge))
  const config = loadConfig(environment)
  const known = configuredStreams(config)
  const approved = release === undefined ? null : pickStream(String(release), known)
  const wanted = approved ? [approved] : pickStreams(positionals, known)
  await using context = await openContext({ config, log })
  const results: Result[] = []
  for (const stream of wanted) {
    if (call.signal.aborted) break
    // A list stream is listed whole by every poll.
    if (stream.kind === 'list' && approved === null && positionals.length === 0) continue
    const startedAt = performance.now()
    const outcome = await reconcileOnce(context, stream, {
      approved: approved === null ? 0 : Number.POSITIVE_INFINITY,
      signal: call.signal,
      log,
    })
    const result = { ...outcome, durationMs: Math.round(performance.now() - startedAt) }
    results.push(result)
    if (!values.json) call.stdout.write(visible(`${reconcileSentence(result)}${missedRowsLine(result)}\n`))
  }
  if (values.json) call.stdout.write(`${JSON.stringify({ streams: results.map(asJson) }, null, 2)}\n`)
  return results.some(({ status }) => status === 'failed') ? exitCodes.failed : exitCodes.done
}

type Result = ReconcileOnce & { readonly durationMs: number }

async function takeNote(call: Call, name: string): Promise<ExitCode> {
  const stream = pickStream(name, streams).name
  return await withDatabase(call, async (pool) => {
    const rows = await acknowledgeMissedRows(pool, stream, operator())
    call.stdout.write(
      call.values.json
        ? `${JSON.stringify({ stream, acknowledged: rows })}\n`
        : `${acknowledgedSentence(stream, rows)}\n`,
    )
  })
}

function missedRowsLine({ stream, findings }: Result): string {
  if (!findings || findings.missedRows === 0) return ''
  const keys = findings.samples.slice(0, 20).map(({ key }) => key)
  const more = findings.missedRows > 20 ? ', …' : ''
  return `\n  missed rows: ${keys.join(', ')}${more}; when you have seen them: tidemark reconcile --acknowledge ${stream}`
}

const asJson = ({ stream, status, runId, findings, tally, note, error, isComplete, durationMs }: Result) => ({
  stream,
  status,
  run: runId,
  complete: isComplete,
  inserted: tally.inserted,
  updated: tally.updated,
  unchanged: tally.unchanged,
  quarantined: tally.quarantined,
  rescued_values: tally.rescued,
  requests: tally.requests,
  bytes: tally.bytes,
  ...(findings && {
    missed_rows: findings.missedRows,
    missed_keys: findings.samples.map(({ key }) => key),
    late: findings.late,
    missing: findings.missing,
    marked: findings.marked,
    alive: findings.alive,
    unclear: findings.unclear,
    blocked: findings.blocked,
  }),
  duration_ms: durationMs,
  note,
  error: error?.message ?? null,
})
