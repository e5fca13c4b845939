// The states of the reader of changes, for docs/how-it-works/reading.md: a diagram, and the table that it is drawn from.

import { declaredStates } from '../../src/sync/changes/machine.ts'

export const readerStates = (): string => `${readerDiagram()}\n${readerTable()}`

/** Puts them between the markers of a page. */
export function withReaderStates(page: string): string {
  const [begin, end] = ['<!-- begin: states -->\n', '<!-- end: states -->']
  const [before, rest = '', ...more] = page.split(begin)
  const [, after] = rest.split(end)
  if (before === undefined || after === undefined || more.length > 0)
    throw new Error('the page needs the markers of the states once')
  return `${before}${begin}${readerStates()}${end}${after}`
}

/** As Mermaid; rules that lead from one state to another share an arrow. */
function readerDiagram(): string {
  const arrows = declaredStates.flatMap(({ name, rules }) => {
    const labels = new Map<string, string[]>()
    for (const rule of rules) labels.set(rule.to, [...(labels.get(rule.to) ?? []), rule.name])
    return [...labels].map(([to, names]) => `  ${name ?? 'any'} --> ${to}: ${names.join('<br/>')}`)
  })
  const ends = declaredStates.flatMap(({ name, rules }) => (rules.length === 0 ? [`  ${name} --> [*]`] : []))
  const lines = ['stateDiagram-v2', '  state "any state" as any', '  [*] --> ahead', ...arrows, ...ends]
  return `\`\`\`mermaid\n${lines.join('\n')}\n\`\`\`\n`
}

function readerTable(): string {
  const rows = declaredStates.map(({ name, asks, rules }) => {
    const ways = rules.map((rule) => `${rule.name}: **${rule.to}**`).join('<br>')
    return `| ${name === null ? 'any' : `**${name}**`} | ${asks ?? 'whatever it asks, before all else'} | ${ways} |\n`
  })
  return `| State | Asks | Sees, first match wins: goes to |\n| --- | --- | --- |\n${rows.join('')}`
}
