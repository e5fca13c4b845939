// What is said of troubles: when they begin, when they turn out worse, when they are over, and nothing in between.

import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { openLog } from '../../src/log.ts'
import { type Blame, watchTroubles } from '../../src/worker/queue/circuit-breaker.ts'
import type { RunRequest } from '../../src/worker/queue/requests.ts'

const request: RunRequest = { stream: 'assignment', lane: 'head', cause: 'tick' }
const taken: Blame = {
  ...{ scope: 'stream', notBefore: null, longestDelayMs: 5_000, level: 'info', error: null },
  message: 'is taken by another program',
}
const broken: Blame = { ...taken, level: 'warn', message: 'the answer is not a list' }

function watch() {
  const stream = new PassThrough()
  const troubles = watchTroubles({
    serviceOf: () => 'assignment',
    nudge: async () => {},
    log: openLog({ level: 'info', stream }),
  })
  const told = () =>
    String(stream.read() ?? '')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
      .map(({ level, msg }) => [level, msg])
  return { troubles, told }
}

it('is told once however often it fails, and once when it works again', () => {
  const { troubles, told } = watch()
  for (let attempt = 0; attempt < 3; attempt++) troubles.failed(request, Date.now(), broken)
  expect(told()).toEqual([[40, expect.stringContaining('the head lane of assignment: the answer is not')]])
  expect(troubles.mustWait(request)).toBe(true)
  troubles.succeeded(request, 1)
  expect(told()).toEqual([[30, expect.stringContaining('the head lane of assignment works again')]])
  expect(troubles.mustWait(request)).toBe(false)
})

it('is told again when what was nobody’s fault turns out to be a failure', () => {
  const { troubles, told } = watch()
  for (const blame of [taken, taken, broken, taken, broken]) troubles.failed(request, Date.now(), blame)
  expect(told()).toEqual([
    [30, expect.stringContaining('is taken by another program')],
    [40, expect.stringContaining('the answer is not a list')],
  ])
  troubles.close()
})

it('takes a run that asked for nothing as no sign that its service works (P10)', () => {
  const { troubles, told } = watch()
  const idle: RunRequest = { stream: 'assignment', lane: 'related', cause: 'tick' }
  const away: Blame = { ...broken, scope: 'service', message: 'refuses connections' }
  const startedMs = Date.now()
  troubles.failed(request, startedMs, away)
  troubles.succeeded(idle, 0)
  expect(troubles.servicesDown()).toEqual(['assignment'])
  expect(troubles.mustWait(request)).toBe(true)
  troubles.failed(request, startedMs, away)
  expect(told()).toEqual([[40, expect.stringContaining('the assignment service: refuses connections')]])
  troubles.succeeded(idle, 1)
  expect(troubles.servicesDown()).toEqual([])
})
