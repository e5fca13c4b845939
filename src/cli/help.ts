// The texts of `tidemark --help` and `tidemark <verb> --help`.

import type { Command, Option } from './command.ts'

export function programHelp(commands: readonly Command[]): string {
  return [
    'Tidemark mirrors a field-service system that is reachable only over REST into Postgres.',
    '',
    'Usage: tidemark <verb> [options]',
    '',
    'Verbs:',
    ...columns(commands.map(({ name, summary }) => [name, summary])),
    '',
    'Examples:',
    ...commands.flatMap(({ examples }) => examples.slice(0, 1)).map((example) => `  ${example}`),
    '',
    'Options:',
    ...columns([
      ['--help, -h', 'this text; after a verb, that of the verb'],
      ['--version', 'the version'],
    ]),
    '',
    'Settings are environment variables; a .env file in the working directory is read too (see .env.example).',
    'Exit status: 0 done, 1 a run failed, 2 wrong usage or configuration.',
    '',
  ].join('\n')
}

export function commandHelp(command: Command): string {
  const options = Object.entries(command.options)
  return [
    `${command.summary[0]?.toUpperCase()}${command.summary.slice(1)}.`,
    '',
    `Usage: tidemark ${command.name} ${command.usage}`.trimEnd(),
    ...(options.length > 0 ? ['', 'Options:', ...columns(options.map(optionRow))] : []),
    '',
    'Examples:',
    ...command.examples.map((example) => `  ${example}`),
    '',
  ].join('\n')
}

function optionRow([name, option]: [string, Option]): [string, string] {
  const value = option.type === 'string' ? ` ${option.value ?? 'VALUE'}` : ''
  const short = option.short ? `, -${option.short}` : ''
  return [`--${name}${value}${short}`, `${option.describe}${option.multiple ? ' (may be repeated)' : ''}`]
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.min(34, Math.max(...rows.map(([left]) => left.length)))
  return rows.map(([left, right]) =>
    left.length > width ? `  ${left}\n  ${' '.repeat(width)}  ${right}` : `  ${left.padEnd(width)}  ${right}`,
  )
}
