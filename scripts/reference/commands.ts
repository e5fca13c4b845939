// docs/reference/commands.md, from what the verbs say of themselves.

import type { Command, Option } from '../../src/cli/command.ts'
import { programHelp } from '../../src/cli/parse.ts'
import { verbs } from '../../src/cli/verbs.ts'
import { code, fenced, generatedBy, sentence, table } from './markdown.ts'

export async function commandsPage(): Promise<string> {
  const commands = await Promise.all(Object.values(verbs).map((load) => load()))
  return [
    generatedBy('the files of src/cli'),
    `# Commands

\`tidemark --help\` lists the commands; \`tidemark <command> --help\` explains one. In a checkout write \`npx tidemark\`.

With \`--json\` a command prints one JSON document. Logs go to standard error.

${exitStatuses(commands)}
${table(
  ['command', 'what it does'],
  commands.map(({ name, summary }) => [`[${code(name)}](#${name})`, sentence(summary)]),
)}`,
    ...commands.map(section),
  ].join('\n')
}

/** As the help of the program tells them. */
function exitStatuses(commands: readonly Command[]): string {
  const [, list = ''] = /^Exit status: (.*)\.$/m.exec(programHelp(commands)) ?? []
  const rows = list.split(/[;,] (?=\d)/).map((one) => /^(\d+) (.+)$/.exec(one)?.slice(1) ?? [])
  if (rows.some(({ length }) => length === 0))
    throw new Error('the help of the program tells no exit statuses')
  return table(
    ['exit status', 'means'],
    rows.map(([status = '', meaning = '']) => [status, sentence(meaning)]),
  )
}

function section({ name, summary, usage, options, examples }: Command): string {
  const rows = Object.entries(options).map((option) => optionRow(usage, option))
  return [
    `## ${name}\n`,
    `${sentence(summary)}\n`,
    fenced('text', [`tidemark ${name} ${usage}`.trimEnd()]),
    ...(rows.length > 0 ? [table(['option', 'means'], rows)] : []),
    fenced('sh', examples),
  ].join('\n')
}

function optionRow(usage: string, [name, option]: readonly [string, Option]): readonly string[] {
  const value = option.type === 'string' ? ` ${option.value ?? 'VALUE'}` : ''
  const means = `${option.describe}${option.multiple ? ' (may be repeated)' : ''}`
  // What is to be typed keeps its small letter.
  const [first = ''] = means.split(' ')
  const isTyped = usage.includes(` ${first}|`) || usage.includes(`|${first}|`)
  return [code(`--${name}${value}`), isTyped ? `${means}.` : sentence(means)]
}
