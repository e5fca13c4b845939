// How far a reading is, while a verb waits for it: on a terminal a block that is written over, elsewhere a line every ten seconds. It says
// what is recorded, so that it is the same wherever one looks.

import type { Pool } from 'pg'
import { readProgress } from '../store/book/progress.ts'
import {
  estimate,
  leftInWords,
  outlookInWords,
  percent,
  type ReadingProgress,
  rangesInWords,
  readingName,
  rowsInWords,
} from '../streams/load-progress.ts'
import { count } from '../util/text.ts'
import type { Output } from './output.ts'

const drawEveryMs = 125
const askEveryMs = 1_000
const lineEveryMs = 10_000
/** A reading that is over sooner shows nothing. */
const quietMs = 400

export type LiveProgress = { end(): void }

/** Of what a verb reads of a stream; `reading` left out: whatever it is. `hint` ends the block, such as what Ctrl-C does. */
export function showReading(
  { terminal, pool, stream }: { readonly terminal: Output; readonly pool: Pool; readonly stream: string },
  more: { readonly reading?: string; readonly title?: string; readonly hint?: string } = {},
): LiveProgress {
  const { reading, title = stream, hint = '' } = more
  let known: ReadingProgress | null = null
  let drawn = 0
  let frame = 0
  let isAsking = false
  const ask = async () => {
    if (isAsking) return
    isAsking = true
    // If the progress cannot be read now, the last one is shown until the next try.
    await readProgress(pool, [stream]).then(
      (readings) => {
        known = readings.find((one) => reading === undefined || one.reading === reading) ?? null
      },
      () => {},
    )
    isAsking = false
  }
  const clear = () => {
    if (drawn > 0) terminal.write(`\x1b[${drawn}A\x1b[J`)
    drawn = 0
  }
  const draw = () => {
    if (known === null) return
    const lines = blockOf(known, { terminal, title, hint, frame: frame++, now: new Date() })
    clear()
    terminal.write(`${lines.join('\n')}\n`)
    drawn = lines.length
  }
  const say = () => {
    if (known) terminal.say(lineOf(known, title, new Date()))
  }
  const timers = [setInterval(ask, askEveryMs)]
  const starting = setTimeout(() => {
    void ask()
    if (terminal.isTTY) timers.push(setInterval(draw, drawEveryMs).unref())
  }, quietMs).unref()
  if (!terminal.isTTY) timers.push(setInterval(say, lineEveryMs).unref())
  for (const timer of timers) timer.unref()
  return {
    end() {
      clearTimeout(starting)
      timers.forEach(clearInterval)
      clear()
    },
  }
}

/** `assignment 62% 37412/~60005 rows 612/s left=35-45s`: for programs as well as for people. */
export function lineOf(progress: ReadingProgress, title: string, now: Date): string {
  const seen = estimate(progress, now)
  const { rows, total } = progress
  const parts = [
    title,
    ...(seen.share === null ? [] : [`${percent(seen.share)}%`]),
    total === null ? `${rows} rows` : `${rows}/~${Math.max(rows, total)} rows`,
    ...(seen.rowsPerSecond === null ? [] : [`${Math.round(seen.rowsPerSecond)}/s`]),
    ...(progress.unread === null ? [] : [`ranges=${progress.unread.length}`]),
  ]
  if (seen.stalled || seen.closing) return [...parts, outlookInWords(seen, now)].join(' ')
  if (!seen.left) return parts.join(' ')
  const left = leftInWords(seen.left)
    .replaceAll('–', '-')
    .replaceAll(/(about|less than| )/g, '')
  return [...parts, `left=${left.replace('ormore', '+')}`].join(' ')
}

const spinner = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const asciiSpinner = ['-', '\\', '|', '/']
const nameWidth = 18

type Look = {
  readonly terminal: Pick<Output, 'isAscii' | 'columns' | 'plain' | 'style'>
  readonly title: string
  readonly hint: string
  readonly frame: number
  readonly now: Date
}

/** Two lines, or more where the terminal is narrow; none is wider than it. */
export function blockOf(
  progress: ReadingProgress,
  { terminal, title, hint, frame, now }: Look,
): readonly string[] {
  const seen = estimate(progress, now)
  const width = Math.max(40, (terminal.columns() ?? 80) - 1)
  const signs = terminal.isAscii ? asciiSpinner : spinner
  const what = progress.reading === 'list' ? 'reading' : readingName(progress)
  const head = `${signs[frame % signs.length]} ${title.padEnd(nameWidth)}  ${what}`
  const share = seen.share === null ? '' : `${percent(seen.share)} %`
  const room = Math.min(20, width - head.length - share.length - 4)
  const bar = seen.share === null || room < 8 ? '' : `  ${barOf(seen.share, room)}`
  const facts = [
    rowsInWords(progress),
    ...(seen.rowsPerSecond === null ? [] : [`${count(Math.round(seen.rowsPerSecond))}/s`]),
    ...[outlookInWords(seen, now), progress.unread && rangesInWords(progress.unread), hint].flatMap(
      (part) => part || [],
    ),
  ]
  const indent = width < 70 ? 2 : nameWidth + 4
  return [`${head}${bar}  ${share}`.trimEnd(), ...wrapped(facts, width - indent, indent)].map((line) =>
    terminal.plain(line.slice(0, width)),
  )
}

function barOf(share: number, room: number): string {
  const full = Math.min(room, Math.floor(share * room))
  return '━'.repeat(full) + '╌'.repeat(room - full)
}

/** Two blanks between the parts, as many of them on a line as fit. */
function wrapped(parts: readonly string[], width: number, indent: number): readonly string[] {
  const lines: string[] = []
  for (const part of parts) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 2 + part.length <= width)
      lines[lines.length - 1] = `${last}  ${part}`
    else lines.push(part)
  }
  return lines.map((line) => ' '.repeat(indent) + line)
}
