// `/settings`: every setting of this worker with its value and where it comes from, as `tidemark config` prints them.

import { remarkOn, type Setting, sourceInWords, unknownInWords } from '../../streams/settings.ts'
import { foreign, type Html, html } from '../html.ts'
import type { Page } from './layout.ts'
import { type Column, table } from './tables.ts'

const longest = 300

export const settingsPage: Page = {
  path: '/settings',
  title: 'Settings',
  async body({ statusQueries }) {
    const { settings, unknown } = statusQueries.settings()
    const groups = Map.groupBy(settings, ({ group }) => group)
    return html`${lead}
${unknown.map((one) => html`<p class="note warn">${foreign(unknownInWords(one), longest)}</p>`)}
${[...groups].map(([group, some]) => settingsTable(group, some))}`
  },
}

const lead = html`<p class="lead">These are the environment variables of the worker that serves this page, as it was started with them. Change them there, and start it again; all workers need the same values. <code>tidemark config</code> prints those of a terminal.</p>`

/** Of one stream or of all. */
export const settingsTable = (caption: string, settings: readonly Setting[]): Html =>
  table({ caption, columns, rows: settings, empty: 'There are no settings.' })

const columns: readonly Column<Setting>[] = [
  {
    title: 'Setting',
    cell: ({ name, meaning }) =>
      html`<code>${name}</code><br><span class="small quiet">${meaning.replaceAll('`', '')}</span>`,
  },
  {
    title: 'Value',
    cell(setting) {
      const remark = remarkOn(setting)
      const value = foreign(setting.value, longest)
      return html`${setting.source === 'default' ? html`<span class="quiet">${value}</span>` : html`<b>${value}</b>`}${remark && html` <span class="small">${foreign(remark, longest)}</span>`}`
    },
  },
  { title: 'From', cell: (setting) => foreign(sourceInWords(setting), longest) },
]
