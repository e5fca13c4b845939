// Problems as the pages show them: a card for each, with the one thing to press.

import { silencesOf } from '../../problems/alerts.ts'
import { byCause, sharedBy } from '../../problems/one-cause.ts'
import { placeOf } from '../../problems/problem-place.ts'
import type { Problem } from '../../problems/stream-problems.ts'
import { type Care, careOf } from '../../problems/stream-state.ts'
import { withPlaces } from '../command-places.ts'
import { age, clock, foreign, type Html, html, state, zone } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import type { Snapshot } from '../status-queries.ts'
import { silenceForms, silenceLine } from './silences.ts'

export const needsCount = (problems: readonly Problem[]): number =>
  byCause(problems.filter((one) => careOf(one) === 'needs you')).length

export const problemCards = (problems: readonly Problem[], snapshot: Shown, viewer: Viewer): Html | null =>
  problems.length === 0
    ? null
    : html`<div>${byCause(inOrder(problems)).map((group) => cardsOf(group, snapshot, viewer))}</div>`

/** Of many sources with one cause, the first is shown, and the others can be unfolded. */
function cardsOf(group: readonly Problem[], snapshot: Shown, viewer: Viewer): Html {
  const [first, ...others] = group.map((one) => card(one, snapshot, viewer))
  const shared = sharedBy(group)
  return shared === null
    ? html`${first}`
    : html`<p><b>${foreign(shared, 300)}</b></p>${first}<details><summary>The same at the others</summary>${others}</details>`
}

type Shown = Pick<Snapshot, 'at' | 'runbooksUrl' | 'silences'>

const order: readonly Care[] = ['needs you', 'heals', 'news']

const inOrder = (problems: readonly Problem[]): readonly Problem[] =>
  problems.toSorted((a, b) => order.indexOf(careOf(a)) - order.indexOf(careOf(b)))

const tones = { 'needs you': 'bad', heals: 'warn', news: 'idle' } as const

export const anchorOf = ({ key }: Problem): string => `problem-${key.replaceAll(/[^\w:-]/g, '-')}`

const card = (problem: Problem, { at: now, runbooksUrl, silences }: Shown, viewer: Viewer): Html => {
  const { what, seen = null, whatToDo, runbook, since } = problem
  const { title, rest } = headOf(what)
  const [address, words] = placeOf(problem)
  return html`<article class="problem" id="${anchorOf(problem)}"><div><h3>${state(tones[careOf(problem)], foreign(title, 300))}</h3>
${rest !== '' && html`<p>${foreign(rest, 500)}</p>`}
${seen !== null && seenInWords(seen, viewer)}
<p class="small">${withPlaces(whatToDo)}</p>
<p class="small quiet">${since && html`since ${clock(since, now)} ${zone}, ${age(since, now)} · `}More: ${runbookLink(runbook, runbooksUrl)}</p>
${silencesOf(problem, silences).map((one) => silenceLine(one, viewer, now))}
${silenceForms(viewer, problem)}</div>
<div class="bar"><a class="btn${problem.kind === 'deletions_blocked' && ' go'}" href="${address}">${words}</a></div></article>`
}

/** Text of the upstream is for people who signed in, where people can. */
const seenInWords = (seen: string, { role, signInAt }: Viewer): Html =>
  role === null && signInAt !== null
    ? html`<p class="small"><a href="${signInAt}">Sign in</a> to see what it answered.</p>`
    : html`<p class="small">What was seen last: ${foreign(seen, 500)}</p>`

const runbookLink = (path: string, runbooksUrl: string | null): Html =>
  runbooksUrl === null
    ? html`${path}`
    : html`<a href="${runbooksUrl.replace(/(?<!\/)\/+$/, '')}/${path.replace(/^.*\//, '')}">what to do, step by step</a>`

/** Its first sentence is the headline, when it is short enough for one. */
function headOf(what: string): { readonly title: string; readonly rest: string } {
  const [, title, rest] = /^(.{1,200}?[.!?])\s+(.*)$/s.exec(what) ?? []
  return { title: (title ?? what).replace(/\.$/, ''), rest: rest ?? '' }
}
