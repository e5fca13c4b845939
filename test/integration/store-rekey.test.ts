// A table that gets another key: what its columns hold makes the same key that a record of theirs has, whatever the values are; the rest
// comes again, and nothing that is deleted is lost.

import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import { readRecords } from '../../src/streams/record.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { begin, done, storeOf } from '../support/runs.ts'

describe.skipIf(!hasPostgres)('a table whose key is another one now', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const write = async (keyField: string, records: string) => {
    const run = await begin(storeOf(database), 'tracker_object', 'list')
    await run.findings.setKeyField(keyField)
    const page = readRecords(parseJson(Buffer.from(records)) as Json[], [keyField], null)
    try {
      return { ...(await run.pages.commit(page, null)), keys: page.rows.map(({ key }) => key) }
    } finally {
      await run.finish(done)
    }
  }

  const uuid = '9F1E0C52-3A8B-4B7B-9C53-0A4E1B7D2F10'
  it.each([
    ['integers', 'Part', [1, -7, '9223372036854775807', '-9223372036854775808', 0]],
    [
      'texts',
      'Part',
      [
        '"a"',
        '"007"',
        '"7"',
        '"-0"',
        '"9223372036854775808"',
        '"x,y"',
        String.raw`"\"\\\n\t\u0001\u2028é😀\u007f/"`,
      ],
    ],
    ['UUIDs', 'Part', [`"${uuid}"`, `"${uuid.toLowerCase().replace('9f', 'aa')}"`]],
    ['UUIDs among texts', 'Part', ['"a"', `"${uuid}"`]],
    ['numbers of any size', 'Part', [1.5, 2, '12345678901234567890123']],
  ] as const)('has the same keys as before of %s (P4)', async (_what, part, values) => {
    const records = `[${values.map((value, id) => `{"TrackerObjectId":${id},"${part}":${value},"Name":"n${id}"}`).join(',')}]`
    await write('TrackerObjectId', records)
    await query(`update mirror.tracker_object set _first_seen_at = '2020-01-01Z'`)
    const { keys, inserted } = await write(`TrackerObjectId,${part}`, records)
    expect(keys.length + inserted).toBeGreaterThan(0)
    const usable = new Set(keys)
    const stored = await query(
      `select _key as key, _first_seen_at = '2020-01-01Z' as was_there from mirror.tracker_object`,
    )
    expect(stored.map(({ key }) => key).toSorted()).toEqual([...usable].toSorted())
    expect(stored.every((row) => row.was_there)).toBe(true)
    expect(inserted).toBe(0)
  })

  it('takes out what its columns do not tell, which comes again, and keeps what is deleted', async () => {
    const records = `[{"TrackerObjectId":1,"At":"2026-01-01T00:00:00.1234567Z"},{"TrackerObjectId":2,"At":"2026-01-02T00:00:00Z"}]`
    await write('TrackerObjectId', records)
    await query(
      `update mirror.tracker_object set _deleted_at = now(), _deleted_reason = 'absent' where tracker_object_id = 2`,
    )
    const { keys } = await write(
      'TrackerObjectId,At',
      `[{"TrackerObjectId":1,"At":"2026-01-01T00:00:00.1234567Z"}]`,
    )
    expect(
      await query(
        'select _key as key, _deleted_at is not null as gone from mirror.tracker_object order by _deleted_at nulls first',
      ),
    ).toEqual([
      { key: keys[0], gone: false },
      { key: '[2]', gone: true },
    ])
  })

  it.each([
    ['texts of every kind', ['"A-17"', '"007"', '"7"', '12'], '12', 'text', ['007', '12', '7', '99', 'A-17']],
    ['numbers', ['"3"', '"4"'], '5', 'bigint', ['3', '4', '5', '99']],
    ['numbers with fractions, which are no keys', ['1.5', '2'], '2', 'bigint', ['2', '99']],
    ['numbers of any size', ['12345678901234567890123', '2'], '2', 'bigint', ['2', '99']],
    ['times', ['"2026-01-01T00:00:00Z"'], '12', 'bigint', ['12', '99']],
    // The key of the row that is deleted is no UUID.
    ['UUIDs', [`"${uuid}"`], `"${uuid}"`, 'text', ['99', uuid.toLowerCase()]],
  ])('is one whose column has %s', async (_what, parts, first, type, keys) => {
    const records = parts.map((part, id) => `{"TrackerObjectId":${id},"Part":${part}}`)
    await write('TrackerObjectId', `[${records.join(',')},{"TrackerObjectId":99}]`)
    await query(
      `update mirror.tracker_object set _deleted_at = now(), _deleted_reason = 'absent' where tracker_object_id = 99`,
    )
    // One page does not tell what the others have.
    await write('Part', `[{"TrackerObjectId":50,"Part":${first}}]`)
    const stored = `select part::text as key, pg_typeof(part)::text as type from mirror.tracker_object order by part::text collate "C"`
    expect(await query(stored)).toEqual(keys.map((key) => ({ key, type })))
    expect(await write('Part', `[{"TrackerObjectId":51,"Part":${first}}]`)).toMatchObject({ inserted: 0 })
  })

  it('is not given the old one again by a run that began with that', async () => {
    const record = `[{"TrackerObjectId":1,"Part":"a"}]`
    await write('TrackerObjectId', record)
    const earlier = await begin(storeOf(database), 'tracker_object', 'quarantine-retry')
    await write('TrackerObjectId,Part', record)
    const page = readRecords(parseJson(Buffer.from(record)) as Json[], ['TrackerObjectId'], null)
    await expect(earlier.pages.commit(page, null)).rejects.toThrow(
      'The key of tracker_object is TrackerObjectId,Part since this run began.',
    )
    await earlier.finish({ ...done, status: 'failed', error: 'a test ended it' })
    expect(await query('select _key as key from bi.tracker_object')).toEqual([{ key: '[1,"a"]' }])
  })

  it('says what keeps it from that, and stays as it was', async () => {
    await write('TrackerObjectId', `[{"TrackerObjectId":1,"Part":"a"}]`)
    await query('create table public.mine (id bigint references mirror.tracker_object (tracker_object_id))')
    await expect(write('TrackerObjectId,Part', `[{"TrackerObjectId":1,"Part":"a"}]`)).rejects.toThrow(
      /other objects depend on it/,
    )
    expect(await query('select tracker_object_id::int as id from mirror.tracker_object')).toEqual([{ id: 1 }])
    await query('drop table public.mine')
    await write('TrackerObjectId,Part', `[{"TrackerObjectId":1,"Part":"a"}]`)
    expect(await query('select _key as key from bi.tracker_object')).toEqual([{ key: '[1,"a"]' }])
  })
})
