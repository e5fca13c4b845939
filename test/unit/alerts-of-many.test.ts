// What many sources have with one cause is told as one problem: when, in which words, and when it is over.

import { describe, expect, it } from 'vitest'
import { bodiesOf, mailOf } from '../../src/problems/alert-body.ts'
import { planAlerts } from '../../src/problems/alerts.ts'
import type { Problem } from '../../src/problems/stream-problems.ts'
import type { Alert } from '../../src/store/book/problems.ts'

const start = new Date('2026-03-02T12:00:00Z')
const at = (seconds: number) => new Date(start.getTime() + 1000 * seconds)

const refused = (source: string, more: Partial<Problem> = {}): Problem => ({
  ...{ key: `token_refused:${source}.assignment`, kind: 'token_refused', stream: null, since: null },
  ...{ what: `The identity provider refuses ${source}.`, whatToDo: 'Look at the key.', runbook: '' },
  ...more,
})
const named = (...names: readonly string[]) => names.map((name) => refused(name))
const numbered = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => refused(`client_${from + index}`))

type Look = readonly [seconds: number, seen: readonly Problem[]]
const looks = (from: number, to: number, seen: readonly Problem[]): readonly Look[] =>
  Array.from({ length: (to - from) / 15 }, (_, index) => [from + 15 * index, seen] as const)

type Options = Parameters<typeof planAlerts>[3]
/** What is told at each look: `+` began, `-` over, and of how many sources or of which ones. */
function tell(all: readonly Look[], options: Options = {}): readonly string[] {
  let known: readonly Alert[] = []
  const told: string[] = []
  const who = (alerts: readonly Alert[]) =>
    alerts.length > 4 ? alerts.length : alerts.map(({ key }) => key.replace(/.*:|\..*/g, '')).join(' ')
  for (const [seconds, seen] of all) {
    const { begun, over, known: stay } = planAlerts(known, seen, at(seconds), options)
    if (begun.length > 0) told.push(`${seconds} + ${who(begun)}`)
    if (over.length > 0) told.push(`${seconds} - ${who(over)}`)
    known = stay
      .filter((alert) => !over.includes(alert))
      .map((alert) => (begun.includes(alert) ? { ...alert, toldAt: at(seconds), isWorse: false } : alert))
  }
  return told
}

describe('what many sources have with one cause', () => {
  it('is told once when it began and once when all are well', () => {
    const heals = numbered(0, 40).map((_, index) =>
      looks(600 + 15 * index, 615 + 15 * index, numbered(index, 40)),
    )
    expect(tell([...looks(0, 600, numbered(0, 40)), ...heals.flat(), ...looks(1_200, 1_500, [])])).toEqual([
      '60 + 40',
      '1320 - 40',
    ])
  })

  it('is told of each by itself where they are two, or where the cause is another', () => {
    expect(tell(looks(0, 90, named('acme', 'beta')))).toEqual(['60 + acme beta'])
    const [acme, beta] = named('acme', 'beta')
    const other = refused('gamma', { what: 'The clock of gamma is wrong.' })
    const seen = [acme, beta, other].filter((one) => one !== undefined)
    expect(tell([...looks(0, 90, seen), ...looks(90, 300, [other])])).toEqual([
      '60 + acme beta gamma',
      '210 - acme beta',
    ])
  })

  it('waits a minute for others with the same cause, and no longer', () => {
    const grows = [
      ...looks(0, 45, named('acme')),
      ...looks(45, 90, named('acme', 'beta', 'gamma')),
      ...looks(90, 600, named('acme', 'beta', 'gamma')),
    ]
    expect(tell(grows)).toEqual(['105 + acme beta gamma'])
    const late = { timingOf: () => ({ afterMs: 900_000, isHeld: false }) }
    expect(
      tell([...looks(0, 600, named('acme')), ...looks(600, 1_600, named('acme', 'beta', 'gamma'))], late),
    ).toEqual(['960 + acme', '1500 + beta gamma acme'])
  })

  it('is not told again of each source that joins, but when twice as many have it, or after an hour', () => {
    const joins = [3, 4, 5].map((number) =>
      looks(150 + 60 * number, 210 + 60 * number, numbered(0, number + 1)),
    )
    const most = [...looks(0, 330, numbered(0, 3)), ...joins.flat()]
    expect(tell([...most, ...looks(510, 690, numbered(0, 6))])).toEqual([
      '60 + client_0 client_1 client_2',
      '510 + 6',
    ])
    expect(tell([...looks(0, 330, numbered(0, 3)), ...looks(330, 4_000, numbered(0, 4))])).toEqual([
      '60 + client_0 client_1 client_2',
      '3660 + client_3 client_0 client_1 client_2',
    ])
    expect(tell(looks(0, 9_000, numbered(0, 40)))).toEqual(['60 + 40'])
  })

  it('hides no source for long: one that joins when the others are well is told of', () => {
    const few = [...looks(0, 300, numbered(0, 3)), ...looks(300, 600, numbered(2, 4))]
    expect(tell(few)).toEqual(['60 + client_0 client_1 client_2', '360 + client_3'])
    const alone = [...looks(0, 300, numbered(0, 3)), ...looks(300, 600, numbered(3, 4))]
    expect(tell(alone)).toEqual([
      '60 + client_0 client_1 client_2',
      '360 + client_3',
      '420 - client_0 client_1 client_2',
    ])
  })

  it('leaves out who is muted, and is no problem of many then', () => {
    const isSilenced = ({ key }: { readonly key: string }) => key.includes('gamma')
    expect(tell(looks(0, 4_000, named('acme', 'beta', 'gamma')), { isSilenced })).toEqual(['60 + acme beta'])
  })
})

describe('a message about many sources', () => {
  const alert = ({ key, kind, stream, what, whatToDo }: Problem, more: Partial<Alert> = {}): Alert => ({
    ...{ key, kind, stream, what, whatToDo, since: start, goneSince: null, toldAt: null },
    ...{ attempts: 0, retryAt: null, isWorse: false, ...more },
  })
  const many = numbered(0, 12)
  const begun = many.map((one, index) => alert(one, { since: at(index) }))
  const over = many.map((one, index) => alert(one, { toldAt: at(60), goneSince: at(90 + index) }))
  const links = { consoleUrl: 'https://mirror.example', runbooksUrl: null }
  const names = Array.from({ length: 10 }, (_, index) => `client_${index}`).join(', ')

  it('is one line with ten of their names, and one when it is over', () => {
    const textOf = (news: object) =>
      JSON.parse(
        bodiesOf(
          { url: 'https://chat.example', ...links },
          { begun: [], over: [], now: at(120), ...news },
        )[0] ?? '',
      ).text
    expect(textOf({ begun })).toBe(
      `*Tidemark: a problem needs you*\n• 12 sources have this problem: ${names} and 2 more. The identity provider refuses client_0. Since 2026-03-02 12:00 UTC, 2 m ago. → Look at the key. More: docs/operations/token-refused.md <https://mirror.example/problems|Console>`,
    )
    expect(textOf({ over })).toBe(
      `*Tidemark: a problem is over*\n• Over after 1 m 41 s: 12 sources had this problem: ${names} and 2 more. The identity provider refuses client_0.`,
    )
    const { subject } = mailOf(
      {
        mail: {
          host: '',
          port: 1,
          isTls: false,
          mayBePlain: true,
          user: null,
          password: null,
          from: '',
          to: [],
        },
      },
      { begun, over: [], now: at(120) },
    )
    expect(subject).toMatch(/^Tidemark: a problem needs you: 12 sources have this problem: client_0, /)
  })

  it('names all of them to programs, under one key', () => {
    const toProgram = (news: object) =>
      JSON.parse(
        bodiesOf(
          { url: 'https://x.example', format: 'json' },
          { begun: [], over: [], now: at(120), ...news },
        )[0] ?? '',
      )
    const [began] = toProgram({ begun }).problems
    expect(began).toMatchObject({
      ...{
        event: 'began',
        kind: 'token_refused',
        stream: null,
        since: at(0).toISOString(),
        over_since: null,
      },
      ...{ key: expect.stringMatching(/^many_sources:token_refused:[\da-f]{16}$/) },
      sources: many.map((_, index) => `client_${index}`),
    })
    const [ended] = toProgram({ over }).problems
    expect(ended).toMatchObject({ event: 'over', key: began.key, over_since: at(101).toISOString() })
    expect(toProgram({ begun: begun.slice(0, 2) }).problems).toMatchObject(
      named('client_0', 'client_1').map(({ key }) => ({ key })),
    )
  })

  it('is one incident of PagerDuty, which takes the place of those that were told before', () => {
    const pager = { url: 'https://events.example/v2', format: 'pagerduty' as const, key: 'k' }
    const sent = (news: object) =>
      bodiesOf(pager, { begun: [], over: [], now: at(120), ...news }).map((body) => {
        const { event_action: action, dedup_key: key } = JSON.parse(body)
        return `${action} ${key.replace(/.* /, '')}`
      })
    const [trigger = ''] = sent({ begun })
    const key = trigger.replace('trigger ', '')
    expect(sent({ begun })).toEqual([`trigger ${key}`])
    expect(sent({ over })).toEqual([`resolve ${key}`])
    const [first, ...rest] = begun
    const before = first ? [{ ...first, toldAt: at(30) }, ...rest] : []
    expect(sent({ begun: before })).toEqual([`trigger ${key}`, 'resolve token_refused:client_0.assignment'])
  })
})
