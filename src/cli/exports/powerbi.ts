// For Power BI: a file that opens the connection, and a project with a model in TMDL. A table asks with a query of its own, because only Postgres
// knows the time zone that people think in: Power BI would count the days and months of UTC.

import pg from 'pg'
import type { ViewMap } from '../../store/book/dictionary.ts'
import { describeColumn, type Facts, type Files, isAmount, isTime, schemaSql, titleOf } from './facts.ts'

const serverOf = ({ host, port, hostname }: URL): string => (port === '' ? `${hostname}:5432` : host)
const databaseOf = ({ pathname }: URL): string => decodeURIComponent(pathname.slice(1))
const pretty = (document: object): string => `${JSON.stringify(document, null, 2)}\n`

export const asPbids = ({ address }: Facts): Files => ({
  'tidemark.pbids': pretty({
    version: '0.1',
    connections: [
      {
        details: {
          protocol: 'postgresql',
          address: { server: serverOf(address), database: databaseOf(address) },
        },
        mode: 'Import',
      },
    ],
  }),
})

export function asPowerBi(facts: Facts): Files {
  const model = 'Tidemark.SemanticModel'
  const definition = `${model}/definition`
  const tables = facts.views.map((view) => [`${definition}/tables/${view.name}.tmdl`, tableOf(view, facts)])
  return {
    'Tidemark.pbip': pretty({
      version: '1.0',
      artifacts: [{ report: { path: 'Tidemark.Report' } }],
      settings: { enableAutoRecovery: true },
    }),
    'Tidemark.Report/definition.pbir': pretty({
      version: '4.0',
      datasetReference: { byPath: { path: `../${model}` } },
    }),
    'Tidemark.Report/report.json': pretty(emptyReport),
    [`${model}/definition.pbism`]: pretty({ version: '4.0', settings: {} }),
    [`${definition}/database.tmdl`]: 'database\n\tcompatibilityLevel: 1567\n',
    [`${definition}/model.tmdl`]: modelOf(facts),
    [`${definition}/expressions.tmdl`]: expressionsOf(facts),
    [`${definition}/relationships.tmdl`]: relationshipsOf(facts),
    ...Object.fromEntries(tables),
  }
}

const emptyReport = {
  config: JSON.stringify({ version: '5.43', activeSectionIndex: 0 }),
  layoutOptimization: 0,
  sections: [
    {
      name: 'ReportSection',
      displayName: 'Page 1',
      displayOption: 1,
      width: 1280,
      height: 720,
      config: '{}',
      filters: '[]',
      visualContainers: [],
    },
  ],
}

/** A name as TMDL writes it. */
const quoted = (name: string): string =>
  /^[A-Za-z_]\w*$/.test(name) ? name : `'${name.replaceAll("'", "''")}'`
/** A text of M, in which `#(` begins an escape. */
const textOfM = (text: string): string => `"${text.replaceAll('#(', '#(#)(').replaceAll('"', '""')}"`

const modelOf = ({ views }: Facts): string =>
  [
    'model Model',
    '\tculture: en-US',
    '\tdefaultPowerBIDataSourceVersion: powerBI_V3',
    '\tsourceQueryCulture: en-US',
    '',
    ...views.map(({ name }) => `ref table ${quoted(name)}`),
    '',
  ].join('\n')

function expressionsOf({ address }: Facts): string {
  const parameter = (name: string, value: string) =>
    `expression ${name} = ${textOfM(value)} meta [IsParameterQuery=true, Type="Text", IsParameterQueryRequired=true]\n`
  return `${parameter('Server', serverOf(address))}\n${parameter('Database', databaseOf(address))}`
}

// Of numbers with a point Power BI has two kinds: doubles, and decimals with four digits behind the point.
const types: Readonly<Record<string, string>> = {
  'timestamp with time zone': 'dateTime',
  date: 'dateTime',
  bigint: 'int64',
  integer: 'int64',
  numeric: 'double',
  boolean: 'boolean',
}

function tableOf(view: ViewMap, facts: Facts): string {
  const columns = view.columns.flatMap((column) => {
    const description = describeColumn(column)
    return [
      ...(description === '' ? [] : [`\t/// ${description}`]),
      `\tcolumn ${quoted(column.name)}`,
      `\t\tdataType: ${types[column.type] ?? 'string'}`,
      ...(column.isKey ? ['\t\tisKey'] : []),
      ...(column.isKey || !isAmount(column) ? ['\t\tsummarizeBy: none'] : ['\t\tsummarizeBy: sum']),
      `\t\tsourceColumn: ${column.name}`,
      '',
    ]
  })
  return [
    `table ${quoted(view.name)}`,
    '',
    `\tmeasure ${quoted(`${titleOf(view)} rows`)} = COUNTROWS(${daxName(view.name)})`,
    '\t\tformatString: #,0',
    '',
    ...columns,
    `\tpartition ${quoted(view.name)} = m`,
    '\t\tmode: import',
    '\t\tsource =',
    '\t\t\t\tlet',
    '\t\t\t\t\tSource = PostgreSQL.Database(Server, Database),',
    `\t\t\t\t\tRows = Value.NativeQuery(Source, ${textOfM(querySql(view, facts))}, null, [EnableFolding=true])`,
    '\t\t\t\tin',
    '\t\t\t\t\tRows',
    '',
  ].join('\n')
}

const daxName = (table: string): string => `'${table.replaceAll("'", "''")}'`

/** Times in local time; what Power BI has no type for, as text. */
function querySql({ name, columns }: ViewMap, { schemas, timeZone }: Facts): string {
  const shown = columns.map((column) => {
    const as = pg.escapeIdentifier(column.name)
    if (isTime(column)) return `${as} at time zone ${pg.escapeLiteral(timeZone)} as ${as}`
    return column.type in types || column.type === 'text' ? as : `${as}::text as ${as}`
  })
  return `select ${shown.join(', ')} from ${schemaSql(schemas.views)}.${pg.escapeIdentifier(name)}`
}

type Edge = Facts['references'][number]

/** Power BI takes one way between two tables: of more ways, the later ones are there, but not in use. A table cannot refer to itself. */
function relationshipsOf({ references }: Facts): string {
  const used: Edge[] = []
  return references
    .filter(({ from, to }) => from !== to)
    .map((edge) => {
      const isActive = !isAmbiguous([...used, edge])
      if (isActive) used.push(edge)
      return [
        `relationship ${quoted(`${edge.from}.${edge.column}`)}`,
        ...(isActive ? [] : ['\tisActive: false']),
        `\tfromColumn: ${quoted(edge.from)}.${quoted(edge.column)}`,
        `\ttoColumn: ${quoted(edge.to)}.${quoted(edge.key)}`,
        '',
      ].join('\n')
    })
    .join('\n')
}

/** Whether two ways lead from one table to another, or one leads back. */
function isAmbiguous(edges: readonly Edge[]): boolean {
  const reachable = (from: string, met: readonly string[]): readonly string[] =>
    met.length > edges.length
      ? met
      : edges.filter((edge) => edge.from === from).flatMap(({ to }) => [to, ...reachable(to, [...met, to])])
  return [...new Set(edges.map(({ from }) => from))].some((from) => {
    const met = reachable(from, [])
    return met.includes(from) || new Set(met).size < met.length
  })
}
