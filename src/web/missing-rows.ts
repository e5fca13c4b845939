// From which time rows are that a listing lacked: an archive of old ones looks different from an upstream that shows only a part.

import type { DeletionEvidence } from '../store/queries/evidence.ts'
import { plural } from '../util/text.ts'
import { numbers } from './chart-tables.ts'
import { swatch } from './charts.ts'
import { count, type Html, html } from './html.ts'
import { plainTable } from './pages/tables.ts'

type Spread = NonNullable<DeletionEvidence['spread']>

const height = 110
const digits = { year: 4, month: 7, day: 10 } as const

export function missingRowsChart({ column, unit, buckets }: Spread): Html {
  const name = (from: string) => from.slice(0, digits[unit])
  const words = sentence({ column, unit, buckets }, name)
  const most = Math.max(1, ...buckets.map(([, , rows]) => rows))
  const step = 100 / Math.max(1, buckets.length)
  const bar = (className: string, index: number, from: number, amount: number) => {
    if (amount <= 0) return null
    const [below, tall] = [from, amount].map((rows) => (rows / most) * (height - 4)) as [number, number]
    const shown = Math.max(1.5, tall)
    return html`<rect class="${className}" x="${percent(index * step + step * 0.1)}" width="${percent(step * 0.8)}" y="${(height - below - shown).toFixed(1)}" height="${shown.toFixed(1)}"/>`
  }
  const bars = buckets.map(
    ([, missing, rows], index) =>
      html`${bar('f-bad', index, 0, missing)}${bar('f-idle', index, missing, rows - missing)}`,
  )
  const [first, last] = [buckets[0]?.[0] ?? '', buckets.at(-1)?.[0] ?? '']
  return html`<figure><figcaption><span>Where the missing rows are</span> <small>rows per ${unit} of <code>${column}</code></small></figcaption>
<svg class="plot" height="${height + 18}" role="img" aria-label="${words}"><line class="grid" x1="0" x2="100%" y1="${height}" y2="${height}"/>${bars}<text x="0" y="${height + 14}">${name(first)}</text>${buckets.length > 1 && html`<text class="end" x="100%" y="${height + 14}">${name(last)}</text>`}</svg>
<ul class="key">${swatch('f-bad', 'missing')}${swatch('f-idle', 'still listed')}</ul>
<p class="small quiet">${words}.</p>
${numbers(
  plainTable({
    caption: html`Missing rows by ${unit}`,
    columns: [
      { title: unit, cell: ([from]) => name(from) },
      { title: 'Missing', cell: ([, missing]) => count(missing), isNumber: true },
      { title: 'Rows', cell: ([, , rows]) => count(rows), isNumber: true },
    ],
    rows: buckets,
  }),
)}</figure>`
}

const percent = (value: number): string => `${value.toFixed(2)}%`

/** As few buckets as hold nine tenths of them, when that says something. */
function sentence({ column, unit, buckets }: Spread, name: (from: string) => string): string {
  const all = buckets.reduce((sum, [, missing]) => sum + missing, 0)
  const affected = buckets.filter(([, missing]) => missing > 0)
  const heaviest = affected.toSorted(([, one], [, other]) => other - one)
  let held = 0
  const most = heaviest.filter(([, missing]) => {
    const isNeeded = held < all * 0.9
    held += isNeeded ? missing : 0
    return isNeeded
  })
  const rows = `${plural(all, 'missing row')} with a ${column}`
  return most.length <= fewBuckets && most.length < buckets.length
    ? `Of ${rows}, ${count(held)} ${held === 1 ? 'is' : 'are'} of ${most
        .map(([from]) => name(from))
        .sort()
        .join(', ')}`
    : `${rows} are spread over ${count(affected.length)} of ${plural(buckets.length, unit)}`
}

const fewBuckets = 3
