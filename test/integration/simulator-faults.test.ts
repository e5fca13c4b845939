// Every fault, seen by a client that uses nothing but fetch.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { mildMix } from '../../src/simulator/faults.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Caller, openCaller, signIn } from '../support/simulator-caller.ts'

let simulator: Simulator
let caller: Caller

beforeAll(async () => {
  simulator = await startSimulator({ assignments: 40, trackers: 1 })
  caller = await openCaller(simulator)
})
beforeEach(() => simulator.faults.clear())
afterAll(() => simulator.close())

const page = (number: number) => `GET /api/Assignment/neworchanged/0?PageSize=10&Page=${number}`
const ids = (reply: { json(): unknown }) =>
  (reply.json() as { AssignmentId: number }[]).map(({ AssignmentId }) => AssignmentId)

describe('statuses', () => {
  it.each([401, 403, 404, 408, 429, 500, 502, 503])('%i', async (kind) => {
    simulator.faults.add({ kind, times: 1 })
    const reply = await caller.assignment(page(1))
    expect([reply.status, reply.headers.get('retry-after')]).toEqual([kind, null])
    expect(reply.headers.get('content-type')).toMatch(/^application\/problem\+json/)
    expect((await caller.assignment(page(1))).status).toBe(200)
  })

  it('tell when to come back, in seconds or as a date', async () => {
    simulator.faults.add({ kind: 429, retryAfterSeconds: 7, times: 1 })
    expect((await caller.assignment(page(1))).headers.get('retry-after')).toBe('7')
    simulator.faults.add({ kind: 503, retryAfterSeconds: 60, retryAfterAs: 'date' })
    const date = Date.parse((await caller.assignment(page(1))).headers.get('retry-after') ?? '')
    expect(date - Date.now()).toBeGreaterThan(58_000)
    expect(date - Date.now()).toBeLessThan(62_000)
  })

  it('strike one page only', async () => {
    simulator.faults.add({ kind: 500, page: 2 })
    expect((await caller.assignment(page(1))).status).toBe(200)
    expect((await caller.assignment(page(2))).status).toBe(500)
    expect((await caller.assignment(page(3))).status).toBe(200)
  })

  it('strike whenever one record would be in the answer', async () => {
    const [, , victim = 0] = ids(await caller.assignment(page(2)))
    simulator.faults.add({ kind: 500, record: victim })
    expect((await caller.assignment(page(1))).status).toBe(200)
    expect((await caller.assignment(page(2))).status).toBe(500)
    expect((await caller.assignment(`GET /api/Assignment/Id/${victim}`)).status).toBe(500)
    const around = await caller.assignment('GET /api/Assignment/neworchanged/0?PageSize=12&Page=1')
    expect(around.status).toBe(200)
  })

  it('leave a write undone', async () => {
    const before = simulator.source.count('assignment')
    simulator.faults.add({ kind: 500, method: 'POST' })
    expect((await caller.assignment('POST /api/Assignment', { body: {} })).status).toBe(500)
    expect(simulator.source.count('assignment')).toBe(before)
  })

  it('reach the sign-in and the tracking service too', async () => {
    simulator.faults.add({ kind: 503, path: 'TrackerObject' })
    simulator.faults.add({ kind: 500, path: 'GenerateAccessToken' })
    expect((await caller.tracking('GET /api/TrackerObject')).status).toBe(503)
    const url = `${simulator.authUrl}/Token/GenerateAccessTokenFromCache`
    expect((await fetch(url, { method: 'POST' })).status).toBe(500)
  })
})

describe('spoilt answers', () => {
  it('are cut in the middle, with a content-length that agrees', async () => {
    const whole = await caller.assignment(page(1))
    simulator.faults.add({ kind: 'truncated' })
    const reply = await caller.assignment(page(1))
    expect(reply.status).toBe(200)
    expect(whole.text.startsWith(reply.text)).toBe(true)
    expect(Number(reply.headers.get('content-length'))).toBe(Buffer.byteLength(reply.text))
    expect(() => reply.json()).toThrow()
  })

  it('are a web page, or JSON under another name', async () => {
    simulator.faults.add({ kind: 'html', times: 1 })
    const html = await caller.assignment(page(1))
    expect([html.status, html.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    simulator.faults.add({ kind: 'content-type' })
    const other = await caller.assignment(page(1))
    expect(other.headers.get('content-type')).toBe('application/octet-stream')
    expect(ids(other).length).toBe(10)
  })

  it('are the page before, again', async () => {
    simulator.faults.add({ kind: 'duplicate-page', nth: 3 })
    const pages = [
      await caller.assignment(page(1)),
      await caller.assignment(page(2)),
      await caller.assignment(page(3)),
    ]
    expect(pages[2]?.text).toBe(pages[1]?.text)
    expect(ids(await caller.assignment(page(3)))).not.toEqual(ids(await caller.assignment(page(2))))
  })

  it('are an empty page in the middle, wrapped or not', async () => {
    simulator.faults.add({ kind: 'empty-page', page: 2 })
    expect((await caller.assignment(page(1))).text).not.toBe('[]')
    expect((await caller.assignment(page(2))).text).toBe('[]')
    expect((await caller.assignment(page(3))).text).not.toBe('[]')
    simulator.behaviour.listWrapper = 'items'
    expect((await caller.assignment(page(2))).text).toBe('{"items":[]}')
    simulator.behaviour.listWrapper = null
  })
})

describe('broken connections', () => {
  it('are reset in the middle of the body', async () => {
    simulator.faults.add({ kind: 'reset' })
    await expect(caller.assignment(page(1))).rejects.toThrow()
  })

  it('are reset after a write was done: the answer is what is lost', async () => {
    const before = simulator.source.count('assignment')
    simulator.faults.add({ kind: 'reset', method: 'POST' })
    await expect(caller.assignment('POST /api/Assignment', { body: {} })).rejects.toThrow()
    expect(simulator.source.count('assignment')).toBe(before + 1)
    simulator.faults.add({ kind: 'reset', method: 'PUT' })
    await expect(caller.assignment('PUT /api/Assignment', { body: { AssignmentId: 1 } })).rejects.toThrow()
  })

  it('say nothing for ever', async () => {
    simulator.faults.add({ kind: 'hang', times: 1 })
    const signal = AbortSignal.timeout(300)
    await expect(caller.assignment(page(1), { signal })).rejects.toThrow(/timeout/i)
    expect((await caller.assignment(page(1))).status).toBe(200)
  })

  it('drip', async () => {
    simulator.faults.add({ kind: 'slow-drip', bytesPerSecond: 5_000, times: 2 })
    const startedAtMs = performance.now()
    const reply = await caller.assignment('GET /api/Assignment?PageSize=1')
    expect((reply.json() as unknown[]).length).toBe(1)
    expect(performance.now() - startedAtMs).toBeGreaterThan(180)
    const signal = AbortSignal.timeout(300)
    await expect(caller.assignment('GET /api/Assignment?PageSize=40', { signal })).rejects.toThrow(/timeout/i)
  })
})

describe('the mild mix', () => {
  it('strikes now and then, and what it leaves alone is right', async () => {
    for (const fault of mildMix) if (fault.kind !== 'hang') simulator.faults.add(fault)
    const before = simulator.faults.struck
    const whole = new Map([1, 2].map((number) => [number, 0]))
    for (let round = 0; round < 150; round++)
      for (const number of whole.keys()) {
        const reply = await caller.assignment(page(number)).catch(() => null)
        if (reply?.status === 200 && reply.text.endsWith('}]'))
          whole.set(number, (whole.get(number) ?? 0) + 1)
      }
    expect(simulator.faults.struck - before).toBeGreaterThan(3)
    expect(simulator.faults.struck - before).toBeLessThan(60)
    for (const count of whole.values()) expect(count).toBeGreaterThan(110)
  })

  it('hangs and drips do not keep the stand-in from closing', async () => {
    const other = await startSimulator({
      assignments: 100,
      faults: [{ kind: 'hang', nth: 1 }, { kind: 'slow-drip' }],
    })
    const its = await openCaller(other)
    const waiting = [its.assignment(page(1)), its.assignment(page(2))].map((call) => call.catch(() => 'cut'))
    await expect.poll(() => other.faults.struck).toBe(2)
    await other.close()
    expect(await Promise.all(waiting)).toEqual(['cut', 'cut'])
  })
})

describe('an answer of a gigabyte', () => {
  it.each(['endless', 'gzip-bomb'] as const)('has no length, and does not end soon: %s', async (kind) => {
    simulator.faults.add({ kind, times: 1 })
    const leaving = new AbortController()
    const token = await signIn(simulator)
    const response = await fetch(`${simulator.assignmentUrl}/api/Assignment?PageSize=1`, {
      headers: { authorization: `Bearer ${token}`, clientId: simulator.credentials.clientGuid },
      signal: leaving.signal,
    })
    expect(response.headers.get('content-length')).toBeNull()
    expect(response.headers.get('content-encoding')).toBe(kind === 'gzip-bomb' ? 'gzip' : null)
    let bytes = 0
    for await (const piece of response.body ?? []) {
      bytes += piece.length
      if (bytes > 60_000_000) break
    }
    expect(bytes).toBeGreaterThan(60_000_000)
    leaving.abort()
  })
})
