// docs/reference/tables.md, from the tables that the code describes and the comments beside their columns.

import { readdirSync, readFileSync } from 'node:fs'
import { is } from 'drizzle-orm'
import { getTableConfig, getViewConfig, PgColumn, PgTable } from 'drizzle-orm/pg-core'
import { historyColumns, ownColumns } from '../../src/store/schema/own-columns.ts'
import * as actions from '../../src/store/tables/actions.ts'
import * as budgets from '../../src/store/tables/budgets.ts'
import * as contract from '../../src/store/tables/contract.ts'
import * as findings from '../../src/store/tables/findings.ts'
import * as overrides from '../../src/store/tables/overrides.ts'
import * as people from '../../src/store/tables/people.ts'
import * as problems from '../../src/store/tables/problems.ts'
import * as progress from '../../src/store/tables/progress.ts'
import * as related from '../../src/store/tables/related.ts'
import * as runs from '../../src/store/tables/runs.ts'
import * as state from '../../src/store/tables/state.ts'
import { code, generatedBy, sentence, table } from './markdown.ts'

const head = ['column', 'type', 'what it is']

export function tablesPage(checkout: URL): string {
  const folder = new URL('src/store/tables/', checkout)
  const source = readdirSync(folder)
    .map((name) => readFileSync(new URL(name, folder), 'utf8'))
    .join('\n')
  const described = [
    state,
    runs,
    findings,
    problems,
    related,
    contract,
    progress,
    actions,
    overrides,
    people,
    budgets,
  ]
    .flatMap((module) => Object.values(module))
    .filter((value): value is PgTable => is(value, PgTable))
    .map(getTableConfig)
    .toSorted((a, b) => a.name.localeCompare(b.name))
  const own = ownColumns.map(({ name, type, meaning }) => [
    code(name),
    type.split(' ')[0] ?? '',
    sentence(meaning),
  ])
  const history = historyColumns.map(({ name, type, meaning }) => [
    code(name),
    type.split(' ')[0] ?? '',
    sentence(meaning),
  ])
  return [
    generatedBy('src/store/tables and src/store/schema'),
    `# Tables and columns

\`npx tidemark schema assignment\` lists the columns that come from the upstream.
[What lands in Postgres](../analysts/what-lands-in-postgres.md) explains the three schemas. Times in pages and logs are UTC.

## Tidemark's own columns in \`mirror\`

Every table in \`mirror\` has them. The views in \`bi\` show only \`_synced_at\`.

${table(head, own)}
A history, such as \`mirror.tracker_object_history\`, has these instead; its view shows both:

${table(head, history)}`,
    ...[state.freshnessView, findings.inDoubtView].map(
      (view) => `## tidemark.${getViewConfig(view).name}\n\n${viewText(checkout, view)}`,
    ),
    `## Tables of Tidemark

In schema \`tidemark\`, for operators. They may change with a new version; see the changelog.
`,
    ...described.map(({ name, columns }) => {
      const text = textOf(source, name)
      const rows = columns.map((column) => [
        code(column.name),
        `${column.getSQLType()}${column.notNull ? '' : ', may be empty'}`,
        sentence(meaningOf(source, text, name, column.name)),
      ])
      return `### tidemark.${name}\n\n${sentence(commentBefore(text.before) ?? missing(name))}\n\n${table(head, rows)}`
    }),
  ].join('\n')
}

/** A view is described by comments in the migrations, which BI tools show; the last one counts. */
function viewText(checkout: URL, view: Parameters<typeof getViewConfig>[0]): string {
  const { name: viewName, selectedFields } = getViewConfig(view)
  const folder = new URL('migrations/', checkout)
  const comments = readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .flatMap((name) => [
      ...readFileSync(new URL(name, folder), 'utf8').matchAll(
        new RegExp(
          `comment on (?:view|column) "tidemark"\\."${viewName}"(?:\\."(\\w+)")? is '((?:[^']|'')*)'`,
          'gi',
        ),
      ),
    ])
  const told = new Map(comments.map(([, column = '', text = '']) => [column, text.replaceAll("''", "'")]))
  const columns = Object.values(selectedFields).flatMap((column) =>
    is(column, PgColumn) ? [column.name] : [],
  )
  const rows = columns.map((name) => [code(name), sentence(told.get(name) ?? missing(`${viewName}.${name}`))])
  return `${sentence(told.get('') ?? missing(viewName))} \`BI_ROLE\` may read it.\n\n${table(['column', 'what it is'], rows)}`
}

type Text = { readonly before: string; readonly body: string }

function textOf(source: string, name: string): Text {
  const found = new RegExp(`export const \\w+ = tidemark\\.table\\(\\s*'${name}'`).exec(source)
  if (!found) throw new Error(`src/store/tables describes no table ${name} in the usual form`)
  const after = source.slice(found.index + found[0].length)
  const next = after.search(/\bexport const /)
  return { before: source.slice(0, found.index), body: next < 0 ? after : after.slice(0, next) }
}

function meaningOf(source: string, { body }: Text, table: string, column: string): string {
  if (column === 'id' && body.includes('id: identity()')) return 'number of the entry'
  // Columns that several tables have alike are described once, in a function that is spread there.
  const shared = [...body.matchAll(/\.\.\.(\w+)\(\)/g)].map(([, name = '']) => sharedColumns(source, name))
  for (const text of [body, ...shared]) {
    const found = new RegExp(`\\w+: \\w+\\('${column}'`).exec(text)
    const comment = found && commentBefore(text.slice(0, found.index))
    if (comment) return comment
  }
  return missing(`${table}.${column}`)
}

function sharedColumns(source: string, name: string): string {
  const [, body = ''] = new RegExp(`const ${name} = \\(\\) => \\(\\{(.*?)\\n\\}\\)`, 's').exec(source) ?? []
  return body.replaceAll(/\.\.\.(\w+)\(\),/g, (_, inner: string) => sharedColumns(source, inner))
}

/** The comment for readers of the code that a text ends with. */
function commentBefore(text: string): string | null {
  const [, comment] = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(text) ?? []
  return comment === undefined ? null : comment.replaceAll(/\s*\n\s*\*?\s*/g, ' ').trim()
}

function missing(what: string): never {
  throw new Error(`say in a /** comment */ beside it what tidemark.${what} is`)
}
