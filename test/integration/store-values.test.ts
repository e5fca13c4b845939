// Whatever the upstream puts into a field can be read back exactly: from its column, from `_rescued`, or from quarantine.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type JsonObject, repeatedFields } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { readBack, recover } from '../support/recovered.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'

const trickyStrings = fc.constantFrom(
  '',
  '\\N',
  '\\.',
  'a\tb\nc\r\\',
  'nul \0 here',
  '\ud800 alone',
  'pair 😀',
  'true',
  '12',
  ' ',
  "'; drop",
  '{"$json":"x"}',
  '2024-02-29T23:59:59.9999999Z',
  '2024-03-31T02:30:00',
  '0001-01-01T00:00:00',
  '9999-12-31T23:59:59.9999999',
  '0000-01-01T00:00:00',
  '2023-02-29T00:00:00Z',
  '2024-01-01T24:00:00Z',
  '2024-01-01T00:00:60Z',
  '2024-01-01T00:00:00+15:59',
  '2024-01-01',
  'infinity',
  '3F2504E0-4F89-41D3-9A0C-0305E82C3301',
  '{3F2504E0-4F89-41D3-9A0C-0305E82C3301}',
)
const trickyNumbers = fc.constantFrom(
  '0',
  '-0',
  '1.0',
  '1e2',
  '1E400',
  '-1e400',
  '1e-400',
  '9223372036854775807',
  '9223372036854775808',
  '-9223372036854775808',
  '9007199254740993',
  '0.1',
  '123456789012345678901234567890.123456789',
  '1e308',
  '1e21',
  '2.50',
)
const scalarText = fc.oneof(
  { weight: 2, arbitrary: trickyNumbers },
  { weight: 2, arbitrary: trickyStrings.map((text) => JSON.stringify(text)) },
  fc.constantFrom('null', 'true', 'false'),
  fc.string({ unit: 'binary', maxLength: 12 }).map((text) => JSON.stringify(text)),
  fc.integer().map(String),
)
const valueText: fc.Arbitrary<string> = fc.oneof(
  { weight: 6, arbitrary: scalarText },
  fc.array(scalarText, { maxLength: 3 }).map((items) => `[${items.join(',')}]`),
  fc
    .array(fc.tuple(fc.constantFrom('a', 'b', '$json', 'nul\0'), scalarText), { maxLength: 3 })
    .map((fields) => `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`),
)
const fieldName = fc.constantFrom(
  'Name',
  'NAME',
  'name',
  'a b',
  'a_b',
  'A',
  '__proto__',
  'constructor',
  '_hash',
  '_rescued',
  '$json:x',
  '$repeated',
  '',
  '!',
  'nul\0',
  '\udc00',
  'ctid',
  'order',
  'Ærø',
  'x'.repeat(70),
  `${'x'.repeat(70)}y`,
  'SysDeleted',
  'Amount',
  'At',
  'UID',
)
const recordText = fc.array(fc.tuple(fieldName, valueText), { maxLength: 6 })

describe.skipIf(!hasPostgres)('any JSON value', () => {
  const database = createTestDatabase()

  it('is recovered exactly, and stops no page (P4, P5)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(recordText, { minLength: 1, maxLength: 5 }), async (texts) => {
        // The first value of a field decides its type, so each page begins with a new table.
        await database.pool.query(
          `drop table if exists mirror.assignment cascade; delete from tidemark.field where stream = 'assignment'`,
        )
        const json = texts.map((fields, index) => {
          const all = [['AssignmentId', String(index)], ['RowVersion', '1'], ...fields]
          return `{${all.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
        })
        const records = parseJson(Buffer.from(`[${json.join(',')}]`)) as readonly JsonObject[]
        const run = await begin(storeOf(database))
        try {
          const written = await run.pages.commit(assignments(...records), null)
          expect(written).toMatchObject({ inserted: records.length, quarantined: 0 })
        } finally {
          await run.finish(done)
        }
        const rows = await readBack(database.pool, 'assignment')
        for (const [index, record] of records.entries()) {
          const recovered = recover(rows.get(String(index)))
          for (const [field, value] of Object.entries(record))
            expect(recovered.field(field, value)).toBe(true)
          expect(recovered.repeated(record[repeatedFields])).toBe(true)
        }
      }),
      { numRuns: 100 },
    )
  })

  it('that is a date-time without an offset is read in the time zone of the source, through its changes (P4)', async () => {
    await database.pool.query(
      `drop table if exists mirror.assignment cascade; delete from tidemark.field where stream = 'assignment'`,
    )
    const expected: readonly (readonly [string, string])[] = [
      ['2024-01-15T12:00:00', '2024-01-15 11:00:00'],
      ['2024-07-15T12:00:00', '2024-07-15 10:00:00'],
      ['2024-03-31T01:59:59.9999999', '2024-03-31 00:59:59.999999'],
      ['2024-03-31T03:00:00', '2024-03-31 01:00:00'],
      // An hour that the clocks left out, and one that they showed twice: the offset before it, and the later one.
      ['2024-03-31T02:30:00', '2024-03-31 01:30:00'],
      ['2024-10-27T02:30:00', '2024-10-27 01:30:00'],
      ['2024-07-15T12:00:00Z', '2024-07-15 12:00:00'],
      ['2024-07-15T12:00:00-0330', '2024-07-15 15:30:00'],
      ['9999-12-31T23:59:59.9999999', '9999-12-31 22:59:59.999999'],
    ]
    const run = await begin(storeOf(database, { sourceTimezone: 'Europe/Oslo' }))
    const records = expected.map(([at], index) => ({ AssignmentId: index, RowVersion: 1, At: at }))
    await run.pages.commit(assignments(...records), null)
    await run.finish(done)
    const { rows } = await database.pool.query(
      `select (at at time zone 'UTC')::text as at from mirror.assignment order by assignment_id`,
    )
    expect(rows.map((row) => row.at)).toEqual(expected.map(([, utc]) => utc))
  })

  it('that is a date-time without an offset is in UTC where its field says so, and in another zone where one was set (P4)', async () => {
    await database.pool.query(
      `drop table if exists mirror.assignment cascade; delete from tidemark.field where stream = 'assignment'`,
    )
    const fieldZones = { assignment: { planned: 'America/New_York' } }
    const run = await begin(storeOf(database, { sourceTimezone: 'Europe/Oslo', fieldZones }))
    const at = '2024-10-27T02:30:00.1234567'
    const record = { CreatedUTC: at, signedTimeUtc: at, Planned: at, Local: at, OffsetUTC: `${at}+02:00` }
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 1, ...record }), null)
    await run.finish(done)
    const { rows } = await database.pool.query(
      `select array(
         select (at at time zone 'UTC')::text
         from unnest(array[created_utc, signed_time_utc, planned, local, offset_utc]) with ordinality as shown (at, place)
         order by place
       ) as times
       from mirror.assignment`,
    )
    expect(rows[0].times).toEqual([
      '2024-10-27 02:30:00.123456',
      '2024-10-27 02:30:00.123456',
      '2024-10-27 06:30:00.123456',
      '2024-10-27 01:30:00.123456',
      '2024-10-27 00:30:00.123456',
    ])
  })

  it('that is a row version of eight bytes is read as its number (P4)', async () => {
    await database.pool.query(
      `drop table if exists mirror.assignment cascade; delete from tidemark.field where stream = 'assignment'`,
    )
    const run = await begin(storeOf(database))
    const page = assignments(
      { AssignmentId: 1, RowVersion: 'AAAAAAAAB9E=' },
      { AssignmentId: 2, RowVersion: 'AAAAAAAAB9I=' },
    )
    await run.pages.commit(page, 2002n)
    await run.finish(done)
    const { rows } = await database.pool.query('select row_version from mirror.assignment order by 1')
    expect(rows).toEqual([{ row_version: '2001' }, { row_version: '2002' }])
  })
})
