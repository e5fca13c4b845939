// The runs of some time as a chart: a line for each stream or each kind of run, a mark for each time that one ran, as wide as it took.

import { type RunEffect, type RunSpan, runEffects, slots } from '../store/book/runs.ts'
import { plural } from '../util/text.ts'
import { numbers } from './chart-tables.ts'
import { swatch } from './charts.ts'
import { count, formOf, type Html, html, zone } from './html.ts'
import { plainTable } from './pages/tables.ts'
import type { ChartSpan } from './time-range.ts'

const lineHeight = 28
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
  const height = lines.length * lineHeight
  const times = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const at = new Date(span.from.getTime() + share * (span.to.getTime() - span.from.getTime()))
    const align = share === 0 ? '' : share === 1 ? 'end' : 'mid'
    return html`<text class="${align}${share % 0.5 !== 0 && ' alt'}" x="${share * 100}%" y="${height + 12}" data-at="${at.toISOString()}" data-form="minute">${formOf(at, 'minute')}</text>`
  })
  return html`<figure>${caption}<svg class="plot" height="${height + 16}" role="img" aria-label="${sentence(spans, span)}">${lines.map(
    ({ name, spans: own }, index) =>
      html`<text x="0" y="${index * lineHeight + 11}">${name}</text><svg viewBox="0 0 ${slots} 1" preserveAspectRatio="none" x="0" y="${index * lineHeight + 15}" width="100%" height="9"><path class="f-none" d="M0 0h${slots}v1h-${slots}z"/>${runEffects.map((effect) => marks(own, effect))}</svg>`,
  )}${times}</svg>
<ul class="key">${runEffects.slice(1).map((effect) => swatch(classOf[effect], effect))}</ul>
${numbers(table(lines, span))}</figure>`
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

function sentence(spans: readonly RunSpan[], { words }: ChartSpan): string {
  const failed = spans.filter(({ effect }) => effect === 'failed').length
  const caught = spans.filter(({ effect }) => effect === 'caught something').length
  return `${plural(runsOf(spans), 'run')}, ${words}, ${caught === 0 ? 'none of which caught something' : `${count(caught)} of which caught something`}, ${failed === 0 ? 'none failed' : `${count(failed)} failed`}`
}

const table = (lines: readonly Line[], { words }: ChartSpan): Html =>
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
