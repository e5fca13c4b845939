// `/settings`: every setting of this worker or of one source with its value and where it comes from, as `tidemark config` prints them, and how
// to change it.

import { sourceTitle } from '../../problems/stream-state.ts'
import { environmentSource, keyIn } from '../../streams/names.ts'
import {
  layerInWords,
  remarkOn,
  type Setting,
  type Settings,
  sourceInWords,
  unknownInWords,
} from '../../streams/settings.ts'
import { formOfAdmin, mistakeIn } from '../action-forms.ts'
import { clock, foreign, type Html, html } from '../html.ts'
import { heading, type Page, type PageContext } from './layout.ts'
import { noSuchSource } from './source.ts'
import { type Column, filterForm, table } from './tables.ts'

const longest = 300

export const settingsPage: Page = {
  path: '/settings',
  title: 'Settings',
  async body(context) {
    const { statusQueries, query } = context
    const name = query.get('source') || environmentSource
    const known = (await statusQueries.sources()).map((source) => sourceTitle(source.name))
    if (name !== environmentSource && !known.includes(name)) return noSuchSource
    const { source, settings, unknown } = await statusQueries.settings(name)
    const whose = { ...context, source }
    const changed = settings.filter(({ override }) => override !== null)
    const groups = Map.groupBy(settings, ({ group }) => group)
    const title = source === '' ? 'Settings' : `Settings of ${source}`
    return {
      title,
      heading: heading({ title }),
      body: html`${source === '' ? leadOfAll : leadOf(source)}
${known.length > 1 && filterForm('/settings', [sourceSelect(known, name)])}
${unknown.map((one) => unknownNote(one, whose))}
${changed.length > 0 && settingsTable('Changed while workers run', changed, whose)}
${[...groups].map(([group, some]) => settingsTable(group, some, whose))}`,
    }
  },
}

const sourceSelect = (known: readonly string[], chosen: string): Html =>
  html`<label>Source <select name="source">${known.toSorted().map((one) => html`<option${one === chosen && html` selected`}>${one}</option>`)}</select></label>`

const howToChange = html`Some can be changed here: a change holds for all workers within five seconds, and until somebody undoes it.`

const leadOfAll = html`<p class="lead">Settings come from the environment of the worker that serves this page, as it was started with them.
${howToChange}
For all others, change the environment of all workers and start them again.
In the terminal: <code>tidemark config</code>, <code>tidemark config set NAME=VALUE</code></p>`

const leadOf = (source: string): Html =>
  html`<p class="lead">Settings of the source <a href="/sources/${source}">${source}</a> come from the file that <code>SOURCES_FILE</code> names.
${howToChange}
For all others, change the file: workers take it up within seconds. What is changed here wins over the file, also after the file is changed.
In the terminal: <code>tidemark config --source ${source}</code>, <code>tidemark config set NAME=VALUE --source ${source}</code></p>`

type Shown = Pick<PageContext, 'viewer' | 'now'> & {
  /** Whose settings they are. */
  readonly source: string
}

const unknownNote = (one: Settings['unknown'][number], { viewer, source }: Shown): Html =>
  html`<div class="note warn"><p>${foreign(unknownInWords(one), longest)}</p>${
    one.source === 'override' &&
    formOfAdmin(viewer, '/settings/unset', undo(keyIn(source, one.name), 'Remove it'))
  }</div>`

/** Of one stream or of all. */
export const settingsTable = (caption: string, settings: readonly Setting[], context: Shown): Html =>
  table({ caption, columns: columns(context, caption), rows: settings, empty: 'There are no settings.' })

const columns = ({ viewer, now, source: whose }: Shown, caption: string): readonly Column<Setting>[] => [
  {
    title: 'Setting',
    cell: ({ name, meaning }) =>
      html`<code>${name}</code><br><span class="small quiet">${meaning.replaceAll('`', '')}</span>`,
  },
  {
    title: 'Value',
    isWord: true,
    cell(setting) {
      const remark = remarkOn(setting)
      const value = foreign(setting.value, longest)
      return html`${setting.source === 'default' ? html`<span class="quiet">${value}</span>` : html`<b>${value}</b>`}${remark && html` <span class="small">${foreign(remark, longest)}</span>`}`
    },
  },
  {
    title: 'From',
    cell: ({ override, beneath, ...setting }) =>
      html`${foreign(sourceInWords(setting), longest)}${override && html` <span class="small quiet">by ${foreign(override.by, 80)}, ${clock(override.at, now)}</span>`}${beneath.map((layer) => html`<br><span class="small quiet">over ${foreign(layerInWords(layer), longest)}</span>`)}`,
  },
  {
    title: 'Change',
    cell({ name, value, source, override, isDynamic, form }) {
      if (!isDynamic)
        return html`<span class="small quiet">${whose === '' ? 'with a restart' : 'in the file'}</span>`
      const isSet = source !== 'default'
      // It may also stand in another table of the page.
      const of = `${caption} ${keyIn(whose, name)}`
      const set = formOfAdmin(
        viewer,
        '/settings/set',
        (fields) =>
          html`<input type="hidden" name="target" value="${keyIn(whose, name)}">${fields.line({
            name: 'value',
            title: 'Value',
            hint: form.replaceAll('`', ''),
            value: isSet && value,
            more: html`placeholder="${value}" maxlength="2000" required`,
          })}${fields.line({ name: 'reason', title: 'Reason', more: html`maxlength="300" placeholder="may be empty"` })}<button>Set<span class="hidden"> ${name}</span></button>`,
        of,
      )
      const back = override && formOfAdmin(viewer, '/settings/unset', undo(keyIn(whose, name), 'Undo'))
      if (set === null) return html`<span class="small quiet">without a restart</span>`
      return html`${back}<details class="actions"${mistakeIn(viewer, '/settings/set', of) && html` open`}><summary>Change…<span class="hidden"> ${name}</span></summary>${set}</details>`
    },
  },
]

const undo = (name: string, words: string): Html =>
  html`<input type="hidden" name="target" value="${name}"><button>${words}<span class="hidden"> (${name})</span></button>`
