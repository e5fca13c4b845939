// What is around the pages: what browsers may do with them, what they load, and what they say while nothing can be read.

import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, it } from 'vitest'
import { type Logger, openLog } from '../../src/log.ts'
import { readAssets } from '../../src/web/assets.ts'
import { pageRoutes } from '../../src/web/page-routes.ts'
import { type HttpServer, startHttpServer } from '../../src/web/server.ts'
import { readOnlyViewer } from '../../src/web/sessions.ts'
import type { StatusQueries } from '../../src/web/status-queries.ts'
import { quietLog } from '../support/database.ts'
import { statusQueriesWith } from '../support/status-queries.ts'

const assets = readAssets()
const endings: (() => unknown)[] = []
afterEach(async () => {
  await Promise.all(endings.splice(0).map((end) => end()))
})

type Options = {
  statusQueries?: StatusQueries | null
  timeoutMs?: number
  databaseAwaySince?: () => Date | null
  log?: Logger
}

async function serve({
  statusQueries = statusQueriesWith(),
  log = quietLog,
  ...options
}: Options = {}): Promise<string> {
  const server: HttpServer = await startHttpServer({
    host: '127.0.0.1',
    port: 0,
    routes: [
      assets.routes,
      pageRoutes({
        statusQueries: () => statusQueries,
        viewerOf: () => readOnlyViewer,
        assets,
        log,
        ...options,
      }),
    ],
    log: quietLog,
  })
  endings.push(() => server.close())
  return server.url
}

describe('a page', () => {
  it('may load nothing from elsewhere, run nothing that stands in it, and be kept by nobody', async () => {
    const { headers } = await fetch(await serve())
    const policy = headers.get('content-security-policy')
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).not.toContain('unsafe')
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('referrer-policy')).toBe('same-origin')
  })

  it('says that the worker waits, and loads itself again', async () => {
    const answer = await fetch(`${await serve({ statusQueries: null })}/upstream`)
    expect([answer.status, await answer.text()]).toEqual([
      503,
      expect.stringMatching(/http-equiv="refresh" content="3"[\s\S]*The worker is starting/),
    ])
  })

  it('says that the database does not answer, and not why (P9)', async () => {
    const beliefs = () => Promise.reject(new Error('password=hunter2'))
    const answer = await fetch(`${await serve({ statusQueries: statusQueriesWith({ beliefs }) })}/upstream`)
    const text = await answer.text()
    expect([answer.status, text]).toEqual([503, expect.stringContaining('The database did not answer')])
    expect(text).not.toContain('hunter2')
  })

  it('says since when, and soon, while the database is known to be away', async () => {
    const statusQueries = statusQueriesWith({ beliefs: () => new Promise<never>(() => {}) })
    const url = await serve({ statusQueries, databaseAwaySince: () => new Date('2026-01-02T03:04:05Z') })
    const answer = await fetch(`${url}/upstream`, { signal: AbortSignal.timeout(10_000) })
    expect([answer.status, await answer.text()]).toEqual([
      503,
      expect.stringMatching(/no answer since <time [^>]+>2026-01-02 03:04:05 UTC</),
    ])
  })

  it('says so as well when the database never answers', async () => {
    const beliefs = () => new Promise<never>(() => {})
    const answer = await fetch(
      `${await serve({ statusQueries: statusQueriesWith({ beliefs }), timeoutMs: 50 })}/upstream`,
    )
    expect([answer.status, await answer.text()]).toEqual([
      503,
      expect.stringContaining('The database did not answer'),
    ])
  })

  it('is told of once in the log while it cannot be shown, however often it loads itself again (P10)', async () => {
    let isAway = true
    const beliefs = async () => {
      if (isAway) throw new Error('no connection')
      return []
    }
    const stream = new PassThrough()
    const url = await serve({
      statusQueries: statusQueriesWith({ beliefs }),
      log: openLog({ level: 'info', stream }),
    })
    const told = () => String(stream.read() ?? '').split('could not be shown').length - 1
    for (let time = 0; time < 5; time++) await fetch(`${url}/upstream`)
    expect(told()).toBe(1)
    isAway = false
    await fetch(`${url}/upstream`)
    isAway = true
    for (let time = 0; time < 5; time++) await fetch(`${url}/upstream`)
    expect(told()).toBe(1)
  })

  it('asks for nothing that its address should not be able to ask for', async () => {
    const asked: unknown[] = []
    const statusQueries = statusQueriesWith({
      async runs(...query) {
        asked.push(query)
        return []
      },
    })
    const url = await serve({ statusQueries })
    await fetch(`${url}/runs?stream=nothing&kind=%27&outcome=__proto__&before=1e9`)
    await fetch(`${url}/runs?stream=assignment&kind=incremental&outcome=failed&before=12&before=x&%E0%A4%A`)
    expect(asked).toEqual([
      [
        { stream: null, kind: null, outcome: null, from: null, to: null },
        { before: null, limit: 51 },
      ],
      [
        { stream: 'assignment', kind: 'incremental', outcome: 'failed', from: null, to: null },
        { before: '12', limit: 51 },
      ],
    ])
  })

  it('of an address that there is not goes on from there in a browser, and is brief with a program', async () => {
    const url = await serve()
    const [page, told] = await Promise.all([
      fetch(`${url}/nothing/here?x=1`, { headers: { accept: 'text/html,*/*' } }),
      fetch(`${url}/nothing/here`),
    ])
    const text = await page.text()
    expect([page.status, text]).toEqual([404, expect.stringContaining('There is no such page')])
    expect(text).toContain('<a href="/">overview</a>')
    expect(text).not.toContain('nothing/here')
    expect([told.status, await told.json()]).toEqual([404, { error: 'not found' }])
  })

  it('says nothing of the records while the upstream has not described itself', async () => {
    const text = await (await fetch(`${await serve()}/upstream/contract`)).text()
    expect(text).toContain('Nothing was read')
    expect(text).not.toContain('All records match the description')
  })

  it('of a stream that there is not says which there are', async () => {
    const answer = await fetch(`${await serve()}/streams/%3Cb%3E`)
    const text = await answer.text()
    expect([answer.status, text]).toEqual([404, expect.stringContaining('There is no such stream')])
    expect(text).not.toContain('<b>')
  })

  it('shows the problems, in words and commands, each with its runbook page', async () => {
    const problem = {
      key: 'held assignment',
      kind: 'deletions_blocked',
      stream: 'assignment',
      since: new Date('2026-01-02T03:04:05Z'),
      what: 'assignment: <b>rows</b> are gone',
      whatToDo: 'look: `tidemark reconcile <x>`',
      runbook: 'docs/operations/deletions-blocked.md',
    } as const
    const text = await (
      await fetch(
        await serve({
          statusQueries: statusQueriesWith({
            problems: async () => [problem, { ...problem, kind: 'belief_changed' }],
          }),
        }),
      )
    ).text()
    expect(text).toContain('One thing needs you, one change to know about')
    expect(text).toContain('assignment: &lt;b&gt;rows&lt;/b&gt; are gone')
    expect(text).toContain('look: <code>tidemark reconcile &lt;x&gt;</code>')
    expect(text).toContain('More: docs/operations/deletions-blocked.md')
    expect(await (await fetch(await serve())).text()).not.toContain('needs you')
  })
})

describe('what pages load', () => {
  it('is kept by browsers for good under its own address, and asked for again under any other', async () => {
    const url = await serve()
    const page = await (await fetch(url)).text()
    const addresses = [...page.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, address]) => address)
    expect(addresses.length).toBeGreaterThanOrEqual(3)
    for (const address of addresses) {
      const { status, headers } = await fetch(url + address)
      expect([status, headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable'])
      const etag = headers.get('etag') ?? ''
      const again = await fetch(url + address, { headers: { 'if-none-match': etag } })
      expect(again.status).toBe(304)
    }
    const old = await fetch(`${url}/assets/page.js?older`)
    expect([old.status, old.headers.get('cache-control')]).toEqual([200, 'no-cache'])
    expect((await fetch(`${url}/assets/..%2fassets.ts`)).status).toBe(404)
    expect((await fetch(`${url}/assets/constructor`)).status).toBe(404)
  })
})
