// What a verb writes to: standard output for results, standard error for all else. Knows whether a person looks at it, and
// what that terminal can show.

import { jsonText, visible } from '../util/text.ts'

export type Environment = Readonly<Record<string, string | undefined>>
type Stream = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number }

const marks = {
  good: { sign: '✓', ascii: '*', colour: 32 },
  warning: { sign: '!', ascii: '!', colour: 33 },
  bad: { sign: '✗', ascii: 'X', colour: 31 },
  current: { sign: '●', ascii: '*', colour: 32 },
  loading: { sign: '◐', ascii: '~', colour: 36 },
  idle: { sign: '○', ascii: '-', colour: 90 },
  heals: { sign: '▲', ascii: '!', colour: 33 },
  needs: { sign: '■', ascii: 'X', colour: 31 },
} as const
export type Mark = keyof typeof marks
const styles = { bold: 1, dim: 2 } as const

export type Output = {
  readonly isTTY: boolean
  readonly isAscii: boolean
  /** How many characters fit in a line; null where nothing is cut. */
  columns(): number | null
  /** Whether anything was written. */
  hasWritten(): boolean
  /** Writes the text as it is. */
  write(text: string): void
  /** One or more lines for a person: nothing in them can move the cursor, and signs that the terminal cannot show are replaced. */
  say(text: string): void
  /** Sentences for a person, a paragraph a line, as the terminal has room for them. Elsewhere they stay as they are, for `grep`. */
  tell(text: string): void
  /** The one document of `--json`. */
  json(document: unknown): void
  mark(mark: Mark): string
  /** Makes text of others harmless, with signs that the terminal can show. For text that goes to `write`. */
  plain(text: string): string
  style(style: keyof typeof styles, text: string): string
}

export function openOutput(stream: Stream, environment: Environment): Output {
  const isTTY = stream.isTTY === true
  const isColoured = isTTY && hasColour(environment)
  const isAscii = !hasUtf8(environment)
  let hasWritten = false
  const write = (text: string) => {
    hasWritten = true
    stream.write(text)
  }
  const columns = () => (isTTY ? (stream.columns ?? null) : null)
  const plain = (text: string) => (isAscii ? inAscii(visible(text)) : visible(text))
  const say = (text: string) => write(`${plain(text)}\n`)
  return {
    isTTY,
    isAscii,
    columns,
    hasWritten: () => hasWritten,
    write,
    say,
    tell: (text) => say(fitted(text, columns())),
    json: (document) => write(`${jsonText(document)}\n`),
    mark(name) {
      const { sign, ascii, colour } = marks[name]
      const shown = isAscii ? ascii : sign
      return isColoured ? `\x1b[${colour}m${shown}\x1b[0m` : shown
    },
    plain,
    style: (name, text) => (isColoured ? `\x1b[${styles[name]}m${text}\x1b[0m` : text),
  }
}

/** https://no-color.org: any value but an empty one. */
export const hasColour = ({ NO_COLOR, TERM }: Environment): boolean => !NO_COLOR && TERM !== 'dumb'

/** Whether the terminal shows UTF-8: by the first of the three that is set, as in POSIX. Windows and macOS always show it. */
export function hasUtf8({ LC_ALL, LC_CTYPE, LANG }: Environment, platform = process.platform): boolean {
  const locale = LC_ALL || LC_CTYPE || LANG
  if (locale === undefined || locale === '') return platform === 'win32' || platform === 'darwin'
  return /utf-?8/i.test(locale)
}

const inAsciiWords: Readonly<Record<string, string>> = {
  '…': '...',
  '’': "'",
  '“': '"',
  '”': '"',
  '·': '-',
  '–': '-',
  '→': '->',
  '✓': '*',
  '✗': 'X',
  '━': '=',
  '╌': '.',
  '•': '*',
}
const inAscii = (text: string): string =>
  text.replaceAll(/[…’“”·–→✓✗━╌•]/g, (sign) => inAsciiWords[sign] ?? sign)

/** `2026-03-02 18:00:07` */
export const utcSecond = (moment: Date): string => moment.toISOString().slice(0, 19).replace('T', ' ')

/** Rows as aligned columns, whatever the cells hold. */
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
  return [header, ...rows].map(line).join('\n')
}

/** A table that fits the terminal: columns that do not fit are left out from the right, where the least important one is. */
export function fittedTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  { columns }: Pick<Output, 'columns'>,
): string {
  const [table, width] = [alignedTable(header, rows), columns()]
  if (width === null) return table
  return table
    .split('\n')
    .map((line) => (line.length > width ? `${line.slice(0, width - 1)}…` : line))
    .join('\n')
}

const leastWidth = 40

/** A command in backticks stays whole, so that it can be copied. */
const betweenWords = / (?=(?:[^`]*`[^`]*`)*[^`]*$)/

/** A line as several that fit; those after the first begin further in. A word that is longer than a line stays whole. */
export function wrapped(text: string, width: number | null, indent: number): string {
  if (width === null || text.length <= width) return text
  const most = Math.max(leastWidth, width)
  const [, begin = '', rest = ''] = /^( *)(.*)$/s.exec(text) ?? []
  const lines = ['']
  for (const word of rest.split(betweenWords)) {
    const line = lines.at(-1) ?? ''
    const longer = line === '' ? word : `${line} ${word}`
    const before = lines.length === 1 ? begin.length : indent
    if (line !== '' && before + longer.length > most) lines.push(word)
    else lines[lines.length - 1] = longer
  }
  return `${begin}${lines.join(`\n${' '.repeat(indent)}`)}`
}

const fitted = (text: string, width: number | null): string =>
  text
    .split('\n')
    .map((line) => wrapped(line, width, /^ */.exec(line)?.[0].length ?? 0))
    .join('\n')

/** One line, whatever the upstream wrote: without characters that end a line, turn the direction of text, or cannot be seen. */
export const oneLine = (text: string): string =>
  text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\p{Cf}|[\ufffe\uffff]/gu, '')
    .trim()

export const markdownTable = (
  head: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] => [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`)
