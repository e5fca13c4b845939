// `/alerts`: who is told of which problems, and after how long; a test message; and for admins how to set up, change and remove receivers
// and rules. What the environment or the file says stands beside what was set up here, and can be changed only there.

import { formOf } from '../../problems/alert-body.ts'
import {
  type Alerting,
  kindWords,
  type NamedReceiver,
  type NamedRule,
  ruleInWords,
} from '../../problems/receivers.ts'
import { problemMeanings } from '../../problems/stream-problems.ts'
import type { AlertSetting } from '../../store/book/alert-settings.ts'
import { environmentSource, sourceIn } from '../../streams/names.ts'
import { actionForm, adminForm, formOfAdmin } from '../action-forms.ts'
import { clock, foreign, type Html, html } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import { heading, type Page } from './layout.ts'
import { alertNotes } from './silences.ts'
import { type Column, plainTable } from './tables.ts'

export const alertsPage: Page = {
  path: '/alerts',
  place: '/problems',
  title: 'Alerts',
  async body({ statusQueries, viewer, now }) {
    // First: what is looked up is taken up as well.
    const kept = await statusQueries.alertSettings()
    const alerting = statusQueries.alerting()
    const given = { viewer, now, kept, streams: statusQueries.streams, alerting }
    return {
      title: 'Alerts',
      heading: heading({
        crumbs: [['/problems', 'Problems']],
        title: 'Alerts',
        lead: 'A rule says which problems a receiver is told of, and how long one has to last before. Whoever was told hears when it is over, too.',
      }),
      body: html`${alertNotes(alerting)}${receiversCard(given)}${rulesCard(given)}${removedCard(given)}`,
    }
  },
}

type Given = {
  readonly viewer: Viewer
  readonly now: Date
  readonly kept: readonly AlertSetting[]
  readonly streams: readonly string[]
  readonly alerting: Alerting
}
type Texts = NonNullable<AlertSetting['value']>
type Line<Known> = { readonly name: string; readonly known: Known | null; readonly own: AlertSetting | null }

/** Those that hold, and those that were set up here and cannot be used. */
function linesOf<Known extends Pick<NamedReceiver | NamedRule, 'name' | 'from'>>(
  kind: 'receiver' | 'rule',
  known: readonly Known[],
  kept: readonly AlertSetting[],
): readonly Line<Known>[] {
  const own = kept.filter(({ key, value }) => key.startsWith(`${kind}:`) && value !== null)
  const nameOf = ({ key }: AlertSetting) => key.slice(kind.length + 1)
  const isOf = (one: AlertSetting) => (other: Known) => other.from === 'console' && other.name === nameOf(one)
  return [
    ...known
      .filter(({ from }) => from !== 'console')
      .map((one) => ({ name: one.name ?? '', known: one, own: null })),
    ...own.map((one) => ({ name: nameOf(one), known: known.find(isOf(one)) ?? null, own: one })),
  ]
}

const placeOf = ({ known, own }: Line<Pick<NamedRule, 'from'>>, now: Date): Html =>
  own === null
    ? html`${known?.from === 'file' ? html`the file of <code>ALERTS</code>` : html`<code>ALERT_WEBHOOK_URL</code>`}`
    : html`here, by ${foreign(own.by, 80)}, ${clock(own.at, now)}`

const hidden = (name: string, value: string): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`

/** What an admin can do with what was set up here. */
const ownForms = (viewer: Viewer, { key, previous }: AlertSetting, change: Html | null): Html | null => {
  const name = html`<span class="hidden"> ${key.replace(':', ' ')}</span>`
  return (
    change &&
    html`${previous !== null && formOfAdmin(viewer, '/alerts/undo', html`${hidden('target', key)}<button>Undo<span class="hidden"> the last change of ${key.replace(':', ' ')}</span></button>`)}
${change}${adminForm(viewer, '/alerts/remove', html`Remove…${name}`, html`${hidden('target', key)}<button class="harm">Remove${name}</button>`)}`
  )
}

function receiversCard(given: Given): Html {
  const { viewer, now, kept, alerting } = given
  const lines = linesOf('receiver', alerting.receivers, kept)
  const columns: readonly Column<Line<NamedReceiver>>[] = [
    { title: 'Receiver', isWord: true, cell: ({ name }) => foreign(name, 60) },
    { title: 'Form', cell: ({ known }) => (known === null ? 'not used: see above' : formOf(known)) },
    {
      title: 'Is told of',
      cell: ({ name, known }) => {
        const rules = alerting.rules.filter(({ to }) => to.includes(name))
        return known === null || rules.length === 0
          ? 'nothing'
          : html`${rules.map((rule) => html`${foreign(ruleInWords(rule), 300)}<br>`)}`
      },
    },
    { title: 'Set up', cell: (line) => placeOf(line, now) },
    {
      title: 'Act',
      cell: ({ name, known, own }) =>
        html`${
          known &&
          (actionForm(
            viewer,
            `/alerts/${name}/test`,
            html`<button>Send a test message<span class="hidden"> to ${name}</span></button>`,
          ) ??
            html`<code class="small">tidemark alerts test ${name}</code>`)
        }${own?.value && ownForms(viewer, own, receiverForm(viewer, name, own.value))}`,
    },
  ]
  return html`<section class="card" aria-labelledby="receivers"><h2 id="receivers">Receivers</h2>
${lines.length === 0 ? html`<p>No alerts are sent: there is no receiver.${!viewer.canAdminister && ' An admin can add one here.'}</p>` : plainTable({ caption: html`<span class="hidden">Receivers</span>`, columns, rows: lines })}
${receiverKinds.map(([kind, title]) => adminForm(viewer, '/alerts/receivers/set', title, receiverFields(kind, null, null)))}
</section>`
}

const receiverKinds = [
  ['webhook', 'Add a chat or a program…'],
  ['pagerduty', 'Add PagerDuty…'],
  ['mail', 'Add a mail…'],
] as const
type ReceiverKind = (typeof receiverKinds)[number][0]

const kindOf = ({ smtp, format }: Texts): ReceiverKind =>
  smtp !== undefined ? 'mail' : format === 'pagerduty' ? 'pagerduty' : 'webhook'

const receiverForm = (viewer: Viewer, name: string, said: Texts): Html | null =>
  adminForm(
    viewer,
    '/alerts/receivers/set',
    html`Change…<span class="hidden"> receiver ${name}</span>`,
    receiverFields(kindOf(said), name, said),
  )

/** Secrets are typed and never shown: an empty line leaves the one that is kept. */
function receiverFields(kind: ReceiverKind, name: string | null, said: Texts | null): Html {
  const isKept = said?.sealed !== undefined
  const keep = (title: string, field: string, isNeeded = true) =>
    html`<label>${title} <input type="password" name="${field}" autocomplete="off" maxlength="2000"${isKept ? html` placeholder="kept, not shown"` : isNeeded && html` required`}>${isKept && html`<small>leave it empty to keep it</small>`}</label>`
  const line = (title: string, field: string, more: Html) =>
    html`<label>${title} <input name="${field}" value="${said?.[field]}" autocomplete="off" ${more}></label>`
  return html`<div class="dialogue">${nameField(name, kind === 'webhook' ? 'chat' : kind === 'pagerduty' ? 'pager' : 'team')}
${
  kind === 'webhook'
    ? html`${keep('Address of the webhook', 'webhook')}<label>Form of the messages <select name="format"><option value="">as the address says</option>${['slack', 'teams', 'json'].map((one) => html`<option${one === said?.format && html` selected`}>${one}</option>`)}</select></label>`
    : kind === 'pagerduty'
      ? html`${hidden('format', 'pagerduty')}${keep('Integration key', 'key')}`
      : html`<label>Mail server <input name="smtp" value="${said?.smtp}" required autocomplete="off" placeholder="smtp://tidemark@mail.example"><small>smtp:// or smtps://, with the user before @ if it wants a password</small></label>
${keep('Password', 'password', false)}
${line('From', 'from', html`type="email" required`)}
${line('To', 'to', html`required placeholder="ada@example.com, bob@example.com"`)}`
}<button>${name === null ? 'Add' : 'Save'}</button></div>`
}

const nameField = (name: string | null, example: string): Html =>
  name === null
    ? html`<label>Name <input name="target" required maxlength="40" pattern="[A-Za-z][A-Za-z0-9_\\-]*" placeholder="${example}" autocomplete="off" title="letters, digits, _ and -, a letter first"></label>`
    : hidden('target', name)

function rulesCard(given: Given): Html {
  const { viewer, now, kept, alerting } = given
  const lines = linesOf('rule', alerting.rules, kept)
  const columns: readonly Column<Line<NamedRule>>[] = [
    { title: 'Rule', isWord: true, cell: ({ name }) => (name === '' ? '' : foreign(name, 60)) },
    { title: 'Tells', cell: ({ known }) => (known === null ? '' : foreign(known.to.join(', '), 300)) },
    {
      title: 'Of what',
      cell: ({ known }) => (known === null ? 'not used: see above' : foreign(ruleInWords(known), 400)),
    },
    { title: 'Set up', cell: (line) => placeOf(line, now) },
    {
      title: 'Act',
      cell: ({ name, own }) =>
        own?.value ? ownForms(viewer, own, changeRule(given, name, own.value)) : null,
    },
  ]
  return html`<section class="card" aria-labelledby="rules"><h2 id="rules">Rules</h2>
${lines.length === 0 ? html`<p>There are no rules, so nobody is told anything.</p>` : plainTable({ caption: html`<span class="hidden">Rules</span>`, columns, rows: lines })}
${
  alerting.receivers.length === 0
    ? viewer.canAdminister && html`<p class="quiet">A rule needs a receiver: add that first.</p>`
    : adminForm(viewer, '/alerts/rules/set', 'Add a rule…', ruleFields(given, freeName(kept), null))
}
</section>`
}

function freeName(kept: readonly AlertSetting[]): string {
  const taken = new Set(kept.map(({ key }) => key))
  const [number = 1] = Array.from({ length: kept.length + 1 }, (_, index) => index + 1).filter(
    (one) => !taken.has(`rule:rule-${one}`),
  )
  return `rule-${number}`
}

const changeRule = (given: Given, name: string, said: Texts): Html | null =>
  adminForm(
    given.viewer,
    '/alerts/rules/set',
    html`Change…<span class="hidden"> rule ${name}</span>`,
    ruleFields(given, name, said),
  )

const meanings: Readonly<Record<string, string>> = problemMeanings
const groups: Readonly<Record<string, string>> = {
  needs_you: 'all that need somebody',
  news: 'all that are worth knowing',
}

/** A new rule gets a name that is free; the owner may take another one in the terminal. */
function ruleFields({ alerting, streams }: Given, name: string, said: Texts | null): Html {
  const chosen = (field: string) => (said?.[field] ?? '').split(',').map((one) => one.trim())
  const checks = (field: string, words: readonly string[]) =>
    words.map(
      (one) =>
        html`<label class="check"><input type="checkbox" name="${field}" value="${one}"${(chosen(field).includes(one) || (field === 'to' && words.length === 1)) && html` checked`}> <span title="${meanings[one]}">${groups[one] ?? one}</span></label>`,
    )
  const sources = [...new Set(streams.map((one) => sourceIn(one) || environmentSource))]
  const narrowed = (title: string, field: string, words: readonly string[]) =>
    html`<details${said?.[field] !== undefined && html` open`}><summary>${title}</summary><fieldset class="checks"><legend class="hidden">${title}</legend>${checks(field, words)}</fieldset></details>`
  const many = 30
  return html`<div class="dialogue">${hidden('target', name)}<fieldset class="checks"><legend>Tell</legend>${checks(
    'to',
    alerting.receivers.map((one) => one.name),
  )}</fieldset>
${narrowed('Only of some kinds of problems…', 'kinds', kindWords)}
${
  streams.length > many
    ? html`<label>Only of these streams <input name="streams" value="${said?.streams}" autocomplete="off"><small>such as ${streams.slice(0, 2).join(', ')}; empty: all</small></label>`
    : narrowed('Only of some streams…', 'streams', streams)
}
${sources.length > 1 && narrowed('Only of some sources…', 'sources', sources)}
<label>After it has lasted for <input name="after" value="${said?.after}" placeholder="1m" pattern="[0-9]+ ?[smhd]" title="such as 15m" autocomplete="off"><small>from 1m to 7d</small></label>
<label>Quiet hours <input name="quiet" value="${said?.quiet}" placeholder="22:00-06:30 Europe/Oslo" autocomplete="off"><small>empty: at any hour</small></label>
<button>${said === null ? 'Add' : 'Save'}</button></div>`
}

const removedLastsMs = 7 * 86_400_000

/** What was removed here can be brought back. */
function removedCard({ viewer, now, kept }: Given): Html | null {
  const isLately = ({ at }: AlertSetting) => now.getTime() - at.getTime() < removedLastsMs
  const removed = kept.filter((one) => one.value === null && one.previous !== null && isLately(one))
  return removed.length === 0 || !viewer.canAdminister
    ? null
    : html`<section class="card" aria-labelledby="removed"><h2 id="removed">Removed in the last 7 days</h2>${removed.map(
        ({ key, by, at }) =>
          html`<div class="bar spread"><p>${foreign(key.replace(':', ' '), 80)}, by ${foreign(by, 80)}, ${clock(at, now)}</p>${formOfAdmin(viewer, '/alerts/undo', html`${hidden('target', key)}<button>Bring back<span class="hidden"> ${key.replace(':', ' ')}</span></button>`)}</div>`,
      )}</section>`
}
