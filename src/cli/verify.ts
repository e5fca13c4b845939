// `tidemark verify`: names the rows that differ from their records, and mends them when told to. Exit 1 when any differs.

import { configuredStreams } from '../configured.ts'
import { openContext } from '../context.ts'
import { pickStreams, type Stream } from '../streams/catalog.ts'
import type { Cause, Difference } from '../sync/ports/audits.ts'
import { type VerifyOutcome, verifyStream } from '../sync/reconcile/verify.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { count, formatDuration, jsonText, plural, snakeCased } from '../util/text.ts'
import { type Command, flag, json, option, wholeNumber } from './command.ts'
import { readEach, runJson, type Timed } from './each-stream.ts'
import { type ExitCode, exitCodeOfRun, exitCodes } from './exit.ts'
import { loadConfigHere } from './mirror.ts'
import type { Output } from './output.ts'
import { recordedHere } from './recorded.ts'

export const verify: Command = {
  name: 'verify',
  summary: 'list the rows that differ from the upstream; with --repair, correct them',
  usage: '[stream…] [--repair | --sample N] [--json]',
  options: {
    repair: flag('correct the rows that differ'),
    sample: option('N', 'compare N random rows, each by its id, instead of all'),
    json,
  },
  examples: [
    'tidemark verify',
    'tidemark verify assignment --repair',
    'tidemark verify assignment --sample 200',
  ],
  async run(call) {
    const { environment, positionals, values, log, signal, stdout } = call
    const sample = wholeNumber(values, 'sample', { least: 1 })
    const repair = values.repair === true
    if (repair && sample !== null)
      throw new UsageError('--sample only reports. To correct rows that differ, use --repair without it.')
    const config = loadConfigHere(environment)
    const streams = wantedStreams(positionals, configuredStreams(config, call.catalogue), sample)
    await using context = await openContext({ config, log })
    const print = values.json ? jsonPrinter(stdout) : linePrinter(stdout)
    const { pool } = context.database
    const verify = (stream: Stream) =>
      verifyStream({
        ...context.contextOf<Stream>(stream),
        signal,
        repair,
        sample,
        onDifference: (difference, cause) => print.difference(stream.name, difference, cause),
      })
    const repairing = (stream: Stream) =>
      recordedHere({ pool, log }, { action: 'repair', target: stream.name }, () => verify(stream), inShort)
    try {
      const { code } = await readEach<VerifyOutcome>(call, context, streams, {
        reading: 'verify',
        read: repair ? repairing : verify,
        tell: print.result,
        codeOf: exitCodeOfVerification,
      })
      print.end(null)
      return code
    } catch (error) {
      print.end(messageOf(error))
      throw error
    }
  },
}

type Result = Timed<VerifyOutcome>

/** For the record of what people did. */
const inShort = ({ stream, status, note }: VerifyOutcome) => ({
  isFailed: status !== 'done',
  told: status === 'done' ? `${stream}: ${note}.` : `${stream}: ${status}.`,
})

/** A verification that was skipped because another program is at it has looked at nothing. */
function exitCodeOfVerification(result: Result): ExitCode {
  const { status, findings } = result
  if (status === 'skipped') return exitCodes.failed
  if (status !== 'done') return exitCodeOfRun(result)
  if (findings.differences !== findings.repaired) return exitCodes.failed
  return findings.isWhole ? exitCodes.done : exitCodes.upstream
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
      `Records of ${without.name} cannot be asked for by id, so --sample does not work there. Without it, all of them are compared.`,
    )
  return wanted.filter(({ lookup }) => lookup !== null)
}

const linePrinter = (stdout: Output): ReturnType<typeof jsonPrinter> => ({
  difference: (stream, difference, cause) =>
    stdout.say(`${stream} ${difference.key}: ${inWords(difference)}${cause === null ? '' : ` [${cause}]`}`),
  result: (result) => stdout.tell(sentence(result)),
  end: () => {},
})

/** Prints each difference when it is found: there may be as many as rows (P10). */
function jsonPrinter(stdout: Output) {
  const results: Result[] = []
  let before = '{"differences":[\n'
  return {
    difference(stream: string, difference: Difference, cause: Cause | null) {
      const { key, kind, columns, version, mirrored } = difference
      const told = snakeCased({ stream, key, kind, cause, columns, version, mirrored })
      stdout.write(`${before}${jsonText(told, 0)}`)
      before = ',\n'
    },
    result(result: Result) {
      results.push(result)
    },
    /** With what went wrong; null: nothing did. */
    end(error: string | null) {
      // If the document was not begun, the caller writes the error.
      if (error !== null && !stdout.hasWritten()) return
      const begun = stdout.hasWritten() ? '' : before
      const tail = { streams: results.map(asJson), ...(error !== null && { error }) }
      stdout.write(`${begun}],\n${jsonText(tail, 0).slice(1)}\n`)
    },
  }
}

function inWords({ kind, columns, version, mirrored }: Difference): string {
  switch (kind) {
    case 'missing':
      return version === null ? 'missing here' : `missing here, version ${version} upstream`
    case 'stale':
      return version === null
        ? `out of date: ${columns.join(', ')} differ`
        : `out of date, version ${mirrored} here and ${version} upstream`
    case 'extra':
      return 'gone upstream'
    case 'content':
      return `${columns.join(', ')} differ${mirrored === version ? '' : `, version ${mirrored} here and ${version} upstream`}`
  }
}

function sentence({ stream, status, findings, note, error, tally, durationMs }: Result): string {
  if (status === 'skipped')
    return `${stream}: skipped, because it is being reconciled or verified already (${note}). Try again when that has ended.`
  if (status === 'failed') return `${stream}: failed. ${error?.message ?? 'No reason was given.'}`
  const parts = [
    `${plural(findings.compared, 'record')} compared`,
    ...(findings.unclear > 0 ? [`${count(findings.unclear)} could not be looked up`] : []),
    plural(tally.requests, 'request'),
    formatDuration(durationMs),
  ]
  return `${stream}: ${note} (${parts.join(', ')})`
}

/** `complete` is false when rows that may differ could not be looked for. */
const asJson = (result: Result) => {
  const { status, findings, tally, durationMs } = result
  const { isWhole, ...counts } = findings
  return {
    ...runJson(result),
    complete: status === 'done' && isWhole,
    ...snakeCased(counts),
    requests: tally.requests,
    duration_ms: durationMs,
  }
}
