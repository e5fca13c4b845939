// Date-times without an offset that are told in the binary format are the moments that Postgres reads from their text (P4).

import { describe, expect, it } from 'vitest'
import { withConnection } from '../../src/store/server/session.ts'
import { readLocalTimes } from '../../src/store/writing/local-times.ts'
import { type Records, readRecords } from '../../src/streams/record.ts'
import { newFieldOrder } from '../../src/wire/field-order.ts'
import { scanRecords } from '../../src/wire/scan.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { seededRandom } from '../support/random.ts'
import { begin, done, storeOf } from '../support/runs.ts'

const random = seededRandom(21)
const secondsSince2000 = (text: string) => (Date.parse(`${text}Z`) - Date.UTC(2000)) / 1000
const textOf = (seconds: number) => new Date(Date.UTC(2000) + seconds * 1000).toISOString().slice(0, 19)
/** From 1981 to 2059. */
const anyTime = () => secondsSince2000('1981-01-01T00:00:00') + random.integer(78 * 365 * 86_400)
/** Within the weeks and hours in which clocks are changed. */
const criticalTime = () => {
  const day = random.pick(['03-08', '03-25', '04-01', '09-27', '10-01', '10-25', '11-01'])
  const start = secondsSince2000(`${1981 + random.integer(78)}-${day}T00:00:00`)
  return start + random.integer(7) * 86_400 + random.integer(4 * 3_600)
}

describe.skipIf(!hasPostgres)('local times', { timeout: 60_000 }, () => {
  const database = createTestDatabase()

  it.each(['Europe/Oslo', 'America/New_York', 'Australia/Lord_Howe', 'Africa/Casablanca', 'Asia/Kathmandu'])(
    'of %s are the moments that Postgres reads, where clocks are changed too (P4)',
    async (zone) => {
      const localTimes = await readLocalTimes(database.pool, { fieldZones: { planned: zone } }, zone)
      for (const suffix of ['', ` ${zone}`]) {
        const offsetAt = localTimes.get(suffix)
        const times = Array.from({ length: 4_000 }, (_, index) => (index % 2 ? anyTime() : criticalTime()))
        const read = await withConnection(database.pool, async (client) => {
          await client.query(`select set_config('timezone', $1, false)`, [zone])
          const { rows } = await client.query<{ seconds: number }>(
            `select (extract(epoch from (place || $1)::timestamptz) - 946684800)::float8 as seconds
           from unnest($2::text[]) with ordinality as asked (place, number) order by number`,
            [suffix, times.map(textOf)],
          )
          await client.query('reset timezone')
          return rows.map(({ seconds }) => seconds)
        })
        expect(times.map((time) => time - (offsetAt?.(time) ?? Number.NaN))).toEqual(read)
      }
    },
  )

  it('do not depend on the time zone of the process (P4)', async () => {
    const before = process.env.TZ
    try {
      for (const zone of ['Europe/Oslo', 'America/New_York', 'Australia/Lord_Howe']) {
        process.env.TZ = zone
        // A key of its own, as what was asked for is remembered.
        const fieldZones = { planned: 'Asia/Kathmandu' }
        const offsetAt = (await readLocalTimes(database.pool, { fieldZones }, zone)).get('')
        const offsets = ['2024-01-15T12:00:00', '2024-07-15T12:00:00'].map((text) =>
          offsetAt?.(secondsSince2000(text)),
        )
        const wanted = ['2024-01-15T12:00:00', '2024-07-15T12:00:00'].map(
          (text) => -60 * new Date(text).getTimezoneOffset(),
        )
        expect([zone, ...offsets]).toEqual([zone, ...wanted])
      }
    } finally {
      if (before === undefined) delete process.env.TZ
      else process.env.TZ = before
    }
  })

  it('of UTC need no question, and those of ages that nobody asked for are left to Postgres', async () => {
    const utc = await readLocalTimes(database.pool, {}, 'UTC')
    expect(utc.get('')?.(secondsSince2000('0001-01-01T00:00:00'))).toBe(0)
    const oslo = (await readLocalTimes(database.pool, {}, 'Europe/Oslo')).get('')
    expect(oslo?.(secondsSince2000('1979-12-31T23:59:59'))).toBeNull()
    expect(oslo?.(secondsSince2000('1980-01-01T00:00:00'))).toBe(3_600)
    expect(oslo?.(secondsSince2000('2059-12-31T23:59:59'))).toBe(3_600)
    expect(oslo?.(secondsSince2000('2060-01-01T00:00:00'))).toBeNull()
  })

  it('are written the same from the bytes of a page and from parsed records (P4)', async () => {
    const times = [
      '2024-03-31T01:59:59.9999999',
      '2024-03-31T02:30:00',
      '2024-03-31T03:00:00',
      '2024-10-27T01:59:59.5',
      '2024-10-27T02:30:00.1234567',
      '2024-10-27T03:00:00',
      '1905-07-01T12:00:00',
      '9999-12-31T23:59:59.9999999',
    ]
    const fieldZones = { assignment: { planned: 'America/New_York' } }
    const store = storeOf(database, { sourceTimezone: 'Europe/Oslo', fieldZones })
    const write = async (firstKey: number, read: (json: string) => Records) => {
      const records = times.map((at, index) => ({
        AssignmentId: firstKey + index,
        RowVersion: firstKey + index,
        Local: at,
        Planned: at,
        SignedUTC: at,
      }))
      const run = await begin(store)
      await run.pages.commit(read(JSON.stringify(records)), null)
      await run.finish(done)
      const { rows } = await database.pool.query(
        `select local, planned, signed_utc from mirror.assignment where assignment_id >= $1 order by assignment_id`,
        [firstKey],
      )
      return rows
    }
    const [key, versions] = [['AssignmentId'], ['RowVersion']]
    const parsed = await write(1, (json) => readRecords(JSON.parse(json), key, versions))
    const order = newFieldOrder()
    const found = await write(101, (json) => {
      const page = scanRecords(Buffer.from(json), order)
      if (!page) throw new Error('the list is not scanned')
      return readRecords(page, key, versions)
    })
    expect(parsed).toHaveLength(times.length)
    expect(found).toEqual(parsed)
  })
})
