// Shows from which time the rows are that a listing lacked: when old records were archived, that looks different from an upstream that
// shows only a part.

import { bucketNames, type MissingSpread } from '../store/book/deletions.ts'
import { plural } from '../util/text.ts'
import { numbers } from './chart-tables.ts'
import { percent, swatch } from './charts.ts'
import { count, type Html, html } from './html.ts'
import { plainTable } from './pages/tables.ts'

const missingHeight = 110
const fewBuckets = 3

export function missingRowsChart(spread: MissingSpread): Html {
  const { column, unit, buckets } = spread
  const names = bucketNames(spread)
  const words = missingInWords(spread, names)
  const most = Math.max(1, ...buckets.map(([, , rows]) => rows))
  const step = 100 / Math.max(1, buckets.length)
  const bar = (className: string, index: number, from: number, amount: number) => {
    if (amount <= 0) return null
    const [below, tall] = [from, amount].map((rows) => (rows / most) * (missingHeight - 4)) as [
      number,
      number,
    ]
    const shown = Math.max(1.5, tall)
    return html`<rect class="${className}" x="${percent(index * step + step * 0.1)}" width="${percent(step * 0.8)}" y="${(missingHeight - below - shown).toFixed(1)}" height="${shown.toFixed(1)}"/>`
  }
  const bars = buckets.map(
    ([, missing, rows], index) =>
      html`${bar('f-bad', index, 0, missing)}${bar('f-idle', index, missing, rows - missing)}`,
  )
  return html`<figure><figcaption><span>Where the missing rows are</span> <small>rows per ${unit} of <code>${column}</code></small></figcaption>
<svg class="plot" height="${missingHeight + 18}" role="img" aria-label="${words}"><line class="grid" x1="0" x2="100%" y1="${missingHeight}" y2="${missingHeight}"/>${bars}<text x="0" y="${missingHeight + 14}">${names[0]}</text>${buckets.length > 1 && html`<text class="end" x="100%" y="${missingHeight + 14}">${names.at(-1)}</text>`}</svg>
<ul class="key">${swatch('f-bad', 'missing')}${swatch('f-idle', 'still listed')}</ul>
<p class="small quiet">${words}.</p>
${numbers(
  plainTable({
    caption: html`Missing rows by ${unit}`,
    columns: [
      { title: unit, cell: ([name]) => name },
      { title: 'Missing', cell: ([, missing]) => count(missing), isNumber: true },
      { title: 'Rows', cell: ([, , rows]) => count(rows), isNumber: true },
    ],
    rows: buckets.map(([, missing, rows], index) => [names[index] ?? '', missing, rows] as const),
  }),
)}</figure>`
}

/** As few buckets as hold nine tenths of them, when that says something. */
function missingInWords({ column, unit, buckets }: MissingSpread, names: readonly string[]): string {
  const all = buckets.reduce((sum, [, missing]) => sum + missing, 0)
  const affected = buckets
    .map(([, missing], index) => ({ index, missing }))
    .filter(({ missing }) => missing > 0)
  let held = 0
  const most = affected
    .toSorted((one, other) => other.missing - one.missing)
    .filter(({ missing }) => {
      const isNeeded = held < all * 0.9
      held += isNeeded ? missing : 0
      return isNeeded
    })
  const rows = `${plural(all, 'missing row')} with a ${column}`
  return most.length <= fewBuckets && most.length < buckets.length
    ? `Of ${rows}, ${count(held)} ${held === 1 ? 'is' : 'are'} of ${most
        .toSorted((one, other) => one.index - other.index)
        .map(({ index }) => names[index])
        .join(', ')}`
    : `${rows} are spread over ${count(affected.length)} of ${plural(buckets.length, unit)}`
}
