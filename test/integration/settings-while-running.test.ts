// Settings that are changed while three workers run: taken up by all within five seconds, by the next run, and undone.

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { config } from '../../src/cli/config.ts'
import { sync } from '../../src/cli/sync.ts'
import { pageSizeOf, scheduleOf } from '../../src/config/dynamic-settings.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
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

async function post(worker: TestWorker, path: string, fields: Readonly<Record<string, string>>) {
  const response = await fetch(worker.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminToken}` },
    body: new URLSearchParams(fields),
  })
  return { status: response.status, json: (await response.json()) as { error?: string } }
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
    const tell = (...words: readonly string[]) => callCommand(config, words, environment)
    const everywhere = (seen: (dynamic: ReturnType<TestWorker['config']['dynamic']['now']>) => unknown) =>
      workers.map((worker) => seen(worker.config.dynamic.now()))
    /** Within five seconds, and what a busy machine takes beside that. */
    const takenUp = { timeout: 8_000, interval: 50 }
    try {
      await Promise.all(workers.map(({ live }) => live))
      await expect.poll(() => sizes.length, inTime).toBeGreaterThan(2)

      // While the first load reads page after page.
      const set = await tell('set', 'PAGE_SIZE', 'assignment=50', '--reason', 'a test')
      expect(set.stdout).toContain(
        'PAGE_SIZE_ASSIGNMENT is now 50 (override); before: as PAGE_SIZE says (default).',
      )
      await expect.poll(() => everywhere((now) => pageSizeOf(now, assignment)), takenUp).toEqual([50, 50, 50])
      expect(sizes).not.toContain(50)
      isSlow = false
      const isRead = async () =>
        (await pool.query('select from tidemark.stream where read_through_at is not null')).rowCount
      await expect.poll(isRead, inTime).toBe(1)
      expect(sizes).not.toContain(50)

      // From once an hour to once a second: nobody waits for the end of the hour.
      const runs = async () =>
        (
          await pool.query(
            `select coalesce(sum(polls), 0)::int as polls from tidemark.run where kind = 'incremental'`,
          )
        ).rows[0].polls
      const before = await runs()
      const changed = await post(first, '/settings/set', { target: 'SCHEDULE_ASSIGNMENT', value: '1s' })
      expect(changed).toMatchObject({
        status: 200,
        json: { name: 'SCHEDULE_ASSIGNMENT', value: '1s', source: 'override' },
      })
      await expect
        .poll(() => everywhere((now) => scheduleOf(now, assignment)), takenUp)
        .toEqual(workers.map(() => ({ everyMs: 1_000 })))
      await expect.poll(runs, takenUp).toBeGreaterThan(before + 2)
      simulator.source.change('assignment', 5)
      await expect.poll(() => sizes, inTime).toContain(50)

      // A command of its own reads by it, too.
      sizes.length = 0
      simulator.source.change('assignment', 6)
      await callCommand(sync, ['assignment'], environment)
      await expect.poll(() => sizes, inTime).toContain(50)
      expect(sizes).not.toContain(10)

      expect(await post(first, '/settings/unset', { target: 'PAGE_SIZE_ASSIGNMENT' })).toMatchObject({
        status: 200,
      })
      expect((await tell('unset', 'SCHEDULE_ASSIGNMENT')).stdout).toContain(
        'SCHEDULE_ASSIGNMENT is now 1h (the demo); before: 1s (override).',
      )
      await expect
        .poll(() => everywhere((now) => [pageSizeOf(now, assignment), scheduleOf(now, assignment)]), takenUp)
        .toEqual(workers.map(() => [10, { everyMs: 3_600_000 }]))
    } finally {
      await Promise.all(workers.map((worker) => worker.stop()))
    }
    const { rows: noted } = await pool.query(
      `select door, action, target, stream, reason, before, after, result from tidemark.action where action like '%Setting' order by id`,
    )
    const [name, size] = ['SCHEDULE_ASSIGNMENT', 'PAGE_SIZE_ASSIGNMENT']
    const done = { reason: null, result: 'done' }
    expect(noted).toEqual([
      {
        ...{
          ...done,
          door: 'terminal',
          action: 'setSetting',
          target: size,
          stream: 'assignment',
          reason: 'a test',
        },
        ...{ before: { [size]: 'as PAGE_SIZE says (default)' }, after: { [size]: '50 (override)' } },
      },
      {
        ...{ ...done, door: 'HTTP', action: 'setSetting', target: name, stream: 'assignment' },
        ...{ before: { [name]: '1h (the demo)' }, after: { [name]: '1s (override)' } },
      },
      {
        ...{ ...done, door: 'HTTP', action: 'unsetSetting', target: size, stream: 'assignment' },
        ...{ before: { [size]: '50 (override)' }, after: { [size]: 'as PAGE_SIZE says (default)' } },
      },
      {
        ...{ ...done, door: 'terminal', action: 'unsetSetting', target: name, stream: 'assignment' },
        ...{ before: { [name]: '1s (override)' }, after: { [name]: '1h (the demo)' } },
      },
    ])
  })
})

describe.skipIf(!hasPostgres)('a setting that cannot be changed so', () => {
  const database = createTestDatabase()

  it('is refused in one line, and a worker goes on without one that it cannot use', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const environment = environmentFor(simulator, database, variables)
    const worker = await startTestWorker(simulator, database, variables)
    try {
      await worker.live
      const refused = async (target: string, value: string) =>
        (await post(worker, '/settings/set', { target, value })).json.error
      expect(await refused('PAGE_SIZE', '0')).toBe(
        'PAGE_SIZE must be a whole number from 1 to 100000. Nothing was changed.',
      )
      expect(await refused('HTTP_PORT', '9')).toMatch(
        /^HTTP_PORT cannot be changed while workers run: set it/,
      )
      expect(await refused('PAGE_SIZ', '9')).toContain('did you mean PAGE_SIZE?')
      expect((await post(worker, '/settings/unset', { target: 'PAGE_SIZE' })).json.error).toContain(
        'nothing to undo',
      )
      await expect(callCommand(config, ['set', 'PAGE_SIZE=1e3'], environment)).rejects.toThrow(
        'PAGE_SIZE must be a whole number from 1 to 100000. Nothing was changed.',
      )
      const { rows } = await database.pool.query(
        `select count(*)::int as actions from tidemark.action where action like '%Setting' and result = 'refused'`,
      )
      expect(rows).toEqual([{ actions: 5 }])

      // As another version, or another program, may have left them.
      await database.pool.query(
        `insert into tidemark.setting_override (name, value, by)
         values ('OF_A_LATER_VERSION', '1', 'somebody'), ('PAGE_SIZE', '0', 'somebody'), ('STALE_AFTER', '2h', 'somebody')`,
      )
      await expect.poll(() => worker.config.dynamic.now().staleAfterMs, inTime).toBe(7_200_000)
      expect(worker.config.dynamic.now().pageSize).toBe(10)
      const logged = worker.logged().join('')
      expect(logged).toContain('A setting is not used as it was changed: PAGE_SIZE must be a whole number')
      expect(logged).toContain('A setting is not used as it was changed: OF_A_LATER_VERSION is no setting')
      const { settings, unknown } = JSON.parse((await callCommand(config, ['--json'], environment)).stdout)
      expect(settings).toContainEqual(
        expect.objectContaining({
          ...{
            name: 'PAGE_SIZE',
            value: '10',
            default: '1000',
            override: expect.objectContaining({ value: '0' }),
          },
          problem: '0 (override) is not used: PAGE_SIZE must be a whole number from 1 to 100000',
        }),
      )
      expect(unknown).toContainEqual({ name: 'OF_A_LATER_VERSION', source: 'override', did_you_mean: null })
      const removed = await callCommand(config, ['unset', 'OF_A_LATER_VERSION'], environment)
      expect(removed.stdout).toContain('was removed')
    } finally {
      await worker.stop()
    }
  })
})
