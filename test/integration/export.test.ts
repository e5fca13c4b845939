// `tidemark export`: every value exactly, all tables as of one moment, and what changed since.

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Manifest } from '../../src/export/tables.ts'
import type { JsonObject } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import { UsageError } from '../../src/util/errors.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { readParquet } from '../support/read-parquet.ts'
import { assignments, storeOf, trackers, writeAll } from '../support/runs.ts'
import { mountSmallDisk } from '../support/small-disk.ts'
import { callVerb } from '../support/verbs.ts'

const records = parseJson(
  Buffer.from(`[
    {"AssignmentId": 1, "RowVersion": 1, "Name": "æ, \\"quoted\\"\\nand broken", "Price": -12345678901234567890.12, "Big": 9223372036854775807,
     "Uid": "0e8f81fa-e3f7-4e59-85c9-06e92e67ef1f", "At": "2026-10-25T02:30:00.123456+02:00", "IsOpen": true, "Tags": {"a": [1, null]}},
    {"AssignmentId": 2, "RowVersion": 2, "Name": "", "Price": 0.000001, "Big": -9223372036854775808, "At": "0001-01-01T00:00:00Z", "IsOpen": false},
    {"AssignmentId": 3, "RowVersion": 3, "Name": null, "Price": 1000000, "At": "9999-12-31T23:59:59.999999Z", "Unlike": 1e60},
    {"AssignmentId": 4, "RowVersion": 4, "Price": 0, "Unlike": 0.5}
  ]`),
) as unknown as readonly JsonObject[]

describe.skipIf(!hasPostgres)('an export', () => {
  const database = createTestDatabase({ forEach: true })
  let directory = ''
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'export-'))
    await writeAll(storeOf(database), 'assignment', assignments(...records))
    await writeAll(storeOf(database), 'tracker_object', trackers({ TrackerObjectId: 1, Name: 'van' }))
  })
  afterEach(() => rmSync(directory, { recursive: true }))

  const place = (name: string) => join(directory, name)
  const call = async (...words: readonly string[]) =>
    await callVerb(['export', ...words], { DATABASE_URL: database.url })
  async function exported(...words: readonly string[]): Promise<Manifest> {
    const { code, stdout, error } = await call(...words, '--json')
    expect([code, error]).toEqual([0, null])
    return JSON.parse(stdout)
  }
  const text = (...path: readonly string[]) => readFileSync(join(directory, ...path), 'utf8')

  it('as Parquet holds every digit and microsecond, and says what each column is', async () => {
    const manifest = await exported(place('whole'), 'assignment', '--format', 'parquet')
    expect(manifest.tables).toMatchObject([
      { stream: 'assignment', file: 'assignment.parquet', rows: 4, key: 'assignment_id' },
    ])
    expect(manifest.tables[0]?.columns.find(({ name }) => name === 'price')).toEqual({
      ...{ name: 'price', type: 'numeric', field: 'Price', description: 'field Price' },
    })
    const { columns, rows } = readParquet(readFileSync(join(directory, 'whole', 'assignment.parquet')))
    const meaning = Object.fromEntries(columns.map(({ name, meaning }) => [name, meaning]))
    expect(meaning).toMatchObject({
      ...{ assignment_id: [null, null, -1], name: [0, null, 1], price: [5, 6, 5], uid: [null, null, 14] },
      ...{ at: [10, null, 8], is_open: [null, null, -1], tags: [19, null, 12], unlike: [0, null, 1] },
    })
    const { rows: stored } = await database.pool.query(
      `select assignment_id::text, name, big::text, is_open, tags::text, (price * 1000000)::numeric(38)::text as price, unlike::text,
         (extract(epoch from at) * 1000000)::numeric(38)::text as at, uid::text
       from mirror.assignment order by assignment_id`,
    )
    const shown = (cell: unknown) =>
      Buffer.isBuffer(cell) ? cell.toString() : typeof cell === 'bigint' ? String(cell) : cell
    const decimal = (cell: unknown) =>
      Buffer.isBuffer(cell) ? String((cell.readBigInt64BE() << 64n) | cell.readBigUInt64BE(8)) : null
    const found = rows.map(({ assignment_id, name, big, is_open, tags, price, unlike, at, uid }) => ({
      ...{
        assignment_id: shown(assignment_id),
        name: shown(name),
        big: shown(big),
        is_open,
        tags: shown(tags),
        price: decimal(price),
      },
      ...{ unlike: shown(unlike), at: shown(at) },
      uid: Buffer.isBuffer(uid)
        ? uid.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
        : null,
    }))
    expect(found.toSorted((a, b) => Number(a.assignment_id) - Number(b.assignment_id))).toEqual(stored)
  })

  it('as Parquet has groups of rows, and none for an empty table', async () => {
    await database.pool.query(`set tidemark.writer = 'on'; update mirror.tracker_object set _deleted_at = now();
      insert into mirror.assignment (assignment_id, _hash, name) select n, '', repeat('x', 4000) from generate_series(1001, 9000) as n`)
    await exported(place('large'), '--format', 'parquet')
    const large = readParquet(readFileSync(join(directory, 'large', 'assignment.parquet')))
    expect([large.groups > 1, large.rows.length]).toEqual([true, 8_004])
    expect(new Set(large.rows.map(({ assignment_id: id }) => id)).size).toBe(8_004)
    const empty = readParquet(readFileSync(join(directory, 'large', 'tracker_object.parquet')))
    expect([empty.groups, empty.rows]).toEqual([0, []])
  })

  it('as CSV tells an empty text from none, and has every table that there is', async () => {
    const { tables } = await exported(place('whole'))
    expect(tables.map(({ stream, rows }) => `${stream} ${rows}`)).toContain('assignment 4')
    expect(tables.map(({ stream }) => stream)).toContain('tracker_object')
    const lines = text('whole', 'assignment.csv')
    expect(lines).toMatch(/^assignment_id,/)
    expect(lines).toMatch(/\n2,[^\n]*,"",/)
    expect(lines).toMatch(/\n3,[^\n]*,,1000000,/)
    expect(lines).toContain('"æ, ""quoted""\nand broken",-12345678901234567890.12,')
    expect(JSON.parse(text('whole', 'manifest.json')).tables).toEqual(tables)
  })

  it('holds what changed since another one, deleted rows included, and nothing else', async () => {
    // Transactions in other databases of the server hold positions back.
    const settled = async () => {
      const { rows } = await database.pool.query(
        'select pg_snapshot_xmin(pg_current_snapshot()) > max(_xid) as is_so from mirror.assignment',
      )
      return rows[0].is_so
    }
    await expect.poll(settled).toBe(true)
    const { position } = await exported(place('whole'))
    await writeAll(
      storeOf(database),
      'assignment',
      assignments(
        { AssignmentId: 2, RowVersion: 9, Name: 'new' },
        { AssignmentId: 3, RowVersion: 10, SysDeleted: true },
      ),
    )
    await expect.poll(settled).toBe(true)
    const later = await exported(place('later'), 'assignment', '--since', position)
    expect(later).toMatchObject({ since: position, tables: [{ rows: 2 }] })
    const keys = text('later', 'assignment.csv')
      .split('\n')
      .map((line) => line.split(',')[0])
    expect(keys.toSorted()).toEqual(['', '2', '3', 'assignment_id'])
    expect(text('later', 'assignment.csv')).toMatch(/\n3,.*,source,/)
    const none = await exported(place('none'), 'assignment', '--since', later.position)
    expect(none.tables).toMatchObject([{ rows: 0 }])
  })

  it('says in one line what is wrong, and leaves nothing behind', async () => {
    mkdirSync(place('full'))
    writeFileSync(place('full/other'), '')
    const wrong: readonly (readonly [readonly string[], RegExp])[] = [
      [[], /^Name the directory to write/],
      [[place('full')], /full is there already and not empty: name a new directory\.$/],
      [[''], /^Name the directory to write/],
      [[place('full/other')], /full\/other cannot be written: a part of that path is a file \(ENOTDIR\)\.$/],
      [
        [place('full/other/deeper')],
        /full\/other\/deeper cannot be written: a part of that path is a file \(ENOTDIR\)\.$/,
      ],
      [
        ['/proc/nope/deeper'],
        /^\/proc\/nope\/deeper cannot be written: there is no such folder, and none can be made \(ENOENT\)\.$/,
      ],
      [[place('x'.repeat(300))], /cannot be written: a name in it is too long \(ENAMETOOLONG\)\.$/],
      [[place('one'), 'asignment'], /^There is no stream "asignment"; did you mean assignment\?/],
      [[place('one'), '--format', 'xlsx'], /^--format must be one of csv, parquet, not "xlsx"\.$/],
      [[place('one'), '--since', 'yesterday'], /^--since must be the position .* not "yesterday"\.$/],
      [
        [place('one'), '--since', '99999999999'],
        /^--since 99999999999 is above the position of the feed, which is \d+:/,
      ],
    ]
    for (const [words, message] of wrong) {
      const { error } = await call(...words)
      expect(error, words.join(' ')).toBeInstanceOf(UsageError)
      expect((error as Error).message).toMatch(message)
    }
    expect(readdirSync(directory)).toEqual(['full'])
    expect(existsSync(place('one'))).toBe(false)
  })
  it.skipIf(process.getuid?.() !== 0)('says where the disk is full, and leaves nothing behind', async () => {
    const disk = mountSmallDisk(place('disk'), 1)
    try {
      const many = Array.from({ length: 40 }, (_, index) => ({
        ...{ AssignmentId: 10 + index, RowVersion: 10 + index, Name: 'x'.repeat(50_000) },
      }))
      await writeAll(storeOf(database), 'assignment', assignments(...many))
      const { error } = await call(place('disk/monday'))
      expect((error as Error).message).toBe(
        `${place('disk/monday')} cannot be written: the disk is full; make room on it, or name a place on another one (ENOSPC).`,
      )
      expect(readdirSync(disk.path)).toEqual([])
    } finally {
      disk.leave()
    }
  })
})
