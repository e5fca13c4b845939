// `tidemark actions`: who did what, from where, why, and what came of it.

import { actionWords } from '../operator/action-words.ts'
import { type ActionLine, readActions } from '../store/queries/actions.ts'
import { pickStream, streams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, json, wholeNumber } from './command.ts'
import type { ExitCode } from './exit.ts'
import { readMirror } from './mirror.ts'
import { wrapped } from './output.ts'

export const actions: Command = {
  name: 'actions',
  summary: 'show who did what, newest first: pauses, rewinds, approvals and so on',
  usage: '[stream] [--limit N] [--json]',
  options: { limit: { type: 'string', value: 'N', describe: 'at most this many (20)' }, json },
  examples: ['tidemark actions', 'tidemark actions assignment --limit 5'],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { positionals, values, stdout } = call
  const [name, ...more] = positionals
  if (more.length > 0) throw new UsageError('`tidemark actions` takes one stream, or none for all.')
  const stream = name === undefined ? null : pickStream(name, streams).name
  const limit = wholeNumber(values, 'limit', { least: 1 }) ?? 20
  return await readMirror(call, async (pool) => {
    const found = await readActions(pool, { stream, before: null, limit })
    if (values.json) stdout.json(found)
    else if (found.length === 0) stdout.say('Nobody has done anything here yet.')
    else stdout.say(found.map((line) => asText(line, stdout.columns())).join('\n'))
  })
}

/** When and who in one line; what it was, why and what came of it below. */
function asText(
  { at, who, door, address, action, target, reason, result, told }: ActionLine,
  width: number | null,
) {
  const when = at.toISOString().slice(0, 19).replace('T', ' ')
  const why = reason === null ? '' : `, “${reason}”`
  return [
    `${when} UTC  ${who === '' ? 'no name' : who} (${door}, ${address})`,
    wrapped(
      `    ${actionWords[action] ?? action} ${target}${why}: ${result}. ${told.replaceAll(/\s+/g, ' ')}`,
      width,
      4,
    ),
  ].join('\n')
}
