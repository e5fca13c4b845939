// The client's decisions, each a pure function: when to ask again, until when to wait, what is a token, what may be shown.

import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { keepSecret } from '../../src/log.ts'
import { readTokenAnswer } from '../../src/upstream/auth/token-request.ts'
import { notBeforeTime } from '../../src/upstream/http/answer.ts'
import { openRateLimit } from '../../src/upstream/http/budget.ts'
import {
  excerptOf,
  type RetryQuestion,
  retryDelay,
  UpstreamError,
  type UpstreamErrorDetails,
} from '../../src/upstream/http/errors.ts'
import { openCrowd } from '../../src/upstream/http/pacing.ts'
import { likelyLimit } from '../../src/upstream/http/problem-details.ts'
import { backoff } from '../../src/util/backoff.ts'
import type { Clock } from '../../src/util/waiting.ts'

const now = Date.UTC(2026, 0, 31, 12)
const policy = backoff.request

describe('retryDelay', () => {
  const failureWith = (more: Partial<UpstreamErrorDetails>) =>
    new UpstreamError({
      ...{ code: 'UPSTREAM_STATUS', method: 'GET', path: '/', retryable: true, problem: 'away', ...more },
    })
  const failure = failureWith({})
  const ask = (changes: Partial<RetryQuestion>) =>
    retryDelay({ policy, failure, attempt: 1, isWrite: false, nowMs: now, random: 0.5, ...changes })

  it('P10: doubles, half of it by chance, up to a limit, and ends', () => {
    expect([1, 2, 3, 4].map((attempt) => ask({ attempt }))).toEqual([375, 750, 1500, null])
    expect([0, 0.999].map((random) => ask({ random }))).toEqual([250, 499.75])
    const many = { ...policy, attempts: 99 }
    expect(ask({ policy: many, attempt: 50 })).toBe(0.75 * policy.longestMs)
  })

  it('never asks earlier than it was told, and not at all when that is too far away', () => {
    const until = (ms: number) => ({ failure: failureWith({ notBefore: new Date(now + ms) }) })
    expect(ask(until(30_000))).toBe(30_000)
    expect(ask(until(10))).toBe(375)
    expect(ask(until(-5_000))).toBe(375)
    expect(ask(until(policy.deadlineMs))).toBe(policy.deadlineMs)
    expect(ask(until(policy.deadlineMs + 1))).toBeNull()
  })

  it('repeats a write only when it cannot have arrived', () => {
    expect(ask({ isWrite: true })).toBeNull()
    expect(ask({ isWrite: true, failure: failureWith({ mayHaveArrived: false }) })).toBe(375)
  })

  it('does not repeat what cannot help, nor what the sign-in has settled', () => {
    expect(ask({ failure: failureWith({ retryable: false }) })).toBeNull()
    for (const code of ['UPSTREAM_SIGN_IN', 'UPSTREAM_SIGN_IN_AWAY', 'UPSTREAM_UNAUTHORIZED'] as const)
      expect(ask({ failure: failureWith({ code }) })).toBeNull()
    expect(ask({ failure: new Error('of this program') })).toBeNull()
  })
})

describe('notBeforeTime', () => {
  const read = (retryAfter: string, date?: string) => notBeforeTime({ 'retry-after': retryAfter, date }, now)

  it('P10: reads seconds and each of the three formats of a date', () => {
    expect(read('0')).toBe(now)
    expect(read(' 120 ')).toBe(now + 120_000)
    const at = Date.UTC(2026, 0, 31, 12, 0, 30)
    for (const date of [
      'Sat, 31 Jan 2026 12:00:30 GMT',
      'Saturday, 31-Jan-26 12:00:30 GMT',
      'Sat Jan 31 12:00:30 2026',
    ])
      expect(read(date), date).toBe(at)
  })

  it('P10: waits longer when the upstream’s clock is behind, and no shorter when it is ahead', () => {
    const at = Date.UTC(2026, 0, 31, 12, 0, 30)
    expect(read('Sat, 31 Jan 2026 12:00:30 GMT', 'Sat, 31 Jan 2026 11:59:00 GMT')).toBe(now + 90_000)
    expect(read('Sat, 31 Jan 2026 12:00:30 GMT', 'Sat, 31 Jan 2026 12:00:20 GMT')).toBe(at)
  })

  it('is a date whatever is asked for', () => {
    for (const text of ['99999999999999', '9'.repeat(400), 'Sat, 13 Sep 275760 00:00:00 GMT'])
      expect(new Date(read(text, 'Sat, 31 Jan 2026 11:59:00 GMT') ?? Number.NaN).getTime(), text).toBe(
        8.64e15,
      )
  })

  it('makes nothing of what is neither', () => {
    for (const text of ['', 'soon', '-5', '1.5', '5s', '2026-01-31T12:00:30Z x'])
      expect(read(text), text).toBeNull()
  })
})

describe('readTokenAnswer', () => {
  const read = (body: unknown, date?: string) =>
    readTokenAnswer({
      bytes: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
      headers: { date },
      receivedAtMs: now,
    })
  const token = 'abc.DEF-123_~+/='
  const jwt = (claims: object) =>
    `eyJhbGciOiJub25lIn0.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`

  it.each([
    ['a bare JSON string', JSON.stringify(token)],
    ['plain text', `${token}\n`],
    ['plain text with its scheme', `Bearer ${token}`],
    ['access_token', { token_type: 'Bearer', access_token: token, refresh_token: 'not-this-one' }],
    ['accessToken', { success: true, accessToken: token }],
    ['Token', { Token: token }],
    ['one level deep', { isSuccess: true, data: { AccessToken: token } }],
    ['under a name that is an object', { token: { value: null, jwt: token } }],
    ['with its scheme', { accessToken: `bearer ${token}` }],
  ])('finds the token: %s', (_, body) => {
    expect(read(body)).toEqual({ token, endsAtMs: null })
  })

  it('finds a JWT under a name nobody thought of, when it is the only one', () => {
    const text = jwt({})
    expect(read({ zugang: text, id: 5 })).toEqual({ token: text, endsAtMs: null })
    expect(read({ zugang: text, other: text })).toHaveProperty('noToken')
  })

  it.each([
    ['seconds', { expires_in: 3600 }, 3_600_000],
    ['seconds in digits', { expiresIn: '3600' }, 3_600_000],
    ['a date', { expiresAt: '2026-01-31T13:00:00Z' }, 3_600_000],
    ['an epoch in seconds', { exp: now / 1000 + 60 }, 60_000],
    ['an epoch in milliseconds', { validTo: now + 60_000 }, 60_000],
    ['the earlier of two', { expiresIn: 3600, expires: '2026-01-31T12:30:00Z' }, 1_800_000],
    ['what is over already says nothing', { expiresAt: '2020-01-01T00:00:00Z', expiresIn: 0 }, null],
    ['what is no time says nothing', { expires: 'never', expiresIn: null }, null],
  ])('finds its end: %s', (_, fields, lifetimeMs) => {
    expect(read({ accessToken: token, ...fields })).toEqual({
      token,
      endsAtMs: lifetimeMs && now + lifetimeMs,
    })
  })

  it('reads the end out of a JWT, by the clock of whoever made it', () => {
    const ends = now / 1000 + 600
    expect(read(jwt({ exp: ends }))).toMatchObject({ endsAtMs: now + 600_000 })
    expect(read(jwt({ exp: ends }), 'Sat, 31 Jan 2026 12:05:00 GMT')).toMatchObject({
      endsAtMs: now + 300_000,
    })
    expect(read({ token: jwt({ exp: ends }), expiresIn: 7200 })).toMatchObject({ endsAtMs: now + 600_000 })
  })

  it.each([
    ['', 'empty'],
    ['<html>', 'a page of HTML'],
    ['two words', 'cannot be a token'],
    ['[1]', 'a list'],
    ['null', 'JSON of type null'],
    ['{}', 'an empty object'],
    [{ access_token: '' }, 'the fields are access_token'],
    [{ access_token: 'line\nbreak-line' }, 'the fields are access_token'],
    [{ ticket: 'hunter2hunter2', data: { code: 'hunter2hunter2' } }, 'the fields are ticket, data.code'],
  ])('P9: names what it saw in %j, never the values', (body, expected) => {
    const answer = read(body)
    expect(answer).toHaveProperty('noToken', expect.stringContaining(expected))
    expect(JSON.stringify(answer)).not.toContain('hunter2')
  })
})

describe('what an error shows', () => {
  it('P9: cuts secrets out of the first bytes before it cuts the text', () => {
    const secret = 'canary-6f1d2c3b4a596877'
    keepSecret(secret)
    // Words, because a secret of one letter again and again is known to other tests.
    const before = `${'one two '.repeat(23)}three `
    const text = `${before}${secret} and more ${'four five '.repeat(50)}`
    expect(excerptOf(Buffer.from(text))).toBe(`${before}[secret] a…`)
    // Nothing but a secret, twice, cut through at the end of what is looked at.
    const long = `canary-${'z'.repeat(40_000)}`
    keepSecret(long)
    expect(excerptOf(Buffer.from(`${long} ${long}`))).not.toMatch(/canary|zz/)
  })

  it('P9: cuts secrets out of the problem and the path', () => {
    keepSecret('canary-in-a-path')
    const error = new UpstreamError({
      code: 'UPSTREAM_STATUS',
      method: 'GET',
      path: '/api/canary-in-a-path',
      retryable: false,
      problem: 'no, canary-in-a-path.',
    })
    expect(`${error.message} ${error.path} ${error.stack}`).not.toContain('canary')
  })

  it('is one line', () => {
    expect(excerptOf(Buffer.from('{\r\n\t"a": 1\0\n}\n'))).toBe('{ "a": 1 }')
    expect(excerptOf(Buffer.alloc(0))).toBe('(nothing)')
  })
})

describe('the budget', () => {
  /** A clock that stands still until somebody waits. */
  function handClock(): Clock & { set(timeMs: number): void } {
    let nowMs = now
    return {
      now: () => nowMs,
      set: (timeMs) => {
        nowMs = timeMs
      },
      async waitUntil(timeMs, signal) {
        signal.throwIfAborted()
        await setImmediate()
        nowMs = Math.max(nowMs, timeMs)
      },
    }
  }
  const { signal } = new AbortController()

  it('P10: lets requests pass with the same time between them, however many wait', async () => {
    const clock = handClock()
    const limit = openRateLimit({ clock })
    const passed: number[] = []
    const takes = Array.from({ length: 9 }, () =>
      limit.take(4, signal).then(() => passed.push(clock.now() - now)),
    )
    await Promise.all(takes)
    expect(passed).toEqual([0, 250, 500, 750, 1000, 1250, 1500, 1750, 2000])
  })

  it('P10: saves nothing up while nobody asks', async () => {
    const clock = handClock()
    const limit = openRateLimit({ clock })
    await limit.take(2, signal)
    clock.set(now + 60_000)
    expect([await limit.take(2, signal), await limit.take(2, signal), await limit.take(2, signal)]).toEqual([
      0, 500, 500,
    ])
  })

  it('does not wait for ever when the clock was put back', async () => {
    const clock = handClock()
    const limit = openRateLimit({ clock })
    await limit.take(2, signal)
    clock.set(now - 3_600_000)
    expect(await limit.take(2, signal)).toBe(500)
  })

  it('P10: lets others pass before those that give way, of which one is next at any time', async () => {
    const limit = openRateLimit({ clock: handClock() })
    const order: string[] = []
    const take = (name: string, lowPriority: boolean) =>
      limit.take(1, signal, { lowPriority }).then(() => order.push(name))
    const load = ['load 1', 'load 2', 'load 3', 'load 4'].map((name) => take(name, true))
    await load[0]
    await Promise.all([...load, take('poll', false)])
    expect(order.indexOf('poll')).toBeLessThanOrEqual(2)
    expect(order.filter((name) => name !== 'poll')).toEqual(['load 1', 'load 2', 'load 3', 'load 4'])
  })

  it('P10: asks for fewer at once when the service says that they are too many, and for more when it goes well', async () => {
    const clock = handClock()
    const crowd = openCrowd(clock)
    let underWay = 0
    const most: number[] = []
    const askMany = async (refused: number) => {
      let highest = 0
      await Promise.all(
        Array.from({ length: 12 }, (_, index) =>
          crowd.add(async () => {
            highest = Math.max(highest, ++underWay)
            await setImmediate()
            if (index < refused) crowd.wereTooMany()
            underWay--
          }),
        ),
      )
      most.push(highest)
      clock.set(clock.now() + 2_000)
    }
    for (const refused of [0, 12, 0, 0, 0]) await askMany(refused)
    expect(most.slice(0, 2)).toEqual([12, 12])
    expect(most[2]).toBeLessThanOrEqual(8)
    expect(most.at(-1)).toBeGreaterThan(most[2] ?? 12)
  })

  it('P10: reserves several at once also of the limit of a host, of which one at a time waits for it', async () => {
    const clock = handClock()
    const asked = { own: 0, host: 0 }
    const limitOf = (whose: keyof typeof asked) => {
      let nextMs = now
      const reserve = {
        sharers: () => 1,
        async of(count: number, gapMs: number) {
          asked[whose] += 1
          const fromMs = Math.max(nextMs, clock.now())
          nextMs = fromMs + count * gapMs
          return { isReserved: true, waitMs: fromMs - clock.now(), pause: null }
        },
      }
      return openRateLimit({ clock, reserve })
    }
    const [own, host] = [limitOf('own'), limitOf('host')]
    const meanwhile = async (soon: number) => void (await host.take(200, signal, { soon }))
    await Promise.all(Array.from({ length: 100 }, () => own.take(100, signal, { meanwhile })))
    expect(asked.own).toBeLessThan(12)
    expect(asked.host).toBeLessThan(12)
    expect(clock.now() - now).toBeGreaterThanOrEqual(990)
  })

  it('goes on with the next when one gives up', async () => {
    const clock = handClock()
    const limit = openRateLimit({ clock })
    await limit.take(2, signal)
    const gaveUp = limit.take(2, AbortSignal.abort(new Error('enough')))
    const next = limit.take(2, signal)
    await expect(gaveUp).rejects.toThrow('enough')
    expect(await next).toBe(500)
  })
})

describe('the limit that a service may have met', () => {
  const problem = (message: string) => ({ about: [], errors: [['', message]] as const })

  it('is that of a whole request where the service says so, also when it was reading a form', () => {
    const said =
      'Failed to read the request form. Request body too large. The max request body size is 20000000 bytes.'
    expect(likelyLimit(400, problem(said), 35_000_000)).toBe(
      'The request had 35 MB; 20 MB is the most that the service takes.',
    )
    expect(likelyLimit(413, null, 35_000_000)).toContain('often 30 MB')
  })

  it('is that of one value of a form otherwise', () => {
    expect(likelyLimit(400, problem('Failed to read the request form.'), 5_000_000)).toContain('4 MiB')
  })
})
