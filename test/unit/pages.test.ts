// The words of the pages, and that nothing put into a page becomes markup.

import { describe, expect, it } from 'vitest'
import type { DeletionEvidence } from '../../src/store/book/deletions.ts'
import type { BeliefLine } from '../../src/store/book/dictionary.ts'
import { catalogueOf } from '../../src/streams/catalog.ts'
import {
  age,
  ageInWords,
  foreign,
  type Html,
  html,
  markupOf,
  momentInWords,
  spanInWords,
  stamp,
  time,
} from '../../src/web/html.ts'
import { approvePage } from '../../src/web/pages/confirm.ts'
import type { Shown } from '../../src/web/pages/layout.ts'
import { upstreamPage } from '../../src/web/pages/upstream.ts'
import { readOnlyViewer } from '../../src/web/sessions.ts'
import { emptySnapshot, statusQueriesWith } from '../support/status-queries.ts'

const shownBy = (shown: Html | Shown): string => markupOf('body' in shown ? shown.body : shown)

const hostile = `<script>alert("1")</script>'&\0`

describe('html', () => {
  it('escapes whatever is not a template, wherever it stands', () => {
    const escaped = '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;\ufffd'
    expect(markupOf(html`<p title="${hostile}">${hostile}</p>`)).toBe(`<p title="${escaped}">${escaped}</p>`)
    expect(markupOf(html`${[hostile, [hostile]]}`)).toBe(escaped + escaped)
  })

  it('keeps templates in templates and in lists as they are', () => {
    const rows = ['a', '<b>'].map((name) => html`<li>${name}</li>`)
    expect(markupOf(html`<ul>${rows}</ul>`)).toBe('<ul><li>a</li><li>&lt;b&gt;</li></ul>')
  })

  it('shows numbers, and nothing for what is not there', () => {
    expect(markupOf(html`${0} ${12n} ${null}${undefined}${false}${''}|`)).toBe('0 12 |')
  })

  it('is not fooled by data that looks like a template', () => {
    const forged: unknown = JSON.parse('{"markup":"<script>","Symbol(markup)":"<script>"}')
    expect(() => markupOf(html`${forged as string[]}`)).toThrow()
  })
})

describe('the page of beliefs', () => {
  const now = new Date('2026-01-02T03:04:05Z')
  const line = (
    name: string,
    value: string,
    ageHours: number,
    more: Partial<BeliefLine> = {},
  ): BeliefLine => {
    const testedAt = new Date(now.getTime() - ageHours * 3_600_000)
    const known = {
      firstAt: testedAt,
      testedAt,
      expiresAt: null,
      restsSince: null,
      previousValue: null,
      changedAt: null,
    }
    return { stream: 'assignment', name, value, evidence: hostile, ...known, ...more }
  }
  const show = async (lines: readonly BeliefLine[], viewer = readOnlyViewer) =>
    shownBy(
      await upstreamPage.body({
        statusQueries: statusQueriesWith({ beliefs: async () => [...lines] }),
        viewer,
        query: new URLSearchParams(),
        params: {},
        problems: Promise.resolve([]),
        now,
      }),
    )

  it('says of each what is claimed, whether it holds, and what it means when it does not', async () => {
    const page = await show([
      line('sorting', 'proven', 2, { restsSince: now }),
      line('ranks', 'not trusted', 1, { previousValue: 'trusted', changedAt: now }),
      line('filters', 'honoured', 25),
      line('version_field', 'RowVersion', 9_000),
      line('of_a_later_version', 'x', 1),
    ])
    expect(page).toContain('5 beliefs: 3 hold, 1 does not hold, 1 to be tested again')
    expect(page).toContain('Neworchanged sorts by row version when asked to, ascending and descending')
    expect(page).toContain('Relied on since')
    expect(page).toContain(
      'Tidemark finds records that vanish by listing all keys slice by slice, which takes longer.',
    )
    expect(page).toContain('Needs a new test')
    expect(page).toContain('when an answer contradicts it')
    expect(page).not.toContain('<script>')
  })

  it('shows the action to those who may act, and the command to others', async () => {
    expect(await show([])).toContain('<code>tidemark probe</code>')
    const acting = { ...readOnlyViewer, canAct: true, csrfToken: 'a-token' }
    expect(await show([], acting)).toContain('action="/streams/assignment/probe"')
  })
})

describe('words', () => {
  it.each([
    [-5, 'just now'],
    [999, 'just now'],
    [1_000, '1 second ago'],
    [3_400, '3 seconds ago'],
    [59_999, '59 seconds ago'],
    [60_000, '1 minute ago'],
    [7_199_000, '1 hour ago'],
    [86_400_000 * 1_234, '1,234 days ago'],
  ])('tell an age of %i ms', (ms, words) => expect(ageInWords(ms)).toBe(words))

  it('tell moments on either side of now, and spans', () => {
    const now = new Date('2026-01-02T03:04:05.678Z')
    expect(momentInWords(new Date(now.getTime() + 90_000), now)).toBe('in 1 minute')
    expect(momentInWords(new Date(now.getTime() + 200), now)).toBe('any moment')
    expect(momentInWords(new Date(now.getTime() - 2_000), now)).toBe('2 seconds ago')
    expect(spanInWords(600_000)).toBe('10 minutes')
    expect(stamp(now)).toBe('2026-01-02 03:04:05 UTC')
    expect(markupOf(time(now))).toBe(
      '<time datetime="2026-01-02T03:04:05.678Z" data-form="stamp">2026-01-02 03:04:05 UTC</time>',
    )
    expect(markupOf(age(now, now))).toContain('>just now</time>')
  })

  it('cut foreign text between characters, and keep its direction to itself', () => {
    expect(markupOf(foreign('😀'.repeat(5), 3))).toBe('<bdi>😀😀😀…</bdi>')
    expect(markupOf(foreign('\u202e<b>', 10))).toBe('<bdi>\u202e&lt;b&gt;</bdi>')
    expect(markupOf(foreign('abc', 3))).toBe('<bdi>abc</bdi>')
  })
})

describe('the page of blocked deletions', () => {
  const show = async (stream: string, more: Partial<DeletionEvidence> = {}) => {
    const none = statusQueriesWith()
    const blockedDeletions = { missing: 30, living: 100, seen: 70, at: null, rejected: null }
    const blocked = { stream, blockedDeletions } as unknown as (typeof emptySnapshot)['streams'][number]
    const evidence = await none.deletionEvidence(stream)
    return shownBy(
      await approvePage.body({
        statusQueries: {
          ...none,
          streams: [stream],
          catalogue: catalogueOf(
            [{ name: 'asset', path: '/api/Asset' }],
            new Map([['asset', { kind: 'changes', keyField: 'AssetId', hasLookup: false }]]),
          ),
          snapshot: async () => ({ ...emptySnapshot, streams: [blocked] }),
          deletionEvidence: async () => ({ ...evidence, ...more }),
        },
        viewer: readOnlyViewer,
        query: new URLSearchParams({ stream }),
        params: {},
        problems: Promise.resolve([]),
        now: new Date('2026-01-02T03:04:05Z'),
      } as unknown as Parameters<typeof approvePage.body>[0]),
    )
  }

  it('promises looks by key only where a reconcile makes them', async () => {
    for (const stream of ['asset', 'webhook_subscription', 'tracker_object'])
      expect([stream, await show(stream)]).toEqual([
        stream,
        expect.stringContaining('does not let its records be looked up one by one'),
      ])
    expect(await show('assignment')).toContain('by key yet: a reconcile does it')
  })

  it('says when records were asked for', async () => {
    const looked = { gone: 5, there: 0, unclear: 0 }
    expect(await show('assignment', { looked, lookedAt: new Date('2026-01-01T00:00:00Z') })).toContain(
      'asked on <time datetime="2026-01-01T00:00:00.000Z" data-form="stamp">2026-01-01 00:00:00 UTC</time>',
    )
  })
})
