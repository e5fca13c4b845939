// The routes of the worker as their clients meet them, hostile ones included, without a worker behind them.

import { createHmac } from 'node:crypto'
import { Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import type { Part } from '../../src/problems/parts.ts'
import { healthRoutes, hookRoute, kept, metricsRoute } from '../../src/web/monitoring.ts'
import { serve } from '../support/served-routes.ts'

const secret = 'a-webhook-secret-of-the-tests'
const post = (url: string, options: RequestInit = {}) => fetch(url, { method: 'POST', ...options })

describe('POST /hooks/<secret>', () => {
  async function serveHooks(own: string | null = secret): Promise<{ url: string; delivered(): number }> {
    let deliveries = 0
    const url = await serve(
      hookRoute({
        secret: own,
        onDelivery: () => {
          deliveries++
        },
      }),
    )
    return { url, delivered: () => deliveries }
  }

  it('takes any body of any kind', async () => {
    const { url, delivered } = await serveHooks()
    const bodies: RequestInit[] = [
      {},
      { body: '{"broken":', headers: { 'content-type': 'application/json' } },
      { body: '<x/>', headers: { 'content-type': 'application/xml' } },
      { body: new Uint8Array(65_536), headers: { 'content-type': 'no/such-thing' } },
      { body: '{"__proto__":{"x":1}}', headers: { 'content-type': 'application/json' } },
    ]
    for (const body of bodies) {
      const answer = await post(`${url}/hooks/${secret}`, body)
      expect([answer.status, await answer.text()]).toEqual([202, ''])
    }
    expect(delivered()).toBe(bodies.length)
  })

  it('does not tell a wrong secret from a path that is not there, and repeats neither (P9)', async () => {
    const { url, delivered } = await serveHooks()
    const wrong = await post(`${url}/hooks/${secret.slice(0, -1)}x`)
    const nothing = await post(`${url}/nothing/here`)
    const told = [wrong.status, await wrong.text()]
    expect(told).toEqual([nothing.status, await nothing.text()])
    expect(told).toEqual([404, '{"error":"not found"}'])
    expect((await fetch(`${url}/hooks/${secret}`)).status).toBe(404)
    expect((await post(`${url}/hooks/${'x'.repeat(5_000)}`)).status).toBeGreaterThanOrEqual(400)
    expect((await post(`${url}/hooks/%E0%A4%A`)).status).toBeGreaterThanOrEqual(400)
    expect(delivered()).toBe(0)
  })

  it('is not there without a secret', async () => {
    const { url } = await serveHooks(null)
    expect((await post(`${url}/hooks/`)).status).toBe(404)
    expect((await post(`${url}/hooks/null`)).status).toBe(404)
  })

  it('takes those of each source at an address of its own, with its own secret only', async () => {
    const told: string[] = []
    const hooks = { acme: 'a-secret-of-acme-alone', beta: 'a-secret-of-beta-alone' }
    const signingSecret = 'what beta signs with'
    const ofBeta = { secret: hooks.beta, signingSecret }
    const url = await serve(
      hookRoute({
        secret,
        hookOf: (source) =>
          source === 'acme'
            ? { secret: hooks.acme, signingSecret: null }
            : source === 'beta'
              ? ofBeta
              : source === 'opening'
                ? { secret, signingSecret: null, isLater: true }
                : null,
        onDelivery: (source) => void told.push(source),
      }),
    )
    const status = async (path: string, options: RequestInit = {}) =>
      (await post(`${url}/hooks/${path}`, options)).status
    expect(await status(`acme/${hooks.acme}`)).toBe(202)
    expect(await status(`beta/${hooks.beta}`)).toBe(202)
    expect(await status(secret)).toBe(202)
    expect(told).toEqual(['acme', 'beta', ''])
    for (const wrong of [
      `acme/${hooks.beta}`,
      `acme/${secret}`,
      hooks.acme,
      `nobody/${secret}`,
      `acme/${hooks.acme}/x`,
    ])
      expect([wrong, await status(wrong)]).toEqual([wrong, 404])
    // What is signed is remembered for its source.
    const signed = { 'x-signature': createHmac('sha256', signingSecret).update('{}').digest('hex') }
    const forged = { 'x-signature': createHmac('sha256', secret).update('{}').digest('hex') }
    const beta = (headers: Record<string, string>) => status(`beta/${hooks.beta}`, { body: '{}', headers })
    expect([await beta(signed), await beta(signed), await beta(forged)]).toEqual([202, 202, 401])
    expect(told).toEqual(['acme', 'beta', '', 'beta'])
    const later = await post(`${url}/hooks/opening/${secret}`)
    expect([later.status, later.headers.get('retry-after')]).toEqual([503, '30'])
    expect(told).toHaveLength(4)
  })

  it('refuses a body that is larger than any delivery', async () => {
    const { url } = await serveHooks()
    for (const size of [65_537, 3_000_000]) {
      const outcome = await post(`${url}/hooks/${secret}`, { body: new Uint8Array(size) }).then(
        ({ status }) => status,
        () => 'cut off',
      )
      expect([413, 400, 'cut off']).toContain(outcome)
    }
  })

  it('takes a signed delivery once, refuses an old one, and takes an unsigned one unless signatures are required', async () => {
    const signingSecret = 'what deliveries are signed with'
    let nowMs = 1_700_000_000_000
    const kinds = { required: 0, optional: 0 }
    const serveSigned = (kind: keyof typeof kinds) =>
      serve(
        hookRoute({
          ...{ secret, signingSecret, requiresSignature: kind === 'required', now: () => nowMs },
          onDelivery: () => {
            kinds[kind]++
          },
        }),
      )
    const urls = { required: await serveSigned('required'), optional: await serveSigned('optional') }
    const signed = (text: string) =>
      `t=1700000000,v1=${createHmac('sha256', signingSecret).update(`1700000000.${text}`).digest('hex')}`
    const outcomeOf = async (kind: keyof typeof kinds, body: string, headers: Record<string, string>) => {
      const before = kinds[kind]
      const { status } = await post(`${urls[kind]}/hooks/${secret}`, { body, headers })
      return [status, kinds[kind] - before]
    }
    for (const kind of ['required', 'optional'] as const) {
      const right = { 'x-signature': signed('{}') }
      expect(await outcomeOf(kind, '{}', right)).toEqual([202, 1])
      expect(await outcomeOf(kind, '{}', right)).toEqual([202, 0])
      expect(await outcomeOf(kind, '[]', right)).toEqual([401, 0])
      nowMs += 301_000
      expect(await outcomeOf(kind, '{"n":2}', { 'x-signature': signed('{"n":2}') })).toEqual([401, 0])
      nowMs -= 301_000
      const isTaken = kind === 'optional' ? [202, 1] : [401, 0]
      expect(await outcomeOf(kind, '{}', {})).toEqual(isTaken)
      expect(await outcomeOf(kind, '{}', { 'x-signature': 'rsa;x' })).toEqual(isTaken)
    }
  })
})

describe('GET /healthz, /readyz and /metrics', () => {
  it('tell apart that the program runs and that it can work', async () => {
    const part = { name: 'queue', kind: 'queue', since: new Date(0) } as const
    let isReady = false
    const queue = (): Part =>
      isReady
        ? { ...part, isUp: true, state: 'works', reason: null, whatToDo: null }
        : { ...part, isUp: false, state: 'not yet', reason: 'No job has gone through.', whatToDo: 'Wait.' }
    const service = { ...part, name: 'tracking', kind: 'service', state: 'down' } as const
    const url = await serve(
      healthRoutes(() => ({
        isRunning: true,
        parts: [
          queue(),
          {
            ...service,
            isUp: false,
            reason: 'It begins: Jane Doe.',
            publicReason: 'It answers 503.',
            whatToDo: 'Wait.',
          },
        ],
      })),
    )
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
    const away = await fetch(`${url}/readyz`)
    expect([away.status, await away.json()]).toMatchObject([
      503,
      { parts: { queue: { up: false, state: 'not yet', reason: 'No job has gone through.' } } },
    ])
    isReady = true
    const ready = await fetch(`${url}/readyz`)
    expect([ready.status, await ready.json()]).toEqual([
      200,
      {
        status: 'ready',
        parts: {
          queue: { up: true, state: 'works', since: '1970-01-01T00:00:00.000Z' },
          tracking: {
            ...{ up: false, state: 'down', since: '1970-01-01T00:00:00.000Z' },
            ...{ reason: 'It answers 503.', what_to_do: 'Wait.' },
          },
        },
        services_down: ['tracking'],
      },
    ])
    expect((await fetch(`${url}/readyz`, { method: 'HEAD' })).status).toBe(200)
  })

  it('look for a metric once in two seconds, however often they are asked, and whether it was found or not', async () => {
    let [nowMs, looks] = [0, 0]
    let isThere = false
    const look = kept(
      () =>
        isThere ? Promise.resolve(++looks).then((count) => (count === 2 ? Promise.reject() : count)) : null,
      () => nowMs,
    )
    expect(await look()).toBeNull()
    isThere = true
    const found: unknown[] = []
    for (nowMs of [0, 1_999, 2_000, 3_999, 4_000]) found.push(await look())
    expect(found).toEqual([1, 1, null, null, 3])
  })

  it('answer a failure without its reason', async () => {
    const url = await serve(
      metricsRoute({
        registry: new Registry(),
        refresh: () => Promise.reject(new Error('password=hunter2')),
      }),
    )
    const answer = await fetch(`${url}/metrics`)
    expect([answer.status, await answer.text()]).toEqual([
      500,
      '{"error":"It failed. The log of the worker says why."}',
    ])
  })
})
