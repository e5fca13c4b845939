// One list of bytes read in both ways: found by the scanner and encoded from its bytes, and parsed and encoded as values. Throws where
// they differ.

import assert from 'node:assert/strict'
import { JsonError } from '../../src/json/bounds.ts'
import { type Json, repeatedFields } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import type { EncodedRows } from '../../src/store/encoding/copy-rows.ts'
import { createPageEncoder, type EncodedPage, type EncodePage } from '../../src/store/encoding/page.ts'
import { foldName } from '../../src/store/schema/column-names.ts'
import type { ColumnType } from '../../src/store/types/table.ts'
import { type Row, readRecords } from '../../src/streams/record.ts'
import type { FieldOrder } from '../../src/wire/field-order.ts'
import { placeOf, type RecordPage, valueAt } from '../../src/wire/record-page.ts'
import { scanRecords } from '../../src/wire/scan.ts'
import { readCopied } from './copied-rows.ts'
import type { HostileTable } from './hostile-records.ts'

const localTimes = new Map([['', () => 0]])
const keyFields = ['AssignmentId']
const versionFields = ['SysRowVersion']

/** How many rows there were, and how many of them were plain. */
export type Compared = { readonly rows: number; readonly plain: number }

export async function compareScanner(
  bytes: Buffer,
  order: FieldOrder,
  { tableSchema, settled }: HostileTable,
): Promise<Compared> {
  const page = scanRecords(bytes, order)
  const parsed = parse(bytes)
  if (page === null) {
    // Records of ordinary JSON are never left to the parser.
    const text = bytes.toString().trim()
    assert(!Array.isArray(parsed) || !text.startsWith('['), `not scanned: ${text}`)
    return { rows: 0, plain: 0 }
  }
  assert(Array.isArray(parsed), 'the scanner took what the parser refuses')
  assert.equal(page.length, parsed.length)
  assert.deepEqual([...page].map(showJson), parsed.map(showJson))
  compareValues(page)
  const found = readRecords(page, keyFields, versionFields)
  const read = readRecords(parsed, keyFields, versionFields)
  const showRow = ({ key, version, record }: Row) => ({ key, version, record: showJson(record) })
  assert.deepEqual(found.rows.map(showRow), read.rows.map(showRow))
  assert.deepEqual(found.rejected.map(showRejected), read.rejected.map(showRejected))
  const encode = createPageEncoder(tableSchema, settled, localTimes)
  const types = tableSchema.columns.map(({ type }) => type)
  const [fast, exact] = [await encode(found.rows), await encode(read.rows, { isAllText: true })]
  assert.deepEqual(show(fast), show(exact))
  assert.equal(exact.encoded.all.binary.length, 0)
  let plain = 0
  for (const index of fast.encoded.rows.keys()) {
    const [one, other] = [fast.encoded.only([index]), exact.encoded.only([index])]
    assert.deepEqual(readCopied(one, types, 'UTC'), readCopied(other, types, 'UTC'))
    if (one.binary.length > 0) plain++
    // A line is the same, byte for byte.
    else assert.deepEqual(one, other)
  }
  compareHashes(fast.encoded, (await encode(found.rows, { onlyHashes: true })).encoded, types)
  compareChoices(fast.encoded)
  await compareGrowth(() => createPageEncoder(tableSchema, settled, localTimes), found.rows)
  // The next list is read with the memory of this one.
  page.release()
  return { rows: fast.encoded.rows.length, plain }
}

const hashOf = ({ hashes }: EncodedRows, index: number): string =>
  hashes.toString('hex', index * 16, (index + 1) * 16)

/** A hash that was not taken from a look at all values is that of the row, or of none that a table holds. */
function compareHashes(full: EncodedRows, alone: EncodedRows, types: readonly ColumnType[]): void {
  assert.deepEqual(
    alone.rows.map(({ key }) => key),
    full.rows.map(({ key }) => key),
  )
  assert.deepEqual(alone.deletions, full.deletions)
  const known = new Set(full.rows.map((_, index) => hashOf(full, index)))
  for (const index of full.rows.keys()) {
    const [row] = full.only([index]).binary
    const isWhole =
      row !== undefined && readCopied({ binary: [row], text: [] }, types, 'UTC').cells[0] === null
    if (isWhole || known.has(hashOf(alone, index))) assert.equal(hashOf(alone, index), hashOf(full, index))
  }
}

const enoughToGrow = 20

/** A page that waits for what its table lacks parses few of its records, and yet knows all that it lacks. */
async function compareGrowth(newEncoder: () => EncodePage, rows: readonly Row[]): Promise<void> {
  const [first] = rows
  if (!first) return
  const many = [...Array.from({ length: enoughToGrow }, () => first), ...rows]
  const whole = await newEncoder()(many)
  const waiting = await newEncoder()(many, { waitsForGrowth: true })
  const showGrowth = ({ growth, tally }: EncodedPage) => ({
    growth: growth && { ...growth, fields: [...growth.fields] },
    nonNull: tally.nonNull,
    newFields: new Set(tally.newFields.map(foldName)),
  })
  assert.deepEqual(showGrowth(waiting), showGrowth(whole))
}

/** Whichever rows are sent together, they are those that are sent one by one. */
function compareChoices({ rows, only }: EncodedRows): void {
  const all = [...rows.keys()]
  for (const choice of [all.slice(1), all.filter((index) => index % 3 > 0)]) {
    const ones = choice.map((index) => only([index]))
    const together = only(choice)
    for (const format of ['binary', 'text'] as const)
      assert.deepEqual(Buffer.concat(together[format]), Buffer.concat(ones.flatMap((one) => one[format])))
  }
}

function parse(bytes: Buffer): Json | JsonError {
  try {
    return parseJson(bytes)
  } catch (error) {
    if (error instanceof JsonError) return error
    throw error
  }
}

/** With the order of fields, the digits of numbers and the earlier values of repeated fields. */
function showJson(value: Json): unknown {
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? 'minus zero' : value
  if (JSON.isRawJSON(value)) return { number: value.rawJSON }
  if (Array.isArray(value)) return value.map(showJson)
  const object = value as { readonly [field: string]: Json; readonly [repeatedFields]?: Json }
  return {
    fields: Object.keys(object).map((field) => [field, showJson(object[field] ?? null)]),
    repeated: object[repeatedFields] === undefined ? null : showJson(object[repeatedFields]),
  }
}

const showRejected = ({ record, reason }: { readonly record: Json; readonly reason: string }) => ({
  record: showJson(record),
  reason,
})

function compareValues(page: RecordPage): void {
  for (let index = 0; index < page.length; index++) {
    const record = page.record(index)
    for (const [field, name] of page.order.names.entries()) {
      const place = field === 0 ? -1 : placeOf(page, index, field)
      if (place < 0) continue
      assert(
        typeof record === 'object' &&
          record !== null &&
          !Array.isArray(record) &&
          Object.hasOwn(record, name),
      )
      assert.deepEqual(
        showJson(valueAt(page, place)),
        showJson((record as { [field: string]: Json })[name] ?? null),
      )
    }
  }
}

const show = ({ encoded, growth, rejected, rescued, tally }: EncodedPage) => ({
  hashes: encoded.hashes.subarray(0, encoded.rows.length * 16).toString('hex'),
  keys: encoded.rows.map(({ key }) => key),
  growth: growth && { fields: [...growth.fields], widen: [...growth.widen] },
  rejected: rejected.map(showRejected),
  rescued,
  tally: { ...tally, nonNull: [...tally.nonNull], rescued: [...tally.rescued].sort() },
})
