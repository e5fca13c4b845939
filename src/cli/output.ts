// What a verb writes to: standard output for results, standard error for all else. Knows whether a person looks at it, and
// what that terminal can show.

import { visible } from '../util/text.ts'

export type Environment = Readonly<Record<string, string | undefined>>
type Stream = NodeJS.WritableStream & { readonly isTTY?: boolean }

const marks = {
  good: { sign: '✓', ascii: '*', colour: 32 },
  warning: { sign: '!', ascii: '!', colour: 33 },
  bad: { sign: '✗', ascii: 'X', colour: 31 },
} as const
export type Mark = keyof typeof marks

export type Output = {
  readonly isTTY: boolean
  /** Whether anything was written. */
  hasWritten(): boolean
  /** As it is. */
  write(text: string): void
  /** One or more lines for a person: nothing in them can move the cursor, and signs that the terminal cannot show are replaced. */
  say(text: string): void
  /** The one document of `--json`. */
  json(document: unknown): void
  mark(mark: Mark): string
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
  return {
    isTTY,
    hasWritten: () => hasWritten,
    write,
    say: (text) => write(`${isAscii ? inAscii(visible(text)) : visible(text)}\n`),
    json: (document) => write(`${JSON.stringify(document, null, 2)}\n`),
    mark(name) {
      const { sign, ascii, colour } = marks[name]
      const shown = isAscii ? ascii : sign
      return isColoured ? `\x1b[${colour}m${shown}\x1b[0m` : shown
    },
  }
}

/** https://no-color.org: any value but an empty one. */
export const hasColour = ({ NO_COLOR, TERM }: Environment): boolean => !NO_COLOR && TERM !== 'dumb'

/** As POSIX has it: the first of the three that is set. Terminals of Windows and macOS show it whatever they say. */
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
}
const inAscii = (text: string): string =>
  text.replaceAll(/[…’“”·–→✓✗]/g, (sign) => inAsciiWords[sign] ?? sign)

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
