// `/sources`: how each source stands, the worst first; and a page for each.

import { isWell, sourceTitle, withProblems } from '../../problems/stream-state.ts'
import type { SourceLine } from '../../store/book/source-config.ts'
import { sourceIn } from '../../streams/names.ts'
import { newForm, openFields } from '../form-fields.ts'
import { age, count, foreign, type Html, html, state, type Tone } from '../html.ts'
import type { Snapshot } from '../status-queries.ts'
import type { Page } from './layout.ts'
import { type Column, chosen, filterForm, listPart, select } from './tables.ts'

const tones: Readonly<Record<SourceLine['state'], Tone>> = {
  stopped: 'bad',
  behind: 'warn',
  loading: 'busy',
  paused: 'idle',
  new: 'todo',
  live: 'ok',
}
const states = Object.keys(tones)
const mostShown = 100

export const sourcesPage: Page = {
  path: '/sources',
  title: 'Sources',
  async body({ statusQueries, query, now, ...context }) {
    const all = withProblems(...(await Promise.all([statusQueries.sources(), context.problems])))
    const tags = [...new Set(all.flatMap((one) => one.tags))].toSorted()
    const [standing, tag] = [chosen(query, 'state', states), chosen(query, 'tag', tags)]
    const name = query.get('name')?.trim().toLowerCase() ?? ''
    const shown = all.filter(
      (one) =>
        (standing === null || one.state === standing) &&
        (tag === null || one.tags.includes(tag)) &&
        sourceTitle(one.name).includes(name),
    )
    return html`<p class="lead">
  The environment describes one source, and the file that <code>SOURCES_FILE</code> names describes the others.
  The state of a source is the worst of its streams; its times are the earliest.
</p>
${filterForm('/sources', [
  openFields('/sources', newForm).line({ name: 'name', title: 'Name', hint: 'or a part of it', value: name }),
  select('State', 'state', states, standing),
  ...(tags.length > 0 ? [select('Tag', 'tag', tags, tag)] : []),
])}
${await listPart({
  path: '/sources',
  query,
  kept: { name, state: standing, tag },
  beginsAt: 'after',
  names: { list: 'sources', first: 'The worst', next: 'More' },
  async read(after) {
    const from = /^\d{1,6}$/.test(after ?? '') ? Number(after) : 0
    const next = from + mostShown
    return { rows: shown.slice(from, next), next: next < shown.length ? String(next) : null }
  },
  caption:
    shown.length === all.length ? 'Sources, the worst first' : `${shown.length} of ${all.length} sources`,
  columns: sourceColumns(now),
  empty: 'There is no such source.',
})}`
  },
}

export const sourceColumns = (now: Date): readonly Column<SourceLine>[] => [
  {
    title: 'Source',
    isWord: true,
    cell: ({ name }) => html`<a href="/sources/${sourceTitle(name)}">${sourceTitle(name)}</a>`,
  },
  { title: 'State', cell: standingOf },
  { title: 'Read through', cell: ({ readThroughAt: at }) => (at === null ? 'not yet' : age(at, now)) },
  {
    title: 'Deletions known',
    cell: ({ deletionsKnownAt: at }) => (at === null ? 'not yet' : age(at, now)),
  },
  { title: 'Streams', isNumber: true, cell: ({ streams }) => count(streams) },
  { title: 'Problems', isNumber: true, cell: ({ problems }) => count(problems) },
  { title: 'Tags', cell: ({ tags }) => tags.join(', ') },
  { title: 'Why', isWide: true, cell: whyOf },
]

export const standingOf = (one: SourceLine): Html =>
  state(isWell(one) || one.state !== 'live' ? tones[one.state] : 'warn', one.state)

export const whyOf = ({ isGone, problem, reasons }: SourceLine): Html =>
  html`${[...(isGone ? ['It is gone from the file.'] : []), ...(problem === null ? reasons : [problem])].map(
    (one) => html`<div>${foreign(one, 400)}</div>`,
  )}`

/** What there is of one source alone. */
export const snapshotOf = (snapshot: Snapshot, source: string): Snapshot => {
  const isOwn = ({ stream }: { readonly stream: string }) => sourceIn(stream) === source
  return { ...snapshot, streams: snapshot.streams.filter(isOwn), loads: snapshot.loads.filter(isOwn) }
}
