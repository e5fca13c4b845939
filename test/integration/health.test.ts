// What a worker says of itself from its first second on: which parts work, why one does not, and that somebody is told. The rules for
// Prometheus are evaluated on what a real worker exports in each fault: they are silent while all is well, and notice a fault within two
// minutes when nobody does anything but scrape.

import { readFileSync } from 'node:fs'
import { describe, type ExpectStatic, expect, it } from 'vitest'
import { parse } from 'yaml'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { databaseOf, hasPostgres, type TestDatabase } from '../support/database.ts'
import { evaluate, samplesOf } from '../support/prometheus.ts'
import { startAlertReceiver } from '../support/receiver.ts'
import { callVerb } from '../support/verbs.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const nowhere = '127.0.0.1:1'

// Most of it is waiting, so all of these workers run side by side.
describe.skipIf(!hasPostgres).concurrent('a worker that starts', () => {
  it('without its Postgres says so on /readyz and /metrics from the first second', async ({ expect }) => {
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
        .poll(async () => JSON.stringify(await readiness()))
        .toContain(`Postgres at ${nowhere}/mirror cannot be reached`)
      expect(JSON.stringify(await readiness())).toContain('Check DATABASE_URL')
      expect((await worker.get('/healthz')).status).toBe(200)
      const headers = { authorization: `Bearer ${adminToken}` }
      const ended = await worker.post('/sessions/end', headers)
      expect([ended.status, await ended.text()]).toEqual([503, expect.stringContaining('database')])
    } finally {
      await worker.stop()
    }
  })

  it('without its Redis notes in Postgres what it waits for, and says it on its pages', async (test) => {
    const { expect } = test
    const database = await databaseOf(test)
    await using simulator = await startSimulator({ assignments: 3 })
    const worker = await startTestWorker(simulator, database, { REDIS_URL: `redis://${nowhere}` })
    worker.live.catch(() => {})
    try {
      const noted = async () => {
        const { rows } = await database.pool.query('select waits from tidemark.worker')
        return JSON.stringify(rows)
      }
      await expect.poll(noted).toContain(`Redis at ${nowhere} cannot be used`)
      const { stdout } = await callVerb(['status'], { DATABASE_URL: database.url })
      expect(stdout).toContain('The queue does not work: Redis at')
      await expect.poll(async () => (await worker.get('/')).status).toBe(200)
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
  /** Ten seconds of the test are more than a minute and a half for the alerts. */
  const tenTimesAsFast = () => {
    const [startedMs, fromMs] = [performance.now(), Date.now()]
    return () => new Date(fromMs + 10 * (performance.now() - startedMs))
  }

  it.for([
    ['its Postgres', { DATABASE_URL: `postgres://a:b@${nowhere}/mirror` }, 'Postgres does not work'],
    ['its queue', { REDIS_URL: `redis://${nowhere}` }, 'The queue does not work'],
  ] as const)('of a worker that was started while %s was away', async ([, variables, text], test) => {
    const { expect } = test
    const database = await databaseOf(test)
    await using simulator = await startSimulator({ assignments: 3 })
    await using receiver = await startAlertReceiver()
    const settings = { ...variables, ALERT_WEBHOOK_URL: receiver.url }
    const worker = await startTestWorker(simulator, database, settings, { now: tenTimesAsFast() })
    worker.live.catch(() => {})
    try {
      await expect.poll(() => receiver.told, { timeout: 50_000, interval: 200 }).toHaveLength(1)
      expect(receiver.told[0]).toContain(text)
      expect(receiver.told[0]).toMatch(/Check (DATABASE_URL|REDIS_URL)/)
      expect(await worker.metric('tidemark_up{part="alerts"}')).toBe(1)
    } finally {
      await worker.stop()
    }
  })
})

type Rule = { alert: string; expr: string; for?: string }
const { groups }: { groups: { rules: Rule[] }[] } = parse(
  readFileSync(new URL('../../deploy/prometheus/alerts.yml', import.meta.url), 'utf8'),
)
const rules = groups.flatMap((group) => group.rules)
const fired = (text: string): readonly string[] => {
  const samples = samplesOf(text)
  return rules.filter(({ expr }) => evaluate(expr, samples).length > 0).map(({ alert }) => alert)
}

const proven = new Set<string>()

const firedBy = (worker: TestWorker) => async () => fired(await (await worker.get('/metrics')).text())
async function expectFired(
  expect: ExpectStatic,
  worker: TestWorker,
  wanted: readonly string[],
  before: () => Promise<unknown> = async () => {},
): Promise<void> {
  await expect.poll(() => before().then(firedBy(worker))).toEqual(expect.arrayContaining([...wanted]))
  for (const alert of wanted) proven.add(alert)
}

describe.skipIf(!hasPostgres).concurrent('the alert rules', () => {
  it('are silent while all is well, and notice a worker that is gone', async (test) => {
    const { expect } = test
    const database = await databaseOf(test)
    await using simulator = await startSimulator({ assignments: 5, notes: 5, trackers: 2, objects: 2 })
    const worker = await startTestWorker(simulator, database)
    try {
      await expect.poll(() => worker.metric('tidemark_lag_seconds{stream="assignment_note"}')).not.toBeNull()
      await expect.poll(firedBy(worker)).toEqual([])
    } finally {
      await worker.stop()
    }
    expect(fired('')).toContain('TidemarkWorkerDown')
    proven.add('TidemarkWorkerDown')
  })

  it('notice from the first second that a worker has no Postgres', async ({ expect }) => {
    await using simulator = await startSimulator()
    const worker = await startTestWorker(simulator, { url: `postgres://a:b@${nowhere}/mirror` })
    worker.live.catch(() => {})
    try {
      expect(await firedBy(worker)()).toEqual([
        'TidemarkPartDown',
        'TidemarkServiceDown',
        'TidemarkStreamsUnknown',
      ])
      proven.add('TidemarkStreamsUnknown')
    } finally {
      await worker.stop()
    }
  })

  it('notice that a worker has no queue, and a receiver of alerts that refuses them', async (test) => {
    const { expect } = test
    const database = await databaseOf(test)
    await using simulator = await startSimulator()
    await using receiver = await startAlertReceiver()
    receiver.answer = 500
    const startedMs = performance.now()
    const worker = await startTestWorker(
      simulator,
      database,
      { REDIS_URL: `redis://${nowhere}`, ALERT_WEBHOOK_URL: receiver.url },
      { now: () => new Date(Date.now() + 20 * (performance.now() - startedMs)) },
    )
    worker.live.catch(() => {})
    try {
      await expectFired(expect, worker, ['TidemarkPartDown'])
      await expect.poll(() => worker.metric('tidemark_up{part="alerts"}')).toBe(0)
      expect(await (await worker.get('/readyz')).text()).toContain('the receiver answered 500')
    } finally {
      await worker.stop()
    }
  })

  it('notice a service that is down, and what Postgres says of the streams meanwhile', async (test) => {
    const { expect } = test
    const database = await databaseOf(test)
    await using simulator = await startSimulator({ assignments: 5, trackers: 2 })
    const worker = await startTestWorker(simulator, database, {
      SCHEDULE_ASSIGNMENT: '1s',
      REQUEST_TIMEOUT: '1s',
    })
    try {
      await expect.poll(() => worker.metric('tidemark_lag_seconds{stream="assignment"}')).not.toBeNull()
      simulator.faults.add({ kind: 503, every: 2 })
      await expectFired(expect, worker, ['TidemarkRetries'])
      simulator.faults.add({ kind: 503 })
      await expectFired(expect, worker, ['TidemarkServiceDown'])
      await makeIll(database)
      await expectFired(expect, worker, [
        ...['TidemarkAccessLost', 'TidemarkLag', 'TidemarkDeletionsBlocked', 'TidemarkQuarantine'],
        ...['TidemarkMissedRows', 'TidemarkUpstreamChanged', 'TidemarkNeedsYou', 'TidemarkDeletionsFrozen'],
      ])
    } finally {
      await worker.stop()
    }
  })

  it('notice a sign-in that is refused, runs that fail and a stream that is stale', async (test) => {
    const { expect } = test
    const database = await databaseOf(test)
    await using simulator = await startSimulator({ assignments: 5, notes: 5 })
    const worker = await startTestWorker(simulator, database, {
      ...{ STREAMS: 'assignment,assignment_note', SCHEDULE_ASSIGNMENT: '1h', SCHEDULE_ASSIGNMENT_NOTE: '1h' },
    })
    try {
      await expect.poll(() => worker.metric('tidemark_lag_seconds{stream="assignment_note"}')).not.toBeNull()
      await database.pool.query(
        `insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to, started_at, finished_at, error, error_code)
         select stream, 'verify', 'failed', 'there', 1, 0, 0, now(), now() + nth * interval '1 minute', 'refused', code
         from (values ('assignment', null), ('assignment_note', 'UPSTREAM_SIGN_IN')) as given (stream, code), generate_series(1, 3) as nth`,
      )
      await expectFired(expect, worker, ['TidemarkTokenRefused'])
      await database.pool.query(
        `update tidemark.run set error_code = 'UPSTREAM_ASKS_LATER' where error_code = 'UPSTREAM_SIGN_IN'`,
      )
      await expectFired(expect, worker, ['TidemarkToldToWait'])
      await database.pool.query(`delete from tidemark.run where error_code = 'UPSTREAM_ASKS_LATER'`)
      // Again before each look, because the worker reads what is overdue now and then.
      await expectFired(expect, worker, ['TidemarkFailing', 'TidemarkStale'], () =>
        database.pool.query(
          `update tidemark.stream set read_through_at = now() - interval '5 hours' where name = 'assignment_note'`,
        ),
      )
    } finally {
      await worker.stop()
    }
  })
})

describe.skipIf(!hasPostgres)('the alert rules', () => {
  it('notice faults of parts within two minutes of scraping each 30 s', () => {
    const ofParts = rules.filter(({ alert }) =>
      /^Tidemark(?:WorkerDown|PartDown|ServiceDown|StreamsUnknown)$/.test(alert),
    )
    expect(ofParts.map((rule) => rule.for)).toEqual(['1m', '1m', '1m', '1m'])
  })

  it('were each seen to notice something', () => {
    expect(rules.map(({ alert }) => alert).filter((alert) => !proven.has(alert))).toEqual([])
  })
})

async function makeIll({ pool }: Pick<TestDatabase, 'pool'>): Promise<void> {
  await pool.query(
    `update tidemark.stream set read_through_at = now() - interval '2 hours', hidden_since = now(),
       blocked_deletions = '{"missing": 3, "living": 4}' where name = 'assignment';
     update tidemark.stream set blocked_deletions = '{"missing": 1, "living": 2, "rejected": {"by": "ada"}}'
       where name = 'tracker_object';
     update tidemark.stream set stuck_runs = 3, stuck_since = now() where name = 'assignment_note';
     insert into tidemark.quarantine (stream, reason, fingerprint) values ('assignment', 'no key', 'x');
     insert into tidemark.missed_rows (stream, run_id, rows, samples) values ('assignment', 1, 2, '[]');
     insert into tidemark.local_change (stream, operation, transaction) values ('assignment', 'delete', '1')`,
  )
}
