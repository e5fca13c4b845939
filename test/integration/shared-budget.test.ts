// One budget of requests for all programs of a deployment, in both places it can be kept in: three programs ask as fast as they may, one
// is told to wait, and the place is taken away meanwhile (P10, P19).

import { PassThrough } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { openPostgresBudget } from '../../src/budget/postgres-budget.ts'
import { openRedisBudget } from '../../src/budget/redis-budget.ts'
import { openLog } from '../../src/log.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { type BudgetStore, openBudgets } from '../../src/upstream/http/budget.ts'
import type { CircuitState } from '../../src/upstream/http/circuit-state.ts'
import { messageOf } from '../../src/util/errors.ts'
import { type Client, failureOf, noSignal, openServerClient, startServer } from '../support/client.ts'
import { openTestContext } from '../support/context.ts'
import { createTestDatabase, quietLog } from '../support/database.ts'
import { startForwarder } from '../support/forwarder.ts'
import { type Backend, hasBackend, redisUrlOf } from '../support/queues.ts'

const json = { 'content-type': 'application/json' }
const bucket = 'https://api.example 0123456789ab'
const perSecond = 20
const none = { count: 0, gapMs: 0, longestMs: 0 }

type Program = {
  readonly client: Client
  readonly asked: { count: number }
  readonly store: BudgetStore
  logged(): readonly string[]
  close(): Promise<void>
}

describe.for(['redis', 'postgres'] satisfies Backend[])('the budget of three programs, in %s', (backend) => {
  describe.skipIf(!hasBackend(backend))('that is there', () => {
    const database = createTestDatabase()
    const address = () => new URL(redisUrlOf(backend) ?? database.url)

    async function openStore(port: number): Promise<BudgetStore & { close(): Promise<void> }> {
      const url = address()
      url.hostname = '127.0.0.1'
      url.port = String(port)
      if (backend === 'redis') {
        const store = openRedisBudget({ redisUrl: url.href, deployment: database.name, log: quietLog })
        return { ...store, close: async () => store.close() }
      }
      url.search = 'sslmode=disable'
      const pool = new pg.Pool({ connectionString: url.href, max: 2, connectionTimeoutMillis: 500 })
      pool.on('error', () => {})
      return { ...openPostgresBudget(pool), close: () => pool.end() }
    }

    async function openProgram(
      server: { readonly url: string; readonly port: number },
      port: number,
      { rate = perSecond as number | null, workers = 3 } = {},
    ): Promise<Program> {
      const lines: string[] = []
      const stream = new PassThrough()
      stream.on('data', (line) => lines.push(String(line)))
      const store = await openStore(port)
      const asked = { count: 0 }
      const counted: BudgetStore = {
        ...store,
        reserve(...given) {
          asked.count++
          return store.reserve(...given)
        },
      }
      const log = openLog({ level: 'info', stream })
      const budget = openBudgets({ store: counted, workers: () => workers, log }).of(bucket)
      const given = { budget, requestsPerSecond: () => rate }
      const client = openServerClient(server as Parameters<typeof openServerClient>[0], given)
      return {
        ...{ client, asked, store, logged: () => lines },
        close: async () => {
          client.close()
          await store.close()
        },
      }
    }

    const list = ({ client }: Program) => client.call('listAssignments', { query: { Page: 1 } }, noSignal)

    /** Asks as fast as it may, so many at once. Returns for how many seconds. */
    async function askFor(ms: number, programs: readonly Program[], atOnce = 1): Promise<number> {
      const startedMs = performance.now()
      const endsMs = startedMs + ms
      const ask = async (program: Program) => {
        while (performance.now() < endsMs) await list(program)
      }
      await Promise.all(programs.flatMap((program) => Array.from({ length: atOnce }, () => ask(program))))
      return (performance.now() - startedMs) / 1_000
    }

    /** The most that arrived within a window. */
    const mostWithin = (arrivals: readonly number[], ms: number): number =>
      Math.max(...arrivals.map((from) => arrivals.filter((at) => at >= from && at < from + ms).length))

    it('P10: holds for all of them together, keeps a Retry-After that one was told, and is bounded without its place', async () => {
      const arrivals: number[] = []
      let asksToWait = false
      let saysTooMany = false
      await using server = await startServer((_, response) => {
        arrivals.push(performance.now())
        if (!asksToWait && !saysTooMany) return void response.writeHead(200, json).end('[]')
        response.writeHead(429, asksToWait ? { 'retry-after': '2' } : {}).end()
        asksToWait = false
        saysTooMany = false
      })
      const forwarder = await startForwarder(Number(address().port || 5432))
      const programs = await Promise.all([1, 2, 3].map(() => openProgram(server, forwarder.port)))
      try {
        const seconds = await askFor(1_000, programs)
        // Each may have one request on its way that comes late.
        expect(mostWithin(arrivals, 500)).toBeLessThanOrEqual(perSecond / 2 + 6)
        expect(arrivals.length).toBeLessThanOrEqual(perSecond * seconds + 4)

        const [first, ...others] = programs as [Program, ...Program[]]
        asksToWait = true
        const told = list(first)
        await expect.poll(() => asksToWait, { interval: 1 }).toBe(false)
        const toldMs = arrivals.at(-1) ?? 0
        const before = arrivals.length
        const paused = async () => (await first.store.reserve(bucket, none)).pause
        await expect.poll(paused, { interval: 10 }).not.toBeNull()
        await Promise.all([told, ...others.map(list)])
        expect(arrivals.slice(before)).toHaveLength(3)
        expect(Math.min(...arrivals.slice(before))).toBeGreaterThanOrEqual(toldMs + 1_990)
        for (const { client } of others)
          expect(client.told.waits).toContainEqual(expect.objectContaining({ reason: 'retry-after' }))

        saysTooMany = true
        arrivals.length = 0
        await askFor(700, programs)
        expect(saysTooMany).toBe(false)
        const gaps = arrivals.map((at, index) => at - (arrivals[index - 1] ?? at))
        expect(Math.max(...gaps)).toBeGreaterThan(400)

        await forwarder[Symbol.asyncDispose]()
        arrivals.length = 0
        const secondsAlone = await askFor(1_000, programs)
        expect(arrivals.length).toBeLessThanOrEqual(perSecond * secondsAlone + 4)
        expect(mostWithin(arrivals, 500)).toBeLessThanOrEqual(perSecond / 2 + 6)
        for (const { logged } of programs) {
          expect(logged()).toHaveLength(1)
          expect(logged()[0]).toContain(`cannot be kept in ${backend === 'redis' ? 'Redis' : 'Postgres'}`)
        }
      } finally {
        await Promise.all(programs.map(({ close }) => close()))
      }
    })

    it('is asked for several requests at once where many are sent, and for none where there is no budget', async () => {
      const arrivals: number[] = []
      let asksToWait = false
      await using server = await startServer((_, response) => {
        arrivals.push(performance.now())
        if (!asksToWait) return void response.writeHead(200, json).end('[]')
        asksToWait = false
        response.writeHead(503, { 'retry-after': '1' }).end()
      })
      await using forwarder = await startForwarder(Number(address().port || 5432))
      const open = (how: Parameters<typeof openProgram>[2]) => openProgram(server, forwarder.port, how)
      const rate = 200
      const quick = await Promise.all([1, 2].map(() => open({ rate })))
      const [alone, one, other] = await Promise.all([
        open({ rate: null, workers: 1 }),
        ...[1, 2].map(() => open({ rate: null })),
      ])
      try {
        const seconds = await askFor(1_000, quick, 20)
        expect(arrivals.length).toBeLessThanOrEqual(rate * (seconds + 0.2) + 40)
        const asked = quick.reduce((sum, { asked: { count } }) => sum + count, 0)
        expect(asked).toBeLessThan(arrivals.length / 2)

        if (!alone || !one || !other) throw new Error('three were opened')
        const startedMs = performance.now()
        await Promise.all([list(alone), list(one), list(other)])
        for (let times = 0; times < 10; times++) await Promise.all([list(alone), list(one)])
        expect(alone.asked.count).toBe(0)
        expect(one.asked.count).toBeLessThanOrEqual(2 + (performance.now() - startedMs) / 250)

        asksToWait = true
        const toldMs = performance.now()
        const told = list(one)
        await expect.poll(() => asksToWait, { interval: 1 }).toBe(false)
        const before = arrivals.length
        await wait(300)
        await Promise.all([told, list(other)])
        expect(arrivals.slice(before)).toHaveLength(2)
        expect(Math.min(...arrivals.slice(before))).toBeGreaterThanOrEqual(toldMs + 990)
      } finally {
        await Promise.all([...quick, alone, one, other].map((program) => program?.close()))
      }
    })

    it('P10: lets one request try after a long pause, and the others wait for its answer', async () => {
      const arrivals: number[] = []
      await using server = await startServer(async (_, response) => {
        const status = arrivals.push(performance.now()) === 1 ? 429 : 200
        await wait(50)
        response.writeHead(status, { ...json, 'retry-after': '1' }).end('[]')
      })
      const store = await openStore(Number(address().port || 5432))
      const budget = openBudgets({ store }).of('https://long.example')
      const retryPolicy = { attempts: 1, firstMs: 1, longestMs: 1, jitter: 0, deadlineMs: 300 }
      const client = openServerClient(server, { budget, retryPolicy })
      const ask = () => client.call('listAssignments', { query: { Page: 1 } }, noSignal)
      try {
        const { notBefore } = await failureOf(ask())
        await wait((notBefore?.getTime() ?? 0) - Date.now() - 5)
        await Promise.all([ask(), ask(), ask()])
        const [, tried = 0, next = 0] = arrivals
        expect(next - tried).toBeGreaterThanOrEqual(45)
      } finally {
        client.close()
        await store.close()
      }
    })

    it('P10, P19: sends one request at a time to a host that fails several sources, and all that wait once it answers', async () => {
      let status = 200
      const arrivals: number[] = []
      await using server = await startServer((_, response) => {
        arrivals.push(performance.now())
        response.writeHead(status, json).end('[]')
      })
      const stores: Awaited<ReturnType<typeof openStore>>[] = []
      const circuitPolicy = { firstMs: 500, longestMs: 500, jitter: 0 }
      await using opened = new AsyncDisposableStack()
      const open = async (source: string) => {
        const store = await openStore(Number(address().port || 5432))
        stores.push(store)
        opened.defer(() => store.close().catch(() => {}))
        const { of, circuits } = openBudgets({ store, workers: () => 3, circuitPolicy })
        const circuitOf = (name: string) => circuits.of(server.url, { name, source }, 5_000)
        const client = openServerClient(server, {
          budget: of(`${server.url} ${source}`, server.url),
          circuits: {
            api: circuitOf(`${source}.assignment`),
            signIn: circuits.of(`sign-in:${server.url}`, { name: source, source }, 5_000),
          },
        })
        opened.defer(client.close)
        return () =>
          client.call('listAssignments', { query: { Page: 1 } }, noSignal).then(
            () => 'answered',
            (error) => error.code,
          )
      }
      const [one, other, third] = [await open('one'), await open('other'), await open('third')]
      await Promise.all([one(), other(), third()])
      status = 503
      arrivals.length = 0
      await Promise.all([one(), other()])
      expect(arrivals.length).toBeGreaterThanOrEqual(4)
      expect(arrivals.length).toBeLessThanOrEqual(8)
      // It has met no failure, and knows all the same once it has looked.
      await wait(300)
      arrivals.length = 0
      expect(await third()).toBe('UPSTREAM_LEFT_ALONE')
      expect(arrivals).toHaveLength(0)
      const startedMs = performance.now()
      while (performance.now() - startedMs < 1_200) {
        await Promise.all([one(), other(), third()])
        await wait(20)
      }
      expect(arrivals.length).toBeGreaterThanOrEqual(1)
      expect(mostWithin(arrivals, 450)).toBe(1)

      status = 200
      const all = () => Promise.all([one(), other(), third()])
      await expect.poll(all, { timeout: 5_000 }).toEqual(Array(3).fill('answered'))

      // Without the place, each knows what it has seen itself.
      await stores[0]?.close()
      status = 503
      await one()
      arrivals.length = 0
      expect([await one(), arrivals.length]).toEqual(['UPSTREAM_LEFT_ALONE', 0])
      const arrivedAgain = async () => {
        await one()
        return arrivals.length
      }
      await expect.poll(arrivedAgain, { timeout: 10_000 }).toBe(1)
    })

    it('P19: takes what another version has stored of a host for nothing, and writes over it', async () => {
      const store = await openStore(Number(address().port || 5432))
      try {
        const host = `https://${database.name}.example`
        const old = { recent: '0' } as unknown as CircuitState
        const next: CircuitState = { recent: '00', host: null, askers: {}, answered: {} }
        expect(await store.circuit(host, { before: null, after: old })).toMatchObject({ isChanged: true })
        expect(await store.circuit(host)).toMatchObject({ state: null })
        expect(await store.circuit(host, { before: null, after: next })).toMatchObject({
          isChanged: true,
          state: next,
        })
        expect(await store.circuit(host, { before: null, after: old })).toMatchObject({
          isChanged: false,
          state: next,
        })
      } finally {
        await store.close()
      }
    })

    it('P10: is the same for all programs that have the same settings', async () => {
      await using simulator = await startSimulator({ assignments: 10 })
      const redisUrl = redisUrlOf(backend)
      const variables = {
        REQUESTS_PER_SECOND: String(perSecond),
        ...(redisUrl && { REDIS_URL: redisUrl, SHARE_TOKENS: 'true' }),
      }
      await using contexts = new AsyncDisposableStack()
      const open = async (address: { readonly url: string } = database) =>
        contexts.use(await openTestContext(address, simulator, variables))
      let signIns = 0
      simulator.onRequest(({ path }) => {
        if (path.endsWith('/GenerateAccessTokenFromCache')) signIns++
      })
      // One of them reaches the same Postgres by another name.
      const other = new URL(database.url)
      other.hostname = other.hostname === '127.0.0.1' ? 'localhost' : '127.0.0.1'
      const opened = [await open(), await open(), await open({ url: other.href })]
      const upstreams = opened.map((one) => one.assignmentService)
      simulator.requests.start()
      const startedMs = performance.now()
      await Promise.all(
        upstreams.map(async (upstream) => {
          while (performance.now() < startedMs + 1_000)
            await upstream.call('listAssignments', { query: { Page: 1 } }, noSignal)
        }),
      )
      const lists = simulator.requests.entries.filter(({ path }) => path.includes('/Assignment'))
      const seconds = (performance.now() - startedMs) / 1_000
      expect(lists.length).toBeGreaterThan(3)
      expect(lists.length).toBeLessThanOrEqual(perSecond * seconds + 4)
      // Tokens are shared as well, in Redis alone.
      expect(signIns).toBe(redisUrl ? 1 : opened.length)
    })
  })
})

describe('a Redis that is none', () => {
  it('is told of in plain words', async () => {
    await using server = await startServer((_, response) => response.end())
    const reasonOf = async (port: number) => {
      const store = openRedisBudget({ redisUrl: `redis://127.0.0.1:${port}`, deployment: 'a', log: quietLog })
      try {
        return await store.reserve(bucket, none).then(() => 'none', messageOf)
      } finally {
        store.close()
      }
    }
    expect(await reasonOf(server.port)).toMatch(/^(what answers there is no Redis|it cannot be reached)\.$/)
    expect(await reasonOf(1)).toBe('connect ECONNREFUSED 127.0.0.1:1.')
  })
})
