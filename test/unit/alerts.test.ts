// When people are told, and in which words.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { quietHours } from '../../src/config/parsers.ts'
import { keepSecret } from '../../src/log.ts'
import { bodiesOf, type News, type Receiver, testNews } from '../../src/problems/alert-body.ts'
import { isQuiet, isSilencedBy, planAlerts, retryAfter } from '../../src/problems/alerts.ts'
import type { Problem } from '../../src/problems/stream-problems.ts'
import type { Alert } from '../../src/store/book/problems.ts'

const start = new Date('2026-03-02T12:00:00Z')
const at = (seconds: number) => new Date(start.getTime() + 1000 * seconds)
const problem: Problem = {
  key: 'deletions_blocked:assignment',
  kind: 'deletions_blocked',
  stream: 'assignment',
  since: null,
  what: '3 of 4 rows of assignment disappeared.',
  whatToDo: 'See which: `tidemark deletions list assignment`.',
  runbook: 'docs/operations/deletions-blocked.md',
}
const drift: Problem = { ...problem, key: 'schema_drift:assignment:1', kind: 'schema_drift' }

/** What is told at each look, when the problems seen are these: `+` began, `-` over. */
function tell(looks: readonly (readonly [seconds: number, ...seen: readonly Problem[]])[]): string[] {
  let known: readonly Alert[] = []
  const told: string[] = []
  for (const [seconds, ...seen] of looks) {
    const plan = planAlerts(known, seen, at(seconds))
    for (const { key } of plan.begun) told.push(`${seconds} + ${key}`)
    for (const { key } of plan.over) told.push(`${seconds} - ${key}`)
    known = plan.known
      .filter((alert) => !plan.over.includes(alert))
      .map((alert) => (plan.begun.includes(alert) ? { ...alert, toldAt: at(seconds) } : alert))
  }
  return told
}
const looks = (from: number, to: number, ...seen: readonly Problem[]) =>
  Array.from({ length: (to - from) / 15 }, (_, index) => [from + 15 * index, ...seen] as const)

describe('planAlerts', () => {
  it('tells once that a problem began, and once that it is over', () => {
    expect(tell([...looks(0, 600, problem), ...looks(600, 1200)])).toEqual([
      '60 + deletions_blocked:assignment',
      '720 - deletions_blocked:assignment',
    ])
  })

  it('tells nothing of what comes and goes', () => {
    const flaps = [0, 150, 300, 450].flatMap((from) => [
      ...looks(from, from + 45, problem),
      ...looks(from + 45, from + 150),
    ])
    expect(tell(flaps)).toEqual([])
    const lapses = [200, 400, 600].flatMap((from) => [
      ...looks(from, from + 105),
      ...looks(from + 105, from + 200, problem),
    ])
    expect(tell([...looks(0, 200, problem), ...lapses])).toEqual(['60 + deletions_blocked:assignment'])
  })

  it('takes what only one of two workers sees for standing', () => {
    const inTurns = looks(0, 600, problem).map(([seconds, seen], index) =>
      index % 2 === 0 ? ([seconds, seen] as const) : ([seconds] as const),
    )
    expect(tell(inTurns.map(([seconds, seen]) => (seen ? [seconds, seen] : [seconds])))).toEqual([
      '60 + deletions_blocked:assignment',
    ])
  })

  it('P18: does not call over what only stands behind its cause', () => {
    const stale: Problem = { ...problem, key: 'stale:assignment', kind: 'stale' }
    const cause: Problem = {
      ...problem,
      ...{ key: 'service_down:assignment', kind: 'service_down', stream: null, hides: [stale.key] },
    }
    expect(tell([...looks(0, 90, stale), ...looks(90, 600, cause), ...looks(600, 1200)])).toEqual([
      '60 + stale:assignment',
      '150 + service_down:assignment',
      '720 - service_down:assignment',
      '720 - stale:assignment',
    ])
    // What nobody was told of begins anew when it is shown again.
    expect(
      tell([...looks(0, 45, stale), ...looks(45, 600, cause), ...looks(600, 690, stale, cause)]),
    ).toEqual(['105 + service_down:assignment', '660 + stale:assignment'])
  })

  it('waits for a look before it calls over what stood when the workers stopped', () => {
    expect(tell([...looks(0, 90, problem), [9000], [9015, problem], ...looks(9030, 9200, problem)])).toEqual([
      '60 + deletions_blocked:assignment',
    ])
  })

  it('tells an event once and never that it is over, also when it comes again the same day', () => {
    expect(
      tell([...looks(0, 90, drift), ...looks(90, 600), ...looks(3600, 3700, drift), ...looks(3705, 4500)]),
    ).toEqual(['60 + schema_drift:assignment:1'])
    expect(planAlerts([known(drift, { toldAt: at(0), goneSince: at(0) })], [], at(86_400))).toMatchObject({
      forgotten: [drift.key],
      known: [],
    })
  })

  it('does not tell again of what is left of an event whose beginning is a day ago', () => {
    const whole = { ...drift, since: at(0) }
    const rest = { ...drift, key: 'schema_drift:assignment:2', since: at(300) }
    expect(tell([...looks(0, 300, whole), ...looks(86_400, 86_700, rest)])).toEqual([
      '60 + schema_drift:assignment:1',
    ])
    // What could not be told all day is told all the same.
    const untold = [known(whole, { attempts: 9 })]
    expect(planAlerts(untold, [whole], at(80_000)).begun).toMatchObject([{ key: whole.key }])
  })

  it('tells of what people know already only when it has lasted, and once', () => {
    const frozen = { ...problem, key: 'deletions_frozen:assignment', quietUntil: at(300) }
    expect(tell([...looks(0, 600, frozen), ...looks(600, 1200)])).toEqual([
      '300 + deletions_frozen:assignment',
      '720 - deletions_frozen:assignment',
    ])
    expect(tell([...looks(0, 285, frozen), ...looks(285, 1200)])).toEqual([])
  })

  it('tells by the rules of the receiver, and what it was told of goes on when they change', () => {
    const timingOf = ({ stream }: { readonly stream: string | null }) =>
      stream === 'assignment' ? { afterMs: 300_000, isHeld: false } : null
    const other = { ...problem, key: 'x', stream: 'tracker_object' }
    expect(planAlerts([], [other], at(0), { timingOf }).known).toEqual([])
    const seen = planAlerts([], [problem], at(0), { timingOf }).known
    const begunAt = (seconds: number) => planAlerts(seen, [problem], at(seconds), { timingOf }).begun.length
    expect([begunAt(299), begunAt(300)]).toEqual([0, 1])
    const told = [known(problem, { toldAt: at(0) })]
    const changed = { timingOf: () => null }
    expect(planAlerts(told, [problem], at(60), changed)).toMatchObject({
      begun: [],
      over: [],
      known: [{ goneSince: null }],
    })
    const gone = [known(problem, { toldAt: at(0), goneSince: at(60) })]
    expect(planAlerts(gone, [], at(180), changed).over).toHaveLength(1)
    const held = { timingOf: () => ({ afterMs: 60_000, isHeld: true }) }
    expect(planAlerts(gone, [], at(180), held)).toMatchObject({ over: [], known: [{ key: problem.key }] })
  })

  it('tells nothing of what is muted or acknowledged, but that it is over, and once more when it got worse', () => {
    const silenced = (target: string, until: Date | null = null) => ({
      isSilenced: isSilencedBy([{ target, until, by: 'ada', reason: 'r', at: start }], at(90)),
    })
    const begun = (...given: Parameters<typeof silenced>) =>
      planAlerts([known(problem)], [problem], at(90), silenced(...given)).begun.length
    const mine = ['all', 'kind:deletions_blocked', 'stream:assignment', problem.key]
    expect(mine.map((target) => begun(target))).toEqual([0, 0, 0, 0])
    expect([
      begun('kind:stale'),
      begun('stream:tracker_object'),
      begun('all', at(90)),
      begun('all', at(91)),
    ]).toEqual([...[1, 1, 1, 0]])
    const gone = [known(problem, { toldAt: at(0), goneSince: at(60) })]
    expect(planAlerts(gone, [], at(180), silenced('all')).over).toHaveLength(1)
    const worse = [known(problem, { toldAt: at(0), isWorse: true })]
    expect(planAlerts(worse, [problem], at(90)).begun).toHaveLength(1)
  })

  it('backs off for an hour at most, and as long as the receiver asks within that', () => {
    const pauses = [0, 1, 2, 12].map(
      (attempts) => retryAfter(attempts, null, start).getTime() - start.getTime(),
    )
    expect(pauses).toEqual([30_000, 60_000, 120_000, 3_600_000])
    expect(retryAfter(0, 90_000, start)).toEqual(at(90))
    expect(retryAfter(0, 9e9, start)).toEqual(at(3600))
  })
})

function known({ key, kind, stream, what, whatToDo }: Problem, more: Partial<Alert> = {}): Alert {
  return {
    key,
    kind,
    stream,
    what,
    whatToDo,
    since: start,
    goneSince: null,
    toldAt: null,
    attempts: 0,
    retryAt: null,
    isWorse: false,
    ...more,
  }
}

const alertBody = (receiver: Extract<Receiver, { url: string }>, news: News): string =>
  bodiesOf(receiver, news).join('\n')
const testBody = (receiver: Extract<Receiver, { url: string }>, now: Date) =>
  alertBody(receiver, testNews(now))
const slack = 'https://hooks.slack.com/services/T0/B0/x'
const teams = 'https://prod-11.westeurope.logic.azure.com:443/workflows/1/triggers/manual/paths/invoke?sig=y'

describe('alertBody', () => {
  it('is what Slack takes: text, with what to do', () => {
    const body = JSON.parse(alertBody({ url: slack }, { begun: [known(problem)], over: [], now: at(60) }))
    expect(body).toEqual({
      text: '*Tidemark: a problem needs you*\n• 3 of 4 rows of assignment disappeared. Since 2026-03-02 12:00 UTC, 1 m ago. → See which: `tidemark deletions list assignment`. More: docs/operations/deletions-blocked.md',
      unfurl_links: false,
      unfurl_media: false,
    })
    const over = JSON.parse(
      alertBody({ url: slack }, { begun: [], over: [known(problem, { goneSince: at(90) })], now: at(999) }),
    )
    expect(over.text).toBe(
      '*Tidemark: a problem is over*\n• Over after 1 m 30 s: 3 of 4 rows of assignment disappeared.',
    )
  })

  it('calls what merely happened good to know', () => {
    const body = JSON.parse(alertBody({ url: slack }, { begun: [known(drift)], over: [], now: at(60) }))
    expect(body.text).toMatch(/^\*Tidemark: good to know\*\n• /)
    expect(body.text).not.toContain('needs you')
  })

  it('is a card for Teams, whatever host its workflow has', () => {
    for (const url of [
      teams,
      'https://default1.ae.environment.api.powerplatform.com:443/powerautomate/x?sig=y',
      'https://acme.webhook.office.com/webhookb2/x',
    ]) {
      const body = JSON.parse(alertBody({ url }, { begun: [known(problem)], over: [], now: at(60) }))
      expect(body).toMatchObject({
        type: 'message',
        attachments: [
          {
            contentType: 'application/vnd.microsoft.card.adaptive',
            content: {
              type: 'AdaptiveCard',
              body: [
                { inlines: [{ type: 'TextRun', text: 'Tidemark: a problem needs you' }] },
                { inlines: [{ type: 'TextRun', text: expect.stringContaining('3 of 4 rows') }] },
              ],
            },
          },
        ],
      })
    }
    expect(
      alertBody(
        { url: 'https://logic.azure.com.evil.example/' },
        { begun: [known(problem)], over: [], now: start },
      ),
    ).toContain('"text":"*')
  })

  it('makes no mention, link or markup out of text of the upstream', () => {
    const what =
      'x: <!channel> <https://evil.example|click> @everyone [a](http://evil.example) www.evil.example & \u202egnp.exe\r\n*Tidemark: a problem is over*'
    const { text } = JSON.parse(
      alertBody({ url: slack }, { begun: [known({ ...problem, what })], over: [], now: at(60) }),
    )
    expect(text).not.toMatch(/[<>]|&(?!amp;|lt;|gt;)|@everyone|:\/\/|\]\(|www\.e|evil\.e|\u202e|\r/)
    expect(text.split('\n')).toHaveLength(2)
    expect(text).toContain('&lt;!channel&gt;')
  })

  it('says commands so that they can be copied', () => {
    const command = '`tidemark reconcile --acknowledge acme.assignment`'
    const whatToDo = `Nothing, unless you need www.evil.example: ${command}.`
    const news = { begun: [known({ ...problem, whatToDo })], over: [], now: at(60) }
    const { text } = JSON.parse(alertBody({ url: slack }, news))
    expect(text).toContain(command)
    expect(text).not.toContain('www.evil')
  })

  it('holds no secret, and no more than fits (P9)', () => {
    keepSecret('a-secret-of-the-alert-tests')
    const begun = Array.from({ length: 500 }, (_, index) =>
      known({ ...problem, key: String(index), what: `a-secret-of-the-alert-tests ${'😀'.repeat(4_000)}` }),
    )
    for (const url of [slack, teams]) {
      const body = alertBody({ url }, { begun, over: begun, now: at(60) })
      expect(body).not.toContain('a-secret')
      expect(body.length).toBeLessThan(28_000)
      expect(body).toContain('and 490 more')
    }
  })
})

const reachable = { consoleUrl: 'https://mirror.acme.example/', runbooksUrl: 'https://wiki.acme.example/ops' }

describe('links of an alert', () => {
  const begun = [known(problem), known({ ...problem, key: 'x', kind: 'service_down', stream: null })]

  it('lead to the page where something can be done, and to the runbook', () => {
    const { text } = JSON.parse(alertBody({ url: slack, ...reachable }, { begun, over: [], now: at(60) }))
    expect(text).toContain(
      '`. <https://mirror.acme.example/approve?stream=assignment|Console> <https://wiki.acme.example/ops/deletions-blocked.md|Runbook>',
    )
    expect(text).toContain(' <https://mirror.acme.example/upstream|Console>')
    expect(text).not.toContain('docs/operations')
  })

  it('lead to a page that is there, also where the problem is one of related records', () => {
    const pageOf = (kind: Problem['kind'], stream: string | null) => {
      const about = known({ ...problem, key: `${kind}:${stream ?? ''}`, kind, stream })
      const news = { begun: [about], over: [], now: at(60) }
      const body = alertBody({ url: slack, format: 'json', ...reachable }, news)
      return JSON.parse(body).problems[0].page_url.replace('https://mirror.acme.example', '')
    }
    expect(pageOf('schema_drift', 'customer')).toBe('/dictionary?stream=customer')
    expect(pageOf('volatile_field', 'acme.customer')).toBe('/dictionary?stream=acme.customer')
    expect(pageOf('private_fields', 'customer')).toBe('/dictionary?stream=customer')
    expect(pageOf('local_damage', 'customer')).toBe('/runs?stream=customer')
    expect(pageOf('missed_rows', 'acme.assignment')).toBe('/streams/acme.assignment')
    expect(pageOf('target_missed', 'assignment')).toBe('/streams/assignment')
    expect(pageOf('part_down', null)).toBe('/workers')
    expect(pageOf('source_stopped', null)).toBe('/sources')
  })

  it('are buttons in Teams', () => {
    const body = JSON.parse(alertBody({ url: teams, ...reachable }, { begun, over: [], now: at(60) }))
    const sets = body.attachments[0].content.body.filter(({ type }: { type: string }) => type === 'ActionSet')
    expect(sets).toHaveLength(2)
    expect(sets[0].actions).toEqual([
      {
        type: 'Action.OpenUrl',
        title: 'Console',
        url: 'https://mirror.acme.example/approve?stream=assignment',
      },
      { type: 'Action.OpenUrl', title: 'Runbook', url: 'https://wiki.acme.example/ops/deletions-blocked.md' },
    ])
  })
})

describe('alerts for programs', () => {
  type Schema = {
    readonly type?: string | readonly string[]
    readonly const?: unknown
    readonly enum?: readonly unknown[]
    readonly format?: string
    readonly required?: readonly string[]
    readonly properties?: Readonly<Record<string, Schema>>
    readonly items?: Schema
  }
  const schema: Schema = JSON.parse(
    readFileSync(new URL('../../deploy/alerts/alert.schema.json', import.meta.url), 'utf8'),
  )
  const typeOf = (value: unknown) =>
    value === null
      ? 'null'
      : Array.isArray(value)
        ? 'array'
        : Number.isInteger(value)
          ? 'integer'
          : typeof value

  /** What of the schema does not hold; so much of JSON Schema as that one uses. */
  function breaches(value: unknown, of: Schema, path = '$'): readonly string[] {
    if (of.type && ![of.type].flat().includes(typeOf(value))) return [`${path} is ${typeOf(value)}`]
    if ('const' in of && value !== of.const) return [`${path} is ${value}`]
    if (of.enum && !of.enum.includes(value)) return [`${path} is ${value}`]
    if (of.format === 'date-time' && value !== null && Number.isNaN(Date.parse(String(value))))
      return [`${path} is no time`]
    if (Array.isArray(value))
      return value.flatMap((one, index) => breaches(one, of.items ?? {}, `${path}[${index}]`))
    if (typeof value !== 'object' || value === null) return []
    const { properties = {}, required = [] } = of
    return [
      ...required.filter((name) => !(name in value)).map((name) => `${path}.${name} is missing`),
      ...Object.entries(value).flatMap(([name, one]) =>
        properties[name]
          ? breaches(one, properties[name], `${path}.${name}`)
          : [`${path}.${name} is unknown`],
      ),
    ]
  }

  it('are as the schema says, also a test', () => {
    const receiver = { url: slack, format: 'json' as const, ...reachable }
    const news = {
      begun: [known(problem), known(drift)],
      over: [known(problem, { goneSince: at(90) })],
      now: at(99),
    }
    const body = JSON.parse(alertBody(receiver, news))
    expect(breaches(body, schema)).toEqual([])
    expect(body.problems).toMatchObject([
      {
        event: 'began',
        kind: 'deletions_blocked',
        needs_you: true,
        runbook_url: 'https://wiki.acme.example/ops/deletions-blocked.md',
      },
      { event: 'began', kind: 'schema_drift', needs_you: false },
      { event: 'over', over_since: at(90).toISOString() },
    ])
    const bare = JSON.parse(alertBody({ url: slack, format: 'json' }, news))
    expect(breaches(bare, schema)).toEqual([])
    expect(bare.problems[0]).toMatchObject({ page_url: null, runbook_url: null, what: problem.what })
    const test = JSON.parse(testBody(receiver, at(0)))
    expect([breaches(test, schema), test.test]).toEqual([[], true])
    expect(breaches({ ...body, version: 2, more: 1 }, schema)).toEqual([
      '$.version is 2',
      '$.more is unknown',
    ])
  })

  it('tell a test as such in every form', () => {
    expect(JSON.parse(testBody({ url: slack, ...reachable }, at(0))).text).toMatch(
      /^\*Tidemark: a test\*\n• This is a test\. .* <https:\/\/mirror\.acme\.example\/\|Console>$/,
    )
    expect(testBody({ url: teams }, at(0))).toContain('Tidemark: a test')
  })
})

describe('alerts for PagerDuty', () => {
  const receiver = { url: 'https://events.example/v2', format: 'pagerduty' as const, key: 'k', ...reachable }

  it('are an event for each problem, and the same incident when it is over', () => {
    const news = { begun: [known(problem), known(drift)], over: [known(problem)], now: at(60) }
    const [first, second, third] = bodiesOf(receiver, news).map((body) => JSON.parse(body))
    expect(first).toMatchObject({
      ...{ routing_key: 'k', event_action: 'trigger' },
      payload: {
        summary: problem.what,
        severity: 'error',
        component: 'assignment',
        class: 'deletions_blocked',
      },
      links: [{ text: 'Console' }, { text: 'Runbook' }],
    })
    expect(second).toMatchObject({ payload: { severity: 'info' } })
    expect(third).toEqual({ routing_key: 'k', event_action: 'resolve', dedup_key: first.dedup_key })
  })

  it('leave nothing open after a test', () => {
    const sent = bodiesOf(receiver, testNews(at(0))).map((body) => JSON.parse(body))
    expect(sent.map((one) => one.event_action)).toEqual(['trigger', 'resolve'])
    expect(new Set(sent.map((one) => one.dedup_key)).size).toBe(1)
  })
})

describe('quiet hours', () => {
  it.each([
    ['22:00-06:30', '2026-03-02T21:59:00Z', false],
    ['22:00-06:30', '2026-03-02T22:00:00Z', true],
    ['22:00-06:30', '2026-03-02T00:10:00Z', true],
    ['22:00-06:30', '2026-03-02T06:30:00Z', false],
    ['12:00-13:00', '2026-03-02T12:30:00Z', true],
    ['12:00-13:00', '2026-03-02T13:00:00Z', false],
    // Oslo is an hour ahead in March.
    ['22:00-06:30 Europe/Oslo', '2026-03-02T21:30:00Z', true],
    ['22:00-06:30 Europe/Oslo', '2026-03-02T05:45:00Z', false],
  ])('%s hold at %s: %s', (text, moment, isHeld) => {
    const hours = quietHours.parse(text)
    expect(hours && isQuiet(hours, new Date(moment))).toBe(isHeld)
  })

  it.each(['22:00', '25:00-06:00', '22:00-22:00', '22:00-06:00 Nowhere/At_all', 'at night'])(
    'are not %s',
    (text) => {
      expect(quietHours.safeParse(text).success).toBe(false)
    },
  )
})
