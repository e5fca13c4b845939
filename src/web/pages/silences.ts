// Alerts on the page of problems: whether anybody is told; what is muted or acknowledged, by whom and why, and how to end it.

import { targetInWords } from '../../operator/silences.ts'
import { type Alerting, ruleInWords } from '../../problems/receivers.ts'
import type { Problem } from '../../problems/stream-problems.ts'
import type { Silence } from '../../store/book/silences.ts'
import { actionForm, mistakeIn, reasonLine } from '../action-forms.ts'
import { clock, foreign, type Html, html, zone } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import type { Snapshot } from '../status-queries.ts'

const said = ({ until, by, reason, at }: Silence, now: Date): Html =>
  html`<b>${until === null ? 'Acknowledged' : 'Muted'}</b> ${until === null ? 'until it is over or gets worse' : html`until ${clock(until, now)} ${zone}`}, by ${foreign(by, 80)} on ${clock(at, now)}: “${foreign(reason, 300)}”`

const undo = ({ target }: Silence, viewer: Viewer): Html | null =>
  actionForm(
    viewer,
    '/alerts/unmute',
    html`<input type="hidden" name="target" value="${target}"><button>Undo<span class="hidden"> the silence of ${targetInWords(target)}</span></button>`,
  )

/** With the problem. */
export const silenceLine = (silence: Silence, viewer: Viewer, now: Date): Html =>
  html`<div class="bar small"><p>${said(silence, now)}</p>${undo(silence, viewer)}</div>`

const spans = [
  ['1h', '1 hour'],
  ['2h', '2 hours'],
  ['4h', '4 hours'],
  ['1d', '1 day'],
  ['7d', '7 days'],
] as const

const muteForm = (
  viewer: Viewer,
  targets: readonly (readonly [value: string, words: string])[],
  of: string,
): Html | null =>
  actionForm(
    viewer,
    '/alerts/mute',
    (fields) =>
      html`${fields.choice({ name: 'target', title: 'No alerts of', choices: targets })}${fields.choice({ name: 'for', title: 'for', choices: spans })}${reasonLine(fields)}<button>Mute</button>`,
    of,
  )

const everything = ['all', 'everything'] as const

/** Null for a viewer who may not act. */
export function silenceForms(viewer: Viewer, { key, kind, stream }: Problem): Html | null {
  const targets = [
    [key, 'this problem'],
    [`kind:${kind}`, `all problems of this kind (${kind})`],
    ...(stream === null ? [] : [[`stream:${stream}`, `the stream ${stream}`] as const]),
    everything,
  ] as const
  const acknowledging = actionForm(
    viewer,
    '/alerts/acknowledge',
    (fields) =>
      html`<input type="hidden" name="target" value="${key}">${reasonLine(fields, 'Comment', 'somebody looks after it: rules that would tell of it later do not, until it is over or gets worse')}<button>Acknowledge</button>`,
    key,
  )
  const isOpen = ['/alerts/acknowledge', '/alerts/mute'].some((action) => mistakeIn(viewer, action, key))
  return (
    acknowledging &&
    html`<details${isOpen && html` open`}><summary>Acknowledge or mute…<span class="hidden"> ${key}</span></summary><div class="more">${acknowledging}${muteForm(viewer, targets, key)}</div></details>`
  )
}

/** What keeps people from being told, and what is hardly meant. */
export const alertNotes = ({ problem, unusable, remarks }: Alerting): Html =>
  html`${[...(problem?.split('\n') ?? []), ...unusable, ...remarks].map((note) => html`<p class="note warn">${foreign(note, 400)}</p>`)}`

/** What a receiver is told of: `quarantine of assignment after 1 m`. */
const toldOf = ({ rules }: Pick<Alerting, 'rules'>, receiver: string): string =>
  rules
    .filter(({ to }) => to.includes(receiver))
    .map(ruleInWords)
    .join('; ')

export function alertsCard(
  alerting: Alerting,
  { silences, at: now }: Pick<Snapshot, 'silences' | 'at'>,
  viewer: Viewer,
): Html {
  const told = alerting.receivers.filter(({ name }) => alerting.rules.some(({ to }) => to.includes(name)))
  return html`<section class="card" aria-labelledby="alerts"><h2 id="alerts">Alerts</h2>
${alertNotes(alerting)}
${
  told.length === 0
    ? html`<p>No alerts are sent, so nobody hears of a problem without looking here. The page <a href="/alerts">Alerts</a> is where an admin sets up who is told: by Slack, Teams, PagerDuty, mail or a program of your own.</p>`
    : html`<p>Alerts go to ${told.map(({ name }, index) => html`${index > 0 && ', '}<b>${name}</b> (${foreign(toldOf(alerting, name), 200)})`)}. With a test for each: <a href="/alerts">Alerts</a>.</p>`
}
${silences.length > 0 && html`<h3>Muted or acknowledged</h3>${silences.map((one) => html`<div class="bar spread"><p>${foreign(targetInWords(one.target), 200)}: ${said(one, now)}</p>${undo(one, viewer)}</div>`)}`}
${viewer.canAct && html`<details${mistakeIn(viewer, '/alerts/mute', 'all') && html` open`}><summary>Mute everything…</summary>${muteForm(viewer, [everything], 'all')}</details>`}
</section>`
}
