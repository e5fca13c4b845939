// What a verb of the program is, and how it reads its words and options. Each file of a verb defines one; `verbs.ts` lists them.

import { hostname, userInfo } from 'node:os'
import type { Logger } from '../log.ts'
import type { Catalogue } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { nearest } from '../util/text.ts'
import type { ExitCode } from './exit.ts'
import type { Environment, Output } from './output.ts'

export type Option = {
  readonly type: 'string' | 'boolean'
  readonly describe: string
  /** How the value is named in the help, e.g. `N` or `FILE`. */
  readonly value?: string
  readonly multiple?: boolean
}
export type Values = { readonly [option: string]: string | boolean | readonly string[] | undefined }

export type Call = {
  readonly positionals: readonly string[]
  readonly values: Values
  /** Aborted by the first SIGINT or SIGTERM: finish what is in hand and come back. */
  readonly signal: AbortSignal
  readonly log: Logger
  /** All that can be mirrored, with what was found out about it. */
  readonly catalogue: Catalogue
  /** The environment with `.env` laid under it. Only the configuration reads it. */
  readonly environment: Environment
  readonly stdout: Output
  readonly stderr: Output
  /** All that there are. */
  readonly commands: () => Promise<readonly Command[]>
}

export type Command = {
  readonly name: string
  readonly summary: string
  /** What follows `tidemark <name>`, e.g. `[stream…] [--kind lookback]`. */
  readonly usage: string
  readonly options: Readonly<Record<string, Option>>
  readonly examples: readonly string[]
  /** The verb ignores a demo that runs in the same directory. All others work on the demo's mirror if nothing else is configured. */
  readonly ignoresDemo?: boolean
  run(call: Call): Promise<ExitCode>
}

export const flag = (describe: string): Option => ({ type: 'boolean', describe })

/** An option with a value, which the help calls by this name. */
export const option = (value: string, describe: string, more: Pick<Option, 'multiple'> = {}): Option => ({
  type: 'string',
  value,
  describe,
  ...more,
})

/** The option that most verbs have. */
export const json: Option = flag('print one JSON document')

/** Who gives the order, for what is recorded with it. */
export const operator = (): string => `${osUser()}@${hostname()}`

export function osUser(): string {
  try {
    return userInfo().username
  } catch {
    // A container may run as a user that has no name.
    return `user ${process.getuid?.() ?? 'unknown'}`
  }
}

type Action = (call: Call) => Promise<ExitCode>

/** Does what the second word says, or else the usual one, with the words after it. */
export const runAction =
  (verb: string, actions: Readonly<Record<string, Action>>, usual = ''): Action =>
  async (call) => {
    const [word = usual, ...positionals] = call.positionals
    return await findAction(verb, actions, word)({ ...call, positionals })
  }

/** The second word of a verb that has several, such as `tidemark deletions approve`. */
export function findAction<Found>(
  verb: string,
  actions: Readonly<Record<string, Found>>,
  word: string,
): Found {
  const found = Object.hasOwn(actions, word) ? actions[word] : undefined
  if (found !== undefined) return found
  const known = Object.keys(actions)
  if (known.length === 1) throw new UsageError(`Write \`tidemark ${verb} ${known[0]}\`.`)
  if (word === '')
    throw new UsageError(
      `\`tidemark ${verb}\` needs one of ${known.join(', ')}. \`tidemark ${verb} --help\` shows how.`,
    )
  const [near] = nearest(word, known)
  const advice = near ? `Did you mean \`tidemark ${verb} ${near}\`?` : `It has ${known.join(', ')}.`
  throw new UsageError(`\`tidemark ${verb}\` has no "${word}". ${advice}`)
}

/** The only word that a verb takes. `mistake` says what it takes. */
export function onlyWord([word, ...more]: readonly string[], mistake: string): string {
  if (word === undefined || more.length > 0) throw new UsageError(mistake)
  return word
}

/** For verbs that are told everything by options. */
export function expectNoWords(verb: string, { positionals }: Pick<Call, 'positionals'>): void {
  const [word] = positionals
  if (word !== undefined)
    throw new UsageError(`\`tidemark ${verb}\` takes options only, and was given "${word}".`)
}

/** The value of an option; null when it is not there or empty. */
export function textOf(values: Values, name: string): string | null {
  const value = values[name]
  return typeof value === 'string' ? value.trim() || null : null
}

/** The values of some options, as an action takes them. */
export const textsOf = (
  { values }: Call,
  names: readonly string[],
): Readonly<Record<string, string | null>> =>
  Object.fromEntries(names.map((name) => [name, textOf(values, name)]))

/** One of the values that an option can have; null when it is not there. */
export function oneOf<Known extends string>(
  values: Values,
  name: string,
  known: readonly Known[],
): Known | null {
  const wanted = textOf(values, name)
  const found = known.find((one) => one === wanted) ?? null
  if (wanted === null || found !== null) return found
  throw new UsageError(`--${name} must be one of ${known.join(', ')}, not "${wanted}".`)
}

type Bounds = { readonly least: number; readonly most?: number }

/** Null when the option is not there. Takes only digits: JavaScript would also take `1e3` or a blank for a number. */
export function wholeNumber(
  values: Values,
  name: string,
  { least, most = Number.MAX_SAFE_INTEGER }: Bounds,
): number | null {
  const value = values[name]
  if (value === undefined) return null
  const number = Number(value)
  if (/^\d+$/.test(String(value)) && number >= least && number <= most) return number
  const upTo = most === Number.MAX_SAFE_INTEGER ? ` from ${least} on` : ` from ${least} to ${most}`
  throw new UsageError(`--${name} must be a whole number${upTo}, not "${value}".`)
}
