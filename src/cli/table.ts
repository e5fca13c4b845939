// Rows as aligned columns for a terminal, whatever the cells hold.

import { visible } from '../visible.ts'

export function alignedTable(header: readonly string[], given: readonly (readonly string[])[]): string {
  const rows = given.map((cells) => cells.map((cell) => visible(cell).replaceAll(/\s+/g, ' ')))
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  )
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return [header, ...rows].map((row) => `${line(row)}\n`).join('')
}
