// Several receivers, over HTTP and by mail, with rules of their own: ten kinds of problems that begin, are muted, acknowledged, get worse
// and are over. And the shares in which targets are kept.

import { beforeEach, describe, expect, it } from 'vitest'
import type { Rule } from '../../src/config/alert-file.ts'
import { silenceActions } from '../../src/operator/silences.ts'
import type { Receiver } from '../../src/problems/alert-body.ts'
import { sendAlerts } from '../../src/problems/alert-loop.ts'
import { timingOf } from '../../src/problems/receivers.ts'
import { isNews, type Problem, type ProblemKind, problemOf } from '../../src/problems/stream-problems.ts'
import { noteProblems, openAlertBook } from '../../src/store/book/problems.ts'
import { noteSilenced, readSilences } from '../../src/store/book/silences.ts'
import { readKeptTargets } from '../../src/store/book/targets.ts'
import { noteStateMinutes, thinMinutes } from '../../src/store/book/watch.ts'
import { knownStreams } from '../../src/streams/catalog.ts'
import { receiveAlerts } from '../support/alert-receiver.ts'
import { neverAborted } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { startMailServer } from '../support/mail-server.ts'

const start = new Date('2026-03-02T12:00:00Z')
const at = (minutes: number) => new Date(start.getTime() + 60_000 * minutes)
const tenKinds = [
  ...(['service_down', 'told_to_wait', 'access_lost', 'stuck', 'failing', 'stale', 'target_missed'] as const),
  ...(['deletions_blocked', 'quarantine', 'schema_drift'] as const),
]
const problem = (kind: ProblemKind, size: number | null = null): Problem =>
  problemOf(kind, 'assignment', 'assignment', {
    since: null,
    size,
    what: `${kind} of assignment.`,
    whatToDo: 'Look.',
  })
const all = tenKinds.map((kind) => problem(kind, 3))
const rule = (to: string, more: Partial<Rule> = {}): Rule => ({
  ...{ to: [to], kinds: null, streams: null, sources: null, afterMs: 60_000, quiet: null },
  ...more,
})

describe.skipIf(!hasPostgres)('receivers of alerts', () => {
  const database = createTestDatabase()
  beforeEach(() =>
    database.pool.query(
      'truncate tidemark.problem, tidemark.silence, tidemark.problem_history, tidemark.minute',
    ),
  )

  const lookOf =
    (name: string, receiver: Receiver, rules: readonly Rule[]) =>
    async (minutes: number, problems: readonly Problem[]) =>
      sendAlerts({
        ...{
          receiver: { ...receiver, name },
          problems,
          now: at(minutes),
          signal: neverAborted,
          log: quietLog,
        },
        book: openAlertBook(database.pool, name),
        timingOf: timingOf({ rules }, name, at(minutes)),
        silences: (await readSilences(database.pool)).map((one) => ({ ...one, until: one.until && at(10) })),
      })
  const order = (target: string, fields: Readonly<Record<string, string>>) => ({
    ...{ target, fields, by: 'ada@desk', who: 'ada', door: 'terminal' as const, address: 'desk' },
  })
  const settings = () => ({
    problemOf: () => null,
    shown: () => ({ source: '', settings: [], unknown: [] }),
  })
  const act = (
    name: keyof typeof silenceActions,
    target: string,
    fields: Readonly<Record<string, string>> = {},
  ) =>
    silenceActions[name](
      {
        ...{ pool: database.pool, streams: knownStreams, requestRun: async () => {}, log: quietLog },
        ...{ settings, alerting: () => expect.fail('nothing is set up here') },
      },
      order(target, fields),
    )
  const seen = (problems: readonly Problem[]) => noteProblems(database.pool, problems)

  it('are told by mail and over HTTP of ten kinds, of what is acknowledged only that it is over, and of what is muted later', async () => {
    await using mails = await startMailServer()
    await using hook = await receiveAlerts()
    const mail = {
      ...{ host: '127.0.0.1', port: mails.port, isTls: false, mayBePlain: true, user: null, password: null },
      ...{ from: 'tidemark@example.com', to: ['ada@example.com'] },
    }
    const toHook = lookOf('hook', { url: hook.url, format: 'json' }, [rule('hook')])
    const toMail = lookOf('post', { mail }, [rule('post', { afterMs: 180_000 })])
    const look = async (minutes: number, problems: readonly Problem[]) => {
      await Promise.all([toHook(minutes, problems), toMail(minutes, problems)])
    }
    const events = (event: string) =>
      hook
        .received()
        .filter((one) => one.event === event)
        .map(({ key }) => key)
    await seen(all)
    await look(0, all)
    await look(1, all)
    expect([events('began').toSorted(), mails.taken]).toEqual([all.map(({ key }) => key).toSorted(), []])
    // Whoever reads mail is told later, and not of what somebody looks after meanwhile.
    await act('acknowledgeProblem', 'quarantine:assignment', { reason: 'ticket 4711' })
    await act('muteAlerts', 'kind:stale', { for: '1h', reason: 'it is slow' })
    await look(3, all)
    expect(mails.taken.map(({ subject }) => subject)).toEqual([
      'Tidemark: 7 problems need you, Tidemark: good to know',
    ])
    expect(mails.taken[0]?.text).toContain('* failing of assignment.')
    expect(mails.taken[0]?.text).not.toMatch(/quarantine|stale/)
    // The mute ends.
    await look(11, all)
    expect(mails.taken[1]?.subject).toBe('Tidemark: a problem needs you: stale of assignment.')
    await look(12, [])
    await look(15, [])
    const lasting = all.filter(({ kind }) => !isNews(kind)).map(({ key }) => key)
    expect(events('over').toSorted()).toEqual(lasting.toSorted())
    expect(mails.taken[2]?.subject).toBe('Tidemark: 8 problems are over')
    expect(mails.taken[2]?.text).not.toContain('quarantine')
    expect([events('began').length, mails.taken.length]).toEqual([10, 3])
    const left = await database.pool.query('select receiver, key from tidemark.problem order by 1, 2')
    expect(left.rows.map(({ key }) => key)).toEqual(['schema_drift:assignment', 'schema_drift:assignment'])
  })

  it('are told again of an acknowledged problem that got worse', async () => {
    await using hook = await receiveAlerts()
    const look = lookOf('hook', { url: hook.url, format: 'json' }, [rule('hook')])
    const grown = (size: number) => [problem('quarantine', size)]
    const note = (size: number) => noteSilenced(database.pool, grown(size), { seesAll: true })
    await seen(grown(3))
    await look(0, grown(3))
    await look(1, grown(3))
    await act('acknowledgeProblem', 'quarantine:assignment', { reason: 'ticket 4711' })
    for (const size of [3, 5]) await note(size)
    await look(2, grown(5))
    expect([hook.received().length, await readSilences(database.pool)]).toEqual([1, [expect.anything()]])
    await note(6)
    await look(3, grown(6))
    await look(4, grown(6))
    expect([hook.received().length, await readSilences(database.pool)]).toEqual([2, []])
  })

  it('that hang or are down delay no other, and hold no connection meanwhile', async () => {
    const { promise: hanging, resolve } = Promise.withResolvers<void>()
    await using stuck = await startMailServer({ greeting: null })
    await using hook = await receiveAlerts()
    const mail = {
      ...{ host: '127.0.0.1', port: stuck.port, isTls: false, mayBePlain: true, user: null, password: null },
      ...{ from: 'tidemark@example.com', to: ['ada@example.com'] },
    }
    const stop = new AbortController()
    const book = openAlertBook(database.pool, 'stuck')
    const begin = {
      receiver: { mail, name: 'stuck' },
      problems: all,
      book,
      signal: stop.signal,
      log: quietLog,
    }
    await sendAlerts({ ...begin, now: at(0) })
    const held = sendAlerts({ ...begin, now: at(1) }).then(resolve)
    const look = lookOf('hook', { url: hook.url, format: 'json' }, [rule('hook')])
    await look(0, all)
    await look(1, all)
    expect(hook.received()).toHaveLength(10)
    await expect.poll(() => database.pool.totalCount - database.pool.idleCount).toBe(0)
    // Another worker does not send it meanwhile.
    await sendAlerts({ ...begin, now: at(1.5) })
    stop.abort()
    await Promise.all([hanging, held])
  })

  it('are left alone by a mute that has an end, a reason, and something that there is', async () => {
    await seen([problem('stale')])
    const refusals: readonly (readonly [
      keyof typeof silenceActions,
      string,
      Record<string, string>,
      RegExp,
    ])[] = [
      ['muteAlerts', 'assignment', { reason: 'r' }, /say when it ends/],
      ['muteAlerts', 'assignment', { reason: 'r', for: 'a while' }, /"a while" is no time/],
      ['muteAlerts', 'assignment', { reason: 'r', for: '31d' }, /31 d is too long/],
      ['muteAlerts', 'assignment', { reason: 'r', until: '2020-01-01T00:00Z' }, /that time is over/],
      ['muteAlerts', 'assignment', { for: '1h' }, /Say why/],
      ['muteAlerts', 'asignment', { reason: 'r', for: '1h' }, /Did you mean assignment\?/],
      ['muteAlerts', 'kind:stail', { reason: 'r', for: '1h' }, /There is no problem kind:stail now/],
      ['acknowledgeProblem', 'stale:asignment', { reason: 'r' }, /Did you mean stale:assignment\?/],
      ['acknowledgeProblem', 'stale:assignment', {}, /Say what you know/],
      ['unmuteAlerts', 'stale', {}, /neither muted nor acknowledged/],
    ]
    for (const [name, target, fields, expected] of refusals)
      await expect(act(name, target, fields)).rejects.toThrow(expected)
    expect(await readSilences(database.pool)).toEqual([])
    for (const target of ['all', 'assignment', 'stale', 'stale:assignment'])
      await act('muteAlerts', target, { for: '30d', reason: 'r' })
    const targets = (await readSilences(database.pool)).map(({ target }) => target)
    expect(targets.toSorted()).toEqual(['all', 'kind:stale', 'stale:assignment', 'stream:assignment'])
    await act('unmuteAlerts', 'assignment')
    expect(await readSilences(database.pool)).toHaveLength(3)
  })

  it('see mutes end and acknowledgements go with their problem', async () => {
    await seen([problem('stale')])
    await act('acknowledgeProblem', 'stale:assignment', { reason: 'r' })
    await act('muteAlerts', 'all', { for: '1h', reason: 'r' })
    await noteSilenced(database.pool, [], { seesAll: true })
    expect(await readSilences(database.pool)).toHaveLength(2)
    await database.pool.query(
      `update tidemark.silence set seen_at = now() - interval '51 seconds', until = until - interval '2 hours'`,
    )
    await noteSilenced(database.pool, [], { seesAll: false })
    const count = async () => (await database.pool.query('select from tidemark.silence')).rowCount
    expect([await count(), (await readSilences(database.pool)).length]).toEqual([2, 1])
    await noteSilenced(database.pool, [], { seesAll: true })
    expect(await count()).toBe(0)
  })
})

describe.skipIf(!hasPostgres)('targets', () => {
  const database = createTestDatabase({ forEach: true })
  const target = { stream: 'assignment', time: 'read', age: 'read', seconds: 60 }
  const put = async (
    minutesAgo: number,
    minutes: number,
    readAge: number | null,
    state: 'up to date' | 'paused' = 'up to date',
  ) => {
    const { rows } = await database.pool.query<{ at: Date }>(
      `select date_trunc('hour', now()) - make_interval(mins => $1::int) as at`,
      [minutesAgo],
    )
    const span = { at: rows[0]?.at ?? start, minutes, state }
    await noteStateMinutes(database.pool, [
      { stream: 'assignment', ...span, readAge, settledAge: null, deletionsAge: null },
    ])
  }
  const kept = async () =>
    (await readKeptTargets(database.pool, [target])).map(({ days, share, countedMs }) => [
      days,
      share,
      countedMs / 60_000,
    ])
  const days = (count: number) => count * 24 * 60

  it('are kept in a share of the minutes: those in which nobody looked are missed, paused ones do not count', async () => {
    expect(await kept()).toEqual([
      [7, null, 0],
      [30, null, 0],
    ])
    for (const minutesAgo of [100, 95]) await put(minutesAgo, 5, 30)
    await put(90, 1, 61)
    await put(89, 4, null)
    await put(85, 5, 90, 'paused')
    // Nobody looked for ten minutes.
    await put(70, 5, 60)
    await database.pool.query(`delete from tidemark.minute where at > now()`)
    await database.pool.query(
      `update tidemark.minute set at = at + (now() - date_trunc('hour', now())) + interval '65 minutes'`,
    )
    // 35 minutes from the first to the last, of which 9 do not count.
    const [week] = await kept()
    expect(week).toEqual([7, expect.closeTo(15 / 26, 5), expect.closeTo(26, 5)])
  })

  it('are counted by the minute also where only hours are left', async () => {
    for (const minutesAgo of [60, 58, 56]) await put(days(10) + minutesAgo, 2, 30)
    await put(days(10) + 54, 2, 90)
    await put(days(10) + 52, 2, 90, 'paused')
    await thinMinutes(database.pool, [target])
    const { rows } = await database.pool.query('select minutes, kept from tidemark.minute')
    expect(rows).toEqual([{ minutes: 60, kept: { read: [6, 58] } }])
    await put(0, 1, 30)
    const [, month] = await kept()
    const [, share = null, counted = 0] = month ?? []
    expect(Number(share) * Number(counted)).toBeCloseTo(7, 3)
    expect(Number(counted)).toBeGreaterThan(days(10) - 10)
  })
})
