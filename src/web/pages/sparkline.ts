// A plot for those without the script: the same numbers as a line in SVG. Pure.

import { type Html, html } from '../html.ts'

const width = 240
const height = 40

export function sparkline(rates: readonly number[]): Html {
  const most = Math.max(1, ...rates)
  const points = rates.map(
    (rate, index) =>
      `${((index * width) / Math.max(1, rates.length - 1)).toFixed(1)},${(height - (rate / most) * height).toFixed(1)}`,
  )
  return html`<svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true"><polyline points="${points.join(' ')}" fill="none" stroke="currentColor" vector-effect="non-scaling-stroke"/></svg>`
}
