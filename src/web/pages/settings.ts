// `/settings`: every setting of this worker with its value and where it comes from, as `tidemark config` prints them, and how to change it.

import {
  layerInWords,
  remarkOn,
  type Setting,
  type Settings,
  sourceInWords,
  unknownInWords,
} from '../../streams/settings.ts'
import { formOfAdmin } from '../action-forms.ts'
import { clock, foreign, type Html, html } from '../html.ts'
import type { Page, PageContext } from './layout.ts'
import { type Column, table } from './tables.ts'

const longest = 300

export const settingsPage: Page = {
  path: '/settings',
  title: 'Settings',
  async body(context) {
    const { settings, unknown } = await context.statusQueries.settings()
    const changed = settings.filter(({ override }) => override !== null)
    const groups = Map.groupBy(settings, ({ group }) => group)
    return html`${lead}
${unknown.map((one) => unknownNote(one, context))}
${changed.length > 0 && settingsTable('Changed while workers run', changed, context)}
${[...groups].map(([group, some]) => settingsTable(group, some, context))}`
  },
}

const lead = html`<p class="lead">Settings come from the environment of the worker that serves this page, as it was started with them.
Some can be changed here: they hold for all workers within five seconds, and until somebody undoes it.
For all others, change the environment of all workers and start them again.
In the terminal: <code>tidemark config</code>, <code>tidemark config set NAME=VALUE</code></p>`

const unknownNote = (one: Settings['unknown'][number], { viewer }: PageContext): Html =>
  html`<div class="note warn"><p>${foreign(unknownInWords(one), longest)}</p>${
    one.source === 'override' && formOfAdmin(viewer, '/settings/unset', undo(one.name, 'Remove it'))
  }</div>`

/** Of one stream or of all. */
export const settingsTable = (
  caption: string,
  settings: readonly Setting[],
  context: Pick<PageContext, 'viewer' | 'now'>,
): Html => table({ caption, columns: columns(context), rows: settings, empty: 'There are no settings.' })

const columns = ({ viewer, now }: Pick<PageContext, 'viewer' | 'now'>): readonly Column<Setting>[] => [
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
      if (!isDynamic) return html`<span class="small quiet">with a restart</span>`
      const isSet = source !== 'default'
      const set = formOfAdmin(
        viewer,
        '/settings/set',
        html`<input type="hidden" name="target" value="${name}"><label>Value <input name="value" value="${isSet && value}" placeholder="${value}" maxlength="2000" required autocomplete="off"><small>${form.replaceAll('`', '')}</small></label><label>Reason <input name="reason" maxlength="300" placeholder="may be empty" autocomplete="off"></label><button>Set<span class="hidden"> ${name}</span></button>`,
      )
      const back = override && formOfAdmin(viewer, '/settings/unset', undo(name, 'Undo'))
      if (set === null) return html`<span class="small quiet">without a restart</span>`
      return html`${back}<details class="actions"><summary>Change…<span class="hidden"> ${name}</span></summary>${set}</details>`
    },
  },
]

const undo = (name: string, words: string): Html =>
  html`<input type="hidden" name="target" value="${name}"><button>${words}<span class="hidden"> (${name})</span></button>`
