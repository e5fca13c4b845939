// `tidemark actions`: who did what, from where, why, and what came of it; and whether that record was changed.

import { type Action, actions as actionsDocument, type Chain, verification } from '../documents/actions.ts'
import { deedInWords, toldInWords } from '../operator/action-words.ts'
import { UsageError } from '../util/errors.ts'
import { plural } from '../util/text.ts'
import { type Call, type Command, json, option, textOf, wholeNumber } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { showFromMirror } from './mirror.ts'
import { utcSecond, wrapped } from './output.ts'

export const actions: Command = {
  name: 'actions',
  summary: 'show who did what, newest first: pauses, rewinds, approvals and so on',
  usage: '[stream | verify [--kept HASH]] [--limit N] [--json]',
  options: {
    limit: option('N', 'at most this many (20)'),
    kept: option('HASH', 'a hash that an earlier verify printed; it must still be there'),
    json,
  },
  examples: ['tidemark actions', 'tidemark actions assignment --limit 5', 'tidemark actions verify'],
  async run(call) {
    const { positionals, values, stdout } = call
    const [name, ...more] = positionals
    if (name === 'verify' && more.length === 0) return await verify(call)
    if (values.kept !== undefined) throw new UsageError('--kept is for `tidemark actions verify`.')
    if (more.length > 0) throw new UsageError('`tidemark actions` takes one stream, or none for all.')
    const limit = wholeNumber(values, 'limit', { least: 1 }) ?? 20
    return await showFromMirror(call, actionsDocument, { stream: name, limit }, (found) => {
      if (found.length === 0) stdout.say('Nobody has done anything here yet.')
      else stdout.say(found.map((line) => asText(line, stdout.columns())).join('\n'))
    })
  },
}

/** When and who in one line; what it was, why and what came of it below. */
function asText(line: Action, width: number | null) {
  const { at, who, door, address, target, reason, result } = line
  const why = reason === null ? '' : `, “${reason}”`
  return [
    `${utcSecond(at)} UTC  ${who === '' ? 'no name' : who} (${door}, ${address})`,
    wrapped(
      `    ${deedInWords(line)} ${target}${why}: ${result}. ${toldInWords(line).replaceAll(/\s+/g, ' ')}`,
      width,
      4,
    ),
  ].join('\n')
}

/** Exit 1 when lines were changed or removed. */
async function verify(call: Call): Promise<ExitCode> {
  const { values, stdout } = call
  if (values.limit !== undefined)
    throw new UsageError('`tidemark actions verify` checks all lines: leave out --limit.')
  const kept = textOf(values, 'kept')?.toLowerCase() ?? null
  if (kept !== null && !/^[0-9a-f]{64}$/.test(kept))
    throw new UsageError(
      '--kept takes a whole hash, as `tidemark actions verify` printed it: 64 digits and letters from a to f.',
    )
  return await showFromMirror(
    call,
    verification,
    { kept: kept ?? undefined },
    (chain) => stdout.tell(chainInWords(chain, kept)),
    ({ intact }) => (intact ? exitCodes.done : exitCodes.failed),
  )
}

function chainInWords(
  { lines, from, since, newest, broken, has_kept: hasKept }: Chain,
  kept: string | null,
): string {
  if (since === null)
    return kept === null ? 'There are no lines yet.' : `No line has the hash ${kept}: all lines were removed.`
  const found = broken.map(({ id, at, missing }) =>
    missing === '0'
      ? `Line ${id} (${utcSecond(at)} UTC) is not as it was written, or the line before it is not.`
      : `${plural(Number(missing), 'line')} before line ${id} (${utcSecond(at)} UTC) ${missing === '1' ? 'was' : 'were'} removed.`,
  )
  if (hasKept === false)
    found.push(`No line has the hash ${kept}: lines were removed or written anew since it was printed.`)
  // An action has a line of its beginning and one of its end, a sign-in or a download one alone.
  const all = `${plural(Number(lines), 'line')} since ${utcSecond(since)} UTC (most actions have two: one before, one for what came of it)`
  const head =
    found.length === 0
      ? [`${all}: none was changed, and none is missing from line ${from} on.`]
      : [`${all}:`, ...found]
  return [
    ...head,
    `The newest hash is ${newest}.`,
    'Keep it where the owner of the database cannot write, and give it to the next check (--kept): whoever may write as the owner can write the whole record anew, or leave out its newest lines, and only a kept hash shows that.',
  ].join('\n')
}
