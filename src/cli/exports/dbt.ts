// The views for dbt: sources that know how current they are, and a staging model of each with its times in local time. A test asks only for
// what has to hold: keys, and what the dictionary says.

import pg from 'pg'
import type { ColumnMap, ViewMap } from '../../store/book/dictionary.ts'
import { keyIn } from '../../streams/names.ts'
import { describeColumn, type Facts, type Files, isTime, localName, schemaSql } from './facts.ts'
import { asYaml, type Yaml } from './yaml.ts'

export function asDbt(facts: Facts): Files {
  const { views, prefix } = facts
  const header = '# Made by `tidemark schema --format dbt`, which overwrites it.\n'
  return {
    [`_${prefix}__sources.yml`]: `${header}${asYaml({ version: 2, sources: sourcesOf(facts) })}`,
    [`_${prefix}__models.yml`]: `${header}${asYaml({ version: 2, models: modelsOf(facts) })}`,
    [`${modelName(facts, freshnessView)}.sql`]: freshnessSql(facts),
    ...Object.fromEntries(views.map((view) => [`${modelName(facts, view)}.sql`, stagingSql(view, facts)])),
    ...Object.fromEntries(
      views
        .filter(isStream)
        .map(({ name }) => [`${modelName(facts, deletedOf(name))}.sql`, deletedSql(name, facts)]),
    ),
  }
}

const notice = '-- Made by `tidemark schema --format dbt`, which overwrites it.\n'
const modelName = ({ prefix }: Pick<Facts, 'prefix'>, { name }: Pick<ViewMap, 'name'>): string =>
  `stg_${prefix}__${name}`
const isStream = ({ name, stream }: ViewMap): boolean => name === stream
const deletedOf = (name: string) => ({ name: `${name}_deleted` })
const sourceOf = ({ prefix }: Pick<Facts, 'prefix'>, name: string): string => `source('${prefix}', '${name}')`

const freshnessView = { name: 'freshness', description: 'How current and complete each stream is.' }
const freshnessSql = ({ prefix }: Facts): string =>
  `${notice}select * from {{ source('${prefix}_state', 'freshness') }}\n`

function sourcesOf(facts: Facts): Yaml {
  const { prefix, schemas } = facts
  return [
    {
      name: prefix,
      schema: schemas.views,
      description: `The rows of the field-service system that exist now. ${schemas.state}.freshness says how current they are.`,
      tables: facts.views.map((view) => ({
        name: view.name,
        config: freshnessOf(view, facts),
        columns: view.columns.map((column) => columnOf(column, facts)),
      })),
    },
    {
      name: `${prefix}_mirror`,
      schema: schemas.tables,
      description: 'The tables behind those views, with rows that were deleted.',
      tables: facts.views.filter(isStream).map(({ name }) => ({ name })),
    },
    {
      name: `${prefix}_state`,
      schema: schemas.state,
      tables: [freshnessView],
    },
  ]
}

/** Late after the time at which Tidemark itself calls the stream late; an error after four times that. A stream never read is late. */
function freshnessOf({ stream }: ViewMap, { source, schemas, lateAfterMinutes }: Facts): Yaml | undefined {
  const minutes = lateAfterMinutes(stream)
  if (minutes === null) return undefined
  return {
    loaded_at_query: `select coalesce(max(read_through_time), 'epoch') from ${schemaSql(schemas.state)}.freshness where stream = '${keyIn(source, stream)}'`,
    freshness: {
      warn_after: { count: minutes, period: 'minute' },
      error_after: { count: 4 * minutes, period: 'minute' },
    },
  }
}

const isPlain = (name: string): boolean => /^[a-z_][a-z0-9_]*$/.test(name)

function columnOf(column: ColumnMap, facts: Facts): Yaml {
  const tests = testsOf(column, facts)
  return {
    name: column.name,
    data_type: column.type,
    // Also a plain name can be a word of SQL, which a test would not find.
    quote: !isPlain(column.name) || tests.length > 0 ? true : undefined,
    description: describeColumn(column) || undefined,
    data_tests: tests.length > 0 ? tests : undefined,
  }
}

/** Of types whose values stand in SQL without quotes. A code of another form would be a mistake there, and no row has it. */
const plainValues: Readonly<Record<string, RegExp>> = {
  bigint: /^-?\d+$/,
  numeric: /^-?\d+(?:\.\d+)?$/,
  boolean: /^(?:true|false)$/,
}

/** What the dictionary says may turn out to be incomplete: that is a warning. What only the rows say is no test, for it changes with them. */
function testsOf(column: ColumnMap, { prefix, views }: Facts): readonly Yaml[] {
  const { isKey, isText, texts, type, meantReference } = column
  const key = views.find(({ name }) => name === meantReference)?.columns.find((one) => one.isKey)
  const config = { severity: 'warn' }
  const plain = plainValues[type]
  const codes = {
    values: Object.keys(texts ?? {}).filter((code) => plain?.test(code) ?? true),
    quote: plain === undefined,
  }
  const relationships = meantReference &&
    key && { arguments: { to: sourceOf({ prefix }, meantReference), field: key.name }, config }
  return [
    ...(isKey ? ['unique', 'not_null'] : []),
    ...(codes.values.length > 0 && !isText ? [{ accepted_values: { arguments: codes, config } }] : []),
    ...(relationships ? [{ relationships }] : []),
  ]
}

const modelsOf = (facts: Facts): Yaml => [
  ...facts.views.map(modelOf(facts)),
  ...facts.views.filter(isStream).map(({ name }) => ({
    name: modelName(facts, deletedOf(name)),
    description: `Rows of ${name} that were deleted, with when that was noticed and why they are known to be.`,
  })),
  { ...freshnessView, name: modelName(facts, freshnessView) },
]

const modelOf =
  ({ prefix, timeZone }: Facts) =>
  (view: ViewMap): Yaml => ({
    name: modelName({ prefix }, view),
    columns: view.columns.flatMap((column) => {
      const description = describeColumn(column)
      const said = { name: column.name, description: description || undefined }
      if (!isTime(column)) return [said]
      const inZone = `${description || column.name}, in the time of ${timeZone}`
      return [said, { name: localName(view, column), description: inZone }]
    }),
  })

function stagingSql(view: ViewMap, { prefix, timeZone }: Facts): string {
  const columns = view.columns.flatMap((column) => {
    const name = pg.escapeIdentifier(column.name)
    if (!isTime(column)) return [name]
    const local = pg.escapeIdentifier(localName(view, column))
    return [name, `${name} at time zone ${pg.escapeLiteral(timeZone)} as ${local}`]
  })
  return `${notice}select\n${columns.map((column) => `    ${column}`).join(',\n')}\nfrom {{ ${sourceOf({ prefix }, view.name)} }}\n`
}

const deletedSql = (name: string, { prefix, timeZone }: Facts): string =>
  `${notice}select
    *,
    _deleted_at at time zone ${pg.escapeLiteral(timeZone)} as _deleted_at_local
from {{ source('${prefix}_mirror', '${name}') }}
where _deleted_at is not null
`
