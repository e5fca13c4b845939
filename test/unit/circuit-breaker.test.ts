// What is said of troubles: when they begin, when they turn out worse, when they are over, and nothing in between.

import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openLog } from '../../src/log.ts'
import type { RunRequest } from '../../src/streams/catalog.ts'
import { backoff } from '../../src/util/backoff.ts'
import { type FailureScope, openCircuitBreaker } from '../../src/worker/queue/circuit-breaker.ts'

const request: RunRequest = { stream: 'assignment', kind: 'incremental', cause: 'tick' }
const taken: FailureScope = {
  ...{ scope: 'stream', notBefore: null, policy: backoff.busy, level: 'info', error: null },
  message: 'another program is doing it already',
}
const broken: FailureScope = { ...taken, level: 'warn', message: 'the answer is not a list' }

function watch(requested: (request: RunRequest) => void = () => {}) {
  const stream = new PassThrough()
  const breaker = openCircuitBreaker({
    serviceOf: () => 'assignment',
    heldUntil: async () => null,
    requestRun: async (again) => requested(again),
    log: openLog({ level: 'info', stream }),
  })
  const told = () =>
    String(stream.read() ?? '')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
      .map(({ level, msg }) => [level, msg])
  return { breaker, told }
}

it('is told once however often it fails, and once when it works again', () => {
  const { breaker, told } = watch()
  for (let attempt = 0; attempt < 3; attempt++) breaker.failed(request, Date.now(), broken)
  expect(told()).toEqual([
    [40, expect.stringContaining('the incremental run of assignment: the answer is not')],
  ])
  expect(breaker.mustWait(request)).toBe(true)
  breaker.succeeded(request, 1)
  expect(told()).toEqual([[30, expect.stringContaining('the incremental run of assignment works again')]])
  expect(breaker.mustWait(request)).toBe(false)
})

it('is no failure that there was no place for a run: it is asked for again soon', async () => {
  vi.useFakeTimers()
  const asked: RunRequest[] = []
  const { breaker, told } = watch((again) => asked.push(again))
  const ofNotes = { ...request, stream: 'assignment_note' }
  for (const one of [request, ofNotes, request]) breaker.turnedAway(one)
  expect([breaker.mustWait(request), breaker.owed().length, breaker.waits()]).toEqual([false, 2, []])
  await vi.advanceTimersByTimeAsync(4_000)
  expect(asked).toEqual([])
  breaker.turnedAway(request)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(asked.map(({ stream }) => stream)).toEqual(['assignment', 'assignment_note'])
  expect(breaker.owed()).toEqual([])
  await vi.advanceTimersByTimeAsync(20_000)
  expect(asked).toHaveLength(2)
  breaker.succeeded(request, 1)
  expect(told()).toEqual([])
  breaker.close()
  vi.useRealTimers()
})

it('is asked for every five seconds and no more often while there is no place for a run, however often others ask', async () => {
  vi.useFakeTimers()
  let asked = 0
  const { breaker } = watch((again) => {
    asked++
    breaker.turnedAway(again)
  })
  for (let second = 0; second < 60; second++) {
    if (second % 7 === 0) breaker.turnedAway(request)
    await vi.advanceTimersByTimeAsync(1_000)
  }
  expect(asked).toBe(12)
  breaker.close()
  vi.useRealTimers()
})

it('is told again when what was nobody’s fault turns out to be a failure', () => {
  const { breaker, told } = watch()
  for (const failureScope of [taken, taken, broken, taken, broken])
    breaker.failed(request, Date.now(), failureScope)
  expect(told()).toEqual([
    [
      30,
      expect.stringContaining(
        'another program is doing it already. Tidemark tries again at least every 5 s.',
      ),
    ],
    [40, expect.stringContaining('the answer is not a list')],
  ])
  breaker.close()
})

it('takes a run that asked for nothing as no sign that its service works (P10)', () => {
  const { breaker, told } = watch()
  const idle: RunRequest = { stream: 'assignment', kind: 'related', cause: 'tick' }
  const away: FailureScope = { ...broken, scope: 'service', message: 'refuses connections' }
  const startedMs = Date.now()
  breaker.failed(request, startedMs, away)
  breaker.succeeded(idle, 0)
  expect(breaker.outageOf('assignment')?.message).toBe('refuses connections')
  expect(breaker.mustWait(request)).toBe(true)
  breaker.failed(request, startedMs, away)
  expect(told()).toEqual([[40, expect.stringContaining('the assignment service: refuses connections')]])
  breaker.succeeded(idle, 1)
  expect(breaker.outageOf('assignment')).toBeNull()
})

describe('what was left alone', () => {
  const away: FailureScope = { ...broken, scope: 'service', message: 'refuses connections' }
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('is not waited for any more when another worker took what was owed', async () => {
    const { breaker } = watch()
    breaker.failed(request, Date.now(), broken)
    expect(breaker.waits()).toMatchObject([{ what: 'the incremental run of assignment' }])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(breaker.waits()).toEqual([])
  })

  it('is tried again soon when it fails once, long after other workers have done it', async () => {
    const { breaker } = watch()
    const failed = () => breaker.failed(request, Date.now(), { ...broken, policy: backoff.circuit })
    for (let failures = 0; failures < 8; failures++) {
      failed()
      await vi.advanceTimersByTimeAsync(310_000)
      expect(breaker.mustWait(request)).toBe(false)
    }
    // What it owed was taken by another worker, and each time since.
    await vi.advanceTimersByTimeAsync(3_600_000)
    failed()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(breaker.mustWait(request)).toBe(false)
    breaker.close()
  })

  it('is no service that is called down for ever', async () => {
    const { breaker } = watch()
    breaker.failed(request, Date.now(), away)
    await vi.advanceTimersByTimeAsync(300_000)
    expect(breaker.outageOf('assignment')?.message).toBe('refuses connections')
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect(breaker.outageOf('assignment')).toBeNull()
    expect(breaker.waits()).toEqual([])
  })

  it('is waited for until all workers may ask it, however that changes, and asked as soon as it works for one (P19)', async () => {
    const asked: RunRequest[] = []
    let heldUntil: Date | null = new Date(Date.now() + 40_000)
    const breaker = openCircuitBreaker({
      serviceOf: () => 'acme.assignment',
      heldUntil: async () => heldUntil,
      requestRun: async (one) => void asked.push(one),
      log: openLog({ level: 'fatal' }),
    })
    const untilOf = () => (breaker.waits()[0]?.until.getTime() ?? 0) - Date.now()
    breaker.failed(request, Date.now(), { ...away, isLeftAlone: true, notBefore: heldUntil })
    expect(untilOf()).toBe(40_000)
    await vi.advanceTimersByTimeAsync(30_000)
    expect([breaker.mustWait(request), untilOf()]).toEqual([true, 10_000])
    // Another worker tried, and failed.
    heldUntil = new Date(Date.now() + 80_000)
    await vi.advanceTimersByTimeAsync(20_000)
    expect([breaker.mustWait(request), untilOf(), asked.length]).toEqual([true, 60_000, 0])
    // Another worker tried, and was answered.
    heldUntil = null
    await vi.advanceTimersByTimeAsync(3_000)
    expect(asked).toMatchObject([{ stream: 'assignment', kind: 'incremental' }])
    expect(breaker.mustWait(request)).toBe(false)
    breaker.succeeded(request, 1)
    expect(breaker.waits()).toEqual([])
    breaker.close()
  })

  it('is tried when its time has come, though nobody has tried it', async () => {
    const asked: RunRequest[] = []
    const heldUntil = new Date(Date.now() + 10_000)
    const breaker = openCircuitBreaker({
      serviceOf: () => 'assignment',
      heldUntil: async () => heldUntil,
      requestRun: async (one) => void asked.push(one),
      log: openLog({ level: 'fatal' }),
    })
    breaker.failed(request, Date.now(), { ...away, isLeftAlone: true, notBefore: heldUntil })
    await vi.advanceTimersByTimeAsync(9_000)
    expect(asked).toEqual([])
    await vi.advanceTimersByTimeAsync(5_000)
    expect(asked).toHaveLength(1)
    breaker.close()
  })

  it('is asked nothing before its time, though all workers may try its host (P10)', async () => {
    const asked: RunRequest[] = []
    for (const heldUntil of [new Date(Date.now() - 1_000), new Date(Date.now() + 5_000)]) {
      const breaker = openCircuitBreaker({
        serviceOf: () => 'assignment',
        heldUntil: async () => heldUntil,
        requestRun: async (one) => void asked.push(one),
        log: openLog({ level: 'fatal' }),
      })
      const notBefore = new Date(Date.now() + 600_000)
      breaker.failed(request, Date.now(), { ...away, notBefore })
      await vi.advanceTimersByTimeAsync(590_000)
      expect([breaker.mustWait(request), asked]).toEqual([true, []])
      breaker.close()
    }
  })

  it('is tried at once when the part that was away works again', () => {
    const asked: RunRequest[] = []
    const breaker = openCircuitBreaker({
      serviceOf: () => 'assignment',
      heldUntil: async () => null,
      requestRun: async (one) => void asked.push(one),
      log: openLog({ level: 'fatal' }),
    })
    const full = Object.assign(new Error('No space left on device'), { code: '53100' })
    breaker.failed(request, Date.now(), { ...broken, scope: 'database', error: full })
    expect([breaker.mustWait(request), breaker.outageOf('database')]).toEqual([true, full])
    breaker.tryAgain('database')
    expect(asked).toMatchObject([{ stream: 'assignment', kind: 'incremental' }])
    expect(breaker.mustWait(request)).toBe(false)
    // Down until a run has worked.
    expect(breaker.outageOf('database')).toBe(full)
    breaker.succeeded(request, 0)
    expect(breaker.outageOf('database')).toBeNull()
  })

  it('is tried again in time although the clock was set back', async () => {
    const { breaker } = watch()
    breaker.failed(request, Date.now(), away)
    vi.setSystemTime(Date.now() - 3_600_000)
    expect(breaker.mustWait(request)).toBe(true)
    await vi.advanceTimersByTimeAsync(10_000)
    expect(breaker.mustWait(request)).toBe(false)
    breaker.failed(request, Date.now(), away)
    expect(breaker.mustWait(request)).toBe(true)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(breaker.mustWait(request)).toBe(false)
  })
})
