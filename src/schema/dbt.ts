// The views as dbt sources, with descriptions. Every text is a YAML string in double quotes; dbt reads descriptions as templates, so
// nothing in them may look like one.

import type { ColumnMap, ViewMap } from '../mirror/schema-map.ts'
import { describeColumn } from './words.ts'

export function asDbtSources(views: readonly ViewMap[]): string {
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
      ...columns.flatMap(columnLines),
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
    ...(column.isKey ? ['            data_tests: [unique, not_null]'] : []),
  ]
}

const isPlain = (name: string): boolean => /^[a-z_][a-z0-9_]*$/.test(name)

/** JSON's strings are YAML's, but for some characters that YAML takes for line ends or not at all. */
const text = (value: string): string =>
  JSON.stringify(value.replaceAll(/\{(?=[{%#])/g, '{ ').replaceAll(/[}%#](?=\})/g, '$& ')).replaceAll(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
