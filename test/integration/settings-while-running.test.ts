// Settings that are changed while three workers run: taken up by all within five seconds, by the next run, and undone; refused; of another
// version.

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { config } from '../../src/cli/config.ts'
import { sync } from '../../src/cli/sync.ts'
import { type DynamicValues, pageSizeOf, scheduleOf } from '../../src/config/dynamic-settings.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { makeDue } from '../../src/store/book/due.ts'
import { knownStreams } from '../../src/streams/catalog.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { callCommand } from '../support/verbs.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const [assignment] = knownStreams
const variables = {
  ...{ STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1h', SCHEDULE_DELETIONS: '1h', LOOKBACK: '10h' },
  ...{ PAGE_SIZE: '10', LOAD_CONNECTIONS: '1' },
}
const inTime = { timeout: 30_000, interval: 50 }
/** Within five seconds, and what a busy machine takes beside that. */
const takenUp = { timeout: 15_000, interval: 50 }
const [schedule, size] = ['SCHEDULE_ASSIGNMENT', 'PAGE_SIZE_ASSIGNMENT']
const [usual, usualSize] = ['1h (the demo)', 'as PAGE_SIZE says (default)']

async function post(worker: TestWorker, path: string, fields: Readonly<Record<string, string>>) {
  const response = await fetch(worker.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminToken}` },
    body: new URLSearchParams(fields),
  })
  return { status: response.status, ...((await response.json()) as { error?: string }) }
}

describe.skipIf(!hasPostgres)('a setting that is changed while workers run', () => {
  const database = createTestDatabase()

  it('is taken up by all of them within five seconds, leaves a run alone that is under way, and is undone', async () => {
    const { pool } = database
    await using simulator = await startSimulator({ assignments: 200 })
    const sizes: number[] = []
    let isSlow = true
    simulator.onRequest(async ({ path, query }) => {
      if (!path.includes('Assignment/neworchanged')) return
      if (Number(query.PageSize) > 1) sizes.push(Number(query.PageSize))
      if (isSlow) await wait(100)
    })
    const start = () => startTestWorker(simulator, database, variables)
    const first = await start()
    const workers = [first, await start(), await start()]
    const environment = environmentFor(simulator, database, variables)
    const tell = async (...words: readonly string[]) => (await callCommand(config, words, environment)).stdout
    const everywhere = (seen: (settings: DynamicValues) => unknown) =>
      workers.map((worker) => seen(worker.config.dynamic.now()))
    const all = (value: unknown) => workers.map(() => value)
    const number = async (sql: string): Promise<number> =>
      (await pool.query(`select (${sql})::int as number`)).rows[0].number
    try {
      await Promise.all(workers.map(({ live }) => live))
      await expect.poll(() => sizes.length, inTime).toBeGreaterThan(2)

      // While the first load reads page after page.
      expect(await tell('set', 'PAGE_SIZE', 'assignment=50', '--reason', 'a test')).toContain(
        `${size} is now 50 (override); before: ${usualSize}.`,
      )
      await expect.poll(() => everywhere((now) => pageSizeOf(now, assignment)), takenUp).toEqual(all(50))
      isSlow = false
      const read = `select count(*) from tidemark.stream where read_through_at is not null`
      await expect.poll(() => number(read), inTime).toBe(1)
      expect(sizes).not.toContain(50)

      // From once an hour to once a second: nobody waits for the end of the hour.
      const polls = `select coalesce(sum(polls), 0) from tidemark.run where kind = 'incremental'`
      const before = await number(polls)
      await tell('set', 'HISTORY=assignment')
      expect(await post(first, '/settings/set', { target: schedule, value: '1s' })).toMatchObject({
        ...{ status: 200, name: schedule, value: '1s', source: 'override' },
      })
      await expect
        .poll(() => everywhere((now) => scheduleOf(now, assignment)), takenUp)
        .toEqual(all({ everyMs: 1_000 }))
      await expect.poll(() => number(polls), takenUp).toBeGreaterThan(before + 2)
      simulator.source.change('assignment', 5)
      await expect.poll(() => sizes, inTime).toContain(50)
      await expect
        .poll(() => number('select count(*) from mirror.assignment_history'), inTime)
        .toBeGreaterThan(0)

      // A command of its own reads by it, too.
      sizes.length = 0
      simulator.source.change('assignment', 6)
      await callCommand(sync, ['assignment'], environment)
      await expect.poll(() => sizes, inTime).toContain(50)
      expect(sizes).not.toContain(10)

      expect(await post(first, '/settings/unset', { target: size })).toMatchObject({ status: 200 })
      expect(await tell('unset', 'SCHEDULE', 'assignment')).toContain(
        `${schedule} is now ${usual}; before: 1s (override).`,
      )
      await expect
        .poll(() => everywhere((now) => [pageSizeOf(now, assignment), scheduleOf(now, assignment)]), takenUp)
        .toEqual(all([10, { everyMs: 3_600_000 }]))
      const { rows: noted } = await pool.query(
        `select concat_ws(' ', door, action, target, stream, result, reason) as what, before, after
         from tidemark.action where target = any ($1) order by id`,
        [[size, schedule]],
      )
      const [atFifty, eachSecond] = ['50 (override)', '1s (override)']
      expect(noted).toEqual([
        {
          what: `terminal setSetting ${size} assignment done a test`,
          ...{ before: { [size]: usualSize }, after: { [size]: atFifty } },
        },
        {
          what: `HTTP setSetting ${schedule} assignment done`,
          ...{ before: { [schedule]: usual }, after: { [schedule]: eachSecond } },
        },
        {
          what: `HTTP unsetSetting ${size} assignment done`,
          ...{ before: { [size]: atFifty }, after: { [size]: usualSize } },
        },
        {
          what: `terminal unsetSetting ${schedule} assignment done`,
          ...{ before: { [schedule]: eachSecond }, after: { [schedule]: usual } },
        },
      ])

      await isRefusedInOneLine(first, environment)
      expect(await number(`select count(*) from tidemark.action where result = 'refused'`)).toBe(5)

      // So is what is asked for at the terminal: the next reading by the schedule is far away.
      await makeDue(pool, { stream: 'assignment', kind: 'incremental' })
      await expect.poll(() => number('select count(*) from tidemark.due'), takenUp).toBe(0)
      // Nobody reads what BullMQ would write of each step of a job.
      expect(await number('select count(*) from bullmq.event')).toBe(0)

      // As another version, or another program, may have left them.
      await pool.query(
        `insert into tidemark.setting_override (name, value, by)
         values ('OF_A_LATER_VERSION', '1', 'somebody'), ('PAGE_SIZE', '0', 'somebody'), ('STALE_AFTER', '2h', 'somebody')`,
      )
      await expect
        .poll(() => everywhere((now) => [now.staleAfterMs, now.pageSize]), takenUp)
        .toEqual(all([7_200_000, 10]))
      const logged = first.logged().join('')
      expect(logged).toContain('A setting is not used as it was changed: PAGE_SIZE must be a whole number')
      expect(logged).toContain('A setting is not used as it was changed: OF_A_LATER_VERSION is no setting')
      const { settings, unknown } = JSON.parse(await tell('--json'))
      expect(settings).toContainEqual(
        expect.objectContaining({
          ...{ name: 'PAGE_SIZE', value: '10', default: '1000' },
          override: expect.objectContaining({ value: '0', by: 'somebody' }),
          problem: '0 (override) is not used: PAGE_SIZE must be a whole number from 1 to 100000',
        }),
      )
      expect(unknown).toContainEqual({ name: 'OF_A_LATER_VERSION', source: 'override', did_you_mean: null })
      expect(await tell('unset', 'OF_A_LATER_VERSION')).toContain('was removed')
    } finally {
      await Promise.all(workers.map((worker) => worker.stop()))
    }
  })
})

async function isRefusedInOneLine(worker: TestWorker, environment: ReturnType<typeof environmentFor>) {
  const refused = async (target: string, value: string) =>
    (await post(worker, '/settings/set', { target, value })).error
  const outOfRange = 'PAGE_SIZE must be a whole number from 1 to 100000. Nothing was changed.'
  expect(await refused('PAGE_SIZE', '0')).toBe(outOfRange)
  expect(await refused('HTTP_PORT', '9')).toMatch(/^HTTP_PORT cannot be changed while workers run: set it/)
  expect(await refused('PAGE_SIZ', '9')).toContain('did you mean PAGE_SIZE?')
  const nothing = await post(worker, '/settings/unset', { target: 'PAGE_SIZE' })
  expect(nothing).toMatchObject({ status: 400, error: expect.stringContaining('nothing to undo') })
  await expect(callCommand(config, ['set', 'PAGE_SIZE=1e3'], environment)).rejects.toThrow(outOfRange)
}
