// `tidemark census`: lists streams whole, to find what is missing and what is gone; and the two words an operator may say
// about its findings.

import { type Call, type Command, type ExitCode, exitCodes, UsageError } from '../cli/command.ts'
import { operator } from '../cli/operator.ts'
import { pickStream, pickStreams } from '../cli/pick-streams.ts'
import { loadConfig, loadMirrorConfig } from '../config.ts'
import { formatDuration } from '../duration.ts'
import { acknowledgeRescues } from '../mirror/rescues.ts'
import { type ChangesStream, type ListStream, type Stream, streams } from '../streams.ts'
import { type CensusOutcome, takeCensus } from '../sync/census.ts'
import { pollList } from '../sync/list-stream.ts'
import type { LaneOutcome } from '../sync/run-lane.ts'
import { configuredStreams, openMigratedDatabase, openWorkplace, type Workplace } from '../workplace.ts'

export const census: Command = {
  name: 'census',
  summary: 'list streams whole, to find what is missing and what is gone',
  usage: '[stream…] [--json] | --release <stream> | --acknowledge <stream>',
  options: {
    release: {
      type: 'string',
      value: 'STREAM',
      describe:
        'take another census of this stream and believe it, even when it is empty or lost more than a fifth',
    },
    acknowledge: { type: 'string', value: 'STREAM', describe: 'take note of the rows that censuses rescued' },
    json: { type: 'boolean', describe: 'print one JSON document' },
  },
  examples: [
    'tidemark census',
    'tidemark census assignment',
    'tidemark census --release assignment',
    'tidemark census --acknowledge assignment',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { environment, positionals, values, log } = call
  if (values.acknowledge !== undefined) return await acknowledge(call, String(values.acknowledge))
  const config = loadConfig(environment)
  const known = configuredStreams(config)
  if (values.release !== undefined && positionals.length > 0)
    throw new UsageError('`tidemark census --release` takes the one stream behind it')
  const released = values.release === undefined ? null : pickStream(String(values.release), known)
  const wanted = released ? [released] : pickStreams(positionals, known)
  await using workplace = await openWorkplace({ config, log })
  const results: Result[] = []
  for (const stream of wanted) {
    if (call.signal.aborted) break
    // A list stream is listed whole by every poll.
    if (stream.kind === 'list' && released === null && positionals.length === 0) continue
    const startedAt = performance.now()
    const outcome = await takeOne(call, workplace, stream, released !== null)
    const result = { ...outcome, durationMs: Math.round(performance.now() - startedAt) }
    results.push(result)
    if (!values.json) call.stdout.write(`${sentence(result)}\n`)
  }
  if (values.json) call.stdout.write(`${JSON.stringify({ streams: results.map(asJson) }, null, 2)}\n`)
  return results.some(({ status }) => status === 'failed') ? exitCodes.failed : exitCodes.done
}

type Outcome = LaneOutcome & { readonly findings: CensusOutcome['findings'] | null }
type Result = Outcome & { readonly durationMs: number }

async function takeOne(
  { signal, log }: Call,
  workplace: Workplace,
  stream: Stream,
  release: boolean,
): Promise<Outcome> {
  if (stream.kind === 'list')
    return { ...(await listTwice(workplace, stream, signal, release)), findings: null }
  const outcome = await takeChangesCensus(workplace, stream, signal, release)
  const { rescued, samples } = outcome.findings
  if (rescued > 0)
    log.warn(
      { stream: stream.name, rescued, keys: samples.slice(0, 100).map(({ key }) => key) },
      'the census rescued rows that no other lane had brought',
    )
  if (outcome.error) log.debug({ err: outcome.error, stream: stream.name }, 'the census failed')
  return outcome
}

const takeChangesCensus = (
  workplace: Workplace,
  stream: ChangesStream,
  signal: AbortSignal,
  release: boolean,
): Promise<CensusOutcome> => takeCensus({ ...workplace.contextOf(stream), signal, release })

/** Where no look at one record exists, two complete listings in a row are the proof (P7). */
async function listTwice(
  workplace: Workplace,
  stream: ListStream,
  signal: AbortSignal,
  release: boolean,
): Promise<LaneOutcome> {
  const context = { ...workplace.contextOf(stream), signal, release, onWritten: () => {} }
  const first = await pollList(context)
  return first.status === 'done' && first.isComplete && release ? await pollList(context) : first
}

async function acknowledge({ environment, values, log, stdout }: Call, name: string): Promise<ExitCode> {
  const stream = pickStream(name, streams).name
  const database = await openMigratedDatabase(loadMirrorConfig(environment), log)
  try {
    const rows = await acknowledgeRescues(database.pool, stream, operator())
    stdout.write(
      values.json
        ? `${JSON.stringify({ stream, acknowledged: rows })}\n`
        : `${stream}: ${rows === 0 ? 'there was nothing to acknowledge' : `${rows.toLocaleString('en')} rescued rows acknowledged`}\n`,
    )
    return exitCodes.done
  } finally {
    await database.close()
  }
}

const number = (value: number): string => value.toLocaleString('en')

function sentence({ stream, status, findings, tally, note, error, durationMs }: Result): string {
  if (status === 'skipped') return `${stream}: skipped, ${note} is taking a census of it`
  if (status === 'failed') return `${stream}: failed: ${error?.message ?? 'for a reason unknown'}`
  const told = findings
    ? [
        `${number(findings.rescued)} rescued`,
        `${number(findings.marked)} gone`,
        ...(findings.alive > 0 ? [`${number(findings.alive)} alive when looked at`] : []),
        ...(findings.unclear > 0 ? [`${number(findings.unclear)} unclear`] : []),
      ]
    : []
  const counts = `${number(tally.inserted)} new, ${number(tally.updated)} changed, ${number(tally.unchanged)} unchanged`
  const parts = [...told, counts, `${number(tally.requests)} requests`, formatDuration(durationMs)]
  const rescues =
    findings && findings.rescued > 0
      ? `\n  rescued: ${findings.samples
          .slice(0, 20)
          .map(({ key }) => key)
          .join(
            ', ',
          )}${findings.rescued > 20 ? ', …' : ''}; when you have seen them: tidemark census --acknowledge ${stream}`
      : ''
  return `${stream}: ${status}, ${parts.join(', ')}${note?.includes('held') || status !== 'done' ? `; ${note}` : ''}${rescues}`
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
    rescued: findings.rescued,
    rescued_keys: findings.samples.map(({ key }) => key),
    late: findings.late,
    missing: findings.missing,
    marked: findings.marked,
    alive: findings.alive,
    unclear: findings.unclear,
    held: findings.held,
  }),
  duration_ms: durationMs,
  note,
  error: error?.message ?? null,
})
