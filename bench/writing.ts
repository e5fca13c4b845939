// How fast and in how much memory the mirror writes, beside the ceiling and the ordinary way.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Database } from '../src/store/server/connect.ts'
import { prepareCeiling, runCeiling } from './ceiling.ts'
import { writeThroughStore } from './mirror-writes.ts'
import { writeTheOrdinaryWay } from './ordinary-way.ts'
import { emptyStore, openBenchDatabase } from './postgres.ts'
import { makePages } from './records.ts'
import type { Result } from './report.ts'

const rounds = 3
const rowCount = 100_000
const ordinaryRowCount = 20_000
const later = 10_000_000
const many = 1_000_000
const probeRowCount = 50_000
// An eighth of the garbage that Node would let gather before it looks.
const youngHeap = '--max-semi-space-size=8'

const pages = makePages(20)

export async function benchWriting(say: (what: string) => void): Promise<readonly Result[]> {
  const database = await openBenchDatabase()
  try {
    return [
      ...(await speeds(database, say)),
      ...(await growth(database, say)),
      ...(await memory(database, say)),
    ]
  } finally {
    await database.close()
  }
}

/** In rounds, so that what else the machine does hits all of them alike; of each the best. */
async function speeds(database: Database, say: (what: string) => void): Promise<readonly Result[]> {
  const best = new Map<string, number>()
  const keep = (what: string, speed: number) => {
    say(`${what}: ${Math.round(speed)} rows/s`)
    best.set(what, Math.max(best.get(what) ?? 0, speed))
  }
  const ceiling = await prepareCeiling(database, pages, rowCount)
  const clear = () => database.pool.query('truncate mirror.assignment; checkpoint')
  for (let round = 0; round < rounds; round++) {
    await clear()
    keep('ceiling', await runCeiling(database, ceiling))
    for (const connections of [1, 2] as const) {
      await clear()
      const write = (from: number, versionBase: number) =>
        writeThroughStore(database, connections, pages(from, rowCount, versionBase))
      keep(`insert ${connections}`, await write(0, 1))
      keep(`update ${connections}`, await write(0, later))
      keep(`unchanged ${connections}`, await write(0, later))
    }
    keep('ordinary', await writeTheOrdinaryWay(database, ceiling.tableSchema, pages(0, ordinaryRowCount, 1)))
  }
  const speed = (what: string) => best.get(what) ?? 0
  const beside = (one: string, other: string) => speed(one) / speed(other)
  return [
    { what: 'ceiling: encoded pages, one connection', rowsPerSecond: speed('ceiling') },
    ...([1, 2] as const).flatMap((connections) => {
      const by = connections === 1 ? 'one connection' : 'two connections'
      const insert = `insert ${connections}`
      return [
        {
          what: `mirror, inserts, ${by}`,
          rowsPerSecond: speed(insert),
          ratio: beside(insert, 'ceiling'),
          to: 'ceiling',
          wanted: connections === 1 ? 0.8 : 1.2,
        },
        { what: `mirror, all rows updated, ${by}`, rowsPerSecond: speed(`update ${connections}`) },
        {
          what: `mirror, all rows unchanged, ${by}`,
          rowsPerSecond: speed(`unchanged ${connections}`),
          ratio: beside(`unchanged ${connections}`, insert),
          to: 'inserts',
          wanted: 1.2,
        },
      ]
    }),
    {
      what: 'one ORM insert a page',
      rowsPerSecond: speed('ordinary'),
      ratio: beside('insert 2', 'ordinary'),
      to: 'the mirror is this many times as fast',
      wanted: 6,
    },
  ]
}

/** Whether writing slows down as the table grows. */
async function growth(database: Database, say: (what: string) => void): Promise<readonly Result[]> {
  await database.pool.query('truncate mirror.assignment')
  const probe = async (from: number) => {
    const speed = await writeThroughStore(database, 2, pages(from, from + probeRowCount, 1))
    say(`inserts into ${from} rows: ${Math.round(speed)} rows/s`)
    return speed
  }
  await writeThroughStore(database, 2, pages(0, rowCount, 1))
  const small = await probe(rowCount)
  await writeThroughStore(database, 2, pages(rowCount + probeRowCount, many, 1))
  const large = await probe(many)
  return [
    { what: `inserts into a table of ${rowCount.toLocaleString('en')} rows`, rowsPerSecond: small },
    {
      what: `inserts into a table of ${many.toLocaleString('en')} rows`,
      rowsPerSecond: large,
      ratio: large / small,
      to: 'the small table',
      wanted: 0.85,
    },
  ]
}

async function memory(database: Database, say: (what: string) => void): Promise<readonly Result[]> {
  const results: Result[] = []
  for (const rows of [rowCount, many]) {
    await emptyStore(database)
    const program = new URL('./memory.ts', import.meta.url).pathname
    const { stdout } = await promisify(execFile)(process.execPath, [
      youngHeap,
      program,
      database.url,
      String(rows),
    ])
    say(`memory for ${rows} rows: ${stdout.trim()} MB`)
    results.push({
      what: `peak memory, ${rows.toLocaleString('en')} rows`,
      megabytes: Number(stdout),
      wanted: 200,
    })
  }
  return results
}
