// The steps of a run as a chart: a line for each, as long as it took, with the times that it waited; and the same as a table.

import type { RunStep } from '../streams/run-steps.ts'
import { formatDuration, plural } from '../util/text.ts'
import { numbers } from './chart-tables.ts'
import { swatch } from './charts.ts'
import { count, type Html, html } from './html.ts'
import { plainTable } from './pages/tables.ts'

type How = {
  readonly isBlocked: boolean
  readonly isFailed: boolean
  /** Which run, or which part of one. */
  readonly of: string | null
}

const lineHeight = 32
const ticks = [0, 0.25, 0.5, 0.75, 1]

export function stepsFigure(steps: readonly RunStep[], { isBlocked, isFailed, of }: How): Html {
  const wholeMs = Math.max(1, ...steps.map(({ to }) => to))
  const place = (ms: number) => `${((100 * Math.min(ms, wholeMs)) / wholeMs).toFixed(2)}%`
  const height = steps.length * lineHeight
  const lines = steps.map((step, index) => {
    const isLast = index === steps.length - 1
    const y = index * lineHeight
    const tone = isLast && (isBlocked || isFailed) ? 'f-bad' : 'f-read'
    const bar = (from: number, to: number, className: string, title: string | null) =>
      html`<rect class="${className}" x="${place(Math.min(from, wholeMs * 0.995))}" width="${place(Math.max(to - from, wholeMs * 0.005))}" y="${y + 17}" height="11" rx="1">${title && html`<title>${title}</title>`}</rect>`
    return html`<text x="0" y="${y + 12}">${step.what} · ${formatDuration(step.to - step.from)}<tspan class="alt">${more(step)}</tspan></text>${bar(step.from, step.to, tone, null)}${step.waits.map(({ from, to, what }) => bar(from, to, 'f-warn', `Waited ${formatDuration(to - from)}: ${what}`))}`
  })
  const hasWaited = steps.some(({ waits }) => waits.length > 0)
  return html`<figure><figcaption><span>Steps</span> <small>${of && `${of}, `}time since it began</small></figcaption><svg class="plot" height="${height + 16}" role="img" aria-label="${sentence(steps)}">${ticks.map((share) => html`<line class="grid" x1="${share * 100}%" x2="${share * 100}%" y1="0" y2="${height}"/>`)}${lines}${ticks.map((share) => html`<text class="${share === 0 ? '' : share === 1 ? 'end' : share === 0.5 ? 'mid' : 'mid alt'}" x="${share * 100}%" y="${height + 12}">${formatDuration(share * wholeMs)}</text>`)}</svg>
${
  (hasWaited || isBlocked || isFailed) &&
  html`<ul class="key">${swatch('f-read', 'working')}${hasWaited && swatch('f-warn', 'waiting for the upstream')}${isBlocked ? swatch('f-bad', 'blocked') : isFailed && swatch('f-bad', 'failed')}</ul>`
}
${numbers(table(steps))}</figure>`
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

const sentence = (steps: readonly RunStep[]): string =>
  `${plural(steps.length, 'step')}: ${steps.map(({ what, from, to }) => `${what}, ${formatDuration(to - from)}`).join('; ')}`

const table = (steps: readonly RunStep[]): Html =>
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
