// An archive for Superset's own import: the database, a dataset for each view, and a dashboard. Ids follow from names, so that a second import
// finds what the first one made.

import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { ColumnMap, ViewMap } from '../../store/book/dictionary.ts'
import { keyIn } from '../../streams/names.ts'
import { describeColumn, type Facts, type Files, isAmount, isTime, localName, titleOf } from './facts.ts'
import { asYaml, type Yaml } from './yaml.ts'

export function asSuperset(facts: Facts): Files {
  const datasets = [...facts.views.map((view) => datasetOf(facts, view)), freshnessOf(facts)]
  const charts = chartsOf(facts)
  const parts = [
    ['metadata', { type: 'Dashboard', timestamp: '1980-01-01T00:00:00+00:00' }],
    ['databases/tidemark', databaseOf(facts)],
    ...datasets.map((dataset) => [`datasets/tidemark/${dataset.table_name}`, dataset] as const),
    ...charts.map((chart, index) => [`charts/${index}`, chart] as const),
    ['dashboards/tidemark', dashboardOf(facts, charts)],
  ] as const
  const files = parts.map(([path, content]) => [
    `tidemark/${path}.yaml`,
    asYaml({ version: '1.0.0', ...content }),
  ])
  return { 'tidemark-superset.zip': zipOf(Object.fromEntries(files)) }
}

const titleIn = (source: string): string => ['Tidemark', ...named(source)].join(' ')

/** Of several sources all have ids of their own, and those of the first one stay what they were. */
const named = (source: string): readonly string[] => (source === '' ? [] : [source])

function uuidOf(...names: readonly string[]): string {
  const hex = hash('sha256', ['tidemark', ...names].join('\n'))
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-5$3-8$4-$5')
}

/** Superset asks for the password when somebody edits the database; with one masked, its command would refuse the archive. */
function databaseOf({ source, address }: Facts) {
  const sslMode = address.searchParams.get('sslmode')
  const user = address.username === '' ? '' : `${address.username}@`
  const options = sslMode === null ? '' : `?sslmode=${encodeURIComponent(sslMode)}`
  return {
    database_name: titleIn(source),
    uuid: uuidOf('database', ...named(source)),
    sqlalchemy_uri: `postgresql+psycopg2://${user}${address.host}${address.pathname}${options}`,
    expose_in_sqllab: true,
    extra: { allows_virtual_table_explore: true },
  }
}

type Dataset = { readonly table_name: string; readonly uuid: string } & Readonly<Record<string, Yaml>>

const countMetric = {
  metric_name: 'count',
  verbose_name: 'Rows',
  metric_type: 'count',
  expression: 'count(*)',
}

const dataset = (
  source: string,
  schema: string,
  name: string,
  more: Readonly<Record<string, Yaml>>,
): Dataset => ({
  table_name: name,
  schema,
  uuid: uuidOf('dataset', schema, name),
  database_uuid: uuidOf('database', ...named(source)),
  metrics: [countMetric],
  ...more,
})

const freshnessOf = ({ source, schemas }: Facts): Dataset =>
  dataset(source, schemas.state, 'freshness', {
    description: 'How current and complete each stream is.',
    main_dttm_col: 'read_through_time',
    columns: [
      ...['stream', 'state', 'reason'].map((name) => plainColumn(name, 'TEXT')),
      ...['read_through_time', 'settled_through_time', 'deletions_known_through'].map((name) => ({
        ...plainColumn(name, 'TIMESTAMP WITH TIME ZONE'),
        is_dttm: true,
      })),
    ],
  })

function plainColumn(name: string, type: string) {
  return {
    column_name: name,
    verbose_name: titleOf({ name }),
    type,
    is_dttm: false,
    groupby: true,
    filterable: true,
  }
}

const datasetOf = (facts: Facts, view: ViewMap): Dataset =>
  dataset(facts.source, facts.schemas.views, view.name, {
    description: `${facts.schemas.views}.${view.name}, from the stream ${keyIn(facts.source, view.stream)}`,
    main_dttm_col: mainTime(view),
    columns: view.columns.flatMap((column) => columnsOf(view, column, facts)),
    metrics: [countMetric, ...view.columns.filter(isAmount).map(sumOf)],
  })

/** Times stand there as they are, and in the time that people think in: charts count the days and months of that. */
function columnsOf(view: ViewMap, column: ColumnMap, { timeZone }: Facts): readonly Yaml[] {
  const described = {
    ...plainColumn(column.name, column.type.toUpperCase()),
    verbose_name: titleOf(column),
    description: describeColumn(column),
  }
  if (!isTime(column)) return [described]
  const expression = `"${column.name}" at time zone '${timeZone}'`
  const local = {
    column_name: localName(view, column),
    type: 'TIMESTAMP WITHOUT TIME ZONE',
    expression,
    is_dttm: true,
  }
  return [
    { ...described, is_dttm: true },
    { ...described, ...local, verbose_name: `${titleOf(column)} (${timeZone})` },
  ]
}

/** In local time: the first time that the upstream tells, else when the row changed here. */
function mainTime(view: ViewMap): string {
  const times = view.columns.filter(isTime)
  const main = times.find(({ field }) => field !== null) ?? times[0]
  return main ? localName(view, main) : ''
}

const sumOf = (column: ColumnMap) => ({
  metric_name: `sum_${column.name}`,
  verbose_name: `${titleOf(column)}, in all`,
  metric_type: 'sum',
  expression: `sum("${column.name}")`,
})

// ── the dashboard ────────────────────────────────────────────────────────────────────────────────────────────

type Chart = { readonly uuid: string; readonly slice_name: string } & Readonly<Record<string, Yaml>>

const mostStreams = 4
/** By the names that codes usually have, where the dictionary names none. */
const isCategory = ({ name, type }: ColumnMap): boolean =>
  /^(bigint|text)$/.test(type) && /(status|type|priority|category|group)(_id|_name)?$/.test(name)

/** How current it all is; then of each stream how many rows there are, how they spread over time, and by their first code. */
function chartsOf(facts: Facts): readonly Chart[] {
  const chart = (name: string, of: Dataset, kind: string, params: Readonly<Record<string, Yaml>>): Chart => ({
    slice_name: name,
    uuid: uuidOf('chart', name, ...named(facts.source)),
    viz_type: kind,
    dataset_uuid: of.uuid,
    params: { viz_type: kind, adhoc_filters: [], row_limit: 1000, ...params },
  })
  const streams = facts.views.filter(({ name, stream }) => name === stream).slice(0, mostStreams)
  return [
    chart('How current the data is', freshnessOf(facts), 'table', {
      query_mode: 'raw',
      all_columns: ['stream', 'state', 'reason', 'read_through_time', 'deletions_known_through'],
      order_by_cols: ['["stream", true]'],
      table_timestamp_format: '%Y-%m-%d %H:%M',
    }),
    ...streams.flatMap((view) => {
      const of = datasetOf(facts, view)
      const category = view.columns.find(({ isText }) => isText) ?? view.columns.find(isCategory)
      return [
        chart(titleOf(view), of, 'big_number_total', {
          metric: 'count',
          subtitle: 'rows',
          y_axis_format: ',d',
        }),
        chart(`${titleOf(view)} by month`, of, 'echarts_timeseries_bar', {
          x_axis: mainTime(view),
          time_grain_sqla: 'P1M',
          metrics: ['count'],
          groupby: [],
        }),
        ...(category
          ? [
              chart(`${titleOf(view)} by ${titleOf(category).toLowerCase()}`, of, 'pie', {
                metric: 'count',
                groupby: [category.name],
              }),
            ]
          : []),
      ]
    }),
  ]
}

const perRow = 3
const fullWidth = 12

/** The first chart over the whole width, the others three in a row. */
function dashboardOf({ source }: Facts, [first, ...others]: readonly Chart[]) {
  const rows = [
    first ? [first] : [],
    ...Array.from({ length: Math.ceil(others.length / perRow) }, (_, row) =>
      others.slice(row * perRow, (row + 1) * perRow),
    ),
  ]
  const parents = ['ROOT_ID', 'GRID_ID']
  const placed = rows.flatMap((charts, row) => {
    const id = `ROW-${row}`
    const inRow = charts.map(({ uuid, slice_name }, place) => ({
      type: 'CHART',
      id: `CHART-${row}-${place}`,
      children: [],
      parents: [...parents, id],
      meta: {
        uuid,
        sliceName: slice_name,
        width: fullWidth / charts.length,
        height: 50,
        chartId: 1 + row * perRow + place,
      },
    }))
    const children = inRow.map((one) => one.id)
    return [{ type: 'ROW', id, parents, children, meta: { background: 'BACKGROUND_TRANSPARENT' } }, ...inRow]
  })
  return {
    dashboard_title: titleIn(source),
    uuid: uuidOf('dashboard', ...named(source)),
    slug: ['tidemark', ...named(source)].join('-'),
    published: true,
    metadata: {},
    position: {
      DASHBOARD_VERSION_KEY: 'v2',
      ROOT_ID: { type: 'ROOT', id: 'ROOT_ID', children: ['GRID_ID'] },
      GRID_ID: {
        type: 'GRID',
        id: 'GRID_ID',
        children: rows.map((_, row) => `ROW-${row}`),
        parents: ['ROOT_ID'],
      },
      ...Object.fromEntries(placed.map((one) => [one.id, one])),
    },
  }
}

// ── the archive: equal bytes for equal files, sorted, with one fixed time, stored as they are ─────────────────────

/** 1 January 1980, the first day that a ZIP can name. */
const fixedDate = 0x21

function zipOf(files: Files): Uint8Array {
  const entries: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [path, content] of Object.entries(files).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const [name, body] = [Buffer.from(path), Buffer.from(content)]
    const facts = entryFacts(name, body)
    const head = Buffer.concat([Buffer.from('PK\x03\x04'), facts, name, body])
    directory.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\0'), facts, placeAt(offset), name]))
    entries.push(head)
    offset += head.length
  }
  const size = directory.reduce((sum, { length }) => sum + length, 0)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06')
  end.writeUInt16LE(directory.length, 8)
  end.writeUInt16LE(directory.length, 10)
  end.writeUInt32LE(size, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...entries, ...directory, end])
}

/** What stands before an entry and again in the directory: version 2.0, names in UTF-8, stored, date, checksum, sizes. */
function entryFacts(name: Buffer, body: Buffer): Buffer {
  const facts = Buffer.alloc(26)
  facts.writeUInt16LE(20, 0)
  facts.writeUInt16LE(0x0800, 2)
  facts.writeUInt16LE(fixedDate, 8)
  facts.writeUInt32LE(crc32(body), 10)
  facts.writeUInt32LE(body.length, 14)
  facts.writeUInt32LE(body.length, 18)
  facts.writeUInt16LE(name.length, 22)
  return facts
}

/** What the directory says besides: no comment, the first disk, no attributes, and where the entry is. */
function placeAt(offset: number): Buffer {
  const place = Buffer.alloc(14)
  place.writeUInt32LE(offset, 10)
  return place
}
