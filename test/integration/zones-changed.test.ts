// SOURCE_TIMEZONE or FIELD_TIMEZONES are changed after rows were read: the times of all rows are corrected (P4).

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

const settings = { RELATED: 'true', SOURCE_TIMEZONE: 'UTC' }
const changes = [
  ['SOURCE_TIMEZONE', 'Europe/Oslo', ['assignment', 'object', 'product'], true],
  ['SOURCE_TIMEZONE', 'Europe/Oslo', ['assignment', 'object', 'product'], false],
  [
    'FIELD_TIMEZONES',
    'assignment.plannedStart=Europe/Oslo,assignment_object.installedDate=Europe/Oslo',
    ['assignment', 'object'],
    true,
  ],
] as const

describe.skipIf(!hasPostgres).each(changes)('another %s', (name, value, corrected, isNoted) => {
  const database = createTestDatabase()

  it('has each stream read again once, lists and related records as well, and then no more (P4)', async () => {
    await using simulator = await startSimulator({ look: 'recorded', assignments: 60, objects: 20 })
    const readAll = async (variables: Readonly<Record<string, string>>) => {
      await using context = await openTestContext(database, simulator, { ...settings, ...variables })
      const outcomes = [
        await context.read(streamOf('assignment'), 'incremental', { signal }),
        await context.read(streamOf('assignment_object'), 'incremental', { signal }),
        await context.readRelated({ signal }),
      ]
      expect(outcomes.map(({ status }) => status)).toEqual(['done', 'done', 'done'])
      return outcomes.map(({ tally }) => tally.inserted + tally.updated)
    }
    const times = async () => {
      const { rows } = await database.pool.query<{ name: string; at: string }>(`
        select 'assignment' || assignment_id as name, planned_start::timestamp::text as at from mirror.assignment
        union all select 'object' || assignment_object_id, installed_date::timestamp::text from mirror.assignment_object
        union all select 'product' || assignment_product_id, reg_time::timestamp::text from mirror.assignment_product`)
      return new Map(rows.map(({ name, at }) => [name, at]))
    }
    await readAll({})
    const asUtc = await times()
    // As by a program that did not note the zones.
    if (!isNoted) await database.pool.query('update tidemark.stream set read_zones = null')
    await readAll({ [name]: value })
    const isCorrected = (row: string) => corrected.some((what) => row.startsWith(what))
    const { rows } = await database.pool.query<{ row: string; at: string }>(
      `select row, ((at::timestamp at time zone 'Europe/Oslo') at time zone 'UTC')::text as at
       from unnest($1::text[], $2::text[]) as told (row, at)`,
      [[...asUtc.keys()], [...asUtc.values()]],
    )
    expect(await times()).toEqual(
      new Map(rows.map(({ row, at }) => [row, isCorrected(row) ? at : asUtc.get(row)])),
    )
    for (const what of corrected)
      expect(
        [...asUtc].some(([row, at]) => row.startsWith(what) && at !== null),
        what,
      ).toBe(true)
    expect(await readAll({ [name]: value })).toEqual([0, 0, 0])
  })
})
