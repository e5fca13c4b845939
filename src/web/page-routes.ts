// Serves the pages. While the worker waits for Postgres, or Postgres does not answer, they say so and load themselves again.

import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { type Part, titleOf } from '../problems/parts.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { withTimeout } from '../util/waiting.ts'
import { type Html, html, markupOf, time } from './html.ts'
import { actionsPage } from './pages/actions.ts'
import { alertsPage } from './pages/alerts.ts'
import { changesPage } from './pages/changes.ts'
import { checkpointsPage } from './pages/checkpoints.ts'
import { approvePage, backfillPage } from './pages/confirm.ts'
import { contractPage } from './pages/contract.ts'
import { dictionaryPage } from './pages/dictionary.ts'
import { eventsPage } from './pages/events.ts'
import { findPage } from './pages/find.ts'
import { layout, noSuch, type Page, pageHeaders, type Shown, sendPage } from './pages/layout.ts'
import { overviewPage } from './pages/overview.ts'
import { peoplePage } from './pages/people.ts'
import { problemsPage } from './pages/problems.ts'
import { quarantinePage } from './pages/quarantine.ts'
import { recordPage } from './pages/record.ts'
import { runPage } from './pages/run.ts'
import { runsPage } from './pages/runs.ts'
import { settingsPage } from './pages/settings.ts'
import { sourcePage } from './pages/source.ts'
import { sourcesPage } from './pages/sources.ts'
import { streamPages } from './pages/stream.ts'
import { upstreamPage } from './pages/upstream.ts'
import { queuePage, workersPage } from './pages/workers.ts'
import type { Console } from './readers.ts'
import { readerOf } from './reading-places.ts'
import { queryOf, type Routes, wantsHtml } from './server.ts'
import type { Viewer } from './sessions.ts'

type Options = Pick<Console, 'statusQueries' | 'assets' | 'log'> & {
  readonly viewerOf: (request: FastifyRequest) => Viewer
  /** Shown while the worker is starting. */
  readonly parts?: () => readonly Part[]
  readonly isDemo?: Console['isDemo']
  readonly isOpen?: Console['isOpen']
  /** Since when the database is known not to answer; null: it does. */
  readonly databaseAwaySince?: () => Date | null
  /** A Postgres that is frozen keeps its connections and never answers. */
  readonly timeoutMs?: number
}

/** The answer for unknown addresses: a browser gets this page, a program the usual answer of the server. */
const notFoundPage: Page = {
  path: '/*',
  place: '',
  title: 'No such page',
  body: async () =>
    noSuch(
      'page',
      html`Nothing is at this address. Check it, or go on from the <a href="/">overview</a>, or <a href="/find">find a record</a>.`,
    ),
}

const pages: readonly Page[] = [
  overviewPage,
  backfillPage,
  approvePage,
  runsPage,
  checkpointsPage,
  quarantinePage,
  dictionaryPage,
  upstreamPage,
  contractPage,
  ...streamPages,
  recordPage,
  problemsPage,
  alertsPage,
  runPage,
  findPage,
  workersPage,
  queuePage,
  eventsPage,
  changesPage,
  actionsPage,
  peoplePage,
  sourcesPage,
  sourcePage,
  settingsPage,
  notFoundPage,
]
const reloadSeconds = 3
const defaultTimeoutMs = 15_000
/** The script of a page that asks again waits for ten seconds, and what it shows is old by then. */
const followTimeoutMs = 5_000
/** A database that answers again does so within this time. */
const awayTimeoutMs = 2_000
/** A page is whole when it comes this soon; otherwise what is there is painted first. */
const soonMs = 30

export const pageRoutes =
  (options: Options): Routes =>
  (server) => {
    const { statusQueries, viewerOf, assets, isDemo = false, isOpen = false, log } = options
    const { databaseAwaySince = () => null, parts = () => [] } = options
    // Logged once: every open page asks again every few seconds.
    let isLogged = false
    for (const { path, place = path, title, isLive = false, showsTime, isSearch = false, body } of pages) {
      const config = { place: isSearch ? 'search' : 'page' } as const
      server.get<{ Params: Record<string, string> }>(path, { config }, async (request, reply) => {
        if (path === notFoundPage.path && !wantsHtml(request)) return reply.callNotFound()
        const viewer = viewerOf(request)
        const now = new Date()
        const page = (shown: Shown, problems: readonly Problem[] | null, more = {}) => ({
          path: place,
          title,
          viewer,
          assets,
          isDemo,
          problems,
          isLive,
          now,
          asOf: showsTime ? null : now,
          ...shown,
          ...more,
        })
        const awaySince = databaseAwaySince()
        const usualMs = request.headers['x-follows'] === undefined ? defaultTimeoutMs : followTimeoutMs
        const { timeoutMs = awaySince ? awayTimeoutMs : usualMs } = options
        const silent = databaseSilent(awaySince)
        const failed = (error: unknown): Html => {
          if (isTooSlow(error)) return tooSlow
          if (reader.gone.aborted) return silent
          log[isLogged ? 'debug' : 'warn']({ err: error, path }, `the page ${path} could not be shown`)
          isLogged = true
          return silent
        }
        const reader = readerOf(request)
        const there = statusQueries(reader)
        if (!there) return sendPage(reply, page({ body: waiting(parts()) }, null, { reloadSeconds }), 503)
        try {
          const query = queryOf(request)
          const { params } = request
          const known = there.problems()
          const context = { statusQueries: there, viewer, query, params, problems: known, isOpen, now }
          const [shown, problems] = await withTimeout(timeoutMs, Promise.all([body(context), known]))
          isLogged = false
          const { rest, ...whole }: Shown = 'body' in shown ? shown : { body: shown }
          if (!rest) return sendPage(reply, page(whole, problems), whole.status)
          const coming = withTimeout(timeoutMs, rest())
          const soon = await Promise.race([coming, wait(soonMs, null, { ref: false })])
          if (soon) return sendPage(reply, page(withMore(whole, soon), problems), whole.status)
          const around = layout(page(withMore(whole, searching), problems))
          return reply.headers(pageHeaders).send(Readable.from(inPieces(around, coming, failed)))
        } catch (error) {
          const note = failed(error)
          if (note !== silent) return sendPage(reply, page({ body: note }, null), 503)
          return sendPage(reply, page({ body: html`${note}${reloads}` }, null, { reloadSeconds }), 503)
        }
      })
    }
  }

/** Puts what takes longer, or a mark for it, behind the body. */
const withMore = (shown: Shown, more: Html): Shown => ({ ...shown, body: html`${shown.body}${more}` })

/** Sends the page up to the mark, so that the browser paints it; then what took longer; then the end. No data can forge the mark. */
async function* inPieces(
  page: Html,
  coming: Promise<Html>,
  failed: (error: unknown) => Html,
): AsyncGenerator<string> {
  const mark = markupOf(searching)
  const [before = '', after = ''] = markupOf(page).split(mark)
  yield before + mark
  yield markupOf(await coming.catch(failed))
  yield after
}

/** Postgres stopped the query because its time was up. */
export const isTooSlow = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '57014'

const tooSlow = html`<p class="note warn"><b>This took longer than 2 s and was stopped</b>, so that the page does not hold up the mirror. Load it again; a narrower search or a shorter time helps.</p>`
const waiting = (parts: readonly Part[]): Html =>
  html`<p class="note warn">The worker is starting. This page reloads by itself.</p>${parts
    .filter(({ isUp }) => !isUp)
    .map(
      (part) =>
        html`<p class="note warn"><b>It waits for ${titleOf(part)}.</b> ${part.reason} ${part.whatToDo}</p>`,
    )}`
const databaseSilent = (since: Date | null): Html =>
  html`<p class="note bad">The database did not answer${since && html`; the worker has had no answer since ${time(since)}`}. The log of the worker says why. The stored rows are safe, and the worker keeps trying.</p>`
const reloads = html`<p class="quiet">This page reloads by itself.</p>`
/** The style hides this as soon as something follows it. */
const searching = html`<p class="quiet pending">Searching; this takes up to two seconds.</p>`
