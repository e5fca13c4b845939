// The data dictionary as Markdown: a table for each view.

import type { ViewMap } from '../mirror/schema-map.ts'
import type { Reference } from './references.ts'
import { describeColumn, oneLine } from './words.ts'

export function asMarkdown(views: readonly ViewMap[], references: readonly Reference[]): string {
  return views
    .map(({ name, columns, unplaced }) => {
      const rows = columns.map((column) => {
        const to = references.find(({ from, column: one }) => from === name && one === column.name)?.to
        const role = [column.isKey ? 'key' : null, to ? `likely → ${to}` : null].filter(Boolean).join(', ')
        return [cell(column.name), column.type, role, cell(describeColumn(column))]
      })
      const table = [['column', 'type', 'role', 'what it holds'], ['---', '---', '---', '---'], ...rows]
      const lines = [`## bi.${name}`, '', ...table.map((cells) => `| ${cells.join(' | ')} |`), '']
      const others = unplaced.map(
        ({ field, note }) => `- ${cell(oneLine(field))}: ${cell(oneLine(note ?? 'only ever empty'))}`,
      )
      return [...lines, ...(others.length > 0 ? ['Fields without a column:', '', ...others, ''] : [])].join(
        '\n',
      )
    })
    .join('\n')
}

/** Nothing of it is markup. An underscore inside a word is none. */
const cell = (text: string): string =>
  text.replaceAll(/[\\`*{}[\]<>()#+!|~&]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\$&')
