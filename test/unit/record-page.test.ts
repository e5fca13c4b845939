// The page of one record: what it says of how the row came to be as it is.

import { describe, expect, it } from 'vitest'
import { markupOf } from '../../src/web/html.ts'
import { recordPage } from '../../src/web/pages/record.ts'
import type { RecordShown } from '../../src/web/row-queries.ts'
import { readOnlyViewer } from '../../src/web/sessions.ts'
import { statusQueriesWith } from '../support/status-queries.ts'

const now = new Date('2026-01-02T03:04:05Z')
const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000)
const record: RecordShown = {
  stream: { name: 'tracker_object', kind: 'list' },
  row: {
    firstSeenAt: ago(90),
    syncedAt: ago(5),
    deletedAt: null,
    deletedReason: null,
    text: '{}',
    runs: [{ id: '7', kind: 'list', startedAt: ago(5), finishedAt: ago(5) }],
    values: {},
  },
  notes: {
    missingSince: null,
    evidence: null,
    lateArrivals: [{ version: '12', lateMs: 6_000, foundAt: ago(30).toISOString(), run: '5' }],
    missedRows: [],
  },
  events: { differences: [], quarantine: [], related: [] },
  changes: [],
  fieldOf: {},
  settledAt: null,
  canCompare: false,
}

async function show(more: Partial<RecordShown>): Promise<string> {
  const shown = await recordPage.body({
    statusQueries: statusQueriesWith({ record: async () => ({ ...record, ...more }) }),
    viewer: readOnlyViewer,
    query: new URLSearchParams(),
    params: { stream: 'tracker_object', key: '3' },
    problems: Promise.resolve([]),
    now,
  })
  return markupOf('body' in shown ? shown.body : shown)
}

describe('the page of a record', () => {
  it('tells each change with what was there before, where the past of the row is kept', async () => {
    const change = { isDeleted: false, isBack: false, fields: [], fieldCount: 0, runId: null }
    const page = await show({
      changes: [
        {
          ...{ ...change, at: ago(5).toISOString(), fieldCount: 3 },
          fields: [
            { column: 'latitude', before: '60.5', after: '61.5' },
            { column: 'name', before: null, after: '<b>van</b>' },
          ],
        },
        { ...change, at: ago(20).toISOString(), isBack: true, runId: '12' },
        { ...change, at: ago(40).toISOString(), isDeleted: true },
      ],
    })
    expect(page).toContain('<del><bdi>60.5</bdi></del> <ins><bdi>61.5</bdi></ins>')
    expect(page).toContain('<del>null</del> <ins><bdi>&lt;b&gt;van&lt;/b&gt;</bdi></ins>')
    expect(page).toContain('and 1 more column')
    expect(page).toMatch(/Came back<[\s\S]{0,80}by <a href="\/runs\/12">run 12/)
    const told = [
      ...page.matchAll(/<b>(Changed|Last changed here|Came back|Gone|Late commit caught|First came)<\/b>/g),
    ]
    expect(told.map(([, title]) => title)).toEqual([
      // With what changed then.
      'Last changed here',
      'Came back',
      'Late commit caught',
      'Gone',
      'First came',
    ])
  })

  it('says once that a row was deleted, why, and by which run', async () => {
    const at = ago(5)
    const difference = { cause: 'deleted', fields: [], foundAt: at, runId: '7', cure: 'marked as deleted' }
    const page = await show({
      row: record.row && { ...record.row, deletedAt: at, deletedReason: 'absent' },
      changes: [
        { at: at.toISOString(), isDeleted: true, isBack: false, fields: [], fieldCount: 0, runId: '7' },
      ],
      events: { ...record.events, differences: [difference] },
    })
    expect(page).toMatch(
      /<b>Marked deleted<\/b>.*no longer exists upstream\. Marked by <a href="\/runs\/7">list run 7/,
    )
    expect(page).not.toMatch(/<b>(Gone|Last changed here|Differed: deleted)</)
  })

  it('P18: tells when a record was found gone apart from when its row was marked, which may be later', async () => {
    const row = record.row && { ...record.row, syncedAt: ago(5), deletedAt: ago(6), deletedReason: 'absent' }
    const page = await show({ row })
    expect(page).toMatch(
      /<b>Marked deleted<\/b>.*Marked by <a href="\/runs\/7">.*<b>Found gone<\/b>.*no longer exists/s,
    )
    expect(page).not.toContain('<b>Last changed here</b>')
  })

  it('leads from a late commit to the run that found it', async () => {
    expect(await show({})).toContain('Found by <a href="/runs/5">run 5</a>')
  })
})
