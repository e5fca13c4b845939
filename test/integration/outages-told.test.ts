// What people are told of an outage: on its card what the upstream answered, and when it is over that it is.

import { describe, expect, it } from 'vitest'
import { readHappeningsInWords } from '../../src/operator/happenings.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { noteEnd, noteProblems } from '../../src/store/book/problems.ts'
import { openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'
import { adminToken, startTestWorker } from '../support/worker.ts'

const soon = { timeout: 90_000, interval: 200 }

describe.skipIf(!hasPostgres)('an outage', () => {
  const database = createTestDatabase({ forEach: true })

  it('shows what the upstream answers to those who signed in, and is told when it is over', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment',
      SCHEDULE_ASSIGNMENT: '1s',
    })
    const stranger = openBrowsing(worker.url)
    const operator = openBrowsing(worker.url)
    const shown = async (browsing: typeof operator) => await (await browsing.get('/')).text()
    try {
      await operator.signIn(adminToken)
      await expect.poll(() => shown(operator), soon).toContain('Everything is up to date')
      const mend = simulator.faults.add({ kind: 503 })
      await expect.poll(() => shown(operator), soon).toMatch(/What was seen last: <bdi>.*status 503/)
      expect(await shown(stranger)).toContain('to see what it answered')
      expect(await shown(stranger)).not.toContain('status 503')
      mend()
      await expect
        .poll(() => shown(operator), soon)
        .toMatch(
          /The assignment service works again after [\d.]+ (s|m)[^;]*; (all is read again|nothing was missed)/,
        )
    } finally {
      await worker.stop()
    }
  })

  it('P18: of Postgres or the queue is told too, and nothing was missed only once all was read and compared since', async () => {
    const { pool } = database
    const streams = (['assignment', 'webhook_subscription', 'tracker_object'] as const).map(streamOf)
    const texts = async (of = streams) => (await readHappeningsInWords(pool, of)).map(({ text }) => text)
    const read = (when: string, name = 'assignment') =>
      pool.query(
        `insert into tidemark.stream (name, position, read_through_at) values ($1, $2, ${when})
         on conflict (name) do update set read_through_at = excluded.read_through_at`,
        [name, name === 'assignment' ? 7 : 0],
      )
    const settle = () =>
      pool.query('update tidemark.stream set settled_through_at = now(), deletions_known_at = now()')
    const ended = (name: string, seconds: number) => ({
      ...{ key: `part_down:${name}`, kind: 'part_down', what: `${name} did not work.` },
      since: new Date(Date.now() - seconds * 1_000),
    })
    for (const { name } of streams) await read(`now() - interval '1 minute'`, name)
    await noteEnd(pool, ended('database', 23))
    expect(await texts()).toEqual([
      'Postgres works again after 23 s; not read again yet: assignment, webhook_subscription, tracker_object',
    ])
    await read('now()')
    expect(await texts()).toEqual([
      'Postgres works again after 23 s; not read again yet: webhook_subscription, tracker_object',
    ])
    for (const { name } of streams) await read('now()', name)
    expect(await texts()).toEqual([
      'Postgres works again after 23 s; all is read again, late changes or deletions are still to be looked for in assignment, webhook_subscription, tracker_object',
    ])
    // One that was noted while it lasted is told once.
    await noteProblems(pool, [{ ...ended('queue', 40), stream: null }])
    await noteEnd(pool, ended('queue', 12))
    await noteEnd(pool, ended('queue', 12))
    // Whoever looked before.
    await noteProblems(pool, [{ ...ended('queue', 12), stream: null }])
    for (const { name } of streams) await read('clock_timestamp()', name)
    await settle()
    expect(await texts()).toEqual([
      'The queue works again after 40 s; nothing was missed',
      'Postgres works again after 23 s; nothing was missed',
    ])
    // An outage of one service says nothing of the streams of another.
    const down = { kind: 'service_down', what: 'tracking does not answer.', since: new Date() }
    await noteEnd(pool, { ...down, key: 'service_down:tracking' })
    expect((await texts())[0]).toMatch(
      /^The tracking service works again after .*; not read again yet: tracker_object$/,
    )
    expect((await texts([streamOf('assignment')]))[0]).toMatch(
      /^The tracking service works again after [^;]*$/,
    )
  })
})
