// Alerts as they arrive at a real receiver: once, in good and bad times, from several workers, and never at another address.

import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { streamsIn } from '../../src/configured.ts'
import { openLog } from '../../src/log.ts'
import { runAlertLoop, sendAlerts } from '../../src/problems/alert-loop.ts'
import { timingOf } from '../../src/problems/receivers.ts'
import type { Problem } from '../../src/problems/stream-problems.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openAlertBook } from '../../src/store/book/problems.ts'
import { inTurn } from '../../src/store/server/session.ts'
import {
  alertPeople,
  openPauses,
  openReceivers,
  openWorkerParts,
  testAlertOf,
} from '../../src/worker/health.ts'
import { neverAborted } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { adminToken, startTestWorker } from '../support/worker.ts'

const start = new Date('2026-03-02T12:00:00Z')
const at = (seconds: number) => new Date(start.getTime() + 1000 * seconds)
const problem: Problem = {
  key: 'deletions_blocked:assignment',
  kind: 'deletions_blocked',
  stream: 'assignment',
  since: null,
  runbook: 'docs/operations/deletions-blocked.md',
  what: 'the list lacks 3 of 4 rows',
  whatToDo: 'look',
}

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close()
    server.closeAllConnections()
  }
})

async function listen(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/hook/canary-of-the-alerts`
}

/** Keeps what it was told. */
async function startReceiver(): Promise<{ url: string; told: string[]; answer: { status: number } }> {
  const told: string[] = []
  const answer = { status: 200 }
  const url = await listen((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      if (answer.status === 200) told.push(JSON.parse(Buffer.concat(chunks).toString()).text)
      response.writeHead(answer.status).end()
    })
  })
  return { url, told, answer }
}

describe.skipIf(!hasPostgres)('alerts', () => {
  const database = createTestDatabase()
  beforeEach(() => database.pool.query('truncate tidemark.problem'))

  const look = async (url: string, seconds: number, problems: readonly Problem[], logged: string[] = []) => {
    const stream = { write: (line: string) => logged.push(line) } as unknown as NodeJS.WritableStream
    const log = openLog({ level: 'info', stream })
    const book = openAlertBook(database.pool, 'default')
    await sendAlerts({ receiver: { url }, problems, book, now: at(seconds), signal: neverAborted, log })
  }

  it('tells that it began and that it is over, whichever worker looks', async () => {
    const { url, told } = await startReceiver()
    for (const seconds of [0, 15, 60, 75]) await look(url, seconds, [problem])
    for (const seconds of [90, 150, 210, 225]) await look(url, seconds, [])
    expect(told).toEqual([
      '*Tidemark: a problem needs you*\n• the list lacks 3 of 4 rows Since 2026-03-02 12:00 UTC, 1 m ago. → look More: docs/operations/deletions-blocked.md',
      '*Tidemark: a problem is over*\n• Over after 1 m 30 s: the list lacks 3 of 4 rows',
    ])
    expect((await database.pool.query('select from tidemark.problem')).rowCount).toBe(0)
  })

  it('P18: tells a receiver that is new since when there is a problem, and not since when it was looked at', async () => {
    const { url, told } = await startReceiver()
    const old = { ...problem, since: at(-3 * 86_400) }
    for (const seconds of [0, 15, 60, 75]) await look(url, seconds, [old])
    for (const seconds of [90, 150, 210, 225]) await look(url, seconds, [])
    expect(told).toEqual([
      expect.stringContaining('Since 2026-02-27 12:00 UTC, 3 d ago.'),
      expect.stringContaining('Over after 3 d: the list lacks 3 of 4 rows'),
    ])
    // That it lasts for a while is measured from the first look all the same: nothing is sent of what comes and goes.
    await look(url, 300, [old])
    await look(url, 315, [old])
    expect(told).toHaveLength(2)
  })

  it('tells once when many workers look at the same moment', async () => {
    const { url, told } = await startReceiver()
    await look(url, 0, [problem])
    await Promise.all(Array.from({ length: 5 }, () => look(url, 70, [problem])))
    await look(url, 75, [problem])
    expect(told).toHaveLength(1)
  })

  it('does not wait for ever for a worker that is frozen while it tells', async () => {
    const { promise: frozen, resolve: thaw } = Promise.withResolvers<void>()
    const { promise: hasTurn, resolve: begin } = Promise.withResolvers<void>()
    const tell = () => {
      begin()
      return frozen
    }
    const late = inTurn(database.pool, 'alerts', tell, 300)
    await hasTurn
    const isMine = async () => {
      let taken = false
      await inTurn(database.pool, 'alerts', async () => {
        taken = true
      })
      return taken
    }
    await expect.poll(isMine).toBe(true)
    thaw()
    await expect(late).rejects.toThrow(/terminated|not queryable/)
  })

  it('holds in quiet hours what lasts, and forgets what does not', async () => {
    const { url, told } = await startReceiver()
    const quietHours = { from: 12 * 60, to: 12 * 60 + 10, timeZone: 'UTC' }
    const rule = {
      to: ['default'],
      kinds: null,
      streams: null,
      sources: null,
      afterMs: 60_000,
      quiet: quietHours,
    }
    const passing = { ...problem, key: 'passes', what: 'it passes' }
    const quietly = (seconds: number, problems: readonly Problem[]) =>
      sendAlerts({
        receiver: { url },
        problems,
        book: openAlertBook(database.pool, 'default'),
        timingOf: timingOf({ rules: [rule] }, 'default', at(seconds)),
        now: at(seconds),
        signal: neverAborted,
        log: quietLog,
      })
    for (const seconds of [0, 60, 120]) await quietly(seconds, [problem, passing])
    for (const seconds of [180, 240, 300, 590]) await quietly(seconds, [problem])
    expect(told).toEqual([])
    await quietly(600, [problem])
    expect(told).toEqual([
      expect.stringMatching(/^\*Tidemark: a problem needs you\*\n• the list lacks .* 10 m ago/),
    ])
  })

  it('backs off while the receiver fails, says so once without its address, and tells then (P9)', async () => {
    const { url, told, answer } = await startReceiver()
    const logged: string[] = []
    answer.status = 500
    for (const seconds of [0, 60, 75, 90, 105, 120, 150, 155]) await look(url, seconds, [problem], logged)
    expect(logged).toHaveLength(1)
    expect(logged[0]).toContain('the receiver answered 500')
    answer.status = 200
    await look(url, 160, [problem], logged)
    expect(told).toEqual([])
    await look(url, 300, [problem], logged)
    expect(told).toHaveLength(1)
    expect(logged).toHaveLength(2)
    expect(logged.join()).not.toContain('canary')
  })

  it('follows no redirect, and outlives a receiver that is not there', async () => {
    const other = await startReceiver()
    const redirecting = await listen((_request, response) =>
      response.writeHead(307, { location: other.url }).end(),
    )
    const logged: string[] = []
    await look(redirecting, 0, [problem])
    await look(redirecting, 60, [problem], logged)
    expect(logged[0]).toContain('redirects (307), which is not followed')
    expect(other.told).toEqual([])
    await database.pool.query('update tidemark.problem set attempts = 0, retry_at = null')
    await look('http://127.0.0.1:1/canary-of-the-alerts', 75, [problem], logged)
    expect(logged[1]).toMatch(/cannot be reached \((ECONNREFUSED|Error|bad port)/)
    expect(logged.join()).not.toContain('canary')
  })

  it.each(['refuses', 'hangs'])(
    'tell that Postgres is away, and that it is back, while it %s',
    async (how) => {
      const { url, told } = await startReceiver()
      const down: Problem = { ...problem, key: 'part_down:database', kind: 'part_down', what: 'it is away' }
      let away: readonly Problem[] = [down]
      const begunMs = performance.now()
      const there = {
        problems: () =>
          how === 'hangs' ? new Promise<never>(() => {}) : Promise.reject(new Error('no connection')),
        silences: async () => [],
        book: openAlertBook(database.pool, 'default'),
      }
      const ending = new AbortController()
      const alerting = runAlertLoop({
        ...{ log: quietLog, everyMs: 5, ownEveryMs: 5, signal: ending.signal },
        asked: () => ({ receiver: { url } }),
        database: () => (away.length > 0 ? null : there),
        ownProblems: () => away,
        now: () => at(1_000 * (performance.now() - begunMs)),
      })
      await vi.waitFor(() => expect(told).toEqual([expect.stringContaining('• it is away')]))
      away = []
      await vi.waitFor(() =>
        expect(told).toEqual([expect.anything(), expect.stringMatching(/Over after .*: it is away/)]),
      )
      ending.abort()
      if (how === 'refuses') await alerting
    },
  )

  it('that were told while Postgres was away are not told again when it is back, and end once', async () => {
    const { url, told } = await startReceiver()
    const queue: Problem = {
      ...problem,
      key: 'part_down:queue',
      kind: 'part_down',
      what: 'the queue is away',
    }
    const down: Problem = { ...problem, key: 'part_down:database', kind: 'part_down', what: 'it is away' }
    // What people knew before Postgres went away.
    for (const seconds of [0, 61]) await look(url, seconds, [queue])
    expect(told).toHaveLength(1)
    let [isAway, found] = [false, [queue] as readonly Problem[]]
    let seconds = 62
    const ending = new AbortController()
    const alerting = runAlertLoop({
      ...{ log: quietLog, everyMs: 5, ownEveryMs: 5, signal: ending.signal },
      asked: () => ({ receiver: { url } }),
      database: () =>
        isAway
          ? null
          : {
              problems: async () => found,
              silences: async () => [],
              book: openAlertBook(database.pool, 'default'),
            },
      ownProblems: () => [down, queue],
      now: () => at(seconds),
    })
    const looks = () => new Promise((resolve) => setTimeout(resolve, 100))
    await looks()
    isAway = true
    await looks()
    seconds = 125
    await vi.waitFor(() => expect(told).toEqual([expect.anything(), expect.stringContaining('• it is away')]))
    seconds = 130
    ;[isAway, found] = [false, []]
    await looks()
    const { rows } = await database.pool.query(
      'select key, told_at is not null as is_told from tidemark.problem order by key',
    )
    expect(rows).toEqual([
      { key: 'part_down:database', is_told: true },
      { key: 'part_down:queue', is_told: true },
    ])
    seconds = 260
    await vi.waitFor(() => expect(told).toHaveLength(3))
    await looks()
    expect(told[2]).toMatch(/2 problems are over/)
    expect(told).toHaveLength(3)
    ending.abort()
    await alerting
  })

  it('go to a receiver that is down from a test that failed until one arrives', async () => {
    const { url, told, answer } = await startReceiver()
    answer.status = 500
    await using simulator = await startSimulator()
    const config = loadConfig(environmentFor(simulator, database, { ALERT_WEBHOOK_URL: url }))
    const parts = openWorkerParts({
      ...{
        config,
        streams: () => streamsIn(config),
        jobs: () => null,
        pool: () => null,
        pauses: openPauses(),
        log: quietLog,
      },
    })
    const isUp = () => parts.list().find(({ name }) => name === 'alerts')?.isUp
    const receivers = openReceivers(parts)
    const sendTest = async () => await testAlertOf(config, receivers)?.(null)
    parts.worked('database')
    await expect(sendTest()).rejects.toThrow('answered 500')
    let looks = 0
    const problems = async () => {
      looks++
      return [problem]
    }
    const ending = new AbortController()
    alertPeople({
      ...{ config, parts, receivers, now: () => start, signal: ending.signal, log: quietLog },
      mirror: () => ({ pool: database.pool, problems }),
    })
    try {
      await vi.waitFor(() => expect(looks).toBe(1))
      await wait(200)
      expect(isUp()).toBe(false)
      answer.status = 200
      await sendTest()
      expect([isUp(), told]).toEqual([true, [expect.stringContaining('This is a test')]])
      answer.status = 500
      await expect(sendTest()).rejects.toThrow('answered 500')
    } finally {
      ending.abort()
    }
    // Another worker got through since.
    await database.pool.query(`update tidemark.problem set told_at = now() + interval '1 second'`)
    const again = new AbortController()
    alertPeople({
      ...{ config, parts, receivers, now: () => new Date(), signal: again.signal, log: quietLog },
      mirror: () => ({ pool: database.pool, problems }),
    })
    try {
      await vi.waitFor(() => expect(isUp()).toBe(true))
    } finally {
      again.abort()
    }
  })

  it('are told by the worker, also what stood before it was started', async () => {
    const { url, told } = await startReceiver()
    // The reconcile behind a first load would find that nothing is missing.
    await database.pool.query(
      `update tidemark.stream set blocked_deletions = '{"missing": 3, "living": 4}', last_reconcile_at = now() where name = 'assignment'`,
    )
    await database.pool.query(
      `insert into tidemark.problem (key, kind, stream, what, what_to_do, since)
       values ('deletions_blocked:assignment', 'deletions_blocked', 'assignment', 'before', 'before', now() - interval '5 minutes')`,
    )
    await using simulator = await startSimulator({ assignments: 3, trackers: 1 })
    const worker = await startTestWorker(simulator, database, { ALERT_WEBHOOK_URL: url })
    try {
      await vi.waitFor(
        () => expect(told).toEqual([expect.stringContaining('3 of 4 rows of assignment disappeared')]),
        20_000,
      )
      expect(await worker.metric('tidemark_problems{kind="deletions_blocked"}')).toBe(1)
      expect(await worker.metric('tidemark_problems{kind="access_lost"}')).toBe(0)
      expect(worker.logged().join()).not.toContain('canary')
      // From the page of problems, or by a script.
      const headers = { authorization: `Bearer ${adminToken}` }
      const answer = await fetch(`${worker.url}/alerts/test`, { method: 'POST', headers })
      expect([answer.status, await answer.json()]).toEqual([200, { sent: true }])
      expect(told.at(-1)).toContain('This is a test')
      const { rows } = await database.pool.query('select action, target, result, told from tidemark.action')
      expect(rows).toEqual([
        { action: 'testAlert', target: 'alerts', result: 'done', told: expect.stringContaining('was sent') },
      ])
    } finally {
      await worker.stop()
    }
  })
})
