// Runs as charts, each with its numbers as a table: those of some time, and the steps of one.

import { type RunEffect, type RunSpan, runEffects, slots } from '../store/book/runs.ts'
import type { RunStep } from '../streams/run-steps.ts'
import { formatDuration, plural } from '../util/text.ts'
import { numbers } from './chart-tables.ts'
import { swatch } from './charts.ts'
import { count, formOf, type Html, html, zone } from './html.ts'
import { plainTable } from './pages/tables.ts'
import type { ChartSpan } from './time-range.ts'

/** Where the marks below a chart stand, from one end to the other. A phone has no room for every one. */
const axis = [
  { share: 0, align: '' },
  { share: 0.25, align: 'mid alt' },
  { share: 0.5, align: 'mid' },
  { share: 0.75, align: 'mid alt' },
  { share: 1, align: 'end' },
] as const

// A line for each stream or each kind of run, a mark for each time that one ran, as wide as it took.
const timelineHeight = 28
const classOf: Readonly<Record<RunEffect, string>> = {
  'nothing new': 'f-none',
  'wrote rows': 'f-read',
  'caught something': 'f-warn',
  failed: 'f-bad',
}

/** In a longer time no single run could be seen. */
export const isShort = ({ from, to }: ChartSpan): boolean => to.getTime() - from.getTime() <= 2 * 86_400_000

type Line = { readonly name: string; readonly spans: readonly RunSpan[] }

export function runTimeline(
  spans: readonly RunSpan[],
  { by, span }: { readonly by: (span: RunSpan) => string; readonly span: ChartSpan },
): Html {
  const lines = [...Map.groupBy(spans, by)].map(([name, own]): Line => ({ name, spans: own }))
  const caption = html`<figcaption><span>Runs</span> <small>${span.words}, ${zone}; width is duration</small></figcaption>`
  if (lines.length === 0) return html`<figure>${caption}<p class="quiet">No run in this time.</p></figure>`
  const height = lines.length * timelineHeight
  const times = axis.map(({ share, align }) => {
    const at = new Date(span.from.getTime() + share * (span.to.getTime() - span.from.getTime()))
    return html`<text class="${align}" x="${share * 100}%" y="${height + 12}" data-at="${at.toISOString()}" data-form="minute">${formOf(at, 'minute')}</text>`
  })
  return html`<figure>${caption}<svg class="plot" height="${height + 16}" role="img" aria-label="${runsInWords(spans, span)}">${lines.map(
    ({ name, spans: own }, index) =>
      html`<text x="0" y="${index * timelineHeight + 11}">${name}</text><svg viewBox="0 0 ${slots} 1" preserveAspectRatio="none" x="0" y="${index * timelineHeight + 15}" width="100%" height="9"><path class="f-none" d="M0 0h${slots}v1h-${slots}z"/>${runEffects.map((effect) => marks(own, effect))}</svg>`,
  )}${times}</svg>
<ul class="key">${runEffects.slice(1).map((effect) => swatch(classOf[effect], effect))}</ul>
${numbers(runsTable(lines, span))}</figure>`
}

/** One path for all: hundreds of rectangles would make the page heavy. Those that touch become one. */
function marks(spans: readonly RunSpan[], effect: RunEffect): Html | null {
  if (effect === 'nothing new') return null
  const joined: { from: number; to: number }[] = []
  for (const { from, to } of spans.filter((one) => one.effect === effect)) {
    const last = joined.at(-1)
    if (last && from <= last.to + 1) last.to = Math.max(last.to, to)
    else joined.push({ from, to })
  }
  return joined.length === 0
    ? null
    : html`<path class="${classOf[effect]}" d="${joined.map(({ from, to }) => `M${from} 0h${to - from + 1}v1h-${to - from + 1}z`).join('')}"/>`
}

const runsOf = (spans: readonly RunSpan[]): number => spans.reduce((sum, { runs }) => sum + runs, 0)

function runsInWords(spans: readonly RunSpan[], { words }: ChartSpan): string {
  const failed = spans.filter(({ effect }) => effect === 'failed').length
  const caught = spans.filter(({ effect }) => effect === 'caught something').length
  return `${plural(runsOf(spans), 'run')}, ${words}, ${caught === 0 ? 'none of which caught something' : `${count(caught)} of which caught something`}, ${failed === 0 ? 'none failed' : `${count(failed)} failed`}`
}

const runsTable = (lines: readonly Line[], { words }: ChartSpan): Html =>
  plainTable({
    caption: `Runs, ${words}`,
    columns: [
      { title: 'Line', cell: ({ name }) => name },
      { title: 'Runs', cell: ({ spans }) => count(runsOf(spans)), isNumber: true },
      ...runEffects.slice(1).map((effect) => ({
        title: `Times it ${effect}`,
        cell: ({ spans }: Line) => count(spans.filter((one) => one.effect === effect).length),
        isNumber: true as const,
      })),
    ],
    rows: lines,
  })

// A line for each step, as long as it took, with the times that it waited.
type How = {
  readonly isBlocked: boolean
  readonly isFailed: boolean
  /** Which run, or which part of one. */
  readonly of: string | null
}

const stepHeight = 32

export function stepsFigure(steps: readonly RunStep[], { isBlocked, isFailed, of }: How): Html {
  const wholeMs = Math.max(1, ...steps.map(({ to }) => to))
  const place = (ms: number) => `${((100 * Math.min(ms, wholeMs)) / wholeMs).toFixed(2)}%`
  const height = steps.length * stepHeight
  const lines = steps.map((step, index) => {
    const isLast = index === steps.length - 1
    const y = index * stepHeight
    const tone = isLast && (isBlocked || isFailed) ? 'f-bad' : 'f-read'
    const bar = (from: number, to: number, className: string, title: string | null) =>
      html`<rect class="${className}" x="${place(Math.min(from, wholeMs * 0.995))}" width="${place(Math.max(to - from, wholeMs * 0.005))}" y="${y + 17}" height="11" rx="1">${title && html`<title>${title}</title>`}</rect>`
    return html`<text x="0" y="${y + 12}">${step.what} · ${formatDuration(step.to - step.from)}<tspan class="alt">${more(step)}</tspan></text>${bar(step.from, step.to, tone, null)}${step.waits.map(({ from, to, what }) => bar(from, to, 'f-warn', `Waited ${formatDuration(to - from)}: ${what}`))}`
  })
  const hasWaited = steps.some(({ waits }) => waits.length > 0)
  return html`<figure><figcaption><span>Steps</span> <small>${of && `${of}, `}time since it began</small></figcaption><svg class="plot" height="${height + 16}" role="img" aria-label="${stepsInWords(steps)}">${axis.map(({ share }) => html`<line class="grid" x1="${share * 100}%" x2="${share * 100}%" y1="0" y2="${height}"/>`)}${lines}${axis.map(({ share, align }) => html`<text class="${align}" x="${share * 100}%" y="${height + 12}">${formatDuration(share * wholeMs)}</text>`)}</svg>
${
  (hasWaited || isBlocked || isFailed) &&
  html`<ul class="key">${swatch('f-read', 'working')}${hasWaited && swatch('f-warn', 'waiting for the upstream')}${isBlocked ? swatch('f-bad', 'blocked') : isFailed && swatch('f-bad', 'failed')}</ul>`
}
${numbers(stepsTable(steps))}</figure>`
}

/** What a phone has no room for; the table has it, too. */
function more({ requests, records, waitedMs }: RunStep): string {
  const parts = [
    requests > 0 ? plural(requests, 'request') : null,
    records > 0 ? plural(records, 'record') : null,
    waitedMs > 0 ? `waited ${formatDuration(waitedMs)}` : null,
  ]
  return parts.flatMap((part) => (part === null ? [] : ` · ${part}`)).join('')
}

const stepsInWords = (steps: readonly RunStep[]): string =>
  `${plural(steps.length, 'step')}: ${steps.map(({ what, from, to }) => `${what}, ${formatDuration(to - from)}`).join('; ')}`

const stepsTable = (steps: readonly RunStep[]): Html =>
  plainTable({
    caption: 'Steps, in order',
    columns: [
      { title: 'Step', cell: ({ what }) => what },
      { title: 'After', cell: ({ from }) => formatDuration(from), isNumber: true },
      { title: 'Took', cell: ({ from, to }) => formatDuration(to - from), isNumber: true },
      { title: 'Requests', cell: ({ requests }) => count(requests), isNumber: true },
      { title: 'Records', cell: ({ records }) => count(records), isNumber: true },
      {
        title: 'Waited',
        cell: ({ waitedMs, waits }) =>
          waitedMs === 0
            ? ''
            : `${formatDuration(waitedMs)}: ${[...new Set(waits.map(({ what }) => what))].join(', ')}`,
      },
    ],
    rows: steps,
  })
