// Tables, keys and likely references as a Mermaid diagram. Its words are few: what is not a letter, digit or underscore of ASCII
// becomes one, and the true name stands in the comment.

import type { ColumnMap, ViewMap } from '../mirror/schema-map.ts'
import type { Reference } from './references.ts'
import { oneLine } from './words.ts'

export function asMermaid(views: readonly ViewMap[], references: readonly Reference[]): string {
  const isReference = (view: ViewMap, column: ColumnMap) =>
    references.some(({ from, column: name }) => from === view.name && name === column.name)
  const entities = views.flatMap((view) => [
    `  ${view.name} {`,
    ...view.columns.map((column) => {
      const roles = [...(column.isKey ? ['PK'] : []), ...(isReference(view, column) ? ['FK'] : [])].join(', ')
      return `    ${[word(column.type), word(column.name), roles, comment(column)].filter(Boolean).join(' ')}`
    }),
    '  }',
  ])
  const lines = references.map(({ from, column, to }) => `  ${to} ||--o{ ${from} : "${quoted(column)}"`)
  return `${['erDiagram', ...entities, ...lines].join('\n')}\n`
}

const reserved = /^(pk|fk|uk)$/i

function word(text: string): string {
  const plain = text
    .normalize('NFD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^A-Za-z0-9_]+/g, '_')
  return reserved.test(plain) || !/^[A-Za-z_]/.test(plain) ? `_${plain}` : plain
}

const comment = ({ name, field }: ColumnMap): string | null =>
  field === null || field === name ? null : `"${quoted(field)}"`

/** Mermaid has no escape for a quotation mark, and reads `#…;` and `%%` wherever they stand. */
const quoted = (text: string): string =>
  oneLine(text)
    .replaceAll('"', "'")
    .replaceAll(/[#;%<>{}&\\]/g, '_')
