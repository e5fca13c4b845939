// A table with a caption and headers. On a narrow screen each row becomes a block, with the header of each value before it; the roles
// are written out because browsers forget them then.

import { type Html, html } from '../html.ts'

export type Column<Row> = {
  readonly title: string
  readonly isNumber?: boolean
  readonly cell: (row: Row) => Html | string | number | null
}

/** The first column names the row. */
export function table<Row>(options: {
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Instead of a table without rows. */
  readonly empty: string
}): Html {
  const { caption, columns, rows, empty } = options
  if (rows.length === 0) return html`<p class="notice">${empty}</p>`
  const number = ({ isNumber }: Column<Row>) => isNumber && html` class="number"`
  return html`<table class="rows" role="table"><caption>${caption}</caption>
<thead role="rowgroup"><tr role="row">${columns.map(
    (column) => html`<th scope="col" role="columnheader"${number(column)}>${column.title}</th>`,
  )}</tr></thead>
<tbody role="rowgroup">${rows.map(
    (row) =>
      html`<tr role="row">${columns.map((column, index) =>
        index === 0
          ? html`<th scope="row" role="rowheader"${number(column)}>${column.cell(row)}</th>`
          : html`<td role="cell" data-title="${column.title}"${number(column)}>${column.cell(row)}</td>`,
      )}</tr>`,
  )}</tbody></table>`
}
