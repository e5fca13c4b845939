// The file that says who is told of what: what it means, and what is told of its mistakes.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openAlertFile, parseAlertFile } from '../../src/config/alert-file.ts'
import { FileError } from '../../src/config/yaml-file.ts'
import { ruleInWords, timingOf } from '../../src/problems/receivers.ts'
import { noProxies } from '../../src/util/proxies.ts'

const kinds = { stale: ['stale'], failing: ['failing'], news: ['schema_drift', 'local_damage'] }
const around = {
  streams: ['assignment', 'tracker_object'],
  sourcesFile: null,
  environment: {
    HOOK: 'https://hooks.example/T0/x',
    PAGER: 'a-key-of-the-tests',
    PLAIN: 'http://hooks.example/x',
    NONE: 'no url',
  },
  proxies: noProxies,
  allowPlaintext: false,
}
const parsed = (text: string) => parseAlertFile('alerts.yml', Buffer.from(text), { ...around, kinds })
function mistakes(text: string): readonly string[] {
  try {
    parsed(text)
    return []
  } catch (error) {
    if (!(error instanceof FileError)) throw error
    return error.message.split('\n')
  }
}

const whole = `
receivers:
  chat: { webhook: env:HOOK }
  pager: { format: pagerduty, key: env:PAGER }
  post: { smtp: smtp://mail.internal, from: tidemark@example.com, to: [ada@example.com, bob@example.com] }
  far: { smtp: 'smtps://ada@example.com@mail.example:4650', password: env:PAGER, from: a@b.example, to: c@d.example }
rules:
  - to: chat
    quiet: 22:00-06:30 Europe/Oslo
  - { to: [pager, far], kinds: stale, streams: [assignment], after: 15m }
  - { to: post, kinds: [news, failing] }
targets:
  assignment: { read: 5m, deletions: 10m }
`

describe('a file of alerts', () => {
  it('says who is told of what, after how long, and how old a stream may become', () => {
    const { receivers, rules, targets, remarks } = parsed(whole)
    expect(Object.fromEntries(receivers)).toEqual({
      chat: { url: 'https://hooks.example/T0/x', format: null, proxies: noProxies },
      pager: {
        ...{ url: 'https://events.pagerduty.com/v2/enqueue', format: 'pagerduty', proxies: noProxies },
        key: 'a-key-of-the-tests',
      },
      post: {
        mail: {
          ...{ host: 'mail.internal', port: 587, isTls: false, mayBePlain: true, user: null, password: null },
          ...{ from: 'tidemark@example.com', to: ['ada@example.com', 'bob@example.com'] },
        },
      },
      far: {
        mail: {
          ...{ host: 'mail.example', port: 4650, isTls: true, mayBePlain: false, user: 'ada@example.com' },
          ...{ password: 'a-key-of-the-tests', from: 'a@b.example', to: ['c@d.example'] },
        },
      },
    })
    expect(rules.map(ruleInWords)).toEqual([
      'everything after 1 m, not 22:00-06:30 Europe/Oslo',
      'stale of assignment after 15 m',
      'schema_drift, local_damage, failing after 1 m',
    ])
    expect(targets).toEqual({ assignment: { read: 300_000, deletions: 600_000 } })
    expect(remarks).toEqual([])
  })

  it('tells a receiver as soon as one of its rules says, and nothing else', () => {
    const { rules } = parsed(whole)
    const at = (time: string, receiver: string, kind: string, stream: string | null = 'assignment') =>
      timingOf(
        { rules },
        receiver,
        new Date(`2026-03-02T${time}:00Z`),
      )({
        ...{ kind, stream, key: `${kind}:${stream ?? 'assignment'}` },
      })
    expect(at('12:00', 'chat', 'failing')).toEqual({ afterMs: 60_000, isHeld: false })
    // Oslo is an hour ahead in March.
    expect(at('21:30', 'chat', 'failing')).toEqual({ afterMs: 60_000, isHeld: true })
    expect(at('12:00', 'pager', 'stale')).toEqual({ afterMs: 900_000, isHeld: false })
    expect(at('12:00', 'pager', 'stale', 'tracker_object')).toBeNull()
    expect(at('12:00', 'pager', 'stale', null)).toBeNull()
    expect(at('12:00', 'pager', 'failing')).toBeNull()
    expect(at('12:00', 'post', 'local_damage')).toEqual({ afterMs: 60_000, isHeld: false })
  })

  describe('with a file of sources', () => {
    const sourcesFile = join(mkdtempSync(join(tmpdir(), 'tidemark-alerts-')), 'sources.yaml')
    const write = (text: string) => writeFileSync(sourcesFile, text)
    const rulesIn = (rule: string) =>
      parseAlertFile(
        'alerts.yml',
        Buffer.from(`receivers: { chat: { webhook: env:HOOK } }\nrules: [${rule}]`),
        {
          ...{ ...around, kinds, sourcesFile },
        },
      ).rules
    const told = (rule: string) => {
      const timing = timingOf({ rules: rulesIn(rule) }, 'chat', new Date())
      return [
        ...['assignment', 'acme.assignment', 'acme.assignment_note', 'beta.assignment'].map((stream) => ({
          ...{ key: `stale:${stream}`, kind: 'stale', stream },
        })),
        ...['assignment', 'acme.assignment'].map((service) => ({
          ...{ key: `token_refused:${service}`, kind: 'token_refused', stream: null },
        })),
        { key: 'source_stopped:acme', kind: 'source_stopped', stream: null },
        { key: 'part_down:queue', kind: 'part_down', stream: null },
      ].flatMap((one) => (timing(one) === null ? [] : one.key))
    }
    const mistake = (rule: string) => {
      try {
        return rulesIn(rule).map(ruleInWords)
      } catch (error) {
        return error instanceof FileError ? error.message : error
      }
    }
    const file = `
defaults: { streams: 'assignment,assignment_note' }
sources:
  acme: { tags: [production] }
  beta: { tags: [production, norway], streams: 'assignment,customers=/api/Customer' }
`

    it('names streams of other sources, sources, or what is tagged', () => {
      write(file)
      expect(told('{ to: chat, streams: acme.assignment }')).toEqual(['stale:acme.assignment'])
      expect(told('{ to: chat, streams: assignment }')).toEqual(['stale:assignment'])
      expect(told('{ to: chat, sources: acme }')).toEqual([
        ...['stale:acme.assignment', 'stale:acme.assignment_note'],
        ...['token_refused:acme.assignment', 'source_stopped:acme'],
      ])
      expect(told('{ to: chat, sources: environment }')).toEqual([
        'stale:assignment',
        'token_refused:assignment',
      ])
      expect(told('{ to: chat, tags: production, streams: assignment }')).toEqual([
        ...['stale:acme.assignment', 'stale:beta.assignment'],
      ])
      expect(told('{ to: chat, tags: norway, sources: [environment] }')).toEqual([
        ...['stale:assignment', 'stale:beta.assignment', 'token_refused:assignment'],
      ])
    })

    it('is told where it names what is not there', () => {
      write(file)
      expect(mistake('{ to: chat, sources: acne }')).toContain(
        'names acne, which is no source: did you mean acme?',
      )
      expect(mistake('{ to: chat, streams: acme.asignment }')).toContain('did you mean acme.assignment?')
      expect(mistake('{ to: chat, streams: beta.customers }')).toEqual([
        'everything of beta.customers after 1 m',
      ])
      expect(mistake('{ to: chat, streams: acme.customers }')).toContain('which is no stream')
      expect(mistake('{ to: chat, tags: norwy }')).toContain('did you mean norway?')
      expect(mistakes('targets: { acme.assignment: { read: 5m } }')[0]).toContain('target_read_assignment')
    })

    it('rather tells too much while the file of sources cannot be read', () => {
      write('sources: [')
      expect(told('{ to: chat, sources: acme }')).toContain('stale:acme.assignment')
      expect(told('{ to: chat, sources: acme }')).not.toContain('stale:beta.assignment')
      expect(told('{ to: chat, tags: norway }')).toContain('stale:acme.assignment')
    })

    it('is read again when the file of sources changed', () => {
      write(file)
      const alerts = join(dirname(sourcesFile), 'alerts.yml')
      writeFileSync(alerts, 'receivers: { chat: { webhook: env:HOOK } }\nrules: [{ to: chat, tags: norway }]')
      const opened = openAlertFile(alerts, { ...around, sourcesFile })
      expect(opened.read(kinds).settings.rules).toMatchObject([{ sources: ['beta'] }])
      write(file.replace('[production]', '[production, norway]'))
      expect(opened.read(kinds).settings.rules).toMatchObject([{ sources: ['acme', 'beta'] }])
      write(file.replace('norway', 'sweden'))
      expect(opened.read(kinds)).toMatchObject({
        problem: expect.stringContaining('names norway, which is no tag'),
        settings: { rules: [{ sources: ['acme', 'beta'] }] },
      })
    })
  })

  it.each(['', '# nothing yet', '{}'])('says nothing in %j', (text) => {
    expect(parsed(text)).toMatchObject({ rules: [], targets: {} })
  })

  it.each([
    [
      'receivers: { chat: { webhok: env:HOOK } }',
      /^alerts.yml:1: receivers.chat.webhok is no setting: did you mean webhook\?$/,
    ],
    [
      'receivers: { chat: { webhook: https://hooks.example/x } }',
      /must be env:NAME or file:PATH: a secret does not/,
    ],
    [
      'receivers: { chat: { webhook: env:MISSING } }',
      /receivers.chat.webhook names MISSING, which is not set$/,
    ],
    [
      'receivers: { chat: { webhook: file:/nowhere/x } }',
      /names \/nowhere\/x, which cannot be read \(ENOENT\)$/,
    ],
    ['receivers: { chat: { webhook: env:NONE } }', /must hold a URL such as/],
    ['receivers: { chat: { webhook: env:PLAIN } }', /would send alerts without TLS: use https:/],
    ['receivers: { chat: { webhook: env:HOOK, format: sms } }', /must be slack, teams, pagerduty or json/],
    ['receivers: { chat: {} }', /receivers.chat needs webhook, or smtp with from and to$/],
    ['receivers: { chat: { format: pagerduty } }', /needs key, the integration key/],
    [
      'receivers: { all: { webhook: env:HOOK } }',
      /must be a name of letters and digits, and none of alerts, all, default/,
    ],
    [
      'receivers: { post: { smtp: mail.example, from: a@b.c, to: a@b.c } }',
      /must be smtp:\/\/host or smtps:/,
    ],
    ['receivers: { post: { smtp: smtp://mail.example, to: a@b.c } }', /needs from, the address that sends/],
    [
      'receivers: { post: { smtp: smtp://mail.example, from: a@b.c, to: "a@b.c\\r\\nBcc: e@f.g" } }',
      /must be an address of mail/,
    ],
    [
      'receivers: { post: { smtp: smtp://mail.example, from: a@b.c, to: a@b.c, password: env:PAGER } }',
      /has a password and no user/,
    ],
    [
      'receivers: { post: { smtp: smtp://mail.example, from: a@b.c, to: a@b.c, format: json } }',
      /format is not for a receiver with smtp/,
    ],
    [
      'receivers: { chat: { webhook: env:HOOK } }\nrules: [{ to: chta }]',
      /^alerts.yml:2: rules\[1\].to names chta, which is no receiver: did you mean chat\?$/,
    ],
    [
      'rules:\n  - { to: default }\n  - to: default\n    kinds: [stail]',
      /^alerts.yml:4: rules\[2\].kinds names stail, which is no kind of problem: did you mean stale\?$/,
    ],
    [
      'rules: [{ to: default, streams: asignment }]',
      /names asignment, which is no stream: did you mean assignment\?$/,
    ],
    ['rules: [{ to: default, after: 10s }]', /must be a time from 1m to 7d, not "10s"$/],
    [
      'rules: [{ to: default, quiet: "25:00-06:00" }]',
      /must be two times and a time zone, such as 22:00-06:30 Europe\/Oslo$/,
    ],
    ['rules: { to: default }', /rules must be a list of rules$/],
    ['targets: { asignment: { read: 5m } }', /targets.asignment is no stream: did you mean assignment\?$/],
    ['targets: { assignment: { red: 5m } }', /targets.assignment.red is no setting: did you mean read\?$/],
    ['targets: { assignment: { read: soon } }', /must be a time from 10s to 7d, not "soon"$/],
    ['rules: [', /^alerts.yml:1: is no YAML: /],
    ['receivers: { a: { webhook: env:HOOK }, a: { webhook: env:HOOK } }', /receivers.a is there twice/],
  ])('tells in one line what is wrong in %j', (text, expected) => {
    expect(mistakes(text)).toEqual([expect.stringMatching(expected)])
  })

  it('is taken with a remark when it says what is hardly meant', () => {
    const { remarks } = parsed(`
receivers:
  chat: { webhook: env:HOOK }
  lone: { webhook: env:HOOK }
rules:
  - to: chat
  - { to: chat, kinds: stale, after: 1h }
`)
    expect(remarks).toEqual([
      'alerts.yml:4: lone is told nothing: no rule names it',
      'alerts.yml:7: rule 2 adds nothing: rule 1 tells the same receivers as much, as soon',
    ])
  })

  it('is read again when it or a file with a secret changes, and holds while it has mistakes', () => {
    const directory = mkdtempSync(join(tmpdir(), 'tidemark-alerts-'))
    const [file, secret] = [join(directory, 'alerts.yml'), join(directory, 'hook')]
    const write = (text: string) => writeFileSync(file, text)
    write(`receivers: { chat: { webhook: 'file:${secret}' } }\nrules: [{ to: chat }]`)
    const alerts = openAlertFile(file, around)
    const urlOf = () => {
      const chat = alerts.read(kinds).settings.receivers.get('chat')
      return chat && 'url' in chat ? chat.url : null
    }
    expect(alerts.read(kinds).problem).toContain('which cannot be read (ENOENT)')
    writeFileSync(secret, 'https://hooks.example/first\n')
    expect([urlOf(), alerts.read(kinds).problem]).toEqual(['https://hooks.example/first', null])
    writeFileSync(secret, 'https://hooks.example/second')
    expect(urlOf()).toBe('https://hooks.example/second')
    write('rules: [{ to: chat }]')
    expect([urlOf(), alerts.read(kinds).problem]).toEqual(
      [
        'https://hooks.example/second',
        `${file}:1: rules[1].to names chat, which is no receiver: did you mean default?`,
      ].map((one) => (one.includes('did you mean') ? expect.stringContaining('which is no receiver') : one)),
    )
    rmSync(file)
    expect(alerts.read(kinds).problem).toBe(`${file} cannot be read (ENOENT)`)
    write('{}')
    expect([urlOf(), alerts.read(kinds).problem]).toEqual([null, null])
    rmSync(directory, { recursive: true })
  })
})
