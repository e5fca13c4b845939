// When a part is called up or down: by what has gone through it, and by nothing else. Time is passed in.

import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { streamsIn } from '../../src/configured.ts'
import { openLog } from '../../src/log.ts'
import { problemsOfParts } from '../../src/problems/find-problems.ts'
import { type GivenPart, notedPart, openParts } from '../../src/problems/parts.ts'
import { UpstreamError } from '../../src/upstream/http/errors.ts'
import { openPauses, openWorkerParts } from '../../src/worker/health.ts'

function watch(outage: () => unknown = () => null) {
  const stream = new PassThrough()
  const returned: string[] = []
  const cameBack: { name: string; wasSilent: boolean }[] = []
  let nowMs = 1_000_000
  const part = (name: string, kind: GivenPart['kind'], silenceMs: number | null): GivenPart => ({
    ...{ name, kind, longestSilenceMs: () => silenceMs },
    onReturn: () => void returned.push(name),
    ...(kind === 'service' && { outage }),
  })
  const parts = openParts(
    [
      part('database', 'database', 10_000),
      part('queue', 'queue', 30_000),
      part('tracking', 'service', 180_000),
      part('alerts', 'receiver', null),
    ],
    {
      ...{ log: openLog({ level: 'info', stream }), nowMs: () => nowMs },
      onReturn: ({ name, wasSilent }) => void cameBack.push({ name, wasSilent }),
    },
  )
  const told = () =>
    String(stream.read() ?? '')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).msg)
  return {
    parts,
    returned,
    cameBack,
    told,
    wait: (seconds: number) => {
      nowMs += 1_000 * seconds
    },
    stateOf: (name: string) => parts.list().find((one) => one.name === name)?.state,
    find: (name: string) => parts.list().find((one) => one.name === name),
  }
}

describe('a part', () => {
  it('that failed is told apart from one that was only silent, however soon it works again', () => {
    let outage: Error | null = null
    const { parts, wait, cameBack } = watch(() => outage)
    parts.worked('tracking')
    outage = new Error('503')
    parts.list()
    outage = null
    parts.worked('tracking')
    for (let tenSeconds = 0; tenSeconds < 20; tenSeconds++) {
      for (const name of ['database', 'queue']) parts.worked(name)
      wait(10)
    }
    parts.list()
    parts.worked('tracking')
    expect(cameBack).toEqual([
      { name: 'tracking', wasSilent: false },
      { name: 'tracking', wasSilent: true },
    ])
  })

  it('is no problem for half a minute after the start, unless something keeps work from it', () => {
    const { parts, wait } = watch()
    const problems = () => problemsOfParts({ parts: parts.list() }, new Date()).map(({ what }) => what)
    expect(problems()).toEqual([])
    parts.failed('queue', new Error('refused'))
    expect(problems()).toEqual([expect.stringContaining('The queue does not work: refused.')])
    parts.worked('queue')
    wait(30)
    expect(problems()).toEqual([expect.stringContaining('Postgres does not work: No write has gone')])
  })

  it('is in the list from the first second, down and not called so', () => {
    const { parts, told } = watch()
    expect(parts.list().map(({ name, isUp, state }) => [name, isUp, state])).toEqual([
      ['database', false, 'not yet'],
      ['queue', false, 'not yet'],
      ['tracking', false, 'not yet'],
      ['alerts', true, 'not tried'],
    ])
    expect(parts.list().map(({ reason }) => reason)).toEqual([
      'No write has gone through since the worker was started.',
      'No job has gone through since the worker was started.',
      'No request has gone through since the worker was started.',
      null,
    ])
    expect(told()).toEqual([])
  })

  it('is down when nothing has gone through for too long, and up when something has, each told once', () => {
    const { parts, returned, told, wait, find } = watch()
    parts.worked('queue')
    expect(find('queue')).toMatchObject({ isUp: true, reason: null, whatToDo: null })
    wait(31)
    expect(find('queue')).toMatchObject({
      isUp: false,
      state: 'down',
      reason: 'No job has gone through for 31 s.',
    })
    parts.list()
    parts.worked('queue', 20_000)
    expect(find('queue')?.isUp).toBe(true)
    wait(11)
    expect(find('queue')?.isUp).toBe(false)
    expect(returned).toEqual(['queue'])
    expect(told()).toEqual([
      expect.stringContaining(
        'the queue does not work; runs wait until it does: No job has gone through for 31 s.',
      ),
      expect.stringContaining('the queue works again'),
      expect.stringContaining('the queue does not work'),
    ])
  })

  it('that fails says why and what to do', () => {
    const { parts, find } = watch()
    const full = Object.assign(new Error('could not extend file\n"x": No space left on device'), {
      code: '53100',
    })
    parts.worked('database')
    parts.failed('database', full)
    expect(find('database')).toMatchObject({
      state: 'down',
      reason: 'could not extend file "x": No space left on device.',
      whatToDo: expect.stringContaining('Make room on the disk of Postgres'),
    })
    parts.failed('queue', new Error("NOPERM User x has no permissions to run the 'evalsha' command"))
    expect(find('queue')).toMatchObject({
      state: 'not yet',
      whatToDo: expect.stringContaining('ACL SETUSER'),
    })
    parts.failed('queue', new Error('permission denied for database mirror'))
    expect(find('queue')?.whatToDo).toContain('`tidemark migrate`')
    expect(find('queue')?.whatToDo).not.toMatch(/Redis|REDIS|ACL/)
    parts.worked('database')
    expect(find('database')?.isUp).toBe(true)
  })
})

describe('a service', () => {
  it('is not blamed for silence while Postgres or the queue is away, and has time when they are back', () => {
    const { parts, wait, stateOf } = watch()
    const work = () => ['database', 'queue'].forEach((name) => void parts.worked(name))
    work()
    parts.worked('tracking')
    wait(400)
    expect(stateOf('database')).toBe('down')
    expect(stateOf('tracking')).toBe('works')
    work()
    expect(stateOf('tracking')).toBe('works')
    for (let seconds = 0; seconds <= 190; seconds += 5) {
      wait(5)
      work()
    }
    expect(stateOf('tracking')).toBe('down')
  })

  it('shows those who need not sign in nothing of what it answers (P9)', () => {
    const answered = new UpstreamError({
      ...{ code: 'UPSTREAM_STATUS', method: 'GET', path: '/api', status: 503, retryable: true },
      ...{ problem: 'The upstream failed (503).', excerpt: 'stack trace of Jane Doe' },
    })
    const { find } = watch(() => answered)
    expect(find('tracking')?.reason).toContain('Jane Doe')
    const shown = find('tracking')?.publicReason
    expect(shown).toContain('Requests fail (UPSTREAM_STATUS, status 503).')
    expect(shown).not.toContain('Jane Doe')
  })

  it('is down as long as runs meet its outage, also before anything went through', () => {
    let outage: Error | null = new Error('it answers 503')
    const { parts, stateOf, find } = watch(() => outage)
    expect(find('tracking')).toMatchObject({ state: 'down', reason: 'it answers 503.' })
    parts.worked('tracking')
    expect(stateOf('tracking')).toBe('down')
    outage = null
    expect(stateOf('tracking')).toBe('works')
  })
})

describe('a service whose streams are paused', () => {
  const environment = {
    ...{
      ASSIGNMENT_BASE_URL: 'http://127.0.0.1:1',
      AUTH_URL: 'http://127.0.0.1:1',
      CLIENT_GUID: '6f1c2a52-0d3b-4c58-9f0e-3a1d2c4b5e6f',
    },
    ...{ SUBJECT_ID: 's', API_KEY: 'k', SOURCE_TIMEZONE: 'UTC', DATABASE_URL: 'postgres://a@127.0.0.1/b' },
    ...{ STREAMS: 'assignment,assignment_note' },
    ...{ SCHEDULE_ASSIGNMENT: '10m', SCHEDULE_ASSIGNMENT_NOTE: '1m' },
  }

  it('may be silent meanwhile, and has as long as ever for its first request afterwards', () => {
    let nowMs = 1_000_000
    const clock = () => nowMs
    const pauses = openPauses(clock)
    const config = loadConfig(environment)
    const parts = openWorkerParts({
      config,
      streams: () => streamsIn(config),
      jobs: () => null,
      pool: () => null,
      pauses,
      log: openLog({ level: 'info', stream: new PassThrough() }),
      nowMs: clock,
    })
    const pass = (minutes: number) => {
      for (let minute = 0; minute < minutes; minute++) {
        nowMs += 60_000
        for (const name of ['database', 'queue']) parts.worked(name)
      }
      return parts.list().find(({ name }) => name === 'assignment')?.state
    }
    pass(1)
    parts.worked('assignment')
    pauses.note(new Set(['assignment_note']))
    expect(pass(15)).toBe('works')
    expect(pass(10)).toBe('down')
    pauses.note(new Set(['assignment', 'assignment_note']))
    expect(pass(600)).toBe('works')
    pauses.note(new Set(['assignment']))
    expect(pass(2)).toBe('works')
    expect(pass(3)).toBe('down')
  })
})

describe('a receiver of alerts', () => {
  it('is down from a message that was refused until one is accepted, or somebody else could send', () => {
    const { parts, stateOf, find } = watch()
    parts.failed('alerts', new Error('the receiver answered 500'))
    expect(find('alerts')).toMatchObject({
      isUp: false,
      whatToDo: expect.stringContaining('ALERT_WEBHOOK_URL'),
    })
    parts.forget('alerts')
    expect(stateOf('alerts')).toBe('not tried')
    parts.worked('alerts')
    expect(stateOf('alerts')).toBe('works')
  })
})

describe('what a worker noted of a part', () => {
  it('is read by other programs, and nothing else is', () => {
    const { parts, find } = watch()
    parts.failed('queue', new Error('no connection'))
    const noted = JSON.parse(JSON.stringify(find('queue')))
    expect(notedPart(noted)).toMatchObject([
      { name: 'queue', kind: 'queue', isUp: false, since: expect.any(Date), reason: 'no connection.' },
    ])
    expect([notedPart({}), notedPart({ name: 'x', kind: 'another' }), notedPart({ kind: 'queue' })]).toEqual([
      [],
      [],
      [],
    ])
  })
})
