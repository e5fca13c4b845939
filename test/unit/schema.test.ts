// The dictionary and the files for other tools hold whatever fields are called.

import { describe, expect, it } from 'vitest'
import { asDbt } from '../../src/cli/exports/dbt.ts'
import { factsOf } from '../../src/cli/exports/facts.ts'
import { asMarkdown } from '../../src/cli/schema.ts'
import type { ColumnMap, ViewMap } from '../../src/store/book/dictionary.ts'
import { likelyReferences } from '../../src/store/book/references.ts'
import { knownStreams } from '../../src/streams/catalog.ts'

const facts = (views: readonly ViewMap[]) =>
  factsOf(
    { environment: { SCHEDULE_TRACKER_OBJECT: '0 3 * * 1-5', STALE_AFTER: '30m' }, catalogue: knownStreams },
    { views, references: [], overrides: [], address: new URL('postgres://owner:secret@db:5433/mirror') },
  )
const dbt = (views: readonly ViewMap[], file: string): string => String(asDbt(facts(views))[file])

const column = (name: string, more: Partial<ColumnMap> = {}): ColumnMap => ({
  name,
  type: 'bigint',
  field: name,
  isKey: false,
  nullShare: null,
  firstSeenAt: null,
  rescued: 0,
  note: null,
  ...more,
})
const view = (name: string, key: string, ...columns: readonly ColumnMap[]): ViewMap => ({
  name,
  stream: name,
  columns: [column(key, { isKey: true }), ...columns],
  unplaced: [],
})

const hostile = [
  `"; drop table x; --`,
  'a: b # c',
  '| `code` | <script>alert(1)</script> [x](http://evil.example)',
  `{{ env_var('SECRET') }} {% raw %} {# x #}`,
  'line\r\nend\u2028\u2029\u0085\0\u007f',
  '\u202egnp.exe \ud800 \ufeff',
  '%% comment #quot; }',
  '',
]
const hostileView: ViewMap = {
  ...view('assignment', 'assignment_id'),
  columns: [
    column('größe', { field: 'Größe', type: 'double precision' }),
    column('名前', { type: 'text' }),
    column('fk', { type: 'timestamp with time zone' }),
    ...hostile.map((field, index) => column(`field_${index}`, { field, note: field })),
  ],
  unplaced: hostile.map((field) => ({ field, note: null })),
}

describe('likelyReferences', () => {
  const views = [
    view('assignment', 'assignment_id', column('parent_assignment_id'), column('status_id')),
    view('assignment_note', 'assignment_note_id', column('assignment_id'), column('reg_employee_id')),
    view('employee', 'employee_id', column('assignment_id', { type: 'text' })),
    view('webhook_definition', 'id'),
    view('webhook_subscription', 'id', column('webhook_definition_id')),
    view('attachment', 'attachment_id'),
    view('attachment_data', 'attachment_id'),
  ]

  it('follow names that are or end as a key, of the same type', () => {
    expect(likelyReferences(views).map(({ from, column, to }) => `${from}.${column} → ${to}`)).toEqual([
      'assignment.parent_assignment_id → assignment',
      'assignment_note.assignment_id → assignment',
      'assignment_note.reg_employee_id → employee',
      'webhook_subscription.webhook_definition_id → webhook_definition',
      'attachment_data.attachment_id → attachment',
    ])
  })
})

describe('asMarkdown', () => {
  it('calls no column wholly empty or wholly filled that is not', () => {
    const emptiness = (nullShare: number) =>
      asMarkdown([view('a', 'a_id', column('b', { nullShare }))], []).match(/; (.*?) empty/)?.[1]
    expect([0.001, 0.25, 0.999, 1].map(emptiness)).toEqual(['below 1 %', '25 %', 'above 99 %', '100 %'])
    expect(emptiness(0)).toBeUndefined()
  })

  it('tells each column, its field and how empty it is', () => {
    const city = column('city', {
      type: 'text',
      field: 'City',
      nullShare: 0.25,
      firstSeenAt: '2026-03-02T01:02:03Z',
    })
    expect(asMarkdown([view('assignment', 'assignment_id', city)], [])).toBe(
      [
        '## bi.assignment',
        '',
        '| column | type | role | what it holds |',
        '| --- | --- | --- | --- |',
        '| assignment_id | bigint | key | field assignment_id |',
        '| city | text |  | field City; 25 % empty; first seen 2026-03-02 |',
        '',
      ].join('\n'),
    )
  })

  it('keeps a row in its line and its cells, whatever the field is called', () => {
    const lines = asMarkdown([hostileView], []).split('\n')
    const rows = lines.filter((line) => line.startsWith('| '))
    expect(rows).toHaveLength(2 + hostileView.columns.length)
    for (const row of rows) expect(row.match(/(?<!\\)\|/g)).toHaveLength(5)
    expect(lines.filter((line) => line.startsWith('- '))).toHaveLength(hostile.length)
    expect(lines.join('')).not.toMatch(/(?<!\\)[<`]|[\u202e\0]/)
  })
})

describe('asDbt', () => {
  it('is YAML of known lines, with every text in double quotes, and no template', () => {
    const text = dbt([hostileView], '_tidemark__sources.yml')
    expect(text).not.toMatch(/\{\{|\{%|\{#|\}\}|%\}|[\u007f-\u009f\u2028\u2029\ufeff]/)
    const values = text
      .trimEnd()
      .split('\n')
      .flatMap((line) => /(?:: |- )(".*")$/.exec(line)?.[1] ?? [])
    expect(values.length).toBeGreaterThan(3 * hostileView.columns.length)
    for (const value of values) expect(typeof JSON.parse(value)).toBe('string')
    const rest = text.split('\n').filter((line) => !/(?:: |- )".*"$/.test(line))
    for (const line of rest) expect(line).toMatch(/^(?:# Made by .*|[ -]*[a-z_]+:(?: true| \d+)?|)$/)
  })

  it('tests the key, quotes what must be, and says in which file a staging model is', () => {
    const views = [view('assignment', 'assignment_id', column('größe', { field: 'Größe' }))]
    expect(dbt(views, '_tidemark__sources.yml')).toContain(
      [
        '        columns:',
        '          - name: "assignment_id"',
        '            data_type: "bigint"',
        '            quote: true',
        '            description: "field assignment_id"',
        '            data_tests:',
        '              - "unique"',
        '              - "not_null"',
        '          - name: "größe"',
        '            data_type: "bigint"',
        '            quote: true',
        '            description: "field Größe"',
      ].join('\n'),
    )
    expect(Object.keys(asDbt(facts(views)))).toContain('stg_tidemark__assignment.sql')
  })

  it('tests codes as values that Postgres takes for those of the column', () => {
    const id = column('kind', { type: 'uuid', texts: { '00000000-0000-0000-0000-000000000001': 'One' } })
    const number = column('status_id', { texts: { 1: 'New', x: 'Odd' } })
    const isOpen = column('is_open', { type: 'boolean', texts: { true: 'Open', yes: 'Open' } })
    const odd = column('size', { type: 'numeric', texts: { large: 'Large' } })
    const views = [view('assignment', 'assignment_id', id, number, isOpen, odd)]
    const sources = dbt(views, '_tidemark__sources.yml').replaceAll(/\s+/g, ' ')
    expect(sources).toContain('values: - "00000000-0000-0000-0000-000000000001" quote: true')
    expect(sources).toContain('values: - "1" quote: false')
    expect(sources).toContain('values: - "true" quote: false')
    expect(sources.match(/accepted_values/g)).toHaveLength(3)
  })

  it('tests what the dictionary says of codes and references, as a warning, and nothing that only the rows say', () => {
    const status = column('status_id', { texts: { 1: 'New', 2: 'Done' }, label: 'Status', unit: 'h' })
    const text = column('status', { type: 'text', isText: true, texts: { 1: 'New' } })
    const note = column('assignment_id', { meantReference: 'assignment' })
    const notes = view('assignment_note', 'note_id', note, column('employee_id'))
    const sources = dbt([view('assignment', 'assignment_id', status, text), notes], '_tidemark__sources.yml')
    expect(sources.match(/accepted_values|relationships/g)).toEqual(['accepted_values', 'relationships'])
    expect(sources).toContain('description: "Status; in h; field status_id"')
    expect(sources).toMatch(
      /accepted_values:\s+arguments:\s+values:\s+- "1"\s+- "2"\s+quote: false\s+config:\s+severity: "warn"/,
    )
    expect(sources).toMatch(
      /arguments:\s+to: "source\('tidemark', 'assignment'\)"\s+field: "assignment_id"\s+config:\s+severity: "warn"/,
    )
  })

  it('calls a stream late when Tidemark does, however its schedule is written', () => {
    const text = dbt(
      [view('assignment', 'assignment_id'), view('tracker_object', 'tracker_object_id')],
      '_tidemark__sources.yml',
    )
    // Every 15 s, and from Friday to Monday; half an hour besides.
    expect([...text.matchAll(/warn_after:\s+count: (\d+)/g)].map(([, minutes]) => minutes)).toEqual([
      '31',
      String(3 * 24 * 60 + 30),
    ])
  })

  it('shows times in local time beside the column, also where the upstream has a field of that name', () => {
    const time = { type: 'timestamp with time zone' }
    const views = [
      view('assignment', 'assignment_id', column('start', time), column('start_local', { type: 'text' })),
    ]
    expect(dbt(views, 'stg_tidemark__assignment.sql')).toBe(
      [
        '-- Made by `tidemark schema --format dbt`, which overwrites it.',
        'select',
        '    "assignment_id",',
        '    "start",',
        `    "start" at time zone 'UTC' as "_start_local",`,
        '    "start_local"',
        "from {{ source('tidemark', 'assignment') }}",
        '',
      ].join('\n'),
    )
  })
})

describe('references in the dictionary', () => {
  it('says which share of its values a reference finds', () => {
    const note = view('assignment_note', 'assignment_note_id', column('assignment_id'))
    const reference = {
      from: 'assignment_note',
      column: 'assignment_id',
      to: 'assignment',
      key: 'assignment_id',
    }
    const role = (share: number) =>
      asMarkdown([note], [{ ...reference, values: 9, share }])
        .match(/→ [^|]*/)?.[0]
        .trim()
    expect([role(1), role(0.97)]).toEqual(['→ assignment', '→ assignment (97 %)'])
  })
})
