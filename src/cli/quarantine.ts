// `tidemark quarantine`: records that cannot be rows. Shows them, tries them again, or takes them out with a reason.

import { loadConfig } from '../config/load.ts'
import { openContext } from '../context.ts'
import { quarantine as quarantineDocument } from '../documents/quarantine.ts'
import { everything, actions as operatorActions } from '../operator/actions.ts'
import { mirroredNames, retrySentence, selectionOf } from '../operator/quarantine.ts'
import type { RetryOutcome } from '../sync/reconcile/quarantine-retry.ts'
import { UsageError } from '../util/errors.ts'
import { nearest } from '../util/text.ts'
import { type Call, type Command, findAction, json, option, textOf, wholeNumber } from './command.ts'
import { runJson } from './each-stream.ts'
import { type ExitCode, exitCodeOfRun, worst } from './exit.ts'
import { listFromMirror } from './mirror.ts'
import { act, actThere, actUpstream } from './recorded.ts'

export const quarantine: Command = {
  name: 'quarantine',
  summary: 'list, retry or drop records that cannot be stored as rows',
  usage: '[list|show|retry|drop] [stream|id] [--reason TEXT] [--limit N] [--json]',
  options: {
    reason: option('TEXT', 'drop: the reason; it is kept with the record'),
    limit: option('N', 'list: at most this many (100)'),
    json,
  },
  examples: [
    'tidemark quarantine',
    'tidemark quarantine retry assignment',
    'tidemark quarantine drop 17 --reason "a test record of ours"',
  ],
  async run(call) {
    const [first, ...rest] = call.positionals
    const known = Object.keys(actions)
    const [near] =
      first === undefined
        ? []
        : nearest(first, [...known, ...mirroredNames(call.catalogue).map(({ name }) => name)])
    if (first !== undefined && first !== near && near !== undefined && known.includes(near))
      findAction('quarantine', actions, first)
    // `list` may be left out before a stream or an id.
    const isAction = first !== undefined && known.includes(first)
    const [word, [target, ...more]] =
      first === undefined || isAction ? [first ?? 'list', rest] : ['list', [first, ...rest]]
    if (more.length > 0)
      throw new UsageError(`\`tidemark quarantine ${word}\` takes one stream or one id, or none for all.`)
    return await findAction('quarantine', actions, word)(call, target)
  },
}

const actions: Readonly<Record<string, (call: Call, target: string | undefined) => Promise<ExitCode>>> = {
  list,
  // Of one, or of several.
  show: list,
  retry,
  drop,
}

async function list(call: Call, target: string | undefined): Promise<ExitCode> {
  const { id } = selectionOf(target, call.catalogue)
  const limit = wholeNumber(call.values, 'limit', { least: 1 }) ?? 100
  return await listFromMirror(call, quarantineDocument, {
    asked: { limit, ...(id === null ? { stream: target } : { id: id.toString() }) },
    none: target === undefined ? 'The quarantine is empty.' : `No record of ${target} is in quarantine.`,
    columns: [
      ['ID', ({ id }) => id],
      ['STREAM', ({ stream }) => stream],
      ['KEY', ({ key }) => key ?? '–'],
      ['LAST SEEN', ({ last_seen_at }) => last_seen_at.toISOString()],
      ['TIMES', ({ times_seen }) => `${times_seen}`],
      ['REASON', ({ reason }) => reason],
      ['RECORD', ({ record }) => (record.length <= 60 ? record : `${record.slice(0, 59)}…`)],
    ],
  })
}

async function drop(call: Call, target: string | undefined): Promise<ExitCode> {
  if (target === undefined)
    throw new UsageError(
      '`tidemark quarantine drop` needs an id or a stream, e.g. `tidemark quarantine drop 17 --reason TEXT`.',
    )
  selectionOf(target, call.catalogue)
  const reason = textOf(call.values, 'reason')
  if (reason === null)
    throw new UsageError('`tidemark quarantine drop` needs --reason TEXT: it is kept with the record.')
  return await act(call, 'dropQuarantine', target, { reason })
}

async function retry(call: Call, target = everything): Promise<ExitCode> {
  const { environment, values, log, stdout } = call
  if (target !== everything) selectionOf(target, call.catalogue)
  const there = await actThere(call, 'retryQuarantine', target)
  if (there !== null) return there
  const config = loadConfig(environment)
  await using context = await openContext({ config, log })
  const action = ['retryQuarantine', operatorActions.retryQuarantine] as const
  const { text, detail = [] } = await actUpstream(call, context, action, target)
  const lines = detail.length === 0 ? [text] : detail.map(retrySentence)
  if (values.json) stdout.json({ streams: detail.map(retryJson) })
  else stdout.tell(lines.join('\n'))
  return worst(detail.map(exitCodeOfRun))
}

const retryJson = ({ findings, ...outcome }: RetryOutcome) => {
  const { complete: _, ...told } = runJson(outcome)
  return { ...told, ...findings }
}
