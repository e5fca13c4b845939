// People who ask the console for very much at once, in front of the real worker: its runs and other people are served meanwhile, and what
// nobody waits for any more is ended in Postgres.

import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { openReadingPool, openReadings } from '../../src/store/server/reading-pool.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { viewerToken } from '../support/served-actions.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const slowSearch = '/streams/assignment_note/rows?q=nothing+like+this'

describe.skipIf(!hasPostgres)('somebody who asks for very much', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let worker: TestWorker
  const rows = async <Row extends object>(sql: string): Promise<readonly Row[]> =>
    (await database.pool.query<Row>(sql)).rows
  /** How many sessions of the worker do something, by what they are for. */
  const busy = async (name: string, which = "state <> 'idle'") =>
    (
      await rows<{ pid: number }>(
        `select pid from pg_stat_activity where application_name = '${name}' and ${which}
         and datname = current_database()`,
      )
    ).length
  const waitsForTable = "wait_event_type = 'Lock'"
  const viewing = async (): Promise<Browsing> => {
    const browsing = openBrowsing(worker.url)
    expect((await browsing.signIn(viewerToken)).status).toBe(303)
    return browsing
  }

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 50, notes: 20 })
    worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment,assignment_note',
      SCHEDULE_ASSIGNMENT: '1h',
      SCHEDULE_ASSIGNMENT_NOTE: '1h',
      SCHEDULE_DELETIONS: '1h',
      VIEWER_TOKEN: viewerToken,
    })
    await worker.live
    await vi.waitFor(
      async () =>
        // Behind the first load the list is compared.
        expect(await rows('select from tidemark.stream where last_reconcile_at is not null')).toHaveLength(2),
      15_000,
    )
    // Otherwise the overview asks for the size of the tables, which a lock of one holds up.
    await rows('analyze mirror.assignment, mirror.assignment_note')
  })
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  it('as 80 searches keeps neither runs nor other people waiting, and is told to come again', async () => {
    const [greedy, other] = [await viewing(), await viewing()]
    const holder = await database.pool.connect()
    // Every search of notes waits until its time is up.
    await holder.query('begin; lock table mirror.assignment_note in access exclusive mode')
    try {
      let ended = 0
      const searches = Array.from({ length: 80 }, () => greedy.get(slowSearch).finally(() => ended++))
      await expect.poll(() => busy('tidemark console')).toBe(2)
      // A run of the notes may be among them.
      expect(await busy('tidemark', waitsForTable)).toBeLessThan(3)
      simulator.source.change('assignment', 7, { Subject: 'while others search' })
      const headers = { authorization: `Bearer ${adminToken}` }
      expect((await worker.post('/streams/assignment/sync', headers)).status).toBe(202)
      await expect
        .poll(() => rows(`select from mirror.assignment where subject = 'while others search'`), {
          timeout: 5_000,
          interval: 20,
        })
        .toHaveLength(1)
      for (const path of ['/', '/streams/assignment/rows?q=while', '/streams/assignment/rows.csv?q=while'])
        expect([path, (await other.get(path)).status]).toEqual([path, 200])
      expect(ended).toBeLessThan(80)
      const answers = await Promise.all(searches)
      const refused = answers.filter(({ headers }) => headers.get('retry-after') === '3')
      expect(refused.length).toBeGreaterThanOrEqual(72)
      expect(refused.every(({ status }) => status === 503)).toBe(true)
    } finally {
      await holder.query('rollback')
      holder.release()
    }
  }, 30_000)

  it('and leaves has nothing left in Postgres a moment later', async () => {
    const browsing = await viewing()
    const holder = await database.pool.connect()
    await holder.query('begin; lock table mirror.assignment_note in access exclusive mode')
    try {
      const going = new AbortController()
      const headers = { cookie: browsing.cookies() }
      const search = fetch(worker.url + slowSearch, { headers, signal: going.signal }).then(
        (answer) => answer.text(),
        () => 'left',
      )
      await expect.poll(() => busy('tidemark console')).toBeGreaterThan(0)
      going.abort()
      await search.catch(() => {})
      const leftAtMs = performance.now()
      await expect.poll(() => busy('tidemark console'), { timeout: 5_000, interval: 20 }).toBe(0)
      // By itself the query would end after two seconds.
      expect(performance.now() - leftAtMs).toBeLessThan(1_500)
      expect((await browsing.get('/streams/assignment/rows?q=1')).status).toBe(200)
    } finally {
      await holder.query('rollback')
      holder.release()
    }
  })

  it('by a token that is revoked meanwhile does not get the rest of a download (P20)', async () => {
    await rows(`update mirror.assignment_note set text = repeat('x', 900000)
      where assignment_note_id in (select assignment_note_id from mirror.assignment_note limit 200)`)
    const admin = openBrowsing(worker.url)
    await admin.signIn(adminToken)
    const made = await admin.submit('/tokens/create', { target: 'report', role: 'viewer' })
    const [token = 'none'] = /tidemark_[\w-]{43}/.exec(await made.text()) ?? []
    const answer = await fetch(`${worker.url}/streams/assignment_note/rows.csv?column=text`, {
      headers: { authorization: `Bearer ${token}` },
    })
    const reader = answer.body?.getReader()
    expect([answer.status, (await reader?.read())?.done]).toEqual([200, false])
    await admin.submit('/tokens/report/revoke')
    await setTimeout(2_100)
    let bytes = 0
    const rest = async () => {
      for (let part = await reader?.read(); part?.value; part = await reader?.read())
        bytes += part.value.length
    }
    await expect(rest()).rejects.toThrow('terminated')
    expect(bytes).toBeLessThan(60_000_000)
  })

  it('of `/metrics` shares one look, which takes no connection of the runs and goes on for nobody', async () => {
    const holder = await database.pool.connect()
    // What an earlier test asked for is not kept for longer.
    await setTimeout(2_000)
    await holder.query('begin; lock table tidemark.stream in access exclusive mode')
    try {
      const asked = Array.from({ length: 50 }, () => worker.get('/metrics'))
      await expect.poll(() => busy('tidemark console'), { timeout: 5_000, interval: 20 }).toBeGreaterThan(0)
      expect(await busy('tidemark console')).toBeLessThanOrEqual(4)
      for (const answer of await Promise.all(asked)) expect(answer.status).toBe(200)
      await expect.poll(() => busy('tidemark console'), { timeout: 5_000 }).toBe(0)
    } finally {
      await holder.query('rollback')
      holder.release()
    }
  })

  it('may ask one thing for so long and no longer, and change nothing', async () => {
    const pool = openReadingPool({
      database: { connection: { connectionString: database.url } },
      longestQueryMs: 50,
      log: quietLog,
    })
    // A firewall that forgets connections that say nothing hears from them.
    expect(pool.options).toMatchObject({ keepAlive: true, keepAliveInitialDelayMillis: 10_000 })
    const reading = openReadings(pool).for({ who: 'test', gone: new AbortController().signal })
    try {
      await expect(reading.query('select pg_sleep(5)')).rejects.toMatchObject({ code: '57014' })
      await expect(reading.query('delete from tidemark.run')).rejects.toMatchObject({ code: '25006' })
      expect((await reading.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    } finally {
      await pool.end()
    }
  })
})
