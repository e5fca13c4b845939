// `tidemark deletions`: rows that disappeared from the upstream, too many at once to be believed. Shows them, and takes an
// operator's answer: they are gone (approve), or they are not (reject).

import { loadConfig } from '../config/load.ts'
import { configuredStreams } from '../configured.ts'
import { openContext } from '../context.ts'
import { type Blocked, deletions as deletionsDocument } from '../documents/deletions.ts'
import { actions as operatorActions } from '../operator/actions.ts'
import { shareMissing } from '../operator/deletions.ts'
import { pickStream } from '../streams/catalog.ts'
import { count } from '../util/text.ts'
import {
  type Call,
  type Command,
  flag,
  json,
  onlyWord,
  option,
  runAction,
  textOf,
  wholeNumber,
} from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { showFromMirror } from './mirror.ts'
import { wrapped } from './output.ts'
import { reconcileExitCode, reconcileJson, reconcileText } from './reconcile.ts'
import { act, actThere, actUpstream } from './recorded.ts'

export const deletions: Command = {
  name: 'deletions',
  summary:
    'list deletions that are blocked because there are too many at once; approve or reject them, or undo a rejection',
  usage:
    '[list [stream…] | approve <stream> --rows N [--reason TEXT] | reject <stream> [--reason TEXT] [--restore] | undo <stream>] [--json]',
  options: {
    rows: option('N', 'approve: the number of rows that `list` showed'),
    reason: option('TEXT', 'approve, reject: the reason; it is recorded'),
    restore: flag(
      'reject: other rows that were found gone and marked deleted within the last day live again, too',
    ),
    json,
  },
  examples: [
    'tidemark deletions',
    'tidemark deletions approve assignment --rows 432 --reason "archived upstream, ticket 4411"',
    'tidemark deletions reject assignment --reason "the integration user had lost a right"',
    'tidemark deletions undo assignment',
  ],
  run: runAction('deletions', { list, approve, reject, undo }, 'list'),
}

async function list(call: Call): Promise<ExitCode> {
  const { positionals, stdout } = call
  return await showFromMirror(call, deletionsDocument, { stream: [...positionals] }, ({ blocked }) =>
    stdout.say(
      blocked.length === 0
        ? 'No deletions are blocked.'
        : blocked.map((one) => asText(one, stdout.columns())).join('\n\n'),
    ),
  )
}

async function approve(call: Call): Promise<ExitCode> {
  const { environment, values, log, stdout } = call
  // People copy the number as `list` and the pages write it: 3,598.
  const rows = textOf(values, 'rows')?.replaceAll(/[,\s]/g, '') ?? null
  wholeNumber({ rows: rows ?? undefined }, 'rows', { least: 1 })
  const stream = oneStream('approve', call)
  const fields = { rows, reason: textOf(values, 'reason') }
  const there = await actThere(call, 'approve', stream, fields)
  if (there !== null) return there
  const config = loadConfig(environment)
  const { name } = pickStream(stream, configuredStreams(config, call.catalogue))
  await using context = await openContext({ config, log })
  const { detail } = await actUpstream(call, context, ['approve', operatorActions.approve], name, fields)
  if (detail === undefined) return exitCodes.failed
  if (values.json) stdout.json(reconcileJson(detail))
  else stdout.tell(reconcileText(detail))
  return reconcileExitCode(detail)
}

function reject(call: Call): Promise<ExitCode> {
  return act(call, 'reject', pickStream(oneStream('reject', call), call.catalogue).name, {
    reason: textOf(call.values, 'reason'),
    restore: call.values.restore === true ? 'yes' : null,
  })
}

function undo(call: Call): Promise<ExitCode> {
  return act(call, 'lookAgain', pickStream(oneStream('undo', call), call.catalogue).name)
}

const oneStream = (action: string, { positionals }: Call): string =>
  onlyWord(
    positionals,
    `\`tidemark deletions ${action}\` takes one stream. \`tidemark deletions list\` shows where deletions are blocked.`,
  )

function asText(blocked: Blocked, width: number | null): string {
  const { stream, living, listed: seen, since: at, rejected, approve: command, evidence } = blocked
  const seenIt = `the last complete list had ${count(seen ?? 0)} records, the table has ${count(living ?? 0)} living rows`
  const lines: [string, string][] = [
    ['since', at?.toISOString() ?? 'not recorded'],
    ['evidence', seen === null || living === null ? 'not recorded' : seenIt],
    ...evidence.words.map((text): [string, string] => ['', text]),
  ]
  if (rejected) {
    const { at: frozenAt, by, reason } = rejected
    const since = frozenAt?.toISOString() ?? 'a time that was not recorded'
    lines.push(
      ['frozen', `since ${since} by ${by}${reason ? `: ${reason}` : ''}; the rows stay`],
      ['to look again', `tidemark deletions undo ${stream}`],
    )
  }
  lines.push(
    command === null ? ['to count them', `tidemark reconcile ${stream}`] : ['if they are gone', command],
  )
  const restoring = evidence.marked_by_searches > 0 ? ' (with --restore, the other rows live again, too)' : ''
  if (!rejected)
    lines.push([
      'if they are not',
      `check what the integration user may read (tidemark probe), then: tidemark deletions reject ${stream}${restoring}`,
    ])
  const head = `${stream}: ${shareMissing({ ...blocked, isLeast: blocked.is_least })} are missing from the upstream's list. None of them was marked deleted.`
  // Commands stay whole, so that they can be copied.
  const inLines = ([name, value]: [string, string]) => {
    const line = `  ${name.padEnd(16)}  ${value}`
    return value.startsWith('tidemark ') ? line : wrapped(line, width, 20)
  }
  return [wrapped(head, width, 0), ...lines.map(inLines)].join('\n')
}
