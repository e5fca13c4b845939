// Turns the words after `tidemark` into a call of one command, or into the one line that says what would be right.

import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { UsageError } from '../util/errors.ts'
import { capitalized, nearest } from '../util/text.ts'
import type { Command, Option, Values } from './command.ts'
import { exitMeanings } from './exit.ts'
import { wrapped } from './output.ts'

export type Parsed = {
  readonly positionals: readonly string[]
  readonly values: Values
  readonly wantsHelp: boolean
  /** Whose streams are meant; null: those of the source that the environment describes, or of the one before a stream's name. */
  readonly source: string | null
  /** By --source. */
  readonly isSourceSaid: boolean
}

export function findVerb<Found>(verbs: Readonly<Record<string, Found>>, name: string): Found {
  const found = Object.hasOwn(verbs, name) ? verbs[name] : undefined
  if (found !== undefined) return found
  const [near] = nearest(name, Object.keys(verbs))
  const advice = near ? `Did you mean \`tidemark ${near}\`?` : '`tidemark --help` lists them.'
  throw new UsageError(`There is no verb "${name}". ${advice}`)
}

export function parseCall(command: Command, words: readonly string[]): Parsed {
  const options: ParseArgsOptionsConfig = {
    help: { type: 'boolean', short: 'h' },
    source: { type: 'string' },
  }
  for (const [name, { type, multiple }] of Object.entries(command.options))
    options[name] = { type, ...(multiple && { multiple }) }
  const { values, positionals, tokens } = parseArgs({
    args: [...words],
    options,
    allowPositionals: true,
    strict: false,
    tokens: true,
  })
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const option = options[token.name]
    if (!option) throw new UsageError(unknownOption(command, token.rawName))
    if (
      option.type === 'string' &&
      (token.value === undefined || (!token.inlineValue && token.value.startsWith('--')))
    )
      throw new UsageError(
        `${token.rawName} of \`tidemark ${command.name}\` needs a value: ${usageOf(command, token.name)}.`,
      )
    if (option.type === 'boolean' && token.value !== undefined)
      throw new UsageError(`${token.rawName} of \`tidemark ${command.name}\` takes no value.`)
  }
  const { help, source, ...rest } = values
  return {
    positionals,
    values: rest as Values,
    wantsHelp: help === true,
    source: typeof source === 'string' ? source : sourceNamed(positionals),
    isSourceSaid: typeof source === 'string',
  }
}

/** `acme` of `acme.assignment`. */
const sourceNamed = (words: readonly string[]): string | null =>
  words.map((word) => /^([a-z][a-z0-9_]*)\.[a-z]\w*$/.exec(word)?.[1]).find((name) => name !== undefined) ??
  null

function unknownOption(command: Command, rawName: string): string {
  const known = ['help', 'source', ...Object.keys(command.options)]
  const [near] = nearest(rawName.replace(/^-+/, ''), known)
  const advice = near ? `Did you mean --${near}?` : `\`tidemark ${command.name} --help\` lists its options.`
  // A negative number, or a query with a comment before it.
  const isMeantAsWord = /^-\d|\s/.test(rawName)
  const other = isMeantAsWord ? ' To begin a word with a dash that is no option, write -- before it.' : ''
  return `\`tidemark ${command.name}\` has no option ${rawName}. ${advice}${other}`
}

function usageOf(command: Command, name: string): string {
  const option = command.options[name]
  return `--${name} ${option?.value ?? 'VALUE'}`
}

// The texts of `tidemark --help` and `tidemark <verb> --help`, wrapped to the width of a terminal; null is no terminal. Examples stay
// whole, so that they can be copied.
export function programHelp(commands: readonly Command[], width: number | null = null): string {
  const line = (text: string, indent = 0) => wrapped(text, width, indent)
  return [
    line('Tidemark keeps a copy in Postgres of a field-service system that is reachable only over REST.'),
    '',
    'Usage: tidemark <verb> [options]',
    '',
    'Verbs:',
    ...columns(
      commands.map(({ name, summary }) => [name, summary]),
      width,
    ),
    '',
    'Examples:',
    ...commands.flatMap(({ examples }) => examples.slice(0, 1)).map((example) => `  ${example}`),
    '',
    'Options:',
    ...columns(programOptions, width),
    '',
    line(
      'Settings are environment variables; a file .env in the working directory is read too. .env.example explains each.',
    ),
    line(`Exit status: ${exitMeanings.map(([code, meaning]) => `${code} ${meaning}`).join('; ')}.`, 2),
    '',
  ].join('\n')
}

const programOptions: readonly (readonly [string, string])[] = [
  ['--help, -h', 'show this text; after a verb, how it is used'],
  ['--source NAME', 'which of several sources is meant; without it, the one of the environment'],
  ['--version', 'show the version'],
]

export function commandHelp(command: Command, width: number | null = null): string {
  const options = Object.entries(command.options)
  return [
    wrapped(`${capitalized(command.summary)}.`, width, 0),
    '',
    wrapped(`Usage: tidemark ${command.name} ${command.usage}`.trimEnd(), width, 'Usage: '.length),
    ...(options.length > 0 ? ['', 'Options:', ...columns(options.map(optionRow), width)] : []),
    '',
    'Examples:',
    ...command.examples.map((example) => `  ${example}`),
    '',
  ].join('\n')
}

function optionRow([name, option]: [string, Option]): [string, string] {
  const value = option.type === 'string' ? ` ${option.value ?? 'VALUE'}` : ''
  return [`--${name}${value}`, `${option.describe}${option.multiple ? ' (may be repeated)' : ''}`]
}

const widestLeft = 34
/** What a narrow terminal has for the names, so that there is room beside them. */
const narrow = { below: 80, left: 16 }

function columns(rows: readonly (readonly [string, string])[], width: number | null): string[] {
  const most = width !== null && width < narrow.below ? narrow.left : widestLeft
  const left = Math.min(most, Math.max(...rows.map(([name]) => name.length)))
  return rows.map(([name, text]) => {
    const indent = left + 4
    const words = wrapped(`${' '.repeat(indent)}${text}`, width, indent)
    return name.length > left
      ? `${wrapped(`  ${name}`, width, 4)}\n${words}`
      : `  ${name.padEnd(left)}${words.slice(left + 2)}`
  })
}
