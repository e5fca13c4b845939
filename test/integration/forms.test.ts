// Forms of the console that come back after a mistake: what was typed is there, the wrong field is marked and says why, no secret is shown.

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { type FormShown, formsIn } from '../support/forms.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

type Typed = Readonly<Record<string, string>>
type Row = readonly [page: string, form: string, typed: Typed, field: string, words: string]

const hostile = `"><script>alert('1')</script>&amp;`
/** A secret wherever it is typed. */
const secret = 'https://hooks.example/services/T0/hunter2'
const isSecret = (text: string) => text.includes('hunter2')
const [receivers, rules, mute] = ['/alerts/receivers/set', '/alerts/rules/set', '/alerts/mute']
const someMail = { smtp: 'smtp://mail.example', from: 'a@example.com', to: 'b@example.com, c@example.com' }
const blocked = 'deletions_blocked:assignment_note'
const approving = '/streams/assignment_note/approve'

/** `form`: its action; after a #, which of those that lead there. */
const mistakes: readonly Row[] = [
  [receivers, 'webhook', { target: 'team', webhook: 'ftp://hunter2', format: 'teams' }, 'webhook', 'a URL'],
  [receivers, 'webhook', { target: secret, webhook: secret, format: 'json' }, 'target', 'A name has'],
  [receivers, 'pagerduty', { target: 'pager' }, 'key', 'the integration key of PagerDuty'],
  [receivers, 'mail', { ...someMail, target: 'm', smtp: 'mail.example' }, 'smtp', 'must be smtp://host'],
  [
    receivers,
    'mail',
    { ...someMail, target: 'm', smtp: 'smtp://a:hunter2@b' },
    'smtp',
    'must be smtp://host',
  ],
  [receivers, 'mail', { ...someMail, target: 'm', password: 'hunter2' }, 'smtp', 'a password and no user'],
  [receivers, 'mail', { ...someMail, target: 'm', from: hostile }, 'from', 'an address of mail'],
  [receivers, 'receiver chat', { webhook: 'hunter2', format: 'slack' }, 'webhook', 'a URL'],
  [rules, '', { kinds: 'news,part_down', after: '15m', quiet: '22:00-06:00' }, 'to', 'at least one receiver'],
  [rules, '', { to: 'chat', streams: 'assignment', after: hostile }, 'after', 'a time from 1m to 7d'],
  [rules, 'rule night', { to: 'chat', quiet: hostile, after: '2m' }, 'quiet', 'quiet'],
].map(([action, of, ...rest]) => ['/alerts', `${action}#${of}`, ...rest] as unknown as Row)

const others: readonly Row[] = [
  ['/people', '/tokens/create#', { target: 'ola', role: 'admin', until: '2001-01-01' }, 'until', 'is over'],
  ['/people', '/tokens/create#', { target: hostile, role: 'operator' }, 'target', 'the name of a token has'],
  [
    ...(['/settings', '/settings/set#The worker STALE_AFTER'] as const),
    ...([
      { value: hostile, reason: `see ${secret.replace('hunter2', '')}` },
      'value',
      'must be a duration',
    ] as const),
  ],
  [
    '/problems',
    `${mute}#${blocked}`,
    { target: 'stream:assignment_note', reason: hostile },
    'for',
    'when it ends',
  ],
  ['/problems', `${mute}#${blocked}`, { target: 'all', for: '1d' }, 'reason', 'Say why'],
  ['/problems', `${mute}#all`, { target: 'all', for: '7d' }, 'reason', 'Say why'],
  ['/problems', `/alerts/acknowledge#${blocked}`, {}, 'reason', 'Say what you know of it'],
  ['/approve?stream=assignment_note', `${approving}#`, { rows: '9', reason: hostile }, 'rows', 'not 9'],
  [
    ...(['/streams/assignment/rewind?to-version=1', '/streams/assignment/rewind#'] as const),
    ...([{ confirm: 'assignmen', reason: `two\nlines ${hostile}` }, 'confirm', 'type the name'] as const),
  ],
  [
    '/quarantine?stream=assignment',
    '/quarantine/assignment/drop#',
    { records: '7', reason: hostile },
    'records',
    '7 was typed',
  ],
  ['/quarantine?stream=assignment', '/quarantine/1/drop#', {}, 'reason', 'Say why the records are dropped'],
]

/** What nobody can type wrong: any reason is taken, and whatever else is wrong, there is nothing left to fill in. */
const alwaysTaken = ['/streams/assignment/pause#', '/streams/assignment_note/reject#']

describe.skipIf(!hasPostgres)('a form with a mistake', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let worker: TestWorker
  let browsing: Browsing
  const page = async (path: string) => await (await browsing.get(path)).text()
  const formOn = (text: string, name: string): FormShown =>
    formsIn(text).find((one) => one.name === name) ?? expect.fail(`there is no form ${name}`)

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 20, notes: 5 })
    worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment,assignment_note',
      SCHEDULE_ASSIGNMENT: '1h',
      SCHEDULE_ASSIGNMENT_NOTE: '1h',
      SCHEDULE_DELETIONS: '1h',
      ALERT_SECRETS_KEY: 'a key of the tests for secrets',
    })
    await worker.live
    const { pool } = database
    // Those that come by themselves would decide what is blocked here.
    const reconciled = 'select from tidemark.stream where last_reconcile_at is not null'
    await vi.waitFor(async () => expect((await pool.query(reconciled)).rowCount).toBe(2), { timeout: 60_000 })
    await pool.query(
      `update tidemark.stream set blocked_deletions = '{"missing": 10, "living": 20, "seen": 10}' where name = 'assignment_note'`,
    )
    await pool.query(
      `insert into tidemark.quarantine (stream, reason, record, fingerprint, times_seen) values ('assignment', 'no key', '{}', 'x', 1)`,
    )
    browsing = openBrowsing(worker.url)
    await browsing.signIn(adminToken)
    await browsing.submit(receivers, { target: 'chat', webhook: 'http://127.0.0.1:9/', format: 'json' })
    await browsing.submit(rules, { target: 'night', to: 'chat' })
    await page('/alerts')
  }, 90_000)
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  /** What holds of any page with a mistake in a form. */
  function expectMarked(text: string, name: string, typed: Typed, field: string, words: string): void {
    const { fields } = formOn(text, name)
    const wrong = formsIn(text).flatMap((form) =>
      form.fields.filter((one) => one.isInvalid).map((one) => [form.name, one.name, one.hasFocus]),
    )
    expect(wrong).toEqual([[name, field, true]])
    expect(fields.find((one) => one.isInvalid)?.description).toContain(words)
    for (const one of fields.filter(({ isHidden }) => !isHidden)) {
      const given = typed[one.name] ?? ''
      expect([one.name, one.value]).toEqual([one.name, isSecret(given) ? '' : given])
      expect([one.name, one.description.includes('type it again')]).toEqual([one.name, isSecret(given)])
    }
    expect(text).not.toContain('hunter2')
    expect(text).not.toContain('<script>')
  }

  it.each([...mistakes, ...others])(
    'on %s (%s) keeps %o and marks %s',
    async (path, name, typed, field, words) => {
      const { action, hidden } = formOn(await page(path), name)
      const referer = `${worker.url}${path}`
      const answer = await browsing.submit(action, { ...hidden, ...typed }, { referer })
      expect([answer.status, answer.headers.get('location')]).toEqual([303, path])
      const again = await page(path)
      expectMarked(again, name, typed, field, words)
      expect(formOn(again, name).isHiddenAway).toBe(false)
      expect(formOn(await page(path), name).fields.filter((one) => one.isInvalid)).toEqual([])
    },
  )

  it.each([
    [
      '/backfills',
      { stream: 'assignment_note', 'from-version': hostile },
      'from-version',
      'is not a row version',
    ],
    [
      '/backfills',
      { stream: 'assignment', 'from-version': '5', 'to-version': '3' },
      'to-version',
      'is not above 5',
    ],
    [
      '/backfills',
      { stream: 'assignment', 'from-checkpoint': '999999' },
      'from-checkpoint',
      'There is no checkpoint',
    ],
    ['/backfills', { stream: 'assignment', 'from-version': '1', at: 'x' }, 'at', 'not both'],
    ['/streams/assignment/rewind', { 'to-time': '2999-01-01' }, 'to-time', 'has not come yet'],
    ['/streams/assignment/rewind', { 'to-version': '999999999' }, 'to-version', 'is not below it'],
  ])('that asks by its address, on %s, keeps %o and marks %s', async (path, typed, field, words) => {
    const text = await page(`${path}?${new URLSearchParams(typed)}`)
    expectMarked(text, `${path}#`, typed as Typed, field, words)
  })

  it('says beside the token that it is wrong, and forgets it', async () => {
    const text = await (await openBrowsing(worker.url).signIn('hunter2')).text()
    expectMarked(text, '/sign-in#', {}, 'token', 'This token is not taken')
  })

  it('that changes a setting leads back to the page on which it stands', async () => {
    const referer = `${worker.url}/streams/assignment/settings`
    for (const path of ['/settings/set', '/settings/unset']) {
      const done = await browsing.submit(path, { target: 'STALE_AFTER', value: '16m' }, { referer })
      expect(done.headers.get('location')).toBe('/streams/assignment/settings')
    }
    const done = await browsing.submit('/settings/set', { target: 'STALE_AFTER', value: '16m' })
    expect(done.headers.get('location')).toBe('/settings')
    await browsing.submit('/settings/unset', { target: 'STALE_AFTER' })
  })

  it('says above the fields what is wrong with none of them', async () => {
    const name = '/settings/set#The worker STALE_AFTER'
    const { hidden } = formOn(await page('/settings'), name)
    const order = { ...hidden, target: 'nobody.STALE_AFTER', value: '2h' }
    await browsing.submit('/settings/set', order, { referer: `${worker.url}/settings` })
    const { text, fields } = formOn(await page('/settings'), name)
    expect(text).toMatch(
      /<p class="note bad" role="alert" tabindex="-1" autofocus>.*There is no source nobody/,
    )
    expect(fields.find((one) => one.name === 'value')?.value).toBe('2h')
    // From anywhere else it leads to the page of the action.
    const lost = await browsing.submit('/settings/set', order, {
      referer: 'https://evil.example//evil.example',
    })
    expect(lost.headers.get('location')).toBe('/')
  })

  it('is each of the console that has fields, by a name that no other form of its page has', async () => {
    const paths = [...new Set([...mistakes, ...others].map(([path]) => path))]
    const known = new Set([
      ...[...mistakes, ...others].map(([, name]) => name.replace(/#.*/, '#')),
      ...alwaysTaken,
    ])
    for (const path of [
      ...paths,
      '/streams/assignment/pause',
      '/streams/assignment/settings',
      '/people',
      '/upstream',
    ]) {
      const filled = formsIn(await page(path)).filter(
        (one) => one.isAction && one.fields.some(({ isHidden }) => !isHidden),
      )
      expect(filled.map(({ name }) => name)).toEqual([...new Set(filled.map(({ name }) => name))])
      for (const { name } of filled) expect([path, known.has(name.replace(/#.*/, '#'))]).toEqual([path, true])
    }
  })
})
