// The pages of sources: which are shown, in which parts, and that the page of one says nothing of others.

import { describe, expect, it } from 'vitest'
import type { Problem } from '../../src/problems/stream-problems.ts'
import type { SourceLine } from '../../src/store/book/source-config.ts'
import { markupOf } from '../../src/web/html.ts'
import type { Page } from '../../src/web/pages/layout.ts'
import { overviewPage } from '../../src/web/pages/overview.ts'
import { sourcePage } from '../../src/web/pages/source.ts'
import { sourcesPage } from '../../src/web/pages/sources.ts'
import { upstreamPage } from '../../src/web/pages/upstream.ts'
import { readOnlyViewer } from '../../src/web/sessions.ts'
import type { Snapshot } from '../../src/web/status-queries.ts'
import { emptySnapshot, statusQueriesWith } from '../support/status-queries.ts'

const now = new Date('2026-01-02T03:04:05Z')
const sources = Array.from({ length: 250 }, (_, index): SourceLine => {
  const isStopped = index < 2
  return {
    ...{
      name: index === 249 ? '' : `client_${index}`,
      streams: 3,
      readThroughAt: now,
      deletionsKnownAt: now,
    },
    ...{ state: isStopped ? 'stopped' : 'live', problems: isStopped ? 1 : 0, isGone: false },
    ...{ tags: index % 2 === 0 ? ['production'] : [], reasons: isStopped ? ['assignment: <b>no</b>'] : [] },
    problem: null,
    changedSettings: 0,
  }
})
const problem: Problem = {
  ...{ key: 'source_stopped:client_0', kind: 'source_stopped', stream: null, since: now, runbook: '' },
  ...{ what: 'The source client_0 is not read: its key is refused.', whatToDo: 'Mend it.' },
}
const others = [{ ...problem, key: 'source_stopped:client_1', what: 'Another one.' }]
const show = async (
  page: Page,
  address: string,
  params: Readonly<Record<string, string>> = {},
  problems = [problem, ...others],
  snapshot: Snapshot = emptySnapshot,
) => {
  const shown = await page.body({
    statusQueries: statusQueriesWith({
      sources: async () => sources,
      snapshot: async () => snapshot,
      requests: async () =>
        [5, 7].map((requests, index) => ({
          ...{ service: `client_${index}.assignment`, at: now, requests, bytes: 0, failures: {} },
          latency: [requests, ...Array.from({ length: 13 }, () => 0)],
        })),
    }),
    ...{ viewer: readOnlyViewer, query: new URLSearchParams(address), params, now },
    problems: Promise.resolve(problems),
  } as unknown as Parameters<Page['body']>[0])
  return 'body' in shown
    ? {
        status: shown.status ?? 200,
        text: `${shown.heading ? markupOf(shown.heading) : ''}${markupOf(shown.body)}`,
      }
    : { status: 200, text: markupOf(shown) }
}
it('P18: counts the problems of a source as they are now, not as they were noted a minute ago', async () => {
  const stream = 'client_9.assignment'
  const late: Problem[] = [
    { ...problem, key: `deletions_blocked:${stream}`, kind: 'deletions_blocked', stream },
  ]
  const { text } = await show(sourcesPage, 'name=client_9', {}, late)
  expect(named(text)[0]).toBe('client_9')
  expect(/client_9<\/a>.*?<\/tr>/s.exec(text)?.[0]).toMatch(/data-l="Problems"[^>]*>1</)
})

it('P18: says of the services of each source how they stand, and of no other', async () => {
  const streams = ['assignment', 'acme.assignment', 'late.assignment'].map((stream) => ({
    ...{ stream, service: 'assignment', lastSuccessAt: now, settling: null },
  })) as unknown as Snapshot['streams']
  const refused: Problem[] = [
    { ...problem, key: 'token_refused:acme.assignment', kind: 'token_refused' },
    { ...problem, key: 'source_stopped:late' },
  ]
  const { text } = await show(upstreamPage, '', {}, refused, { ...emptySnapshot, streams })
  const standing = [
    ...text.matchAll(
      /<h2 id="service-[^>]*>([^<]*)<.*?class="st \w+">([^<]*)<.*?Sign-in<\/dt><dd>([^<]*)</gs,
    ),
  ]
  expect(standing.map((found) => found.slice(1))).toEqual([
    ['Assignment service', 'Well', 'works'],
    ['Assignment service of acme', 'Refuses the sign-in', 'refused'],
    ['Assignment service of late', 'Not asked', 'worked last time'],
  ])
})

it('P18: does not say that a service was never asked whose answers a first load stores', async () => {
  const streams = ['client_0.assignment', 'new.assignment'].map((stream) => ({
    ...{ stream, service: 'assignment', lastSuccessAt: null, settling: null },
  })) as unknown as Snapshot['streams']
  const { text } = await show(upstreamPage, '', {}, [], { ...emptySnapshot, streams })
  const standing = [
    ...text.matchAll(
      /<h2 id="service-[^>]*>([^<]*)<.*?class="st \w+">([^<]*)<.*?Sign-in<\/dt><dd>([^<]*)<.*?good answer<\/dt><dd>(.*?)<\/dd>/gs,
    ),
  ]
  expect(standing.map((found) => found.slice(1))).toEqual([
    [
      'Assignment service of client_0',
      'Well',
      'works',
      expect.stringMatching(/2026-01-02T03:04:05.*<small>or more recently<\/small>/),
    ],
    ['Assignment service of new', 'No answer recorded yet', 'not known yet', 'none recorded yet'],
  ])
})

const named = (text: string) => [...text.matchAll(/href="\/sources\/(\w+)"/g)].map(([, name]) => name)

describe('the page of sources', () => {
  it('shows a hundred at a time, the worst first, and goes on', async () => {
    const { text } = await show(sourcesPage, '')
    expect(named(text).slice(0, 3)).toEqual(['client_0', 'client_1', 'client_2'])
    expect(named(text)).toHaveLength(100)
    expect(text).toContain('assignment: &lt;b&gt;no')
    expect(text).toContain('href="/sources?after=100"')
    const last = await show(sourcesPage, 'after=200')
    expect(named(last.text)).toHaveLength(50)
    expect(last.text).not.toContain('rel="next"')
    expect(named((await show(sourcesPage, 'after=x')).text)).toHaveLength(100)
  })

  it('shows those of a name, a tag and a state, also on the next part', async () => {
    expect(named((await show(sourcesPage, 'name=ENVIRON')).text)).toEqual(['environment'])
    expect(named((await show(sourcesPage, 'state=stopped&tag=production')).text)).toEqual(['client_0'])
    expect((await show(sourcesPage, 'tag=production')).text).toContain(
      'href="/sources?tag=production&amp;after=100"',
    )
  })
})

describe('the page of one source', () => {
  it('says what is wrong with it and nothing of others, and that there is no other', async () => {
    const { text } = await show(sourcePage, '', { name: 'client_0' })
    expect(text).toContain('its key is refused')
    expect(text).not.toContain('Another one')
    expect(text).toContain('<dt>Requests</dt><dd>5<small>')
    expect(text).toContain('This worker does not read it at the moment')
    expect((await show(sourcePage, '', { name: 'environment' })).text).not.toContain('its key is refused')
    for (const name of ['nobody', '']) expect((await show(sourcePage, '', { name })).status).toBe(404)
  })
})

describe('the overview of many sources', () => {
  it('shows those that are not well, and counts the others (P18)', async () => {
    const { text } = await show(overviewPage, '')
    expect(text).toContain('>248 live</a>')
    expect(text).toMatch(/248 of 250 <a [^>]*>sources<.a> are live\. Each of their streams was last read at /)
    expect(named(text)).toEqual(['client_0', 'client_1'])
  })

  it('makes one problem of what many sources have by one cause', async () => {
    const of = (name: string) => ({
      ...problem,
      key: `source_stopped:${name}`,
      what: `The source ${name} is not read: its key is refused.`,
    })
    const { text } = await show(overviewPage, '', {}, [...['client_0', 'client_2', 'd'].map(of), ...others])
    expect(text).toContain('Two things need you')
    expect(text).toContain('3 sources have this problem: client_0, client_2, d.')
    expect(text).toContain('<summary>The same at the others</summary>')
    const two = await show(overviewPage, '', {}, ['client_0', 'client_1'].map(of))
    expect(two.text).toContain('Two things need you')
    expect(two.text).not.toContain('have this problem')
  })
})
