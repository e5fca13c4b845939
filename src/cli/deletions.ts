// `tidemark deletions`: rows that disappeared from the upstream, too many at once to be believed. Shows them, and takes an
// operator's answer: they are gone (approve), or they are not (reject).

import { loadConfig } from '../config/load.ts'
import { configuredStreams } from '../configured.ts'
import { openContext } from '../context.ts'
import { deletionsJson, readBlocked } from '../documents/deletions.ts'
import { actions as operatorActions } from '../operator/actions.ts'
import { evidenceFacts, shareMissing, toApprove } from '../operator/deletions.ts'
import { type BlockedStream, bucketNames, type DeletionEvidence } from '../store/book/deletions.ts'
import { isLookedUpByKey, pickStream, pickStreams } from '../streams/catalog.ts'
import { count } from '../util/text.ts'
import { type Call, type Command, flag, json, option, textOf, wholeNumber } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { readMirror } from './mirror.ts'
import { fitted, wrapped } from './output.ts'
import { findAction, onlyWord } from './parse.ts'
import { reconcileExitCode, reconcileJson, reconcileText } from './reconcile.ts'
import { act, actUpstream } from './recorded.ts'

export const deletions: Command = {
  name: 'deletions',
  summary:
    'list deletions that are blocked because there are too many at once; approve or reject them, or undo a rejection',
  usage:
    '[list [stream…] | approve <stream> --rows N [--reason TEXT] | reject <stream> [--reason TEXT] [--restore] | undo <stream>] [--json]',
  options: {
    rows: option('N', 'approve: the number of rows that `list` showed'),
    reason: option('TEXT', 'approve, reject: the reason; it is recorded'),
    restore: flag('reject: rows that were marked as deleted within the last day live again, too'),
    json,
  },
  examples: [
    'tidemark deletions',
    'tidemark deletions approve assignment --rows 432 --reason "archived upstream, ticket 4411"',
    'tidemark deletions reject assignment --reason "the integration user had lost a right"',
    'tidemark deletions undo assignment',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const [word = 'list', ...rest] = call.positionals
  return await findAction('deletions', actions, word)(call, rest)
}

async function list(call: Call, names: readonly string[]): Promise<ExitCode> {
  const wanted = pickStreams(names, call.catalogue).map(({ name }) => name)
  const { values, stdout } = call
  return await readMirror(call, async (pool) => {
    const blocked = await readBlocked(pool, wanted)
    if (values.json) stdout.json(deletionsJson(blocked))
    else
      stdout.say(
        blocked.length === 0
          ? 'No deletions are blocked.'
          : blocked.map(({ one, evidence }) => asText(call, one, evidence)).join('\n\n'),
      )
  })
}

async function approve(call: Call, words: readonly string[]): Promise<ExitCode> {
  const { environment, values, log, stdout } = call
  // People copy the number as `list` and the pages write it: 3,598.
  const rows = textOf(values, 'rows')?.replaceAll(/[,\s]/g, '') ?? null
  wholeNumber({ rows: rows ?? undefined }, 'rows', { least: 1 })
  const config = loadConfig(environment)
  const { name } = pickStream(oneStream('approve', words), configuredStreams(config, call.catalogue))
  await using context = await openContext({ config, log })
  const fields = { rows, reason: textOf(values, 'reason') }
  const { detail } = await actUpstream(call, context, ['approve', operatorActions.approve], name, fields)
  if (detail === undefined) return exitCodes.failed
  if (values.json) stdout.json(reconcileJson(detail))
  else stdout.say(fitted(reconcileText(detail), stdout))
  return reconcileExitCode(detail)
}

const reject = (call: Call, words: readonly string[]): Promise<ExitCode> =>
  act(call, 'reject', pickStream(oneStream('reject', words), call.catalogue).name, {
    reason: textOf(call.values, 'reason'),
    restore: call.values.restore === true ? 'yes' : null,
  })

const undo = (call: Call, words: readonly string[]): Promise<ExitCode> =>
  act(call, 'lookAgain', pickStream(oneStream('undo', words), call.catalogue).name)

const actions: Readonly<Record<string, (call: Call, words: readonly string[]) => Promise<ExitCode>>> = {
  list,
  approve,
  reject,
  undo,
}

const oneStream = (action: string, words: readonly string[]): string =>
  onlyWord(
    words,
    `\`tidemark deletions ${action}\` takes one stream. \`tidemark deletions list\` shows where deletions are blocked.`,
  )

function asText({ catalogue, stdout }: Call, blocked: BlockedStream, evidence: DeletionEvidence): string {
  const { stream, living, seen, at, rejected } = blocked
  const rows = toApprove(blocked)
  const facts = evidenceFacts(
    evidence,
    catalogue.some((one) => one.name === stream && isLookedUpByKey(one)),
  )
  const seenIt = `the last complete list had ${count(seen ?? 0)} records, the table has ${count(living ?? 0)} living rows`
  const lines: [string, string][] = [
    ['since', at?.toISOString() ?? 'not recorded'],
    ['evidence', seen === null || living === null ? 'not recorded' : seenIt],
    ...facts.map(({ text, at }): [string, string] => [
      '',
      `${text}${at ? ` (asked on ${at.toISOString()})` : ''}`,
    ]),
    ...whichAreMissing(evidence).map((text): [string, string] => ['', text]),
  ]
  if (rejected) {
    const { at: frozenAt, by, reason } = rejected
    const since = frozenAt?.toISOString() ?? 'a time that was not recorded'
    lines.push(
      ['frozen', `since ${since} by ${by}${reason ? `: ${reason}` : ''}; the rows stay`],
      ['to look again', `tidemark deletions undo ${stream}`],
    )
  }
  if (rows === null) lines.push(['to count them', `tidemark reconcile ${stream}`])
  else lines.push(['if they are gone', `tidemark deletions approve ${stream} --rows ${rows}`])
  const restoring = evidence.markedWithinDay > 0 ? ' (with --restore, the other rows live again, too)' : ''
  if (!rejected)
    lines.push([
      'if they are not',
      `check what the integration user may read (tidemark probe), then: tidemark deletions reject ${stream}${restoring}`,
    ])
  const head = `${stream}: ${shareMissing(blocked)} are missing from the upstream's list. None of them was marked deleted.`
  // Commands stay whole, so that they can be copied.
  const inLines = ([name, value]: [string, string]) => {
    const line = `  ${name.padEnd(16)}  ${value}`
    return value.startsWith('tidemark ') ? line : wrapped(line, stdout.columns(), 20)
  }
  return [wrapped(head, stdout.columns(), 0), ...lines.map(inLines)].join('\n')
}

const keysTold = 10
const partsTold = 8

function whichAreMissing({ samples, spread }: DeletionEvidence): readonly string[] {
  const keys = samples.slice(0, keysTold).map(({ key }) => key)
  const names = spread ? bucketNames(spread) : []
  const parts = (spread?.buckets ?? []).flatMap(([, missing, rows], index) =>
    missing > 0 ? `${names[index]} ${count(missing)} of ${count(rows)}` : [],
  )
  return [
    ...(keys.length > 0 ? [`some of them: ${keys.join(', ')}${samples.length > keysTold ? ', …' : ''}`] : []),
    ...(spread && parts.length > 0
      ? [`missing by ${spread.unit} of ${spread.column}: ${parts.slice(-partsTold).join(', ')}`]
      : []),
  ]
}
