// Sentences of pages that hold when they are shown (P18): of few and of many, of each source, and behind the end of a list.

import { describe, expect, it } from 'vitest'
import { html, markupOf } from '../../src/web/html.ts'
import { actionsPage } from '../../src/web/pages/actions.ts'
import { alertsPage } from '../../src/web/pages/alerts.ts'
import { changesPage } from '../../src/web/pages/changes.ts'
import { approvePage } from '../../src/web/pages/confirm.ts'
import { eventsPage } from '../../src/web/pages/events.ts'
import type { Page } from '../../src/web/pages/layout.ts'
import { quarantinePage } from '../../src/web/pages/quarantine.ts'
import { recordPage } from '../../src/web/pages/record.ts'
import { rewindTab } from '../../src/web/pages/rewind.ts'
import { rowsTab } from '../../src/web/pages/rows.ts'
import { sourcesPage } from '../../src/web/pages/sources.ts'
import { readOnlyViewer, type Viewer } from '../../src/web/sessions.ts'
import type { Snapshot, StatusQueries } from '../../src/web/status-queries.ts'
import { emptySnapshot, statusQueriesWith } from '../support/status-queries.ts'

const operator: Viewer = { ...readOnlyViewer, canAct: true, role: 'operator', csrfToken: 'csrf' }
const admin: Viewer = { ...operator, role: 'admin', canAdminister: true }

type Shown = { readonly text: string; readonly markup: string }

async function show(
  page: Page,
  queries: Partial<StatusQueries> = {},
  {
    query = '',
    params = {},
    by: viewer = operator,
  }: { query?: string; params?: Readonly<Record<string, string>>; by?: Viewer } = {},
): Promise<Shown> {
  const shown = await page.body({
    ...{ statusQueries: statusQueriesWith(queries), viewer, query: new URLSearchParams(query), params },
    ...{ problems: Promise.resolve([]), now: new Date('2026-01-02T03:04:05Z') },
  })
  const parts =
    'body' in shown ? [shown.heading ?? html``, shown.body, (await shown.rest?.()) ?? html``] : [shown]
  const markup = parts.map(markupOf).join('')
  return { markup, text: markup.replaceAll(/<[^>]*>/g, '').replaceAll(/\s+/g, ' ') }
}

const withStream = (stream: object) => async () =>
  ({ ...emptySnapshot, streams: [{ running: [], paused: null, ...stream }] }) as unknown as Snapshot

const unread = {
  ...{ stream: 'assignment', kind: 'changes', service: 'assignment' },
  ...{ readThroughAt: null, settledThroughAt: null, deletionsKnownAt: null, rows: null, settling: null },
}

describe('a list', () => {
  it('says behind its end that there is no more, and not that there is nothing', async () => {
    for (const [page, query, none] of [
      [quarantinePage, 'after=999', 'There are no newer records.'],
      [eventsPage, 'after=999', 'There are no older events.'],
      [actionsPage, 'before=1', 'There are no older actions.'],
      [sourcesPage, 'after=500', 'There are no more sources.'],
    ] as const)
      expect((await show(page, {}, { query })).text).toContain(none)
    expect((await show(quarantinePage)).text).toContain('No record is in quarantine.')
    // The search was stopped, and goes on.
    const changes = async () => ({
      ...{ changes: [], kept: [], ended: [], isCut: true },
      next: { micros: '7', stream: 'assignment', key: '7' },
    })
    const { text } = await show(changesPage, { changes }, { query: 'before=8+assignment+7' })
    expect(text).toContain('Nothing found so far.')
  })
})

describe('blocked deletions', () => {
  const blocked = (blockedDeletions: object) =>
    withStream({ stream: 'acme.assignment', blockedDeletions: { seen: 88, at: null, ...blockedDeletions } })
  const queries = {
    streams: ['acme.assignment'],
    deletionEvidence: async () => ({
      ...{ samples: [], looked: { gone: 0, there: 0, unclear: 0 }, lookedAt: null, spread: null },
      ...{ runId: null, mostInARun: 5, marked: 18, isSinceDecision: false },
    }),
  }

  it('that are few are asked about with what makes them too many, and with nothing that does not hold of them', async () => {
    const snapshot = blocked({ missing: 1, living: 70, marked: 18 })
    const { text } = await show(approvePage, { ...queries, snapshot })
    expect(text).toContain('1 of 70 rows (1.4 %) of acme.assignment was missing')
    expect(text).toContain(
      'With 18 others, which were marked deleted within the day before, that is more than a fifth.',
    )
    expect(text).toContain('Mark 1 row of acme.assignment as deleted?It is missing')
    expect(text).toContain('Mark 1 row as deleted')
    expect(text).not.toMatch(/at once|Never before/)
  })

  it('that are many are asked about with the tables of their own source', async () => {
    const { text } = await show(approvePage, { ...queries, snapshot: blocked({ missing: 20, living: 70 }) })
    expect(text).toMatch(/So many at once can mean.*Never before did a run find that more than 5 rows/)
    expect(text).toContain('leave acme.assignment. They stay in acme_mirror.assignment')
  })
})

describe('a search for rows', () => {
  it('that finds nothing says which rows it looked through', async () => {
    const rows = async () => ({
      ...{ all: ['subject'], keyName: 'assignment_id', columns: [], numbers: [], sql: '' },
      page: Promise.resolve({ rows: [], next: null, isCut: false, looked: 0 }),
    })
    const search = async (query: string) =>
      (await show(rowsTab, { snapshot: withStream(unread), rows }, { query, params: { name: 'assignment' } }))
        .text
    expect(await search('q=x')).toContain('No row of assignment matches “x”. Deleted rows were searched too.')
    expect(await search('q=x&deleted=only')).toContain('“x”. Only deleted rows were searched.')
    const older = 'at=2026-01-01+00:00:00%2B00&key=7'
    expect(await search(`q=x&${older}`)).toContain(
      'Nothing more foundNo older row of assignment matches “x”.',
    )
  })
})

describe('a row version', () => {
  it('is told with all of its digits (P4)', async () => {
    const snapshot = withStream({ ...unread, position: '638000000000000123' })
    const planRewind = async () => ({
      ...{ from: '638000000000000123', to: '638000000000000121', reachedAt: null, rows: 2, expectedMs: null },
    })
    const of = { query: 'to-version=638000000000000121', params: { name: 'assignment' } }
    const { text } = await show(rewindTab, { snapshot, planRewind }, of)
    expect(text).toContain('from 638,000,000,000,000,123 back to 638,000,000,000,000,121')
  })
})

describe('the form of a receiver', () => {
  it('is offered only where its secrets can be kept', async () => {
    const offered = await show(alertsPage, {}, { by: admin })
    expect(offered.markup).toContain('action="/alerts/receivers/set"')
    const alerting = () => ({ ...statusQueriesWith().alerting(), keepsNone: 'Set `KEY` first.' })
    const refused = await show(alertsPage, { alerting }, { by: admin })
    expect(refused.markup).not.toContain('action="/alerts/receivers/set"')
    expect(refused.markup).toContain('Set <code>KEY</code> first.')
    expect((await show(alertsPage, { alerting })).text).not.toContain('An admin can add one here.')
  })
})

describe('a related record', () => {
  it('leads to no page of rows, of which it has none', async () => {
    const notes = { lateArrivals: [], missedRows: [], missingSince: null, compared: null }
    const record = async () =>
      ({
        ...{ row: null, fieldOf: {}, canCompare: false, stream: { name: 'customer' }, changes: [], notes },
        events: { differences: [], quarantine: [], related: [] },
      }) as never
    const { markup, text } = await show(recordPage, { record }, { params: { stream: 'customer', key: '1' } })
    expect(text).toContain('customer has no such row')
    expect(markup).not.toContain('/streams/customer')
  })
})
