// The views as dbt sources, with descriptions. Every text is a YAML string in double quotes; dbt reads descriptions as templates, so
// nothing in them may look like one.

import { ownValue } from '../json/json.ts'
import type { ColumnMap, ViewMap } from '../store/book/dictionary.ts'
import type { Holding, LikelyReference, Reference } from '../store/book/references.ts'
import { count } from '../util/text.ts'
import { markdownTable, oneLine } from './markdown.ts'

// What there is to say about a column, in one line, whatever the upstream called its field.
const ownColumns: Readonly<Record<string, string>> = {
  _synced_at: 'when the row last changed here',
  _observed_at: 'when the row was first seen like this',
  _deleted_at: 'when the row was found to be deleted',
}

function describeColumn(column: ColumnMap): string {
  const { name, field, nullShare, firstSeenAt, rescued, note, description = null } = column
  if (field === null) return ownValue(ownColumns, name) ?? ''
  return [
    `field ${oneLine(field)}`,
    description && oneLine(description).replace(/[.;]$/, ''),
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

export function asDbtSources(views: readonly ViewMap[], { references, notNull }: Holding): string {
  return `${[
    'version: 2',
    '',
    'sources:',
    '  - name: tidemark',
    '    schema: bi',
    `    description: ${text('The mirror of the field-service system. tidemark.freshness tells how complete it is.')}`,
    '    tables:',
    ...views.flatMap(({ name, columns }) => [
      `      - name: ${text(name)}`,
      '        columns:',
      ...columns.flatMap((column) => [
        ...columnLines(column),
        ...testLines(
          column,
          notNull.has(`${name}.${column.name}`),
          references.find((one) => one.from === name && one.column === column.name),
        ),
      ]),
    ]),
  ].join('\n')}\n`
}

function columnLines(column: ColumnMap): readonly string[] {
  const description = describeColumn(column)
  return [
    `          - name: ${text(column.name)}`,
    `            data_type: ${text(column.type)}`,
    ...(isPlain(column.name) ? [] : ['            quote: true']),
    ...(description === '' ? [] : [`            description: ${text(description)}`]),
  ]
}

/** Tests only for what is true of every row now: a test that fails on its first day tells nothing. */
function testLines(
  column: ColumnMap,
  isFilled: boolean,
  reference: Reference | undefined,
): readonly string[] {
  const tests = [...(column.isKey ? ['unique'] : []), ...(column.isKey || isFilled ? ['not_null'] : [])]
  if (!reference) return tests.length > 0 ? [`            data_tests: [${tests.join(', ')}]`] : []
  return [
    '            data_tests:',
    ...tests.map((test) => `              - ${test}`),
    '              - relationships:',
    `                  to: ${text(`source('tidemark', '${reference.to}')`)}`,
    `                  field: ${text(reference.key)}`,
  ]
}

const isPlain = (name: string): boolean => /^[a-z_][a-z0-9_]*$/.test(name)

/** JSON's strings are YAML's, but for some characters that YAML takes for line ends or not at all. */
const text = (value: string): string =>
  JSON.stringify(value.replaceAll(/\{(?=[{%#])/g, '{ ').replaceAll(/[}%#](?=\})/g, '$& ')).replaceAll(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

// The data dictionary as Markdown: a table for each view.
export function asMarkdown(views: readonly ViewMap[], references: readonly Reference[]): string {
  return views
    .map(({ name, columns, unplaced }) => {
      const rows = columns.map((column) => {
        const reference = references.find(({ from, column: one }) => from === name && one === column.name)
        const role = [column.isKey ? 'key' : null, reference ? referenceText(reference) : null]
          .filter(Boolean)
          .join(', ')
        return [cell(column.name), column.type, role, cell(describeColumn(column))]
      })
      const table = markdownTable(['column', 'type', 'role', 'what it holds'], rows)
      const lines = [`## bi.${name}`, '', ...table, '']
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

// Tables, keys and likely references as a Mermaid diagram. Its words are few: what is not a letter, digit or underscore of ASCII
// becomes one, and the true name stands in the comment.
export function asMermaid(views: readonly ViewMap[], references: readonly LikelyReference[]): string {
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
