// When the client may ask: within its budget, and never before an upstream wants to be asked again (P10).

import { describe, expect, it } from 'vitest'
import { openBudgets } from '../../src/upstream/http/budget.ts'
import {
  type Client,
  failureOf,
  jumpingClock,
  noSignal,
  openServerClient,
  startServer,
} from '../support/client.ts'

const list = (client: Client) => client.call('listAssignments', { query: { Page: 1 } }, noSignal)
const json = { 'content-type': 'application/json' }

describe('Retry-After', () => {
  it.each(['seconds', 'date'])(
    'P10: as %s is obeyed to the millisecond, by every request of the service',
    async (form) => {
      const arrivals: number[] = []
      let notBefore = 0
      await using server = await startServer((_, response) => {
        arrivals.push(Date.now())
        if (arrivals.length > 1) {
          response.writeHead(200, json).end('[]')
          return
        }
        const date = new Date(Math.ceil(Date.now() / 1000) * 1000 + 1000)
        notBefore = form === 'date' ? date.getTime() : Date.now() + 1000
        response.writeHead(429, { 'retry-after': form === 'date' ? date.toUTCString() : '1' }).end()
      })
      const client = openServerClient(server)
      const first = list(client)
      await expect.poll(() => client.told.retries).toHaveLength(1)
      await Promise.all([first, list(client), list(client)])
      expect(arrivals).toHaveLength(4)
      expect(Math.min(...arrivals.slice(1))).toBeGreaterThanOrEqual(notBefore)
      expect(client.told.waits).toMatchObject(Array(2).fill({ reason: 'retry-after' }))
    },
  )

  it('P10: beyond the longest wait fails at once, and nothing is asked until then', async () => {
    await using server = await startServer((_, response) =>
      response.writeHead(503, { 'retry-after': '3600' }).end(),
    )
    const client = openServerClient(server)
    const first = await failureOf(list(client))
    const second = await failureOf(list(client))
    expect(server.received).toHaveLength(1)
    for (const error of [first, second]) {
      expect(error).toMatchObject({ code: 'UPSTREAM_STATUS', status: 503, retryable: true })
      expect(error.notBefore?.getTime()).toBeGreaterThan(Date.now() + 3_590_000)
      expect(error.message).toContain('asks for no requests before')
    }
  })

  it.each([
    ['seconds', '999999999', /no requests before 20[5-9]\d-/],
    ['a date', 'Sat, 01 Aug 2598 12:00:00 GMT', /no requests before 2598-08-01T1[2-5]:/],
    ['more than any date', '9'.repeat(400), /no requests before \+275760-/],
  ])('P10: of years, as %s, is believed for an hour, and then one request tries', async (_, asked, named) => {
    await using server = await startServer((_, response) =>
      response.writeHead(429, { 'retry-after': asked }).end(),
    )
    const clock = jumpingClock()
    const client = openServerClient(server, { clock })
    await failureOf(list(client))
    for (const hour of [1, 2, 3]) {
      const failures = await Promise.all([list, list, list].map((one) => failureOf(one(client))))
      expect(server.received).toHaveLength(hour)
      for (const error of failures) {
        expect(error).toMatchObject({ code: 'UPSTREAM_ASKS_LATER', status: 429, retryable: true })
        expect(error.message).toMatch(named)
        expect((error.notBefore?.getTime() ?? 0) - clock.now()).toBe(3_600_000)
      }
      clock.advance(3_600_000 - 60_000)
      expect(await failureOf(list(client))).toMatchObject({ code: 'UPSTREAM_ASKS_LATER' })
      expect(server.received).toHaveLength(hour)
      clock.advance(60_000)
    }
  })

  it.each([
    ['3000', 86_400_000],
    ['3000', 1_800_000],
    ['60', 1_800_000],
  ])('of %s s does not hold for longer when the clock is put back by %i ms', async (asked, backMs) => {
    let isAway = true
    await using server = await startServer((_, response) => {
      if (isAway) response.writeHead(503, { 'retry-after': asked }).end()
      else response.writeHead(200, json).end('[]')
    })
    const clock = jumpingClock()
    const retryPolicy = { attempts: 1, firstMs: 1, longestMs: 1, jitter: 0, deadlineMs: 120_000 }
    const client = openServerClient(server, { clock, retryPolicy })
    await failureOf(list(client))
    isAway = false
    clock.advance(-backMs)
    const putBackMs = clock.now()
    expect((await list(client)).status).toBe(200)
    expect(clock.now() - putBackMs).toBeLessThanOrEqual(60_000)
  })

  it('P10: is obeyed after the clock was put back, whatever was asked for before', async () => {
    const answers: readonly [number, string][] = [
      [503, '2'],
      [200, '0'],
    ]
    await using server = await startServer((_, response) => {
      const [status, asked] = answers[server.received.length - 1] ?? [503, '3000']
      response.writeHead(status, { ...json, 'retry-after': asked }).end('[]')
    })
    const clock = jumpingClock()
    const client = openServerClient(server, { clock })
    expect((await list(client)).status).toBe(200)
    clock.advance(-86_400_000)
    for (let time = 0; time < 3; time++)
      expect((await failureOf(list(client))).notBefore?.getTime()).toBe(clock.now() + 3_000_000)
    expect(server.received).toHaveLength(3)
  })
})

describe('the budget', () => {
  it('P10: holds for all requests together, repeated ones included', async () => {
    const arrivals: number[] = []
    await using server = await startServer((_, response) => {
      arrivals.push(performance.now())
      response.writeHead(arrivals.length % 3 === 0 ? 500 : 200, json).end('[]')
    })
    const client = openServerClient(server, { requestsPerSecond: () => 50 })
    await Promise.all(Array.from({ length: 10 }, () => list(client)))
    expect(arrivals.length).toBeGreaterThan(12)
    const seconds = ((arrivals.at(-1) ?? 0) - (arrivals[0] ?? 0)) / 1000
    expect((arrivals.length - 1) / seconds).toBeLessThanOrEqual(60)
    expect(client.told.waits.length).toBeGreaterThan(8)
  })

  it('P10, P19: of a host holds for all who ask it, whoever signs in, and so does a Retry-After of it', async () => {
    const arrivals: number[] = []
    await using server = await startServer((_, response) => {
      arrivals.push(performance.now())
      if (arrivals.length === 12) response.writeHead(429, { ...json, 'retry-after': '1' }).end()
      else response.writeHead(200, json).end('[]')
    })
    const budgets = openBudgets()
    const hostLimit = { budget: budgets.of('host'), requestsPerSecond: () => 50 }
    const [one, other] = ['one', 'other'].map((name) =>
      openServerClient(server, { budget: budgets.of(name), hostLimit }),
    ) as [Client, Client]
    await Promise.all([one, other].flatMap((client) => Array.from({ length: 5 }, () => list(client))))
    const seconds = ((arrivals.at(-1) ?? 0) - (arrivals[0] ?? 0)) / 1000
    // Two budgets would let through 112. The first may arrive late on a busy machine.
    expect((arrivals.length - 1) / seconds).toBeLessThanOrEqual(75)
    await list(one)
    const told = list(one)
    await expect.poll(() => arrivals.length).toBe(12)
    await expect.poll(() => one.told.retries.length).toBe(1)
    await Promise.all([told, list(other)])
    expect(Math.min(...arrivals.slice(12)) - (arrivals[11] ?? 0)).toBeGreaterThanOrEqual(990)
  })

  it('P10: of one who signs in holds as well when its requests have waited for their host', async () => {
    const arrivals: number[] = []
    await using server = await startServer((request, response) => {
      if (request.headers.clientid === 'slow') arrivals.push(performance.now())
      response.writeHead(200, json).end('[]')
    })
    const budgets = openBudgets()
    const hostLimit = { budget: budgets.of('host'), requestsPerSecond: () => 100 }
    const open = (clientGuid: string, perSecond: number | null) => {
      const requestsPerSecond = () => perSecond
      const budget = budgets.of(clientGuid)
      return openServerClient(server, { budget, clientGuid, requestsPerSecond, hostLimit })
    }
    const [busy, slow] = [open('busy', null), open('slow', 20)]
    const ask = (client: Client, times: number) => Array.from({ length: times }, () => list(client))
    await Promise.all([...ask(busy, 80), ...ask(slow, 16)])
    const mostWithin = Math.max(
      ...arrivals.map((from) => arrivals.filter((at) => at >= from && at < from + 200).length),
    )
    // Each may arrive a little late.
    expect(mostWithin).toBeLessThanOrEqual(6)
  })
})
