// The page of the queues: who may see it, on both backends, and what pages show while the queue is away.

import { connect, createServer, type Server, type Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openBrowsing } from '../support/browsing.ts'
import { createTestDatabase } from '../support/database.ts'
import { type Backend, hasBackend, redisUrlOf } from '../support/queues.ts'
import { adminToken, startTestWorker } from '../support/worker.ts'

const inTime = { timeout: 20_000, interval: 100 }
const hourly = { SCHEDULE_ASSIGNMENT: '1h', STREAMS: 'assignment' }

/** A way to Redis that can be cut. */
async function startWay(target: URL): Promise<{ readonly port: number; cut(): void; close(): void }> {
  const sockets = new Set<Socket>()
  let isCut = false
  const server: Server = createServer((client) => {
    if (isCut) {
      client.destroy()
      return
    }
    const redis = connect(Number(target.port), target.hostname)
    for (const [one, other] of [
      [client, redis],
      [redis, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => {})
      one.on('close', () => other.destroy())
      one.pipe(other)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    cut() {
      isCut = true
      for (const socket of sockets) socket.destroy()
    },
    close: () => server.close(),
  }
}

const backends: readonly Backend[] = ['postgres', 'redis']
describe.each(backends)('the page of the queues in %s', (backend) => {
  describe.skipIf(!hasBackend(backend))('of a worker', () => {
    const database = createTestDatabase()

    it('is for those who are signed in, and takes orders from its own page alone', async () => {
      await using simulator = await startSimulator({ assignments: 5 })
      const variables = { ...hourly, REDIS_URL: redisUrlOf(backend) ?? undefined }
      const worker = await startTestWorker(simulator, database, variables)
      try {
        await worker.live
        const stranger = await fetch(`${worker.url}/queues/queue/tidemark-ticks`, { redirect: 'manual' })
        expect([stranger.status, stranger.headers.get('location')]).toEqual([303, '/sign-in?to=/queues'])
        for (const [method, path] of [
          ['GET', '/queues/api/queues'],
          ['PUT', '/queues/api/queues/tidemark-runs/pause'],
        ] as const)
          expect((await fetch(worker.url + path, { method })).status).toBe(401)

        const browsing = openBrowsing(worker.url)
        await browsing.signIn(adminToken)
        const page = await browsing.get('/queues')
        expect(page.headers.get('content-security-policy')).toContain("style-src 'self';")
        expect(await page.text()).not.toMatch(/https?:\/\/|<style| style=/)
        const { queues } = (await (await browsing.get('/queues/api/queues')).json()) as {
          queues: { name: string }[]
        }
        expect(queues.map(({ name }) => name).sort()).toEqual(['tidemark-runs', 'tidemark-ticks'])

        const order = (headers: Record<string, string>) =>
          fetch(`${worker.url}/queues/api/queues/tidemark-runs/pause`, {
            method: 'PUT',
            headers: { cookie: browsing.cookies(), ...headers },
          })
        for (const headers of [{}, { origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }])
          expect((await order(headers)).status).toBe(403)
        expect((await order({ origin: worker.url })).status).toBe(200)
      } finally {
        await worker.stop()
      }
    })
  })
})

describe.skipIf(!hasBackend('redis'))('the page of the queues without its queue', () => {
  const database = createTestDatabase()

  it('says so instead of hanging, and the mirror is shown all the same', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const target = new URL(redisUrlOf('redis') ?? '')
    const way = await startWay(target)
    const variables = { ...hourly, REDIS_URL: `redis://127.0.0.1:${way.port}` }
    const worker = await startTestWorker(simulator, database, variables)
    try {
      await worker.live
      const browsing = openBrowsing(worker.url)
      await browsing.signIn(adminToken)
      way.cut()
      const overview = async () =>
        (await (await browsing.get('/')).text()).includes('href="/streams/assignment"')
      // At first nobody has noticed.
      expect(await overview()).toBe(true)
      expect([500, 503]).toContain((await browsing.get('/queues/api/queues')).status)
      await expect.poll(async () => (await browsing.get('/queues')).status, inTime).toBe(503)
      expect(await (await browsing.get('/queues')).text()).toContain('does not answer at the moment')
      expect(await overview()).toBe(true)
      expect(await worker.metric('tidemark_up{part="queue"}')).toBe(0)
    } finally {
      await worker.stop()
      way.close()
    }
  })
})
