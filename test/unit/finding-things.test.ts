// What people look for on the pages stands where they look: links, forms and words.

import { describe, expect, it } from 'vitest'
import type { DescribedField } from '../../src/openapi/description.ts'
import type { Alerting } from '../../src/problems/receivers.ts'
import type { Problem } from '../../src/problems/stream-problems.ts'
import type { Checkpoint } from '../../src/store/book/checkpoints.ts'
import { type Html, html, markupOf } from '../../src/web/html.ts'
import { alertsPage } from '../../src/web/pages/alerts.ts'
import { checkpointsPage } from '../../src/web/pages/checkpoints.ts'
import { backfillPage } from '../../src/web/pages/confirm.ts'
import { contractPage } from '../../src/web/pages/contract.ts'
import { findPage } from '../../src/web/pages/find.ts'
import { layout, type Page, type Shown } from '../../src/web/pages/layout.ts'
import { peoplePage } from '../../src/web/pages/people.ts'
import { problemsPage } from '../../src/web/pages/problems.ts'
import { quarantinePage } from '../../src/web/pages/quarantine.ts'
import { workersPage } from '../../src/web/pages/workers.ts'
import { readOnlyViewer, type Viewer } from '../../src/web/sessions.ts'
import type { DescriptionShown, Snapshot, StatusQueries } from '../../src/web/status-queries.ts'
import { emptySnapshot, statusQueriesWith } from '../support/status-queries.ts'

const shownBy = (shown: Html | Shown): string => markupOf('body' in shown ? shown.body : shown)
const operator: Viewer = { ...readOnlyViewer, canAct: true, role: 'operator', csrfToken: 'csrf' }

const show = async (
  page: Page,
  queries: Partial<StatusQueries> = {},
  {
    query = '',
    problems = [],
    viewer = operator,
  }: { query?: string; problems?: readonly Problem[]; viewer?: Viewer } = {},
): Promise<string> =>
  shownBy(
    await page.body({
      statusQueries: statusQueriesWith(queries),
      viewer,
      query: new URLSearchParams(query),
      params: {},
      problems: Promise.resolve(problems),
      now: new Date('2026-01-02T03:04:05Z'),
    }),
  )

describe('checkpoints', () => {
  const checkpoint = (id: number): Checkpoint => ({
    ...{ id: String(id), stream: 'assignment', position: '7', reason: null, moved_by: null },
    reached_at: new Date('2026-01-02T03:00:00Z'),
  })
  const many = Array.from({ length: 51 }, (_, index) => checkpoint(100 - index))

  it('are found by the time at which they were reached, and lead on to older ones', async () => {
    const asked: unknown[] = []
    const checkpoints: StatusQueries['checkpoints'] = async (page) => {
      asked.push(page)
      return many
    }
    const text = await show(
      checkpointsPage,
      { checkpoints },
      { query: 'stream=assignment&to=2026-01-02T03:00&before=101' },
    )
    expect(asked).toEqual([
      { stream: 'assignment', before: '101', from: null, to: new Date('2026-01-02T03:00:00Z'), limit: 51 },
    ])
    expect(text).toContain('href="/checkpoints?stream=assignment&amp;to=2026-01-02T03%3A00&amp;before=51"')
    expect(text).toContain('type="datetime-local" step="1" name="to" value="2026-01-02T03:00"')
    expect(text).not.toContain('Backfill from 50…')
  })

  it('P18: are not kept for ever, so that none of a time does not mean that no position was reached then', async () => {
    const none = { checkpoints: async () => [] }
    expect(await show(checkpointsPage, none)).toContain('There is no checkpoint yet.')
    expect(await show(checkpointsPage, none, { query: 'stream=assignment' })).toContain(
      'There is no checkpoint of assignment yet.',
    )
    expect(await show(checkpointsPage, none, { query: 'to=2026-01-02T03:00' })).toContain(
      'No checkpoint of this time is kept.',
    )
  })

  it('are a step away from the form of a backfill', async () => {
    expect(await show(backfillPage)).toContain('<a href="/checkpoints">Checkpoints</a>')
  })
})

describe('the quarantine', () => {
  it('P18: says nothing of other streams, and nothing of records that were taken out, when none is shown', async () => {
    expect(await show(quarantinePage)).toContain('No record is in quarantine.')
    expect(await show(quarantinePage, {}, { query: 'stream=assignment' })).toContain(
      'No record of assignment is in quarantine.',
    )
    expect(await show(quarantinePage, {}, { query: 'to=2026-01-02T03:00' })).toContain(
      'No record that is in quarantine now came in this time.',
    )
    expect(await show(quarantinePage, {}, { query: 'stream=assignment&to=2026-01-02T03:00' })).toContain(
      'No record of assignment that is in quarantine now came in this time.',
    )
  })
})

describe('the search', () => {
  it('offers what changed in the last hour, and what was deleted, of each stream', async () => {
    const text = await show(findPage)
    expect(text).toContain('href="/streams/assignment/rows?range=hour"')
    expect(text).toContain('href="/streams/assignment/rows?deleted=only"')
  })
})

describe('the page of problems', () => {
  const problem: Problem = {
    ...{ key: 'quarantine:assignment', kind: 'quarantine' as const, stream: 'assignment', since: null },
    ...{ what: 'One is kept.', whatToDo: 'Look.', runbook: 'docs/operations/quarantine.md' },
  }

  it('links the runbook where it can be read, and names it elsewhere', async () => {
    expect(await show(problemsPage, {}, { problems: [problem] })).toContain(
      'More: docs/operations/quarantine.md',
    )
    const snapshot = async () => ({ ...emptySnapshot, runbooksUrl: 'https://wiki.example/ops/' })
    expect(await show(problemsPage, { snapshot }, { problems: [problem] })).toContain(
      '<a href="https://wiki.example/ops/quarantine.md">',
    )
  })

  it('tells what was closed lately, how long it lasted, and what was done here about it', async () => {
    const over = {
      ...{ kind: 'quarantine', stream: 'assignment', what: 'one <b>', by: null },
      ...{ since: new Date('2026-01-02T02:00:00Z'), endedAt: new Date('2026-01-02T02:30:00Z') },
    }
    const by = { action: 'dropQuarantine', who: 'ops-1', door: 'console' }
    const text = await show(problemsPage, { closedProblems: async () => [over, { ...over, by }] })
    expect(text).toMatch(/Closed in the last 7 days[\s\S]*one &lt;b&gt;[\s\S]*02:30:00[\s\S]*30 min/)
    // A pause, or a key that somebody corrected, may have ended it, and what was done may have been days before (P18).
    expect(text).not.toContain('ended')
    expect(text).toContain('What was done about it here')
    expect(text).toMatch(/ops-1<\/bdi> dropped from quarantine/)
    expect(await show(problemsPage)).not.toContain('Closed in')
  })

  it('says whether anybody is told, and lets operators try it out', async () => {
    expect(await show(problemsPage)).toContain('No alerts are sent')
    const url = 'https://acme.webhook.office.com/webhookb2/x'
    const rule = { to: ['chat'], kinds: null, streams: null, afterMs: 60_000, quiet: null }
    const from = 'file' as const
    const alerting = (): Alerting => ({
      ...{
        rules: [{ ...rule, from, name: null }],
        unusable: [],
        keepsNone: null,
        targets: {},
        remarks: ['rule 2 adds nothing'],
        problem: 'alerts.yml:3: <b> is wrong',
      },
      receivers: [{ name: 'chat', setting: 'chat', url, from }],
    })
    expect(await show(problemsPage, { alerting })).toMatch(
      /alerts.yml:3: &lt;b&gt; is wrong[\s\S]*Alerts go to <b>chat<\/b> \(<bdi>everything after 1 m<\/bdi>\)/,
    )
    const shown = await show(alertsPage, { alerting })
    expect(shown).toMatch(
      /alerts.yml:3: &lt;b&gt; is wrong[\s\S]*rule 2 adds nothing[\s\S]*teams[\s\S]*everything after 1 m/,
    )
    expect(shown).toContain('action="/alerts/chat/test"')
    expect(shown).not.toContain('webhookb2')
    const looked = await show(alertsPage, { alerting }, { viewer: readOnlyViewer })
    expect(looked).toContain('tidemark alerts test chat')
    expect(looked).not.toContain('action="/alerts')
  })
})

describe('the page of the contract', () => {
  const field: DescribedField = {
    ...{ name: 'Price<b>', says: 'number double', kind: 'number', isNullable: true, isRequired: false },
    ...{ describe: 'What it costs.', values: null, bounds: 'at most 9', holds: null },
  }
  const description = {
    ...{ title: 'Fields & more', version: '1', openApi: '3.1.1', operations: [], types: {} },
    remarks: ['one <i> thing'],
  }
  const stored = {
    ...{ id: '1', service: 'assignment' as const, location: 'contract.json', description, document: null },
    ...{ firstReadAt: new Date('2026-01-01T00:00:00Z'), lastReadAt: new Date('2026-01-02T00:00:00Z') },
  }
  const shown: DescriptionShown = {
    descriptions: [stored],
    unusable: [{ service: 'tracking', problem: 'It is no JSON.', since: null }],
    changes: [
      {
        ...{ service: 'assignment', stream: 'assignment', subject: 'Order.Price', change: 'type changed' },
        ...{ before: 'string', after: 'number', foundAt: new Date('2026-01-02T01:00:00Z') },
      },
    ],
    types: new Map([['assignment', { name: 'Order', describe: null, fields: [field] }]]),
    differences: [
      {
        ...{ stream: 'assignment', field: 'Extra', kind: 'not described', described: null },
        ...{ column: 'text', count: 7 },
      },
    ],
    lists: [
      {
        ...{ path: '/api/Customer', type: 'Customer', hasChanges: true, stream: null },
        setting: 'customer=/api/Customer',
      },
    ],
  }
  it('tells what was read and from where, what is otherwise, what changed, and what else could be mirrored', async () => {
    const text = await show(contractPage, { contract: async () => shown })
    expect(text).toMatch(/Fields &amp; more<\/bdi>, version <bdi>1[\s\S]*contract\.json/)
    expect(text).toContain('one &lt;i&gt; thing')
    expect(text).toContain('It is no JSON.')
    expect(text).toMatch(/Extra[\s\S]*not described; 7 rows with a value, in a column of type text/)
    expect(text).toContain('Order.Price (type changed: string → number)')
    expect(text).toMatch(/\/api\/Customer[\s\S]*STREAMS=…,<bdi>customer=\/api\/Customer/)
    expect(text).not.toContain('What it costs.')
  })

  it('tells of one stream what is said of each field', async () => {
    const text = await show(
      contractPage,
      { contract: async () => ({ ...shown, lists: [] }) },
      { query: 'stream=assignment' },
    )
    expect(text).toMatch(/Price&lt;b&gt;[\s\S]*number double or null, at most 9[\s\S]*What it costs\./)
    expect(text).not.toContain('Lists that are not mirrored')
  })

  it('says so where nothing was read', async () => {
    expect(await show(contractPage)).toContain('The upstream has not published a description')
  })
})

describe('the navigation', () => {
  it('leads back to the demo, where there is one', () => {
    const page = (isDemo: boolean) =>
      markupOf(
        layout({
          ...{ title: 'x', path: '/', viewer: readOnlyViewer, problems: null, isDemo },
          ...{ assets: { urlOf: (name: string) => name }, body: html`<p>a page</p>` },
        }),
      )
    expect(page(true)).toContain('href="/demo"')
    expect(page(false)).not.toContain('href="/demo"')
  })
})

describe('what a page says holds when it is shown (P18)', () => {
  const plain = (text: string) => text.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ')

  it('what a worker said that it does is told with the time at which it said so', async () => {
    const seenAt = new Date('2026-01-02T03:03:57Z')
    const worker = {
      ...{ id: 'one', host: 'here', pid: 7, version: '1', startedAt: new Date('2026-01-02T02:00:00Z') },
      ...{ seenAt, isGone: false, waits: [] },
      runs: [{ stream: 'assignment', kind: 'incremental', since: '2026-01-02T03:03:56Z' }],
    }
    const workers = async () => [worker]
    const text = plain(await show(workersPage, { workers, queueCounts: async () => ({ active: 0 }) }))
    expect(text).toContain('Working 8 seconds ago')
    expect(text).toContain('incremental of assignment for 1 s')
    expect(text).toContain('Not listed: look-backs, searches for deletions')
  })

  it('no run is announced for a moment at which the first load of its stream goes on', async () => {
    const now = new Date('2026-01-02T03:04:05Z')
    const at = new Date(now.getTime() + 1_000)
    const snapshot = async () =>
      ({
        ...emptySnapshot,
        streams: [
          { stream: 'assignment', paused: null, readThroughAt: null, running: ['incremental'] },
          { stream: 'assignment_note', paused: null, readThroughAt: now, running: ['incremental'] },
        ],
        nextRuns: ['assignment', 'assignment_note'].map((stream) => ({
          ...{ stream, kind: 'incremental', schedule: { everyMs: 30_000 }, at },
        })),
      }) as unknown as Snapshot
    const text = plain(await show(workersPage, { snapshot, queueCounts: async () => ({ active: 1 }) }))
    expect(text).toContain('when all is readincremental of assignment')
    expect(text).toContain('in 1 secondincremental of assignment_note')
  })

  it('advice names the place of the console that does it; in the terminal it stays a command', async () => {
    const problem: Problem = {
      ...{ key: 'quarantine:assignment', kind: 'quarantine', stream: 'assignment', since: null },
      ...{ what: 'A record.', runbook: 'docs/operations/quarantine.md' },
      whatToDo:
        'See why: `tidemark quarantine list assignment`. Then: `tidemark quarantine retry assignment`. `tidemark status assignment` shows more; not here: `tidemark probe`, `tidemark sync "<b>"`.',
    }
    const told = '1 row stays: `tidemark deletions undo acme.assignment`, or `<i>it</i>`. A `lone one.'
    const text = await show(problemsPage, {}, { problems: [problem] })
    expect(text).toContain(
      'See why: <a href="/quarantine?stream=assignment">the quarantine of assignment</a>. Then: <a href="/quarantine?stream=assignment">Try all of assignment again</a>. <a href="/streams/assignment">The page of assignment</a> shows more; not here: <code>tidemark probe</code>, <code>tidemark sync &quot;&lt;b&gt;&quot;</code>.',
    )
    const page = (text: string) =>
      markupOf(
        layout({
          ...{ title: 'x', path: '/x', assets: { urlOf: () => '/x' }, problems: [], body: html`` },
          viewer: { ...operator, message: { isGood: true, text } },
        }),
      )
    expect(page(told)).toContain(`<bdi>${told.replaceAll('<', '&lt;').replaceAll('>', '&gt;')}</bdi>`)
    expect(page(told.replace(' A `lone one.', ''))).toMatch(
      /stays: <\/bdi><a href="\/approve\?stream=acme.assignment">Look again now<\/a>.*<code>&lt;i&gt;it/,
    )
  })

  it('kinds of problems are told in words beside their names, and rules for names beside the field', async () => {
    const admin: Viewer = { ...operator, role: 'admin', canAdminister: true }
    const alerting = {
      ...{ rules: [], targets: {}, remarks: [], problem: null, unusable: [], keepsNone: null },
      receivers: [
        { name: 'chat', from: 'file' as const, url: 'https://chat.example', format: 'json' as const },
      ],
    }
    const text = await show(alertsPage, { alerting: () => alerting as never }, { viewer: admin })
    const meaning = 'the upstream asks to be left alone for longer than an hour'
    expect(text).toContain(`<dt><code>told_to_wait</code></dt><dd>${meaning}`)
    expect(text).toMatch(new RegExp(`<span>told_to_wait<small class="quiet">${meaning}`))
    expect(text).toMatch(/<span class="hint" id="[^"]+">letters, digits, _ and -, a letter first</)
    expect(await show(peoplePage, {}, { viewer: admin })).toMatch(
      /class="hint"[^>]*>[^<]*small letters, digits/,
    )
    const problem: Problem = {
      ...{ kind: 'stale' as const, key: 'stale:assignment', stream: 'assignment', since: null },
      ...{ what: 'It is old.', whatToDo: 'Wait.', runbook: 'docs/operations/stale.md' },
    }
    expect(await show(problemsPage, {}, { problems: [problem] })).toMatch(
      /all problems of this kind \(stale\)[\s\S]*<option value="2h">2 hours</,
    )
  })
})
