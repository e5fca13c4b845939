// The states of the reader of changes, for docs/how-it-works/reading.md: a diagram, and the table that it is drawn from.

import { declaredStates } from '../../src/sync/changes/machine.ts'

export const readerStates = (): string => `${readerDiagram()}\n${readerTable()}`

/** As Mermaid; rules that lead from one state to another share an arrow. */
function readerDiagram(): string {
  const arrows = declaredStates.flatMap(({ name, rules }) => {
    const labels = new Map<string, string[]>()
    for (const rule of rules) labels.set(rule.to, [...(labels.get(rule.to) ?? []), rule.name])
    return [...labels].map(
      ([to, names]) => `  ${idOf(name ?? 'any')} --> ${idOf(to)}: ${names.join('<br/>')}`,
    )
  })
  const titles = declaredStates.flatMap(({ name }) =>
    name === null || idOf(name) === name ? [] : [`  state "${name}" as ${idOf(name)}`],
  )
  const ends = declaredStates.flatMap(({ name, rules }) => (rules.length === 0 ? [`  ${name} --> [*]`] : []))
  const begins = ['  [*] --> next_page', '  [*] --> end_']
  const lines = ['stateDiagram-v2', '  state "any state" as any', ...titles, ...begins, ...arrows, ...ends]
  return `\`\`\`mermaid\n${lines.join('\n')}\n\`\`\`\n`
}

/** Mermaid takes no hyphen in the name of a state, and `end` is a word of its own. */
const idOf = (name: string): string => (name === 'end' ? 'end_' : name.replaceAll('-', '_'))

function readerTable(): string {
  const rows = declaredStates.map(({ name, asks, rules }) => {
    const ways = rules.map((rule) => `${rule.name}: **${rule.to}**`).join('<br>')
    return `| ${name === null ? 'any' : `**${name}**`} | ${asks ?? 'whatever it asks, before all else'} | ${ways} |\n`
  })
  return `| State | Asks | Sees, first match wins: goes to |\n| --- | --- | --- |\n${rows.join('')}`
}
