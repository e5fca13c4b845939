// The rules for Prometheus, each evaluated on what a real worker exports in each fault: they are silent while all is well, and notice a
// fault within two minutes when nobody does anything but scrape.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres, type TestDatabase } from '../support/database.ts'
import { evaluate, samplesOf } from '../support/prometheus.ts'
import { startAlertReceiver } from '../support/receiver.ts'
import { startTestWorker, type TestWorker } from '../support/worker.ts'

type Rule = { alert: string; expr: string; for?: string }
const { groups }: { groups: { rules: Rule[] }[] } = parse(
  readFileSync(new URL('../../deploy/prometheus/alerts.yml', import.meta.url), 'utf8'),
)
const rules = groups.flatMap((group) => group.rules)
const fired = (text: string): readonly string[] => {
  const samples = samplesOf(text)
  return rules.filter(({ expr }) => evaluate(expr, samples).length > 0).map(({ alert }) => alert)
}

const nowhere = '127.0.0.1:1'
const inTime = { timeout: 30_000, interval: 200 }
const proven = new Set<string>()

describe.skipIf(!hasPostgres)('the alert rules', { concurrent: false }, () => {
  const database = createTestDatabase({ forEach: true })
  const firedBy = (worker: TestWorker) => async () => fired(await (await worker.get('/metrics')).text())
  async function expectFired(
    worker: TestWorker,
    wanted: readonly string[],
    before: () => Promise<unknown> = async () => {},
  ): Promise<void> {
    await expect
      .poll(() => before().then(firedBy(worker)), inTime)
      .toEqual(expect.arrayContaining([...wanted]))
    for (const alert of wanted) proven.add(alert)
  }

  it('notice faults of parts within two minutes of scraping each 30 s', () => {
    const ofParts = rules.filter(({ alert }) =>
      /^Tidemark(?:WorkerDown|PartDown|ServiceDown|StreamsUnknown)$/.test(alert),
    )
    expect(ofParts.map((rule) => rule.for)).toEqual(['1m', '1m', '1m', '1m'])
  })

  it('are silent while all is well, and notice a worker that is gone', async () => {
    await using simulator = await startSimulator({ assignments: 5, notes: 5, trackers: 2, objects: 2 })
    const worker = await startTestWorker(simulator, database)
    try {
      await expect
        .poll(() => worker.metric('tidemark_lag_seconds{stream="assignment_note"}'), inTime)
        .not.toBeNull()
      await expect.poll(firedBy(worker), inTime).toEqual([])
    } finally {
      await worker.stop()
    }
    expect(fired('')).toContain('TidemarkWorkerDown')
    proven.add('TidemarkWorkerDown')
  })

  it('notice from the first second that a worker has no Postgres', async () => {
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

  it('notice that a worker has no queue, and a receiver of alerts that refuses them', async () => {
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
      await expectFired(worker, ['TidemarkPartDown'])
      await expect.poll(() => worker.metric('tidemark_up{part="alerts"}'), inTime).toBe(0)
      expect(await (await worker.get('/readyz')).text()).toContain('the receiver answered 500')
    } finally {
      await worker.stop()
    }
  })

  it('notice a service that is down, and what Postgres says of the streams meanwhile', async () => {
    await using simulator = await startSimulator({ assignments: 5, trackers: 2 })
    const worker = await startTestWorker(simulator, database, {
      SCHEDULE_ASSIGNMENT: '1s',
      REQUEST_TIMEOUT: '1s',
    })
    try {
      await expect
        .poll(() => worker.metric('tidemark_lag_seconds{stream="assignment"}'), inTime)
        .not.toBeNull()
      simulator.faults.add({ kind: 503 })
      await expectFired(worker, ['TidemarkServiceDown', 'TidemarkRetries'])
      await makeIll(database)
      await expectFired(worker, [
        ...['TidemarkAccessLost', 'TidemarkLag', 'TidemarkDeletionsBlocked', 'TidemarkQuarantine'],
        ...['TidemarkMissedRows', 'TidemarkUpstreamChanged', 'TidemarkNeedsYou', 'TidemarkDeletionsFrozen'],
      ])
    } finally {
      await worker.stop()
    }
  })

  it('notice a sign-in that is refused, runs that fail and a stream that is stale', async () => {
    await using simulator = await startSimulator({ assignments: 5, notes: 5 })
    const worker = await startTestWorker(simulator, database, {
      ...{ STREAMS: 'assignment,assignment_note', SCHEDULE_ASSIGNMENT: '1h', SCHEDULE_ASSIGNMENT_NOTE: '1h' },
    })
    try {
      await expect
        .poll(() => worker.metric('tidemark_lag_seconds{stream="assignment_note"}'), inTime)
        .not.toBeNull()
      await database.pool.query(
        `insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to, started_at, finished_at, error, error_code)
         select stream, 'backfill', 'failed', 'there', 1, 0, 0, now(), now() + nth * interval '1 minute', 'refused', code
         from (values ('assignment', null), ('assignment_note', 'UPSTREAM_SIGN_IN')) as given (stream, code), generate_series(1, 3) as nth`,
      )
      await expectFired(worker, ['TidemarkTokenRefused'])
      await database.pool.query(
        `update tidemark.run set error_code = 'UPSTREAM_ASKS_LATER' where error_code = 'UPSTREAM_SIGN_IN'`,
      )
      await expectFired(worker, ['TidemarkToldToWait'])
      await database.pool.query(`delete from tidemark.run where error_code = 'UPSTREAM_ASKS_LATER'`)
      // Again before each look, because the worker reads what is overdue now and then.
      await expectFired(worker, ['TidemarkFailing', 'TidemarkStale'], () =>
        database.pool.query(
          `update tidemark.stream set read_through_at = now() - interval '5 hours' where name = 'assignment_note'`,
        ),
      )
    } finally {
      await worker.stop()
    }
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
