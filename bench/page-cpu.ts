// What a page costs this program between its bytes and those of COPY: `node bench/page-cpu.ts` tells the CPU seconds of 200,000 records, of
// the recorded service or with `unlike` of others, and in how many turns of a bare loop over the same bytes they are: that figure is the same
// on a slow machine and on a busy one.

import { readFileSync } from 'node:fs'
import { createPageEncoder, rowsToWrite } from '../src/store/encoding/page.ts'
import { columnName } from '../src/store/schema/column-names.ts'
import { type ColumnType, commonType, typeOf } from '../src/store/types/table.ts'
import { knownStreams } from '../src/streams/catalog.ts'
import { isObject, readRecords } from '../src/streams/record.ts'
import { withoutTwins } from '../src/streams/twins.ts'
import { newFieldOrder } from '../src/wire/field-order.ts'
import type { RecordPage } from '../src/wire/record-page.ts'
import { scanRecords } from '../src/wire/scan.ts'
import { fieldsOf } from './static-records.ts'
import { unlikeRecord } from './unlike-records.ts'

const recordCount = 2_000
const rounds = 45
// Until the engine has compiled what is called often.
const firstRounds = 20

/** Of the recorded service, each with a key and a version of its own. */
function recordedPage(): Buffer {
  const file = new URL('../test/fixtures/recorded/records.jsonl', import.meta.url)
  const lines = readFileSync(file, 'utf8').split('\n')
  const texts = lines.filter((line) => line.includes('"resource":"assignment",'))
  const records = Array.from({ length: recordCount }, (_, index) => {
    const line = texts[index % texts.length] ?? ''
    return line
      .slice(line.indexOf('{', 1), -1)
      .replace(/"assignmentId":\d+/, `"assignmentId":${index + 1}`)
      .replace(/"sysRowVersion":\d+/, `"sysRowVersion":${index + 1}`)
  })
  return Buffer.from(`[${records.join(',')}]`)
}

/** From all parts of a load. */
const unlikePage = (): Buffer =>
  Buffer.from(
    `[${Array.from({ length: recordCount }, (_, rank) => unlikeRecord(rank, recordCount)).join(',')}]`,
  )

function encoderFor(page: RecordPage) {
  const types = new Map<string, ColumnType>()
  for (const record of page)
    for (const [field, value] of Object.entries(isObject(record) ? record : {})) {
      const [type, known] = [typeOf(value), types.get(field)]
      if (type) types.set(field, known ? commonType(known, type) : type)
    }
  const columns = [...types].map(([field, type]) => ({ field, name: columnName(field), type }))
  const named = (wanted: string) => columns.filter(({ field }) => field === wanted)
  const [key] = named(fields.key)
  const [stream] = knownStreams
  if (!key || !stream) throw new Error('the records have no key')
  const tableSchema = {
    ...{
      stream,
      version: 1,
      key,
      columns,
      versions: named(fields.version),
      emptied: [],
      history: null,
    },
    ...{ unplaced: new Set<string>(), volatile: new Set<string>(), takenNames: new Set<string>() },
  }
  return createPageEncoder(tableSchema, new Set(), new Map([['', () => 0]]))
}

const secondsSince = (before: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000_000
}

/** Reads each byte a few times, and does little with it. */
function bareLoop(bytes: Buffer): number {
  let sum = 0
  for (let turn = 0; turn < 4; turn++)
    for (let at = 0; at < bytes.length; at++) sum = (Math.imul(sum, 31) + (bytes[at] as number)) | 0
  return sum
}

const isUnlike = process.argv[2] === 'unlike'
const fields = fieldsOf[isUnlike ? 'unlike' : 'recorded']
const bytes = isUnlike ? unlikePage() : recordedPage()
const order = newFieldOrder()
const scan = () => {
  const page = scanRecords(bytes, order)
  if (!page) throw new Error('the records are not scanned')
  return page
}
const encode = encoderFor(scan())
const [pageSeconds, loopSeconds]: [number[], number[]] = [[], []]
let plainBytes = 0
for (let round = 0; round < rounds; round++) {
  const beforeLoop = process.cpuUsage()
  const sum = bareLoop(bytes)
  const loop = secondsSince(beforeLoop)
  const before = process.cpuUsage()
  const records = withoutTwins(readRecords(scan(), [fields.key], [fields.version]))
  const { encoded } = await encode(rowsToWrite(records.rows, records.haveOwnKeys))
  const page = secondsSince(before)
  plainBytes = encoded.all.binary.reduce((all, chunk) => all + chunk.length, Number.isNaN(sum) ? 1 : 0)
  if (round < firstRounds) continue
  pageSeconds.push(page)
  loopSeconds.push(loop)
}
// What others do on the machine only adds.
const least = (values: readonly number[]): number =>
  values.toSorted((one, other) => one - other)[values.length >> 3] ?? 0
const seconds = (200_000 / recordCount) * least(pageSeconds)
process.stdout.write(
  `${JSON.stringify({ seconds, turns: least(pageSeconds) / least(loopSeconds), plainBytes, pageBytes: bytes.length })}\n`,
)
