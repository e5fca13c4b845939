// `tidemark status` as text: the verdict, a line for each stream, what goes on, and what needs somebody. Fits the terminal from 60 columns
// on: columns that do not fit are left out, the least important first.

import { type Status, type StatusLine, verdictOf } from '../documents/status.ts'
import { byCause, sharedBy } from '../problems/one-cause.ts'
import type { Problem, ProblemKind } from '../problems/stream-problems.ts'
import {
  careOf,
  hasNamed,
  isWell,
  sourceTitle,
  type Tone,
  unexplainedInWords,
} from '../problems/stream-state.ts'
import type { SourceLine } from '../store/book/source-config.ts'
import { livingRows } from '../store/book/streams.ts'
import { estimate, isTold, percent, readingInWords } from '../streams/load-progress.ts'
import { notSettledBecause } from '../streams/settling.ts'
import { count, plural, shortSpan } from '../util/text.ts'
import { type Mark, type Output, wrapped } from './output.ts'

const markOf: Readonly<Record<Tone, Mark>> = {
  ok: 'current',
  busy: 'loading',
  idle: 'idle',
  todo: 'idle',
  warn: 'heals',
  bad: 'needs',
}
const markOfCare = { 'needs you': 'needs', heals: 'heals', news: 'idle' } as const

type Cell = (line: StatusLine, now: Date) => string
type Column = {
  readonly title: string
  /** The lower, the sooner it is left out; 0: never. */
  readonly rank: number
  readonly isText?: boolean
  /** Its changes are no news: an age is always another one. */
  readonly isAge?: boolean
  readonly cell: Cell
}

const age = (momentOf: (line: StatusLine) => Date | null): Pick<Column, 'isAge' | 'cell'> => ({
  isAge: true,
  cell(line, now) {
    const moment = momentOf(line)
    return moment === null ? '' : shortSpan(now.getTime() - moment.getTime())
  },
})
const amount = (numberOf: (line: StatusLine) => number | null, otherwise: string): Pick<Column, 'cell'> => ({
  cell(line) {
    const number = numberOf(line)
    return number === null ? otherwise : count(Math.round(number))
  },
})

const columns: readonly Column[] = [
  { title: 'STREAM', rank: 0, isText: true, cell: ({ overview }) => overview.stream },
  { title: 'STATE', rank: 0, isText: true, cell: stateCell },
  { title: 'READ', rank: 0, ...age(({ overview }) => overview.readThroughAt) },
  { title: 'SETTLED', rank: 3, ...age(({ settledAt }) => settledAt) },
  { title: 'DELETIONS', rank: 2, ...age(({ overview }) => overview.deletionsKnownAt) },
  { title: 'ROWS', rank: 4, ...amount(({ overview }) => livingRows(overview) ?? overview.rows, '?') },
  // Where they are not counted, they are in the column before.
  { title: 'DELETED', rank: 1, ...amount(({ overview }) => overview.deletedRows, 'incl.') },
  { title: 'ROWS/MIN', rank: 1, ...amount(({ rowsPerMinute }) => rowsPerMinute, '') },
]

function stateCell({ state, load }: StatusLine): string {
  if (state.tone !== 'busy' || load?.share == null) return state.words
  return `${state.words} ${percent(load.share)} %`
}

// ── the lines ────────────────────────────────────────────────────────────────────────────────────────────────

type Look = Pick<Output, 'mark' | 'plain' | 'style' | 'columns'>
const narrowest = 60

/** `before`: what was shown last; what is another since then is bold. */
export function statusLines(status: Status, out: Look, before: Status | null = null): readonly string[] {
  const width = Math.max(narrowest, out.columns() ?? Number.POSITIVE_INFINITY)
  const clock = `${status.now.toISOString().slice(11, 19)} UTC`
  return [
    out.style('bold', out.plain(`${verdictOf(status)} · ${clock}`)),
    ...workerLine(status, out),
    ...sourceLines(status, out, width),
    ...(hasNamed(status.sources) ? [] : ['']),
    ...tableLines(status, out, width, before),
    ...readingLines(status, out, width),
    ...settlingLines(status, out, width),
    ...unexplainedLines(status, out, width),
    ...problemLines(status, out, width),
  ]
}

function workerLine({ worker, now }: Status, out: Look): readonly string[] {
  if (worker === null || worker.isThere) return []
  const since = shortSpan(now.getTime() - worker.seenAt.getTime())
  return [out.plain(`No worker has run for ${since}, so nothing is read. Start one: tidemark serve`)]
}

const mostSources = 10
const sourceMarks: Readonly<Record<SourceLine['state'], Mark>> = {
  ...{ stopped: 'needs', behind: 'heals', loading: 'loading', paused: 'idle', new: 'idle', live: 'current' },
}

/** Those that are not well, the worst first, and how many others are in which state. The streams below are those of the first source. */
function sourceLines({ sources, now }: Status, out: Look, width: number): readonly string[] {
  if (!hasNamed(sources)) return []
  const unwell = sources.filter((one) => !isWell(one))
  const shown = unwell.slice(0, mostSources)
  const more = unwell.length - shown.length
  const left = [...Map.groupBy(sources.filter(isWell), ({ state }) => state)]
  const ages = ({ readThroughAt }: SourceLine) =>
    readThroughAt === null ? 'not read yet' : `read ${shortSpan(now.getTime() - readThroughAt.getTime())} ago`
  return [
    '',
    ...shown.flatMap((one) => {
      const { problem, problems, reasons } = one
      const why = problem ?? reasons[0] ?? (problems > 0 ? plural(problems, 'problem') : '')
      const text = `${sourceTitle(one.name)}: ${one.state}, ${ages(one)}. ${why}`
      const mark = one.state === 'live' ? 'needs' : sourceMarks[one.state]
      return marked(out, mark, text, width).slice(0, 2)
    }),
    ...(more > 0 ? marked(out, 'needs', `${more} more are not well: \`tidemark sources list\``, width) : []),
    ...left.flatMap(([state, some]) =>
      marked(out, sourceMarks[state], `${plural(some.length, 'source')} ${state}`, width),
    ),
    '',
    out.style('dim', out.plain('Streams of the first source; of others: tidemark status --source NAME')),
  ]
}

function tableLines(
  { lines, now }: Status,
  out: Look,
  width: number,
  before: Status | null,
): readonly string[] {
  const cellsOf = (of: readonly StatusLine[], at: Date) =>
    new Map(of.map((line) => [line.overview.stream, columns.map(({ cell }) => cell(line, at))]))
  const cells = cellsOf(lines, now)
  const known = before && cellsOf(before.lines, before.now)
  const widths = columns.map(({ title }, index) =>
    Math.max(title.length, ...[...cells.values()].map((row) => row[index]?.length ?? 0)),
  )
  const shown = columnsThatFit(widths, width)
  const row = (text: (index: number) => string, isBold: (index: number) => boolean = () => false) =>
    shown
      .map((index) => {
        const padded = pad(out.plain(text(index)), widths[index] ?? 0, columns[index]?.isText)
        return isBold(index) ? out.style('bold', padded) : padded
      })
      .join('  ')
      .trimEnd()
  return [
    out.style('dim', `  ${row((index) => columns[index]?.title ?? '')}`),
    ...lines.map((line) => {
      const mine = cells.get(line.overview.stream) ?? []
      const last = known?.get(line.overview.stream)
      const isNew = (index: number) =>
        last !== undefined && columns[index]?.isAge !== true && last[index] !== mine[index]
      return `${out.mark(markOf[line.state.tone])} ${row((index) => mine[index] ?? '', isNew)}`
    }),
  ]
}

const pad = (text: string, width: number, isText = false) =>
  isText ? text.padEnd(width) : text.padStart(width)

function columnsThatFit(widths: readonly number[], width: number): readonly number[] {
  let shown = columns.map((_, index) => index)
  const taken = () => 2 + shown.reduce((sum, index) => sum + (widths[index] ?? 0) + 2, -2)
  const ranked = columns.map(({ rank }, index) => ({ rank, index })).filter(({ rank }) => rank > 0)
  for (const { index } of ranked.toSorted((a, b) => a.rank - b.rank)) {
    if (taken() <= width) break
    shown = shown.filter((one) => one !== index)
  }
  return shown
}

function readingLines({ readings, now }: Status, out: Look, width: number): readonly string[] {
  const lines = readings.filter(isTold).flatMap((reading) => {
    const seen = estimate(reading, now)
    return marked(out, seen.stalled ? 'heals' : 'loading', readingInWords(reading, seen, now), width)
  })
  return lines.length === 0 ? [] : ['', ...lines]
}

/** Lines that explain empty cells of SETTLED. A first load has a line of its own. */
function settlingLines({ lines }: Status, out: Look, width: number): readonly string[] {
  const waiting = lines.filter(({ settling, overview }) => settling && overview.readThroughAt !== null)
  const [first] = waiting
  if (!first?.settling) return []
  const named = waiting.map(({ overview, settling }) => `${overview.stream} (${settling?.when})`).join(', ')
  const why = waiting.length === 1 ? first.settling.why : notSettledBecause
  return ['', ...marked(out, 'idle', `Not settled yet: ${named}. ${why}`, width)]
}

/** Lines that explain why an age of DELETIONS grows. */
const unexplainedLines = ({ lines }: Status, out: Look, width: number): readonly string[] =>
  lines.flatMap(({ overview: { stream, unexplained, blockedDeletions, paused } }) =>
    unexplained === null || blockedDeletions !== null || paused !== null
      ? []
      : ['', ...marked(out, 'idle', `${stream}: ${unexplainedInWords(unexplained)}`, width)],
  )

const isOfService: readonly ProblemKind[] = ['service_down', 'told_to_wait']

function problemLines(
  { problems, sources, waits, now }: Status,
  out: Look,
  width: number,
): readonly string[] {
  const nextTry = ({ kind, key }: Problem): string => {
    const wait = waits.find(
      ({ what }) => isOfService.includes(kind) && what === `the ${key.split(':')[1]} service`,
    )
    return wait && wait.until > now ? ` Next try in ${shortSpan(wait.until.getTime() - now.getTime())}.` : ''
  }
  const indented = (text: string) => (text === '' ? [] : folded(out.plain(text), width - 1, 4).split('\n'))
  const order = ['needs you', 'heals', 'news']
  const known = byCause(problems.toSorted((a, b) => order.indexOf(careOf(a)) - order.indexOf(careOf(b))))
  const most = hasNamed(sources) ? mostProblems : known.length
  const more = known.length - most
  const lines = known
    .slice(0, most)
    .flatMap((group) =>
      group
        .slice(0, 1)
        .flatMap((problem) => [
          ...marked(
            out,
            markOfCare[careOf(problem)],
            [sharedBy(group), problem.what + nextTry(problem)].filter(Boolean).join(' '),
            width,
          ),
          ...indented(problem.seen ? `What was seen last: ${problem.seen}` : ''),
          ...indented(problem.whatToDo),
        ]),
    )
  const others =
    more > 0
      ? marked(
          out,
          'idle',
          `${plural(more, 'more problem')}: \`tidemark sources list\`, or the console.`,
          width,
        )
      : []
  return lines.length === 0 ? [] : ['', ...lines, ...others]
}

/** Of many sources, so that the first ones stay in sight. */
const mostProblems = 5

/** The last column stays free: some terminals begin a new line in it. */
const marked = (out: Look, mark: Mark, text: string, width: number): readonly string[] =>
  `${out.mark(mark)}${folded(out.plain(text), width - 1, 2).slice(1)}`.split('\n')

const folded = (text: string, width: number, indent: number): string =>
  wrapped(`${' '.repeat(indent)}${text.replaceAll(/\s+/g, ' ')}`, width, indent)
