// Receivers and rules that were set up in the console: what is kept of them, and what is told of what cannot be used.

import { describe, expect, it } from 'vitest'
import { openKeptAlerts, type Texts } from '../../src/config/kept-alerts.ts'
import { redact } from '../../src/log.ts'
import { ruleInWords, timingOf } from '../../src/problems/receivers.ts'
import { noProxies } from '../../src/util/proxies.ts'
import { openSeal } from '../../src/util/seal.ts'

const kinds = { stale: ['stale'], failing: ['failing'], news: ['schema_drift'] }
const around = { proxies: noProxies, allowPlaintext: false }
const open = (secretsKey: string | null = 'a key of sixteen characters') =>
  openKeptAlerts({ ...around, secretsKey })
const known = { receivers: ['chat'], kinds, streams: ['assignment', 'acme.assignment'] }
const keptOf = (judged: ReturnType<ReturnType<typeof open>['rule']>): Texts =>
  'value' in judged ? judged.value : expect.fail(judged.problem)
const problemOf = (judged: ReturnType<ReturnType<typeof open>['rule']>): string =>
  'problem' in judged ? judged.problem : ''

const webhook = 'https://hooks.example/T0/secret-of-the-tests'
const mail = { smtp: 'smtp://ada@mail.example', from: 'a@b.example', to: 'c@d.example, e@f.example' }

describe('what was set up in the console', () => {
  it('is kept with its secrets encrypted, and used as it was said (P9)', () => {
    const kept = open()
    const value = keptOf(kept.receiver('chat', { webhook, format: 'json' }, null))
    expect(JSON.stringify(value)).not.toMatch(/hooks|secret-of/)
    expect(redact(`${webhook} failed`)).toBe('[secret] failed')
    const rule = keptOf(kept.rule('night', { to: 'chat', kinds: 'stale,news', after: '15m' }, known))
    kept.takeUp([
      { key: 'receiver:chat', value },
      { key: 'rule:night', value: rule },
    ])
    const { receivers, rules, problems } = kept.now(kinds)
    expect(receivers.get('chat')).toEqual({ url: webhook, format: 'json', proxies: noProxies })
    expect([...rules.values()].map(ruleInWords)).toEqual(['stale, schema_drift after 15 m'])
    expect(problems).toEqual([])
  })

  it('keeps a secret that is not said again, but sends it to no other server and under no other name', () => {
    const kept = open()
    const before = keptOf(kept.receiver('team', { ...mail, password: 'a password' }, null))
    const after = keptOf(kept.receiver('team', { ...mail, to: 'x@y.example' }, before))
    kept.takeUp([{ key: 'receiver:team', value: after }])
    expect(kept.now(kinds).receivers.get('team')).toMatchObject({
      mail: { password: 'a password', to: ['x@y.example'] },
    })
    const elsewhere = { ...mail, smtp: 'smtp://ada@evil.example' }
    expect(problemOf(kept.receiver('team', elsewhere, before))).toContain('it needs password')
    for (const [key, value] of [
      ['receiver:other', before],
      ['receiver:team', { ...before, smtp: elsewhere.smtp }],
    ] as const) {
      kept.takeUp([{ key, value }])
      expect(kept.now(kinds).receivers.size).toBe(0)
      expect(kept.now(kinds).problems).toEqual([expect.stringContaining('is another one than it was set up')])
    }
    const given = { ...mail, sealed: before.sealed ?? '' }
    expect(problemOf(kept.receiver('team', given, null))).toContain('it needs password')
  })

  it('cannot be used by a worker without the key, or with another one, and says so in one line', () => {
    const value = keptOf(open().receiver('chat', { webhook }, null))
    for (const [key, why] of [
      [null, 'ALERT_SECRETS_KEY is not set here'],
      [
        'another key of many characters',
        'ALERT_SECRETS_KEY is another one than it was set up with, or somebody changed what Postgres keeps of it',
      ],
    ] as const) {
      const kept = open(key)
      kept.takeUp([{ key: 'receiver:chat', value }])
      expect(kept.now(kinds).problems).toEqual([
        `The receiver chat of the console: it cannot be used by this worker, because ${why}. Give all workers the same key, or set the receiver up again.`,
      ])
    }
    expect(problemOf(open(null).receiver('chat', { webhook }, null))).toContain('Set ALERT_SECRETS_KEY')
  })

  it.each([
    [
      'receiver',
      'chat',
      { webhook: 'ftp://x' },
      /^The receiver chat of the console: webhook must hold a URL/,
    ],
    ['receiver', 'chat', { webhook: 'http://hooks.example/x' }, /webhook would send alerts without TLS/],
    ['receiver', 'chat', {}, /it needs webhook, or smtp with from and to\.$/],
    ['receiver', 'chat', { format: 'pagerduty' }, /it needs key, the integration key of PagerDuty\.$/],
    ['receiver', 'chat', { webhook, format: 'sms' }, /format must be slack, teams, pagerduty or json\.$/],
    ['receiver', 'chat', { webhook, formt: 'json' }, /formt is no setting: did you mean format\?\.$/],
    ['receiver', 'all', { webhook }, /^A name has up to 40 letters, digits/],
    [
      'receiver',
      'team',
      { ...mail, smtp: 'smtp://%zz@mail.example', password: 'x' },
      /a % that begins no sign/,
    ],
    [
      'receiver',
      'team',
      { ...mail, to: 'a@b.c\r\nBcc: e@f.g', password: 'x' },
      /to must be an address of mail/,
    ],
    ['rule', 'night', { to: 'chta' }, /to names chta, which is no receiver: did you mean chat\?\.$/],
    ['rule', 'night', { to: 'chat', kinds: 'stail' }, /which is no kind of problem: did you mean stale\?/],
    ['rule', 'night', { to: 'chat', streams: 'asignment' }, /which is no stream: did you mean assignment\?/],
    ['rule', 'night', { to: 'chat', sources: 'acm' }, /which is no source: did you mean acme\?/],
    ['rule', 'night', { to: 'chat', after: '10s' }, /after must be a time from 1m to 7d, not "10s"/],
    ['rule', 'night', { to: 'chat', quiet: '25:00-1' }, /quiet must be two times and a time zone/],
    ['rule', 'to a friend', { to: 'chat' }, /^A name has up to 40 letters, digits/],
    ['rule', 'night', {}, /A rule needs at least one receiver/],
  ] as const)('tells of the %s %s in one line what is wrong in %j', (kind, name, said, expected) => {
    const kept = open()
    const judged = kind === 'rule' ? kept.rule(name, said, known) : kept.receiver(name, said, null)
    expect(problemOf(judged)).toMatch(expected)
    expect(problemOf(judged)).not.toMatch(/\n|secret-of-the-tests/)
  })

  it('tells of one source only what is of it, problems of all streams of it included', () => {
    const kept = open()
    const value = keptOf(kept.rule('acme', { to: 'chat', sources: 'acme' }, known))
    kept.takeUp([{ key: 'rule:acme', value }])
    const rules = [...kept.now(kinds).rules.values()]
    const tells = (key: string, stream: string | null) => {
      const [kind = ''] = key.split(':')
      return timingOf({ rules }, 'chat', new Date())({ kind, key, stream }) !== null
    }
    expect(tells('stale:acme.assignment', 'acme.assignment')).toBe(true)
    expect(tells('service_down:acme.assignment', null)).toBe(true)
    expect(tells('source_stopped:acme', null)).toBe(true)
    expect(tells('stale:assignment', 'assignment')).toBe(false)
    expect(tells('part_down:database', null)).toBe(false)
    const own = keptOf(kept.rule('own', { to: 'chat', sources: 'environment' }, known))
    kept.takeUp([{ key: 'rule:own', value: own }])
    expect(
      timingOf(
        { rules: [...kept.now(kinds).rules.values()] },
        'chat',
        new Date(),
      )({
        ...{ kind: 'stale', key: 'stale:assignment', stream: 'assignment' },
      }),
    ).not.toBeNull()
  })

  it('is sealed otherwise each time, and open to nobody who changed a byte of it', () => {
    const seal = openSeal('a key of sixteen characters')
    const closed = seal.close('a secret', 'x')
    expect(seal.close('a secret', 'x')).not.toBe(closed)
    expect([seal.open(closed, 'x'), seal.open(closed, 'y'), seal.open('', 'x')]).toEqual([
      'a secret',
      null,
      null,
    ])
    const bytes = Buffer.from(closed, 'base64url')
    for (const at of [0, 13, bytes.length - 1]) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect(seal.open(changed.toString('base64url'), 'x')).toBeNull()
    }
  })
})
