// The data dictionary as Markdown: a table for each view.

import type { ColumnMap, ViewMap } from '../../store/book/dictionary.ts'
import type { Reference } from '../../store/book/references.ts'
import { viewName } from '../../streams/names.ts'
import { count } from '../../util/text.ts'
import { markdownTable, oneLine } from '../output.ts'
import { describeColumn } from './facts.ts'

/** What it means, and what was seen of it. */
function tellColumn(column: ColumnMap): string {
  const { nullShare, firstSeenAt, rescued, note } = column
  return [
    describeColumn(column) || null,
    nullShare === null || nullShare === 0 ? null : `${percent(nullShare)} empty`,
    firstSeenAt === null ? null : `first seen ${firstSeenAt.slice(0, 10)}`,
    rescued === 0 ? null : `${count(rescued)} values did not fit`,
    note === null ? null : oneLine(note),
  ]
    .filter((part) => part !== null)
    .join('; ')
}

/** Rounded, but 100 % only for a column that is empty in all rows, and 0 % only for one that is filled in all. */
function percent(share: number): string {
  const rounded = Math.round(100 * share)
  if (rounded === 0) return 'below 1 %'
  return rounded === 100 && share < 1 ? 'above 99 %' : `${rounded} %`
}

export function asMarkdown(views: readonly ViewMap[], references: readonly Reference[]): string {
  return views
    .map(({ name, columns, unplaced }) => {
      const rows = columns.map((column) => {
        const reference = references.find(({ from, column: one }) => from === name && one === column.name)
        const role = [column.isKey ? 'key' : null, reference ? referenceText(reference) : null]
          .filter(Boolean)
          .join(', ')
        return [cell(column.name), column.type, role, cell(tellColumn(column))]
      })
      const table = markdownTable(['column', 'type', 'role', 'what it holds'], rows)
      const lines = [`## ${viewName(name)}`, '', ...table, '']
      const others = unplaced.map(
        ({ field, note }) => `- ${cell(oneLine(field))}: ${cell(oneLine(note ?? 'only ever empty'))}`,
      )
      return [...lines, ...(others.length > 0 ? ['Fields without a column:', '', ...others, ''] : [])].join(
        '\n',
      )
    })
    .join('\n')
}

/** The reference, with the share of the column's values that exist there, unless all do. */
const referenceText = ({ to, share }: Reference): string =>
  share === 1 ? `→ ${to}` : `→ ${to} (${percent(share)})`

/** Escapes a cell, so that nothing in it is Markdown. An underscore inside a word is none. */
const cell = (text: string): string =>
  text.replaceAll(/[\\`*{}[\]<>()#+!|~&]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\$&')
