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

\`tidemark --help\` lists the verbs; \`tidemark <verb> --help\` explains one. In a checkout write \`npx tidemark\`.

${exitStatuses(commands)} With \`--json\` standard output is one JSON document. Logs go to standard error.

${table(
  ['verb', 'what it does'],
  commands.map(({ name, summary }) => [`[${code(name)}](#${name})`, sentence(summary)]),
)}`,
    ...commands.map(section),
  ].join('\n')
}

/** As the program says it. */
function exitStatuses(commands: readonly Command[]): string {
  const line = programHelp(commands)
    .split('\n')
    .find((one) => one.startsWith('Exit status: '))
  if (line === undefined) throw new Error('the help of the program says nothing of exit statuses')
  return line
}

function section({ name, summary, usage, options, examples }: Command): string {
  const rows = Object.entries(options).map(optionRow)
  return [
    `## ${name}\n`,
    `${sentence(summary)}\n`,
    fenced('text', [`tidemark ${name} ${usage}`.trimEnd()]),
    ...(rows.length > 0 ? [table(['option', 'means'], rows)] : []),
    fenced('sh', examples),
  ].join('\n')
}

function optionRow([name, option]: readonly [string, Option]): readonly string[] {
  const value = option.type === 'string' ? ` ${option.value ?? 'VALUE'}` : ''
  const short = option.short ? `, -${option.short}` : ''
  return [
    code(`--${name}${value}${short}`),
    sentence(`${option.describe}${option.multiple ? ' (may be repeated)' : ''}`),
  ]
}
