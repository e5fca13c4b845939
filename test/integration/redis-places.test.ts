// Redis as deployments have it: a primary that Sentinel names, over TLS and with users of few rights, and a Redis Cluster. The jobs and the
// budgets go through it, and go on when another server becomes the primary or a slot moves.

import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { openRedisBudget } from '../../src/budget/redis-budget.ts'
import { openRedisTokens } from '../../src/budget/redis-tokens.ts'
import { probeQueue } from '../../src/cli/probe-checks.ts'
import { loadConfig } from '../../src/config/load.ts'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { openLog } from '../../src/log.ts'
import { withTimeout } from '../../src/util/waiting.ts'
import { openDriver } from '../../src/worker/queue/driver.ts'
import { startJobs } from '../../src/worker/queue/jobs.ts'
import { type Certificate, makeCertificate } from '../support/certificate.ts'
import { quietLog } from '../support/database.ts'
import { startForwarder } from '../support/forwarder.ts'
import { hasAll } from '../support/installed.ts'
import { incremental, outcomeOf } from '../support/jobs.ts'
import { plannedBy } from '../support/planned.ts'
import {
  deniedBy,
  primaryName,
  type RedisCluster,
  type RedisServer,
  rulesOf,
  type Sentinels,
  startRedisCluster,
  startRedisServer,
  startSentinels,
} from '../support/redis-servers.ts'
import { complete } from '../support/settings.ts'

const database = { connection: {}, address: 'here', cluster: null }
const open = (redisUrl: string) => openDriver({ redisUrl, database, log: quietLog })
const failureOf = (redisUrl: string) => open(redisUrl).then(() => 'none', String)
const bucket = { count: 1, gapMs: 10, longestMs: 1_000 }

/** What a worker does with a queue and with budgets. */
async function work(redisUrl: string) {
  const queue = await open(redisUrl)
  const read: string[] = []
  const stream = new PassThrough()
  const lines: string[] = []
  stream.on('data', (line) => lines.push(String(line)))
  const log = openLog({ level: 'debug', stream })
  const jobs = await startJobs({
    queue,
    ...plannedBy([{ stream: 'planned', kind: 'incremental', schedule: { everyMs: 1_000 } }]),
    async run(request) {
      read.push(request.stream)
      return outcomeOf(request)
    },
    ...{ failureScope: () => null, serviceOf: () => 'assignment', onOutcome: () => {}, log },
    canaries: { everyMs: 200, rhythmMs: 1_000 },
  })
  const budget = openRedisBudget({ redisUrl, deployment: 'this one', log })
  const tokens = openRedisTokens({ redisUrl, deployment: 'this one', log })
  let asked = 0
  return {
    driver: queue.driver,
    log: () => lines.join(''),
    /** Comes back when all of it went through. */
    async isWell(timeout = 15_000) {
      const stream = `asked-${++asked}`
      const before = read.filter((one) => one === 'planned').length
      await jobs.requestRun(incremental(stream))
      await expect.poll(() => read, { timeout }).toContain(stream)
      await expect
        .poll(() => read.filter((one) => one === 'planned').length, { timeout })
        .toBeGreaterThan(before)
      const reserve = () => withTimeout(1_000, budget.reserve('b', bucket)).catch(String)
      await expect.poll(reserve, { timeout }).toMatchObject({ isReserved: true })
      await budget.pause(`p${asked}`, {
        leftMs: 5_000,
        code: 'UPSTREAM_STATUS',
        status: 429,
        problem: 'too many',
      })
      expect((await budget.reserve(`p${asked}`, bucket)).pause).toMatchObject({ status: 429 })
      const host = `h${asked}`
      const after = { recent: '0', host: null, askers: {}, answered: {} }
      expect(await budget.circuit(host, { before: null, after })).toMatchObject({ isChanged: true })
      expect((await budget.reserve(`${host} one`, bucket, host)).circuit).toMatchObject({ state: after })
      const identity = {
        service: 'assignment',
        authUrl: 'https://id.example',
        subjectId: host,
        apiKey: 'a key',
      }
      const release = await tokens.claim(identity, 5_000)
      expect(await tokens.claim(identity, 5_000)).toBeNull()
      await tokens.put(identity, { token: 'a token', endsAtMs: Date.now() + 3_600_000 })
      await release?.()
      expect(await tokens.get(identity)).toMatchObject({ token: 'a token' })
      await queue.ping()
      expect(await jobs.counts()).toMatchObject({ delayed: 0 })
    },
    async [Symbol.asyncDispose]() {
      await jobs.stop()
      budget.close()
      tokens.close()
      await queue.close()
    },
  }
}

describe.skipIf(!hasAll(['redis-server']))('a primary that Sentinel names', { timeout: 60_000 }, () => {
  const authorities = getCACertificates('default')
  let certificate: Certificate
  let all: Sentinels
  beforeAll(async () => {
    certificate = makeCertificate(inject('scratch'), 'IP:127.0.0.1')
    const { cert: ca, certFile, keyFile } = certificate
    const tls = [
      ...[`tls-cert-file ${certFile}`, `tls-key-file ${keyFile}`, `tls-ca-cert-file ${certFile}`],
      ...['tls-auth-clients no', 'tls-replication yes', 'user default on >of-operators ~* &* +@all'],
    ]
    const operator = { username: 'default', password: 'of-operators', tls: { ca } }
    all = await startSentinels({
      ...{ directory: join(inject('scratch'), 'sentinel'), servers: 2, sentinels: 1, downAfterMs: 1_000 },
      secured: {
        server: [
          ...tls,
          'masteruser default',
          'masterauth of-operators',
          `user tidemark ${rulesOf('tidemark')}`,
        ],
        sentinel: [...tls, `user tidemark-sentinel ${rulesOf('tidemark-sentinel')}`],
        monitor: [`auth-user ${primaryName} default`, `auth-pass ${primaryName} of-operators`],
        ...{ operator, sentinelOperator: operator },
      },
    })
  }, 60_000)
  afterAll(async () => {
    setDefaultCACertificates(authorities)
    await all?.[Symbol.asyncDispose]()
  })
  const settings = (more: Record<string, string> = {}) => {
    const [sentinel] = all.sentinels
    // Nobody listens at the first of them.
    const REDIS_URL = `rediss+sentinel://tidemark@127.0.0.1:1,127.0.0.1:${sentinel?.port}/${primaryName}/3?sentinelUsername=tidemark-sentinel`
    const passwords = {
      REDIS_PASSWORD: 'word-of-tidemark',
      REDIS_SENTINEL_PASSWORD: 'word-of-tidemark-sentinel',
    }
    const EXTRA_CA_FILE = certificate.certFile
    return loadConfig({ ...complete, REDIS_URL, ...passwords, EXTRA_CA_FILE, ...more }).redisUrl ?? ''
  }

  it('says in one line what keeps it from being used, without passwords', async () => {
    const url = settings()
    setDefaultCACertificates(authorities)
    expect(await failureOf(url)).toMatch(
      /the sentinel 127\.0\.0\.1:\d+ cannot be asked: self.signed certificate.+ Check REDIS_URL/,
    )
    settings()
    expect(await failureOf(url.replace(primaryName, 'nobody'))).toMatch(/knows no primary "nobody"/)
    expect(await failureOf(settings({ REDIS_SENTINEL_PASSWORD: 'canary-one' }))).toMatch(
      /cannot be asked: WRONGPASS/,
    )
    expect(await failureOf(settings({ REDIS_PASSWORD: 'canary-two' }))).toMatch(/cannot be used: WRONGPASS/)
    const [sentinel] = all.sentinels
    expect(await failureOf(`rediss://default:of-operators@127.0.0.1:${sentinel?.port}`)).toMatch(
      /^UsageError: REDIS_URL is that of Redis Sentinel: write redis\+sentinel:\/\//,
    )
  })

  it('P8: is used over TLS with the rights of the manual, and is left when another one is the primary', async () => {
    const redisUrl = settings()
    expect(await probeQueue(redisUrl, quietLog)).toMatchObject({
      isFine: true,
      says: expect.stringMatching(
        /^Redis \S+ at the primary tidemark-primary of the sentinels 127\.0\.0\.1:1,127/,
      ),
    })
    for (const one of [...all.servers, ...all.sentinels]) await deniedBy(one)
    await using worker = await work(redisUrl)
    await worker.isWell()
    const before = await all.primary()
    before.freeze()
    await all.untilMoved(before)
    const movedMs = performance.now()
    await expect(worker.isWell()).resolves.toBeUndefined()
    // Before its connections have been silent for so long that they are left for that.
    expect(performance.now() - movedMs).toBeLessThan(8_000)
    before.thaw()
    for (const one of [...all.servers, ...all.sentinels]) expect(await deniedBy(one)).toEqual([])
  })
})

describe.skipIf(!hasAll(['redis-server']))('a Redis Cluster', { timeout: 60_000 }, () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await startRedisCluster({ directory: join(inject('scratch'), 'cluster'), nodes: 3 })
  }, 60_000)
  afterAll(() => cluster?.[Symbol.asyncDispose]())
  const places = () => cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')

  it('P8: carries the jobs and the budgets, also while the slot of the queue moves to another node', async () => {
    const redisUrl = `redis+cluster://${places()}`
    expect(await probeQueue(redisUrl, quietLog)).toMatchObject({ isFine: true })
    await using worker = await work(redisUrl)
    await worker.isWell()
    const key = worker.driver.kind === 'redis' ? worker.driver.prefix : ''
    await cluster.moveSlot(key, () => worker.isWell())
    await worker.isWell()
    expect(worker.log()).not.toMatch(/CROSSSLOT|NOPERM/)
  })

  it('says in one line what keeps it from being used', async () => {
    const [node] = cluster.nodes
    const words = /REDIS_URL is that of a Redis Cluster: write redis\+cluster:\/\//
    const url = `redis://127.0.0.1:${node?.port}`
    expect(await failureOf(url)).toMatch(words)
    expect(await probeQueue(url, quietLog)).toMatchObject({
      isFine: false,
      says: expect.stringMatching(words),
    })
    expect(await failureOf('redis+cluster://127.0.0.1:1')).toMatch(/cannot be used: connect ECONNREFUSED/)
  })
})

describe.skipIf(!hasAll(['redis-server']))('a Redis that became the primary', { timeout: 30_000 }, () => {
  it('P8: has the jobs ended again of which it does not know that they have ended', async () => {
    await using ended = new AsyncDisposableStack()
    const start = async (settings: readonly string[]) => {
      const directory = join(inject('scratch'), 'forgetful')
      const server = await startRedisServer({ directory, port: await freePort(), settings })
      ended.defer(server.kill)
      return server
    }
    const before = await start([])
    const after = await start([`replicaof 127.0.0.1 ${before.port}`])
    const forwarder = ended.use(await startForwarder(before.port))
    const queue = await open(`redis://127.0.0.1:${forwarder.port}`)
    ended.defer(queue.close)
    const [runs, outcomes]: [string[], string[]] = [[], []]
    const goesOn = Promise.withResolvers<void>()
    const jobs = await startJobs({
      ...{ queue, ...plannedBy([]) },
      async run(request) {
        runs.push(request.stream)
        await goesOn.promise
        return outcomeOf(request)
      },
      onOutcome: ({ stream }) => outcomes.push(stream),
      ...{ failureScope: () => null, serviceOf: () => 'assignment', log: quietLog },
    })
    ended.defer(jobs.stop)
    await jobs.requestRun(incremental('one'))
    const prefix = queue.driver.kind === 'redis' ? queue.driver.prefix : ''
    const atWork = async ({ tell }: RedisServer) =>
      ((await tell('LRANGE', `${prefix}:tidemark-polls:active`, '0', '-1')) as string[]).filter(
        (id) => id !== 'plan',
      ).length
    await expect.poll(() => atWork(after), { timeout: 10_000 }).toBe(1)
    await after.tell('REPLICAOF', 'NO', 'ONE')
    goesOn.resolve()
    await expect.poll(() => atWork(before)).toBe(0)
    expect(outcomes).toEqual(['one'])
    forwarder.lead(after.port)
    await before.kill()
    await jobs.requestRun(incremental('one'))
    // Long before its lock has run out.
    await expect.poll(() => runs, { timeout: 8_000 }).toEqual(['one', 'one'])
  })
})
