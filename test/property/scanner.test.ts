// The scanner and the rows that are encoded from its bytes, against the parser and the rows that are encoded from its values (P4, P5).

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createPageEncoder } from '../../src/store/encoding/page.ts'
import { foldName } from '../../src/store/schema/column-names.ts'
import { type ColumnType, commonType, typeOf } from '../../src/store/types/table.ts'
import { readRecords } from '../../src/streams/record.ts'
import { newFieldOrder } from '../../src/wire/field-order.ts'
import { scanRecords } from '../../src/wire/scan.ts'
import { compareScanner } from '../support/compare-scanner.ts'
import { type Hostility, hostileList, hostileTable } from '../support/hostile-records.ts'
import { seededRandom } from '../support/random.ts'
import { streamOf } from '../support/streams.ts'

async function compareSeeds(first: number, count: number, hostility: Hostility) {
  const sum = { rows: 0, plain: 0 }
  for (let seed = first; seed < first + count; seed++) {
    const random = seededRandom(seed)
    const table = hostileTable(random)
    const order = newFieldOrder()
    for (let page = 0; page < 3; page++) {
      const bytes = hostileList(random, hostility)
      try {
        const { rows, plain } = await compareScanner(bytes, order, table)
        sum.rows += rows
        sum.plain += plain
      } catch (error) {
        expect.fail(`seed ${seed}, page ${page}: ${bytes}\n${error}`)
      }
    }
  }
  return sum
}

// Under load too.
describe('the scanner', { timeout: 120_000 }, () => {
  it('finds in ordinary records what the parser finds, and most are plain', async () => {
    const { rows, plain } = await compareSeeds(1, 100, { oddity: 0, damage: 0 })
    expect(rows).toBeGreaterThan(500)
    expect(plain / rows).toBeGreaterThan(0.3)
  })

  it('finds in hostile records what the parser finds: the same rows, rescues, rejections and growth (P4, P5)', async () => {
    const { rows } = await compareSeeds(10_000, 400, { oddity: 0.05, damage: 0 })
    expect(rows).toBeGreaterThan(2_000)
  })

  it('finds the names of many fields, in any order and as they become more (P4)', async () => {
    const [order, table] = [newFieldOrder(), hostileTable(seededRandom(1))]
    for (const fields of [3, 90, 400, 1_100]) {
      const more = Array.from(
        { length: fields },
        (_, index) => `"${'aField'.repeat(1 + (index % 9))}${index}":${index}`,
      )
      for (const some of [more, more.toReversed()])
        await compareScanner(Buffer.from(`[{"AssignmentId":1,"SysRowVersion":1,${some}}]`), order, table)
    }
  })

  it('asks the parser which of two flags counts that differ only in case', async () => {
    const order = newFieldOrder()
    const table = hostileTable(seededRandom(1))
    const record = (flags: string) => `{"AssignmentId":1,"SysRowVersion":1,${flags}}`
    for (const flags of [
      '"SysDeleted":true',
      '"sysdeleted":null,"SysDeleted":true',
      '"SysDeleted":true,"sysdeleted":null',
    ])
      await compareScanner(Buffer.from(`[${record(flags)}]`), order, table)
  })

  it('takes nothing that the parser refuses', async () => {
    await compareSeeds(50_000, 800, { oddity: 0.02, damage: 0.8 })
  })
})

describe('a hash without a look at the values', () => {
  const forms = [
    ...[
      '0',
      '-0',
      '5',
      '05',
      '5.0',
      '5.10',
      '5.1',
      '1e5',
      '100000',
      '1E5',
      '1e+21',
      '1e21',
      '0.1e1',
      '-7',
      '1e400',
    ],
    ...['9223372036854775807', '9223372036854775808', '-9223372036854775808', '12345678901234567890.10'],
    ...['true', 'false', 'null', '"true"', '"5"', '"5.10"', '"null"', '""', '" "', '{}', '[]', '{"a":1}'],
    ...[
      '"t"',
      '"f"',
      '"a\\tb"',
      '"a\\u0009b"',
      '"\\\\N"',
      '"\\u0000"',
      '"\\ud800"',
      '"é"',
      '"\\u00e9"',
      '"\\/"',
      '"/"',
    ],
    ...['2e5f6c1a-0b7d-4c8e-9f00-1a2b3c4d5e6f', '2E5F6C1A-0b7d-4c8e-9f00-1a2b3c4d5e6f'].map(
      (text) => `"${text}"`,
    ),
    ...['2e5f6c1a-0b7d-4c8e-9f00-1a2b3c4d5e6g', '2e5f6c1a00b7d-4c8e-9f00-1a2b3c4d5e6f'].map(
      (text) => `"${text}"`,
    ),
    ...['2024-05-06T07:08:09', '2024-05-06T07:08:09Z', '2024-05-06T07:08:09z', '2024-05-06T07:08:09+02:00'],
    ...[
      '2024-05-06T07:08:09.',
      '2024-05-06T07:08:09.Z',
      '2024-05-06T07:08:09.1',
      '2024-05-06T07:08:09.123456',
    ],
    ...['2024-05-06T07:08:09.1234567', '2024-05-06T07:08:09.1234567Z', '2024-05-06T07:08:09.123456x'],
    ...[
      '2024-05-06T07:08:09.123456xZ',
      '2024-05-06T07:08:09.1234567+0200',
      '2024-05-06T07:08:09ZZ',
      '2024-05-06',
    ],
    ...[
      '2024-13-06T07:08:09',
      '2024-02-30T07:08:09',
      '2024-05-06T24:00:00',
      '2024-05-06T25:08:09Z',
      'xxxx-05-06T07:08:09',
    ],
    ...[
      '2024-05-06 07:08:09',
      '2024-05-06T07:08',
      '2024-05-06T07:08:09 Europe/Oslo',
      '2024-05-06T07:08:09+99:00',
    ],
  ].map((form) => (/^[2x][\dx]{3}-/.test(form) ? `"${form}"` : form))
  const columnTypes: readonly ColumnType[] = [
    ...(['bigint', 'numeric', 'boolean', 'uuid', 'timestamptz', 'date', 'time', 'text', 'jsonb'] as const),
  ]

  it.each(columnTypes.flatMap((type) => ['Value', 'ValueUTC'].map((field) => ({ type, field }))))(
    'is that of another row of $type in $field only where the rows are the same (P5)',
    async ({ type, field }) => {
      const columns = ['AssignmentId', 'SysRowVersion', field].map((name, index) => ({
        ...{ field: name, name: foldName(name), type: index < 2 ? ('bigint' as const) : type },
      }))
      const [key, version] = columns
      if (!key || !version) throw new Error('no columns')
      const encode = createPageEncoder(
        {
          ...{ stream: streamOf('assignment'), version: 1, key, versions: [version], columns, emptied: [] },
          ...{ unplaced: new Set<string>(), volatile: new Set<string>(), history: null },
          takenNames: new Set<string>(),
        },
        new Set([foldName(field)]),
        new Map([['', () => 0]]),
      )
      const hashOf = async (form: string, onlyHashes: boolean) => {
        const text = `[{"AssignmentId":1,"SysRowVersion":1,"${field}":${form}}]`
        const page = scanRecords(Buffer.from(text), newFieldOrder())
        if (!page) return null
        const { rows } = readRecords(page, ['AssignmentId'], ['SysRowVersion'])
        return (await encode(rows, { onlyHashes })).encoded.hashes.toString('hex', 0, 16)
      }
      const full = await Promise.all(forms.map((form) => hashOf(form, false)))
      for (const [index, form] of forms.entries()) {
        const alone = await hashOf(form, true)
        if (alone !== null && full.includes(alone)) expect(alone, form).toBe(full[index])
      }
    },
  )
})

const lines = readFileSync(new URL('../fixtures/recorded/records.jsonl', import.meta.url), 'utf8')
/** The records as the service wrote them: every emoji is escaped. */
const recorded = Map.groupBy(
  lines.trim().split('\n'),
  (line) => /"resource":\s*"(\w+)"/.exec(line)?.[1] ?? '',
)

describe('records of the recorded service', () => {
  it.each(['assignment', 'assignment_note', 'assignment_object', 'tracker_object'])(
    'of %s are plain',
    async (resource) => {
      const texts = (recorded.get(resource) ?? []).map((line) => line.slice(line.indexOf('{', 1), -1))
      const page = scanRecords(Buffer.from(`[${texts.join(',')}]`), newFieldOrder())
      if (!page) throw new Error('the list is not scanned')
      const types = new Map<string, ColumnType>()
      for (const record of page)
        for (const [field, value] of Object.entries(record as object)) {
          const [type, known] = [typeOf(value), types.get(field)]
          if (type) types.set(field, known ? commonType(known, type) : type)
        }
      const keyField = Object.keys(page.record(0) as object)[0] ?? ''
      const columns = [...types].map(([field, type]) => ({ field, name: foldName(field), type }))
      const [key] = columns
      if (!key) throw new Error('no columns')
      const encode = createPageEncoder(
        {
          ...{ stream: streamOf('assignment_object'), version: 1, key, versions: [], columns, emptied: [] },
          ...{
            unplaced: new Set<string>(),
            volatile: new Set<string>(),
            takenNames: new Set<string>(),
            history: null,
          },
        },
        new Set(),
        new Map([['', () => 0]]),
      )
      const { rows } = readRecords(page, [keyField], null)
      const { encoded, growth } = await encode(rows)
      expect(growth).toBeNull()
      const isPlain = [...encoded.rows.keys()].filter((index) => encoded.only([index]).binary.length > 0)
      expect(rows.length).toBeGreaterThanOrEqual(10)
      expect(isPlain.length / rows.length).toBeGreaterThanOrEqual(0.99)
    },
  )
})
