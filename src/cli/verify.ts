// `tidemark verify`: names the rows that differ from their records, and mends them when told to. Exit 1 when any differs.

import { loadConfig } from '../config/load.ts'
import { configuredStreams, openContext } from '../context.ts'
import { pickStreams, type Stream } from '../streams/catalog.ts'
import type { Difference } from '../sync/ports/store.ts'
import { type VerifyOutcome, verifyStream } from '../sync/reconcile/verify.ts'
import { UsageError } from '../util/errors.ts'
import { count, formatDuration, visible } from '../util/text.ts'
import { type Call, type Command, type ExitCode, exitCodes, wholeNumber } from './command.ts'

export const verify: Command = {
  name: 'verify',
  summary: 'name the rows that differ from the upstream, and mend them when told to',
  usage: '[stream…] [--repair | --sample N] [--json]',
  options: {
    repair: { type: 'boolean', describe: 'mend exactly the rows that are named' },
    sample: {
      type: 'string',
      value: 'N',
      describe: 'look at N rows drawn at random, each by its id, instead of at all',
    },
    json: { type: 'boolean', describe: 'print one JSON document' },
  },
  examples: [
    'tidemark verify',
    'tidemark verify assignment --repair',
    'tidemark verify assignment --sample 200',
  ],
  run,
}

type Result = VerifyOutcome & { readonly durationMs: number }

async function run({ environment, positionals, values, log, signal, stdout }: Call): Promise<ExitCode> {
  const sample = wholeNumber(values, 'sample', { least: 1 })
  const repair = values.repair === true
  if (repair && sample !== null)
    throw new UsageError('--sample only reports: leave it out to mend with --repair')
  const config = loadConfig(environment)
  const streams = wantedStreams(positionals, configuredStreams(config), sample)
  await using context = await openContext({ config, log })
  const print = values.json ? jsonPrinter(stdout) : linePrinter(stdout)
  const results: Result[] = []
  for (const stream of streams) {
    if (signal.aborted) break
    const startedAt = performance.now()
    const outcome = await verifyStream({
      ...context.contextOf<Stream>(stream),
      signal,
      repair,
      sample,
      onDifference: (difference) => print.difference(stream.name, difference),
    })
    if (outcome.error) log.debug({ err: outcome.error, stream: stream.name }, 'the verification failed')
    const result = { ...outcome, durationMs: Math.round(performance.now() - startedAt) }
    results.push(result)
    print.result(result)
  }
  print.end()
  const isFine =
    results.length === streams.length &&
    results.every(
      ({ status, findings }) =>
        status === 'done' && findings.isWhole && findings.differences === findings.repaired,
    )
  return isFine ? exitCodes.done : exitCodes.failed
}

/** A sample is looked at by id. */
function wantedStreams(
  names: readonly string[],
  known: readonly Stream[],
  sample: number | null,
): readonly Stream[] {
  const wanted = pickStreams(names, known)
  if (sample === null) return wanted
  const without = wanted.find(({ lookup }) => lookup === null)
  if (names.length > 0 && without)
    throw new UsageError(
      `${without.name} offers no look at one record by its id: leave --sample out, and all of it is listed`,
    )
  return wanted.filter(({ lookup }) => lookup !== null)
}

type Printer = {
  difference(stream: string, difference: Difference): void
  result(result: Result): void
  end(): void
}

function linePrinter(stdout: NodeJS.WritableStream): Printer {
  return {
    difference: (stream, difference) =>
      stdout.write(visible(`${stream} ${difference.key}: ${inWords(difference)}\n`)),
    result: (result) => stdout.write(visible(`${sentence(result)}\n`)),
    end: () => {},
  }
}

/** Written as it is found: there may be as many differences as rows (P10). */
function jsonPrinter(stdout: NodeJS.WritableStream): Printer {
  const results: Result[] = []
  let separator = '\n'
  stdout.write('{"differences":[')
  return {
    difference(stream, { key, kind, columns, version, mirrored }) {
      const told = {
        stream,
        key,
        kind,
        columns,
        version: version?.toString() ?? null,
        mirrored: mirrored?.toString() ?? null,
      }
      stdout.write(`${separator}${JSON.stringify(told)}`)
      separator = ',\n'
    },
    result: (result) => {
      results.push(result)
    },
    end: () => void stdout.write(`],\n"streams":${JSON.stringify(results.map(asJson))}}\n`),
  }
}

function inWords({ kind, columns, version, mirrored }: Difference): string {
  switch (kind) {
    case 'missing':
      return version === null ? 'missing' : `missing, version ${version} there`
    case 'stale':
      return version === null
        ? `stale, another record there: ${columns.join(', ')}`
        : `stale, version ${mirrored} here and ${version} there`
    case 'extra':
      return 'extra, its record is gone'
    case 'content':
      return `content differs in ${columns.join(', ')}${mirrored === version ? '' : `, version ${mirrored} here and ${version} there`}`
  }
}

function sentence({ stream, status, findings, note, error, tally, durationMs }: Result): string {
  if (status === 'skipped')
    return `${stream}: skipped, ${note} is reading or verifying it; try when that is done`
  if (status === 'failed') return `${stream}: failed: ${error?.message ?? 'for a reason unknown'}`
  const parts = [
    `${count(findings.compared)} records compared`,
    ...(findings.unclear > 0 ? [`${findings.unclear} looks told nothing`] : []),
    `${count(tally.requests)} requests`,
    formatDuration(durationMs),
  ]
  return `${stream}: ${note} (${parts.join(', ')})`
}

const asJson = ({ stream, status, runId, findings, note, error, tally, durationMs }: Result) => ({
  stream,
  status,
  run: runId,
  // False when rows that may differ could not be looked for.
  complete: status === 'done' && findings.isWhole,
  compared: findings.compared,
  differences: findings.differences,
  repaired: findings.repaired,
  unclear: findings.unclear,
  requests: tally.requests,
  duration_ms: durationMs,
  note,
  error: error?.message ?? null,
})
