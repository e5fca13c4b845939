// The COPY text of a page, and the hashes that decide whether a row is news.

import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type Json, type JsonObject, repeatedFields } from '../../src/json/json.ts'
import { createPageEncoder } from '../../src/store/encoding/page.ts'
import { foldName } from '../../src/store/schema/column-names.ts'
import type { TableSchema } from '../../src/store/schema/table-schema.ts'
import type { ColumnType } from '../../src/store/types/table.ts'
import { startDictionary } from '../../src/store/writing/dictionary.ts'
import { readRecords } from '../../src/streams/record.ts'
import { streamOf } from '../support/streams.ts'

function tableSchemaOf(
  fields: Readonly<Record<string, ColumnType>>,
  unplaced: readonly string[] = [],
): TableSchema {
  const all = { AssignmentId: 'bigint', RowVersion: 'bigint', ...fields } as const
  const columns = Object.entries(all).map(([field, type]) => ({ field, name: field.toLowerCase(), type }))
  const [key, version] = columns
  if (!key || !version) throw new Error('unreachable')
  return {
    stream: streamOf('assignment'),
    version: 1,
    key,
    versions: [version],
    columns,
    emptied: [],
    unplaced: new Set(unplaced.map(foldName)),
    volatile: new Set(),
    takenNames: new Set(columns.map((column) => column.name)),
    history: null,
  }
}

async function encode(tableSchema: TableSchema, ...records: readonly JsonObject[]) {
  const { rows } = readRecords(
    records.map((record) => ({ AssignmentId: 1, RowVersion: 5, ...record })),
    ['AssignmentId'],
    ['RowVersion'],
  )
  const page = await createPageEncoder(tableSchema, new Set())(rows)
  const lines = Buffer.concat(page.encoded.all.text).toString().split('\n').slice(0, -1)
  return { ...page, lines: lines.map((line) => line.split('\t')) }
}

const hashOf = async (tableSchema: TableSchema, record: JsonObject) =>
  (await encode(tableSchema, record)).lines[0]?.[0]

describe('a line of COPY text', () => {
  it('holds hash, deletion, rescue and the columns in the order of the table', async () => {
    const tableSchema = tableSchemaOf({ Name: 'text', Amount: 'numeric', SysDeleted: 'boolean' })
    const { lines } = await encode(
      tableSchema,
      { Amount: 1.5, Name: 'a\tb\\\n' },
      { Name: 'gone', SysDeleted: true },
    )
    const hash = expect.stringMatching(/^\\\\x[0-9a-f]{32}$/)
    expect(lines).toEqual([
      [hash, '\\N', '\\N', '\\N', '1', '5', 'a\\tb\\\\\\n', '1.5', '\\N'],
      [hash, 'now', 'source', '\\N', '1', '5', 'gone', '\\N', 't'],
    ])
  })

  it('rescues what its column cannot hold, under the name of the field (P5)', async () => {
    const page = await encode(
      tableSchemaOf({ Name: 'text' }),
      { Name: 7 },
      { Name: 'nul \0' },
      { Name: '\ud800' },
    )
    expect(page.lines.map((line) => [line[3], line[6]])).toEqual([
      ['{"Name":7}', '\\N'],
      ['{"Name":{"$json":"\\\\"nul \\\\\\\\u0000\\\\""}}', '\\N'],
      ['{"Name":{"$json":"\\\\"\\\\\\\\ud800\\\\""}}', '\\N'],
    ])
    expect(page.rescued).toBe(3)
  })

  it('keeps earlier values of repeated fields (P5)', async () => {
    const page = await encode(tableSchemaOf({ Name: 'text' }), {
      Name: 'b',
      [repeatedFields]: { Name: ['a'] },
    } as JsonObject)
    expect(page.lines[0]?.[3]).toBe('{"$repeated":{"Name":["a"]}}')
  })

  it('is not written for a key that the table cannot hold; the record is told as unfit (P5)', async () => {
    const page = await encode(tableSchemaOf({}), { AssignmentId: '007' }, {})
    expect(page.lines.length).toBe(1)
    expect(page.rejected).toMatchObject([
      { record: { AssignmentId: '007' }, reason: expect.stringContaining('does not fit') },
    ])
  })
})

describe('the growth of a page', () => {
  it('names fields that the table lacks, but not those that are only null or have no place', async () => {
    const tableSchema = tableSchemaOf({ Count: 'bigint' }, ['Nowhere'])
    const { growth } = await encode(
      tableSchema,
      { New: null, Id: 1, Nowhere: 1 },
      { New: 5, Id: 'x' },
      { new: 5.5 },
      { Count: 2.5 },
    )
    expect(growth).toEqual({
      fields: new Map([
        ['Id', 'bigint'],
        ['New', 'numeric'],
      ]),
      widen: new Set(['count']),
    })
    expect((await encode(tableSchema, { Count: 2, New: null })).growth).toBeNull()
  })
})

describe('a page that waits for what its table lacks', () => {
  const sizeOf = ({ text }: { readonly text: readonly Buffer[] }) => Buffer.concat(text).length
  const pageOf = (...values: readonly Json[]) =>
    readRecords(
      Array.from({ length: 100 }, (_, index) => ({
        ...{ AssignmentId: index, RowVersion: 5, Name: 'a name' },
        Amount: values[index % values.length] ?? null,
      })),
      ['AssignmentId'],
      ['RowVersion'],
    ).rows

  it('keeps no rows, and knows all that is lacking (P10)', async () => {
    const encodePage = createPageEncoder(tableSchemaOf({ Name: 'text' }), new Set())
    const rows = pageOf(1, 2.5)
    const waiting = await encodePage(rows, { waitsForGrowth: true })
    expect(waiting.growth).toEqual((await encodePage(rows)).growth)
    expect(waiting.growth?.fields).toEqual(new Map([['Amount', 'numeric']]))
    expect(sizeOf(waiting.encoded.all)).toBe(0)
  })

  it('is whole where nothing is lacking', async () => {
    const encodePage = createPageEncoder(tableSchemaOf({ Name: 'text', Amount: 'numeric' }), new Set())
    const rows = pageOf(1, 2.5)
    const { encoded, growth } = await encodePage(rows, { waitsForGrowth: true })
    expect([growth, encoded.rows.length]).toEqual([null, 100])
    expect(sizeOf(encoded.all)).toBe(sizeOf((await encodePage(rows)).encoded.all))
  })
})

describe('a column whose type only the description knows', () => {
  const described = (type: ColumnType): TableSchema => {
    const tableSchema = tableSchemaOf({ Name: type })
    return {
      ...tableSchema,
      columns: tableSchema.columns.map((one) => (one.field === 'Name' ? { ...one, isUnproven: true } : one)),
    }
  }
  const uuid = '5b0d2c9e-7a41-4f0b-9d52-0c4e7a3f1b22'

  it('becomes text where its first values are texts of several kinds', async () => {
    const { growth } = await encode(described('uuid'), { Name: uuid }, { Name: 'a name' })
    expect(growth?.retype).toEqual(new Map([['name', 'text']]))
    const dates = await encode(described('timestamptz'), { Name: '2024-05-06T07:08:09Z' }, { Name: '' })
    expect(dates.growth?.retype).toEqual(new Map([['name', 'text']]))
    const none = await encode(described('uuid'), { Name: '2024-05-06T07:08:09Z' })
    expect(none.growth?.retype).toEqual(new Map([['name', 'timestamptz']]))
  })

  it('stays where some values fit, and the others are no texts', async () => {
    expect((await encode(described('uuid'), { Name: uuid }, { Name: 5 })).growth).toBeNull()
    expect((await encode(described('bigint'), { Name: 5 }, { Name: 'x' })).growth).toBeNull()
  })
})

describe('a hash', () => {
  const tableSchema = tableSchemaOf({ Name: 'text', Tags: 'jsonb', Amount: 'numeric' })
  const record = { Name: 'x', Tags: { a: 1, b: [JSON.rawJSON('1.0')] }, Amount: JSON.rawJSON('1.10') }

  it('does not depend on the order of fields, at any depth', async () => {
    const turned = { Amount: JSON.rawJSON('1.10'), Tags: { b: [JSON.rawJSON('1.0')], a: 1 }, Name: 'x' }
    expect(await hashOf(tableSchema, turned)).toBe(await hashOf(tableSchema, record))
  })

  it('depends on every digit, value and field', async () => {
    const others = [
      { ...record, Amount: JSON.rawJSON('1.1') },
      { ...record, Tags: { a: 1, b: [1] } },
      { ...record, Name: null },
      { ...record, Name: 7 },
      { ...record, Name: 'X' },
      { ...record, RowVersion: 6 },
    ]
    const hashes = await Promise.all([record, ...others].map((one) => hashOf(tableSchema, one)))
    expect(new Set(hashes).size).toBe(hashes.length)
  })

  it('stays the same when the table grows', async () => {
    const grown = tableSchemaOf({ Name: 'text', Tags: 'jsonb', Amount: 'numeric', Later: 'text' })
    expect(await hashOf(grown, record)).toBe(await hashOf(tableSchema, record))
    expect(await hashOf(grown, { ...record, Later: null })).toBe(await hashOf(tableSchema, record))
    expect(await hashOf(grown, { ...record, Later: '' })).not.toBe(await hashOf(tableSchema, record))
  })
})

describe('a row with a file', () => {
  it('has the line and the hash of every other row (P3)', async () => {
    const tableSchema = tableSchemaOf({ FileData: 'text', Name: 'text', Note: 'text', Last: 'text' })
    const { lines, encoded } = await encode(tableSchema, {
      FileData: `é\t${'A'.repeat(100_000)}`,
      Name: 'b\\',
      SysDeleted: true,
    })
    const cells = ['{"SysDeleted":true}', '1', '5', `é\\t${'A'.repeat(100_000)}`, 'b\\\\']
    const hash = createHash('sha1').update(cells.join('\t')).digest('hex').slice(0, 32)
    expect(lines).toEqual([[`\\\\x${hash}`, 'now', 'source', ...cells, '\\N', '\\N']])
    encoded.release()
    expect(encoded.all.text).toEqual([])
  })
})

describe('the counts of fields', () => {
  it('do not grow with the names that an upstream makes up, and still count those of columns (P10)', async () => {
    const dictionary = startDictionary()
    for (let page = 0; page < 200; page++)
      dictionary.count({
        records: 100,
        nonNull: new Map([['Id', 100]]),
        rescued: new Map([['Id', 1], ...Array.from({ length: 100 }, (_, n) => [`${page} ${n}`, 1] as const)]),
        newFields: [],
      })
    const counted: unknown[][] = []
    const query = async (_: string, values: readonly unknown[][]) => counted.push(...values.slice(2))
    await dictionary.flush({ query } as never, 'assignment')
    const [names = [], nonNull = [], rescued = []] = counted
    expect(names).toHaveLength(10_000)
    const id = names.indexOf('id')
    expect([nonNull[id], rescued[id]]).toEqual([20_200, 200])
  })
})
