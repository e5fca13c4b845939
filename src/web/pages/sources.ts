// `/sources`: how each source stands, the worst first. Its streams are on the pages of streams.

import { type Source, sources } from '../../documents/sources.ts'
import { sourceIn } from '../../streams/names.ts'
import { age, foreign, type Html, html, state, type Tone } from '../html.ts'
import type { Page } from './layout.ts'
import { type Column, chosen, field, filterForm, select, table } from './tables.ts'

const tones: Readonly<Record<Source['state'], Tone>> = {
  ...{ stopped: 'bad', behind: 'warn', loading: 'busy', paused: 'idle', new: 'todo', live: 'ok' },
}
const states = Object.keys(tones)
const unnamed = 'environment'

export const sourcesPage: Page = {
  path: '/sources',
  title: 'Sources',
  async body({ statusQueries, query, now }) {
    const all = await statusQueries.document(sources, {})
    const tags = [...new Set(all.flatMap((one) => one.tags))].toSorted()
    const [standing, tag] = [chosen(query, 'state', states), chosen(query, 'tag', tags)]
    const text = query.get('name')?.trim().toLowerCase() ?? ''
    const shown = all.filter(
      (one) =>
        (standing === null || one.state === standing) &&
        (tag === null || one.tags.includes(tag)) &&
        (one.name || unnamed).includes(text),
    )
    return html`<p class="lead">
  The environment describes one source, and the file that <code>SOURCES_FILE</code> names describes the others.
  The state of a source is the worst of its streams; its times are the earliest.
</p>
${filterForm('/sources', [
  field({ name: 'name', title: 'Name', hint: 'or a part of it', value: text }),
  select('State', 'state', states, standing),
  ...(tags.length > 0 ? [select('Tag', 'tag', tags, tag)] : []),
])}
${table({
  caption:
    shown.length === all.length ? 'Sources, the worst first' : `${shown.length} of ${all.length} sources`,
  columns: columns(statusQueries.streams, now),
  rows: shown,
  empty: 'There is no such source.',
})}`
  },
}

const columns = (streams: readonly string[], now: Date): readonly Column<Source>[] => [
  {
    title: 'Source',
    isWord: true,
    cell: ({ name }) => (name === '' ? html`<span class="quiet">${unnamed}</span>` : html`<b>${name}</b>`),
  },
  { title: 'State', cell: (one) => state(tones[one.state], one.state) },
  { title: 'Read through', cell: ({ read_through_at: at }) => (at === null ? 'not yet' : age(at, now)) },
  {
    title: 'Deletions known',
    cell: ({ deletions_known_at: at }) => (at === null ? 'not yet' : age(at, now)),
  },
  { title: 'Streams', isWide: true, cell: (one) => streamLinks(one, streams) },
  { title: 'Tags', cell: ({ tags }) => tags.join(', ') },
  { title: 'Why', isWide: true, cell: why },
]

function streamLinks({ name }: Source, streams: readonly string[]): Html {
  const own = streams.filter((stream) => sourceIn(stream) === name)
  return html`${own.map((stream, index) => html`${index > 0 && ', '}<a href="/streams/${stream}">${stream}</a>`)}`
}

const why = ({ is_gone: isGone, problem, reasons }: Source): Html =>
  html`${[...(isGone ? ['It is gone from the file.'] : []), ...(problem === null ? reasons : [problem])].map(
    (one) => html`<div>${foreign(one, 400)}</div>`,
  )}`
