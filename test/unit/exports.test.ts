// The files for Superset and Power BI: equal for equal schemas, without a password, and readable whatever fields are called.

import { crc32 } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { asDbt } from '../../src/cli/exports/dbt.ts'
import { type Facts, factsOf } from '../../src/cli/exports/facts.ts'
import { asPbids, asPowerBi } from '../../src/cli/exports/powerbi.ts'
import { asSuperset } from '../../src/cli/exports/superset.ts'
import { environmentOfSource } from '../../src/config/sources-file.ts'
import type { ColumnMap, ViewMap } from '../../src/store/book/dictionary.ts'
import { catalogueOf, knownStreams } from '../../src/streams/catalog.ts'

const column = (name: string, type = 'bigint', more: Partial<ColumnMap> = {}): ColumnMap => ({
  ...{ name, type, field: name, isKey: false, nullShare: null, firstSeenAt: null, rescued: 0, note: null },
  ...more,
})
const view = (name: string, ...columns: readonly ColumnMap[]): ViewMap => ({
  ...{ name, stream: name, unplaced: [] },
  columns: [column(`${name}_id`, 'bigint', { isKey: true }), ...columns],
})
const reference = (from: string, name: string, to: string) => ({ from, column: name, to, key: `${to}_id` })

const views = [
  view(
    'assignment',
    column('planned_start', 'timestamp with time zone', {
      description: 'It\'s "planned"; #(lf)\u2028{{ x }}',
    }),
    column('status_id'),
    column('price', 'numeric'),
    column('größe', 'text', { field: "Größe's\n\u0085x" }),
    column('employee_id'),
  ),
  view('assignment_note', column('assignment_id'), column('employee_id'), column('extra', 'jsonb')),
  view('employee', column('employee_id_boss')),
]
const references = [
  reference('assignment', 'employee_id', 'employee'),
  reference('assignment_note', 'assignment_id', 'assignment'),
  reference('assignment_note', 'employee_id', 'employee'),
  reference('employee', 'employee_id_boss', 'employee'),
]
const facts = (found: Partial<Pick<Facts, 'views' | 'references'>> = {}): Facts =>
  factsOf(
    { environment: { SOURCE_TIMEZONE: 'Europe/Oslo', BI_ROLE: 'reporting' }, catalogue: knownStreams },
    {
      ...{ views, references, overrides: [], ...found },
      address: new URL('postgres://owner:s3cret@db/mirror?sslmode=require'),
    },
  )

/** What a reader of ZIP finds: by the directory at the end, checked against what stands before each file. */
function unzipped(zip: Buffer): ReadonlyMap<string, string> {
  const files = new Map<string, string>()
  const end = zip.length - 22
  expect(zip.readUInt32LE(end)).toBe(0x06054b50)
  let at = zip.readUInt32LE(end + 16)
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    expect(zip.readUInt32LE(at)).toBe(0x02014b50)
    const [length, offset] = [zip.readUInt16LE(at + 28), zip.readUInt32LE(at + 42)]
    const name = zip.subarray(at + 46, at + 46 + length)
    expect(zip.readUInt32LE(offset)).toBe(0x04034b50)
    expect(zip.subarray(offset + 4, offset + 30)).toEqual(zip.subarray(at + 6, at + 32))
    expect(zip.subarray(offset + 30, offset + 30 + length)).toEqual(name)
    const body = zip.subarray(offset + 30 + length, offset + 30 + length + zip.readUInt32LE(at + 24))
    expect(crc32(body)).toBe(zip.readUInt32LE(at + 16))
    files.set(name.toString(), body.toString())
    at += 46 + length
  }
  expect(at).toBe(end)
  return files
}

const superset = () => unzipped(Buffer.from(asSuperset(facts())['tidemark-superset.zip'] ?? ''))
const document = (path: string) => parse(superset().get(`tidemark/${path}.yaml`) ?? '')

describe('every export', () => {
  it('is the same for the same schema, in whatever order it was found, and holds no password (P9)', () => {
    const shuffled = facts({ views: views.toReversed(), references: references.toReversed() })
    for (const as of [asSuperset, asPowerBi, asPbids]) {
      expect(as(shuffled)).toEqual(as(facts()))
      expect(JSON.stringify(Object.values(as(facts())).map(String))).not.toContain('s3cret')
    }
  })
})

describe('exports of a source that has a name', () => {
  const keyed = (name: string) => `order.${name}`
  const own = views.map((one) => ({ ...one, name: keyed(one.name), stream: keyed(one.stream) }))
  const ofOrder = factsOf(
    {
      environment: environmentOfSource({ BI_ROLE: 'reporting' }, 'order', {
        ...{ BI_ROLE: 'order_bi', SOURCE_TIMEZONE: 'Europe/Oslo', SCHEDULE_ASSIGNMENT: '2h' },
      }),
      catalogue: catalogueOf([], undefined, 'order'),
    },
    {
      views: own,
      references: references.map((one) => ({ ...one, from: keyed(one.from), to: keyed(one.to) })),
      overrides: [{ name: 'SCHEDULE_ASSIGNMENT', value: '3h' }],
      address: new URL('postgres://owner:s3cret@db/mirror'),
    },
  )

  it('name its schemas and its reader, and nothing of the first one', () => {
    const archive = unzipped(Buffer.from(asSuperset(ofOrder)['tidemark-superset.zip'] ?? ''))
    const files = [
      ...Object.values(asDbt(ofOrder)),
      ...archive.values(),
      ...Object.values(asPowerBi(ofOrder)),
    ].map(String)
    const text = files.join('\n')
    expect(text).not.toMatch(/\bbi\.|schema: "?(?:bi|mirror|tidemark)"?$|from tidemark\.|reporting/m)
    expect(text).toContain('order_bi')
    expect(text).toContain('from \\"order\\".freshness where stream = \'order.assignment\'')
    expect(text).toContain('from ""order"".')
    // Two hours and a quarter by the file, three by the override.
    expect(text).toContain('count: 195')
  })

  it('stand beside those of the first one: in dbt by other names, in Superset by other ids', () => {
    const both = [asDbt(facts()), asDbt(ofOrder)].map((files) => Object.keys(files))
    expect(both[0]).toContain('stg_tidemark__assignment.sql')
    expect(both[1]).toContain('stg_tidemark_order__assignment.sql')
    expect(new Set(both.flat()).size).toBe((both[0]?.length ?? 0) * 2)
    const ids = (of: Facts) =>
      [...unzipped(Buffer.from(asSuperset(of)['tidemark-superset.zip'] ?? '')).values()].map(
        (text) => parse(text).uuid,
      )
    const all = [facts(), ofOrder].flatMap(ids).filter((id) => id !== undefined)
    expect(new Set(all).size).toBe(all.length)
  })

  it('keep what refers to what', () => {
    const relationships = String(
      Object.entries(asPowerBi(ofOrder)).find(([path]) => path.endsWith('relationships.tmdl'))?.[1],
    )
    expect(relationships).toContain('fromColumn: assignment.employee_id')
    expect(relationships).toContain('toColumn: employee.employee_id')
  })
})

describe('asSuperset', () => {
  it('connects as the role that reads', () => {
    expect(document('databases/tidemark')).toMatchObject({
      sqlalchemy_uri: 'postgresql+psycopg2://reporting@db/mirror?sslmode=require',
    })
  })

  it('has each view with its words, its main time in local time, and sums of amounts', () => {
    const { main_dttm_col, columns, metrics } = document('datasets/tidemark/assignment')
    expect(main_dttm_col).toBe('planned_start_local')
    expect(columns).toContainEqual(
      expect.objectContaining({
        column_name: 'planned_start_local',
        expression: `"planned_start" at time zone 'Europe/Oslo'`,
        is_dttm: true,
      }),
    )
    expect(columns).toContainEqual(
      expect.objectContaining({
        column_name: 'größe',
        verbose_name: 'Größe',
        description: "field Größe's x",
      }),
    )
    expect(metrics.map((metric: { expression: string }) => metric.expression)).toEqual([
      'count(*)',
      'sum("price")',
    ])
  })

  it('shows each chart once on the dashboard, each with a dataset that there is', () => {
    const files = superset()
    const read = (folder: string) =>
      [...files].filter(([path]) => path.includes(`/${folder}/`)).map(([, text]) => parse(text))
    const datasets = read('datasets').map(({ uuid }) => uuid)
    const charts = read('charts')
    expect(charts.length).toBeGreaterThan(6)
    for (const chart of charts) expect(datasets).toContain(chart.dataset_uuid)
    const { position } = document('dashboards/tidemark')
    const places = Object.values<{ type?: string; meta?: { uuid: string } }>(position)
    const shown = places.flatMap(({ type, meta }) => (type === 'CHART' ? [meta?.uuid] : []))
    expect(shown.toSorted()).toEqual(charts.map(({ uuid }) => uuid).toSorted())
    expect(new Set(shown).size).toBe(shown.length)
  })
})

describe('asPowerBi', () => {
  const files = asPowerBi(facts())
  const text = (path: string) => String(files[`Tidemark.SemanticModel/definition/${path}.tmdl`])

  it('uses one way between two tables, and shows the others unused', () => {
    const relationships = text('relationships').split('\n\n')
    expect(relationships.map((one) => one.split('\n')[0])).toEqual([
      "relationship 'assignment.employee_id'",
      "relationship 'assignment_note.assignment_id'",
      "relationship 'assignment_note.employee_id'",
    ])
    expect(relationships.map((one) => one.includes('isActive: false'))).toEqual([false, false, true])
  })

  it('keeps each word in its line, and asks for local times', () => {
    const table = text('tables/assignment')
    expect(table.match(/^\t\/\/\/ .*$/gm)).toContain(
      `\t/// It's "planned"; #(lf) {{ x }}; field planned_start`,
    )
    expect(table).toContain("\tcolumn 'größe'\n\t\tdataType: string")
    expect(table).toContain(`""planned_start"" at time zone 'Europe/Oslo' as ""planned_start""`)
    expect(text('tables/assignment_note')).toContain('""extra""::text as ""extra""')
    for (const [path, content] of Object.entries(files))
      if (path.endsWith('.json') || path.endsWith('.pbir'))
        expect(() => JSON.parse(String(content))).not.toThrow()
  })
})
