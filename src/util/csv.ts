// One line of CSV, as RFC 4180 has it: null is empty, and an empty text is quoted. Spreadsheets take a text that begins like a formula for
// one and run it, whoever wrote it. So such a text gets an apostrophe in front, unless the reader is a program.

export type CsvOptions = {
  /** By the place of the cell: its column holds numbers, so `-5` is a number and no formula. */
  readonly areNumbers: readonly boolean[]
  /** For programs: every text as it is. */
  readonly isRaw: boolean
}

export const csvLine = (
  cells: readonly (string | null)[],
  { areNumbers, isRaw }: CsvOptions,
  end: '\n' | '\r\n',
): string =>
  `${cells.map((cell, at) => quoted(isRaw || areNumbers[at] ? cell : harmless(cell))).join(',')}${end}`

const beginsFormula = /^[=+\-@\t\r\n＝＋－＠]/

const harmless = (cell: string | null): string | null =>
  cell !== null && beginsFormula.test(cell) ? `'${cell}` : cell

const quoted = (cell: string | null): string =>
  cell === null ? '' : cell === '' || /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
