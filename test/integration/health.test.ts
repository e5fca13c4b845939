// What a worker says of itself from its first second on: which parts work, why one does not, and that somebody is told.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { startAlertReceiver } from '../support/receiver.ts'
import { callVerb } from '../support/verbs.ts'
import { adminToken, startTestWorker } from '../support/worker.ts'

const nowhere = '127.0.0.1:1'
const inTime = { timeout: 20_000, interval: 100 }

describe.skipIf(!hasPostgres)('a worker that starts', { concurrent: false }, () => {
  const database = createTestDatabase()

  it('without its Postgres says so on /readyz and /metrics from the first second', async () => {
    await using simulator = await startSimulator({ assignments: 3 })
    const worker = await startTestWorker(simulator, { url: `postgres://a:b@${nowhere}/mirror` })
    worker.live.catch(() => {})
    try {
      const readiness = async () => {
        const answer = await worker.get('/readyz')
        return [answer.status, await answer.json()]
      }
      expect(await readiness()).toMatchObject([
        503,
        {
          status: 'not ready',
          parts: {
            database: { up: false, state: 'not yet', reason: expect.any(String) },
            queue: {
              up: false,
              state: 'not yet',
              reason: expect.stringContaining('No job has gone through'),
            },
            assignment: { up: false, state: 'not yet' },
          },
        },
      ])
      for (const part of ['database', 'queue', 'assignment', 'tracking'])
        expect([part, await worker.metric(`tidemark_up{part="${part}"}`)]).toEqual([part, 0])
      await expect
        .poll(async () => JSON.stringify(await readiness()), inTime)
        .toContain(`Postgres at ${nowhere}/mirror cannot be reached`)
      expect(JSON.stringify(await readiness())).toContain('Check DATABASE_URL')
      expect((await worker.get('/healthz')).status).toBe(200)
      const headers = { authorization: `Bearer ${adminToken}` }
      expect((await worker.post('/sessions/end', headers)).status).toBe(200)
      expect(worker.logged().join('')).toContain('sessions end without a record')
    } finally {
      await worker.stop()
    }
  })

  it('without its Redis notes in Postgres what it waits for, and says it on its pages', async () => {
    await using simulator = await startSimulator({ assignments: 3 })
    const worker = await startTestWorker(simulator, database, { REDIS_URL: `redis://${nowhere}` })
    worker.live.catch(() => {})
    try {
      const noted = async () => {
        const { rows } = await database.pool.query('select waits from tidemark.worker')
        return JSON.stringify(rows)
      }
      await expect.poll(noted, inTime).toContain(`Redis at ${nowhere} cannot be used`)
      const { stdout } = await callVerb(['status'], { DATABASE_URL: database.url })
      expect(stdout).toContain('The queue does not work: Redis at')
      await expect.poll(async () => (await worker.get('/')).status, inTime).toBe(200)
      const text = await (await worker.get('/')).text()
      expect(text).toContain('The queue does not work: Redis at')
      expect(text).toContain('No stream is read until the queue works.')
      expect(text).toContain('href="/workers">Workers</a></div></article>')
      expect(await (await worker.get('/workers')).text()).toContain('Not known until the queue answers.')
      expect((await worker.get('/streams/assignment')).status).toBe(200)
      expect(await worker.metric('tidemark_paused{stream="assignment"}')).toBe(0)
      expect(await worker.metric('tidemark_up{part="database"}')).toBe(1)
      expect(await worker.metric('tidemark_up{part="queue"}')).toBe(0)
      expect(await worker.metric('tidemark_problems{kind="part_down"}')).toBe(1)
      const headers = { authorization: `Bearer ${adminToken}` }
      expect((await worker.post('/streams/assignment/sync', headers)).status).toBe(503)
      expect((await worker.post('/sessions/end', headers)).status).toBe(200)
      const { rows } = await database.pool.query(
        `select result from tidemark.action where action = 'endSessions'`,
      )
      expect(rows).toEqual([{ result: 'done' }])
    } finally {
      await worker.stop()
    }
  })
})

describe.skipIf(!hasPostgres).concurrent('somebody is told within two minutes', () => {
  const database = createTestDatabase()
  /** Ten seconds of the test are more than a minute and a half for the alerts. */
  const tenTimesAsFast = () => {
    const [startedMs, fromMs] = [performance.now(), Date.now()]
    return () => new Date(fromMs + 10 * (performance.now() - startedMs))
  }

  it.for([
    ['its Postgres', () => ({ url: `postgres://a:b@${nowhere}/mirror` }), {}, 'Postgres does not work'],
    ['its queue', () => database, { REDIS_URL: `redis://${nowhere}` }, 'The queue does not work'],
  ] as const)(
    'of a worker that was started while %s was away',
    async ([, mirror, variables, text], { expect }) => {
      await using simulator = await startSimulator({ assignments: 3 })
      await using receiver = await startAlertReceiver()
      const settings = { ...variables, ALERT_WEBHOOK_URL: receiver.url }
      const worker = await startTestWorker(simulator, mirror(), settings, { now: tenTimesAsFast() })
      worker.live.catch(() => {})
      try {
        await expect.poll(() => receiver.told, { timeout: 50_000, interval: 200 }).toHaveLength(1)
        expect(receiver.told[0]).toContain(text)
        expect(receiver.told[0]).toMatch(/Check (DATABASE_URL|REDIS_URL)/)
        expect(await worker.metric('tidemark_up{part="alerts"}')).toBe(1)
      } finally {
        await worker.stop()
      }
    },
  )
})
