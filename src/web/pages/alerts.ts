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
import { isNews, problemMeanings } from '../../problems/stream-problems.ts'
import type { AlertSetting } from '../../store/book/alert-settings.ts'
import { environmentSource, sourceIn } from '../../streams/names.ts'
import { actionForm, adminForm, formOfAdmin } from '../action-forms.ts'
import { withPlaces } from '../command-places.ts'
import type { FormFields } from '../form-fields.ts'
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
${lines.length === 0 ? html`<p>No alerts are sent: there is no receiver.${!viewer.canAdminister && alerting.keepsNone === null && ' An admin can add one here.'}</p>` : plainTable({ caption: html`<span class="hidden">Receivers</span>`, columns, rows: lines })}
${
  alerting.keepsNone === null
    ? receiverKinds.map(([kind, title]) =>
        adminForm(
          viewer,
          '/alerts/receivers/set',
          title,
          (fields) => receiverFields(fields, kind, null, null),
          kind,
        ),
      )
    : html`<p class="quiet">${withPlaces(alerting.keepsNone)}</p>`
}
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
    (fields) => receiverFields(fields, kindOf(said), name, said),
    `receiver ${name}`,
  )

/** Secrets are typed and never shown: an empty line leaves the one that is kept. */
function receiverFields(
  fields: FormFields,
  kind: ReceiverKind,
  name: string | null,
  said: Texts | null,
): Html {
  const isKept = said?.sealed !== undefined
  const secret = (title: string, name: 'webhook' | 'key' | 'password', isNeeded = true) =>
    fields.secret({
      name,
      title,
      hint: isKept
        ? 'leave it empty to keep it'
        : name === 'webhook' && 'a secret, so it is hidden while you type: paste it',
      more: html`autocomplete="off" maxlength="2000"${isKept ? html` placeholder="kept, not shown"` : isNeeded && html` required`}`,
    })
  const line = (title: string, name: string, more: Html, hint = '') =>
    fields.line({ name, title, hint, value: said?.[name], more })
  const own = {
    webhook: () =>
      html`${secret('Address of the webhook', 'webhook')}${fields.choice({ name: 'format', title: 'Form of the messages', choices: formats, value: said?.format })}`,
    pagerduty: () => html`${hidden('format', 'pagerduty')}${secret('Integration key', 'key')}`,
    mail: () =>
      html`${line('Mail server', 'smtp', html`required placeholder="smtp://tidemark@mail.example"`, 'smtp:// or smtps://, with the user before @ if it wants a password')}
${secret('Password', 'password', false)}
${line('From', 'from', html`type="email" required`)}
${line('To', 'to', html`required placeholder="ada@example.com, bob@example.com"`)}`,
  }
  return html`<div class="dialogue">${nameField(fields, name, { webhook: 'chat', pagerduty: 'pager', mail: 'team' }[kind])}
${own[kind]()}<button>${name === null ? 'Add' : 'Save'}</button></div>`
}

const formats = [
  ['', 'as the address says'],
  ['slack', 'slack'],
  ['teams', 'teams'],
  ['json', 'json'],
] as const

const nameField = (fields: FormFields, name: string | null, example: string): Html =>
  name === null
    ? fields.line({
        name: 'target',
        title: 'Name',
        hint: 'letters, digits, _ and -, a letter first',
        more: html`required maxlength="40" pattern="[A-Za-z][A-Za-z0-9_\\-]*" placeholder="${example}" title="letters, digits, _ and -, a letter first"`,
      })
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
    : adminForm(viewer, '/alerts/rules/set', 'Add a rule…', (fields) =>
        ruleFields(fields, given, freeName(kept), null),
      )
}
<details><summary>What the kinds of problems mean</summary><dl class="pairs">${Object.entries(meanings).map(([kind, meaning]) => html`<dt><code>${kind}</code></dt><dd>${meaning}${isNews(kind) && html` <span class="quiet">(worth knowing)</span>`}</dd>`)}</dl></details>
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
    (fields) => ruleFields(fields, given, name, said),
    `rule ${name}`,
  )

const meanings: Readonly<Record<string, string>> = problemMeanings
const wordsOf: Readonly<Record<string, string>> = {
  needs_you: 'all that need somebody',
  news: 'all that are worth knowing',
}

/** A new rule gets a name that is free; the owner may take another one in the terminal. */
function ruleFields(
  fields: FormFields,
  { alerting, streams }: Given,
  name: string,
  said: Texts | null,
): Html {
  const narrowed = (name: string, title: string, words: readonly string[]) =>
    fields.checks({
      name,
      title,
      isFolded: true,
      meanings,
      value: said?.[name],
      choices: words.map((one) => [one, wordsOf[one] ?? one] as const),
    })
  const line = (name: string, title: string, hint: string, more?: Html) =>
    fields.line({ name, title, hint, value: said?.[name], ...(more && { more }) })
  const sources = [...new Set(streams.map((one) => sourceIn(one) || environmentSource))]
  const receivers = alerting.receivers.map((one) => one.name)
  const only = receivers.length === 1 ? receivers[0] : undefined
  const many = 30
  return html`<div class="dialogue">${hidden('target', name)}${fields.checks({
    name: 'to',
    title: 'Tell',
    value: said?.to ?? only,
    choices: receivers.map((one) => [one, one] as const),
  })}
${narrowed('kinds', 'Only of some kinds of problems…', kindWords)}
${
  streams.length > many
    ? line('streams', 'Only of these streams', `such as ${streams.slice(0, 2).join(', ')}; empty: all`)
    : narrowed('streams', 'Only of some streams…', streams)
}
${sources.length > 1 && narrowed('sources', 'Only of some sources…', sources)}
${line('after', 'After it has lasted for', 'from 1m to 7d', html`placeholder="1m" pattern="[0-9]+ ?[smhd]" title="such as 15m"`)}
${line('quiet', 'Quiet hours', 'empty: at any hour', html`placeholder="22:00-06:30 Europe/Oslo"`)}
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
