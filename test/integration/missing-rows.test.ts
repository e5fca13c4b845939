// From which time rows are that a listing lacked, whatever times there are.

import type { ClientBase } from 'pg'
import { describe, expect, it } from 'vitest'
import { spreadOf } from '../../src/store/runs/missing-rows.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'

describe.skipIf(!hasPostgres)('the spread of missing rows over time', () => {
  const database = createTestDatabase()

  const column = (name: string, type: 'bigint' | 'timestamptz' | 'date') => ({ name, type })

  /** Of a table of these times, of which the first are missing. */
  async function spread(
    type: 'timestamptz' | 'date',
    times: readonly string[],
    missing: number,
    after: (client: ClientBase) => Promise<void> = async () => {},
  ) {
    const client = await database.pool.connect()
    try {
      await client.query('begin')
      await client.query(`set local timezone = 'Europe/Stockholm'`)
      await client.query(
        `create table mirror.moment (moment_id bigint, reg_time ${type}, _deleted_at timestamptz)`,
      )
      await client.query(
        `insert into mirror.moment select place, at::${type} from unnest($1::text[]) with ordinality as one (at, place)`,
        [times],
      )
      await client.query(`create temporary table absent on commit drop as
        select moment_id::text as key from mirror.moment where moment_id <= ${missing}`)
      const found = await spreadOf(
        client,
        {
          stream: { name: 'moment' },
          key: column('moment_id', 'bigint'),
          columns: [column('moment_id', 'bigint'), column('reg_time', type)],
        } as unknown as Parameters<typeof spreadOf>[1],
        'pg_temp.absent',
        quietLog,
      )
      await after(client)
      return found
    } finally {
      await client.query('rollback')
      client.release()
    }
  }

  const manyTimes = (amount: number) =>
    Array.from(
      { length: amount },
      (_, index) => `2024-05-${String(1 + (index % 10)).padStart(2, '0')} 12:00:00Z`,
    )

  it.each([
    ['0001-01-01 00:00:00Z', 'before', 0],
    ['9999-12-31 00:00:00Z', 'after', -1],
    ['294276-12-31 00:00:00Z', 'after', -1],
  ] as const)(
    'is of the days that nearly all rows are of, though one is of %s',
    async (wrong, side, place) => {
      for (const amount of [20, 400]) {
        const found = await spread('timestamptz', [wrong, ...manyTimes(amount)], 11)
        expect(found).toMatchObject({ unit: 'day', before: side === 'before', after: side === 'after' })
        expect(found?.buckets.map(([from]) => from)).toEqual(
          Array.from({ length: 10 }, (_, index) => `2024-05-${String(1 + index).padStart(2, '0')}`),
        )
        // None is left out.
        expect(found?.buckets.map(([, missing]) => missing)).toEqual(
          Array.from({ length: 10 }, (_, index) => (index === (place === 0 ? 0 : 9) ? 2 : 1)),
        )
        expect(found?.buckets.reduce((sum, [, , rows]) => sum + rows, 0)).toBe(amount + 1)
      }
    },
  )

  it('keeps what is older than the newest years in the first of them', async () => {
    const times = Array.from({ length: 50 }, (_, index) => `${1975 + index}-02-01 00:00:00Z`)
    const found = await spread('timestamptz', times, 30)
    expect(found).toMatchObject({ unit: 'year', before: true })
    expect(found?.buckets).toHaveLength(25)
    expect(found?.buckets[0]?.slice(1)).toEqual([25, 25])
    expect(found?.buckets.reduce((sum, [, missing]) => sum + missing, 0)).toBe(30)
  })

  it('is not told when it cannot be, and does no harm to the transaction', async () => {
    const found = await spread('timestamptz', Array(20).fill('294276-12-31 00:00:00Z'), 5, async (client) => {
      expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    })
    expect(found).toBeNull()
  })

  it('counts a date as its day, whatever the zone of the server is', async () => {
    const found = await spread('date', ['2024-06-01', '2024-06-01', '2024-06-02'], 2)
    expect(found?.buckets).toEqual([
      ['2024-06-01', 2, 2],
      ['2024-06-02', 0, 1],
    ])
  })
})
