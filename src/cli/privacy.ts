// `tidemark privacy`: which fields are left out or masked, what the dictionary says otherwise, and putting that in force (P20).

import { mirroredStreams } from '../configured.ts'
import { openContext, type SyncContext } from '../context.ts'
import { type MirroredStream, pickStream } from '../streams/catalog.ts'
import type { RuleChange } from '../streams/private-fields.ts'
import { UsageError } from '../util/errors.ts'
import { plural, snakeCased } from '../util/text.ts'
import { type Call, type Command, flag, json, option, textOf } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { loadConfigHere } from './mirror.ts'
import { recordedHere } from './recorded.ts'

export const privacy: Command = {
  name: 'privacy',
  summary: 'show which fields are left out or masked; put a changed dictionary or MASK_KEY in force',
  usage: '[<stream>] [--apply --reason TEXT] [--json]',
  options: {
    apply: flag(
      'clear what is stored of the fields that changed, put their rules in force, and read everything again',
    ),
    reason: option('TEXT', 'why; it is recorded'),
    json,
  },
  examples: [
    'tidemark privacy',
    'tidemark privacy assignment --apply --reason "phone numbers are not needed"',
  ],
  async run(call) {
    const { positionals, values, stdout, environment, log } = call
    const [name, ...more] = positionals
    if (more.length > 0) throw new UsageError('`tidemark privacy` takes one stream, or none.')
    const config = loadConfigHere(environment)
    const streams = mirroredStreams(config, call.catalogue)
    const chosen = name === undefined ? streams : [pickStream(name, streams)]
    const isApplied = values.apply === true
    const [only] = name === undefined ? [] : chosen
    const reason = textOf(values, 'reason')
    if (isApplied && (!only || reason === null))
      throw new UsageError(
        'Name the stream and say why: `tidemark privacy assignment --apply --reason TEXT`.',
      )
    await using context = await openContext({ config, log, migrates: false })
    if (isApplied && only && reason !== null) return await apply(call, context, only, reason)
    const found = []
    for (const stream of chosen) {
      const { changes, stored } = await context.privacy.waiting(stream)
      found.push({ stream: stream.name, rules: context.privacy.wanted(stream.name), changes, stored })
    }
    if (values.json)
      stdout.json({
        streams: found.map(({ stored, ...one }) =>
          snakeCased({ ...one, ...(one.changes.length > 0 && { stored }) }),
        ),
      })
    else for (const line of found.flatMap(linesOf)) stdout.say(line)
    if (!values.json && found.every(({ rules, changes }) => rules.length + changes.length === 0))
      stdout.say('No field is left out or masked.')
    return exitCodes.done
  },
}

type Found = {
  readonly stream: string
  readonly rules: ReturnType<SyncContext['privacy']['wanted']>
  readonly changes: readonly RuleChange[]
  readonly stored: Awaited<ReturnType<SyncContext['privacy']['apply']>>
}

const linesOf = ({ stream, rules, changes, stored }: Found): readonly string[] => [
  ...rules
    .filter(({ field }) => changes.every((one) => one.field !== field))
    .map(({ field, rule }) => `${stream}.${field}: ${rule}`),
  ...changes.map((change) => `${stream}.${change.field}: ${changeText(change)}`),
  ...(changes.length === 0
    ? []
    : [
        `${stream} is not read before this is in force. \`tidemark privacy ${stream} --apply --reason TEXT\` clears ${clearedText(stored)}, and reads everything again.`,
      ]),
]

function changeText({ before, after }: RuleChange): string {
  if (before !== null && before.rule === after?.rule) return `${after.rule}, with another MASK_KEY (waits)`
  return `${after?.rule ?? 'as it is'} (waits; in force: ${before?.rule ?? 'as it is'})`
}

const clearedText = ({ rows, history, quarantine, texts }: Found['stored']): string =>
  `values in ${plural(rows, 'row')} and ${plural(history, 'line')} of their past, ${plural(quarantine, 'record')} in quarantine and ${plural(texts, 'text')} that quote an answer`

async function apply(
  { values, stdout, log }: Call,
  context: SyncContext,
  stream: MirroredStream,
  reason: string,
): Promise<ExitCode> {
  const { changes } = await context.privacy.waiting(stream)
  if (changes.length === 0)
    throw new UsageError(
      `Nothing waits: what DICTIONARY says of the private fields of ${stream.name} is in force.`,
    )
  const text = (cleared: Found['stored']) =>
    `${stream.name}: ${changes.map(({ field, after }) => `${field}: ${after?.rule ?? 'as it is'}`).join(', ')} in force. Cleared: ${clearedText(cleared)}. Everything is read again by the next run.`
  const cleared = await recordedHere(
    { pool: context.database.pool, log },
    { action: 'privacy', target: stream.name, reason },
    () => context.privacy.apply(stream, reason),
    text,
  )
  if (values.json) stdout.json(snakeCased({ stream: stream.name, changes, cleared }))
  else stdout.say(text(cleared))
  return exitCodes.done
}
