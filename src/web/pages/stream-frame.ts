// The head and the tabs around every page of one stream.

import { problemsByKey } from '../../problems/stream-state.ts'
import { streamBar } from '../action-forms.ts'
import { type Html, html } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import type { Snapshot, StreamSnapshot } from '../status-queries.ts'
import { shownOf } from '../stream-cells.ts'
import { heading, noSuch, type Page, type PageContext, type Shown } from './layout.ts'

const tabs = [
  ['', 'Overview'],
  ['/rows', 'Rows'],
  ['/runs', 'Runs'],
  ['/fields', 'Fields'],
  ['/checkpoints', 'Checkpoints'],
  ['/settings', 'Settings'],
] as const
/** Those of which the page follows what happens: elsewhere a time to go would stand still (P18). */
const follows = ['', '/runs']

type WithRest = Required<Pick<Shown, 'body' | 'rest'>>
type Framed = {
  readonly stream: StreamSnapshot
  readonly snapshot: Snapshot
  readonly cells: ReturnType<typeof shownOf>
}

/** A page of a stream, with its head and the tabs around; for a name that is no stream, it says so. */
export const streamTab = (
  path: string,
  title: string,
  body: (context: PageContext, framed: Framed) => Promise<Html | WithRest> | Html,
  more: Partial<Page> = {},
): Page => ({
  path,
  place: '/',
  title,
  ...more,
  // What is no tab belongs to the first one.
  body: (context) => framed(context, tabs.find(([own]) => path === `/streams/:name${own}`)?.[0] ?? '', body),
})

async function framed(
  context: PageContext,
  tab: string,
  body: Parameters<typeof streamTab>[2],
): Promise<Shown> {
  const name = context.params.name ?? ''
  const [snapshot, problems] = await Promise.all([context.statusQueries.snapshot(), context.problems])
  const stream = snapshot.streams.find((one) => one.stream === name)
  if (!stream) return noSuchStream(snapshot.streams.map((one) => one.stream))
  const cells = shownOf(stream, snapshot, problemsByKey(problems))
  const shown = await body(context, { stream, snapshot, cells })
  return {
    title: name,
    heading: html`${heading({
      title: name,
      crumbs: [['/', 'Streams']],
      lead: html`${cells.state} <span class="quiet">${stream.paused === null && follows.includes(tab) && html`· next read ${cells.next}`}</span>`,
      bar: streamBar(stream, context.viewer),
    })}<nav aria-label="${name}"><ul class="tabs">${tabs.map(
      ([path, words]) =>
        html`<li><a href="/streams/${name}${path}"${path === tab && html` aria-current="page"`}>${words}</a></li>`,
    )}</ul></nav>`,
    ...('body' in shown ? shown : { body: shown }),
  }
}

export const signInHere = ({ signInAt }: Viewer): Html | null =>
  signInAt === null ? null : html` after <a href="${signInAt}">signing in</a>`

/** The form; for a viewer who may not act, the command that does the same. */
export const orCommand = (viewer: Viewer, command: string, form: () => Html): Html =>
  viewer.canAct
    ? form()
    : html`<section class="card"><h2>You can view this, but not act</h2><p>An operator can do this here${signInHere(viewer)}, or anyone on the worker’s machine:</p><pre class="term" tabindex="0">${command}</pre></section>`

export const noSuchStream = (known: readonly string[]): Shown =>
  noSuch(
    'stream',
    html`These are mirrored: ${known.map((name, index) => html`${index > 0 && ', '}<a href="/streams/${name}">${name}</a>`)}. <code>STREAMS</code> says which, and for a source that has a name the file of <code>SOURCES_FILE</code>. Rows of a stream that was mirrored before stay in its table.`,
    [['/', 'Streams']],
  )
