// `/streams/:name/rewind`: moving the position of a stream back, which is hard to undo: what it means first, then a reason and the name of
// the stream. Done only while the position is not below the one that was shown.

import type { RewindPlan } from '../../operator/rewind.ts'
import { UsageError } from '../../util/errors.ts'
import { formatDuration, plural } from '../../util/text.ts'
import { actionForm } from '../action-forms.ts'
import { newForm, openFields, wrongIn } from '../form-fields.ts'
import { clock, type Html, html, wholeVersion, zone } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import { orWrong, timeExample } from './confirm.ts'
import { orCommand, streamTab } from './stream-frame.ts'
import { addressOf } from './tables.ts'

export const rewindTab = streamTab(
  '/streams/:name/rewind',
  'Rewind',
  async (context, { stream: { stream, kind } }) => {
    const { statusQueries, viewer, query, now } = context
    if (kind !== 'changes')
      return html`<section class="card"><p>${stream} is read whole each time: it has no position that could be moved.</p></section>`
    const options = targetIn(query, stream)
    const command = `tidemark rewind ${stream} --to-time 2026-01-31T14:30:00Z --reason TEXT`
    if (!viewer.canAct) return orCommand(viewer, command, () => html``)
    const plan = options && (await orWrong(statusQueries.planRewind(stream, options)))
    if (plan instanceof UsageError) return targetForm(stream, options, plan)
    return html`${plan && html`<div class="cols">${whatItMeans(stream, plan, now)}${confirmForm(stream, plan, viewer)}</div>`}${targetForm(stream, options)}`
  },
)

const targetsOf = (stream: string) =>
  [
    ['to-version', 'To row version', 'for example 120000'],
    [
      'to-checkpoint',
      'To checkpoint',
      html`its number: see <a href="/streams/${stream}/checkpoints">Checkpoints</a>`,
    ],
    ['to-time', 'To the position at this time', timeExample],
  ] as const

type Options = Readonly<Record<string, string>>

function targetIn(query: URLSearchParams, stream: string): Options | null {
  const given = targetsOf(stream)
    .map(([name]) => [name, (query.get(name) ?? '').trim().slice(0, 100)] as const)
    .filter(([, value]) => value !== '')
  return given.length === 0 ? null : Object.fromEntries(given)
}

function targetForm(stream: string, typed: Options | null, error?: UsageError): Html {
  const address = `/streams/${stream}/rewind`
  const wrong = error ? wrongIn(error) : null
  // Beside the form that confirms it.
  const form = openFields(`${address}?`, { ...newForm, typed, wrong })
  return html`<form class="card dialogue" method="get" action="${address}"><h2>Move the position of ${stream} back</h2>
<p>You hardly ever need it: a <a href="/backfills?stream=${stream}">backfill</a> reads a part of the past again without moving anything, and a restored backup of the upstream is noticed by itself.</p>
<fieldset><legend>Where to (fill in one)</legend>${targetsOf(stream).map(([name, title, hint]) =>
    form.line({
      name,
      title,
      hint,
    }),
  )}</fieldset>${form.rest()}
<button>Show what it means</button></form>`
}

const whatItMeans = (
  stream: string,
  { from, to, reachedAt, rows, expectedMs }: RewindPlan,
  now: Date,
): Html =>
  html`<section class="card c7"><h2>What will happen</h2><ol class="steps"><li>Runs of ${stream} that are under way end without writing anything more.</li>
<li>The position moves from ${wholeVersion(from)} back to ${wholeVersion(to)}${reachedAt && html`, which was reached at ${clock(reachedAt, now)} ${zone}`}.</li>
<li>Everything above it is read again. The mirror holds ${plural(rows, 'row')} there${expectedMs !== null && `; at the speed of earlier runs that takes about ${formatDuration(expectedMs)}`}.</li></ol>
<h2>What speaks against it</h2><ul class="steps"><li>Until that is done, <b>read through</b> and <b>settled through</b> go back with the position: reports show older data until then.</li>
<li>What the upstream shows then replaces what is here, even when it is an older version of a row.</li>
<li>It cannot be taken back from here. A <a href="${addressOf('/backfills', { stream, 'from-version': to })}">backfill from ${wholeVersion(to)}</a> reads the same rows again and moves nothing.</li></ul></section>`

const confirmForm = (stream: string, { from, to }: RewindPlan, viewer: Viewer): Html =>
  html`<section class="card c5"><h2>Move ${stream} back to ${wholeVersion(to)}?</h2>
${actionForm(
  viewer,
  `/streams/${stream}/rewind`,
  (
    fields,
  ) => html`<input type="hidden" name="to-version" value="${to}"><input type="hidden" name="seen" value="${from}">
${fields.text({ name: 'reason', title: 'Why' })}
${fields.line({
  name: 'confirm',
  title: 'Type the name of the stream',
  more: html`required autocapitalize="off" spellcheck="false" placeholder="${stream}"`,
})}
<div class="bar"><button class="harm">Move the position back</button><a class="btn" href="/streams/${stream}">Cancel</a></div>`,
)}
<p class="small quiet">Recorded: your name, address, time and reason, and the position before and afterwards. If somebody else moves it in the meantime, nothing is done and you are told.</p></section>`
