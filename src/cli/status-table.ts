// `tidemark status` as text: the verdict, a line for each stream, what goes on, and what needs somebody. Fits the terminal from 60 columns
// on: columns that do not fit are left out, the least important first.

import type { Source } from '../documents/sources.ts'
import type { StreamStatus, WholeStatus } from '../documents/status.ts'
import { byCause, sharedBy } from '../problems/one-cause.ts'
import type { ProblemKind } from '../problems/stream-problems.ts'
import { hasNamed, isWell, sourceTitle, type Tone, unexplainedInWords } from '../problems/stream-state.ts'
import { percent } from '../streams/load-progress.ts'
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
/** What services that do not work were seen to answer, by the key of the problem: the API does not tell it. */
export type ShownStatus = WholeStatus & { readonly seen?: Readonly<Record<string, string>> }
const markOfCare = { 'needs you': 'needs', heals: 'heals', news: 'idle' } as const

type Cell = (line: StreamStatus, status: WholeStatus) => string
type Column = {
  readonly title: string
  /** The lower, the sooner it is left out; 0: never. */
  readonly rank: number
  readonly isText?: boolean
  /** Its changes are no news: an age is always another one. */
  readonly isAge?: boolean
  readonly cell: Cell
}

const age = (momentOf: (line: StreamStatus) => Date | null): Pick<Column, 'isAge' | 'cell'> => ({
  isAge: true,
  cell(line, { at }) {
    const moment = momentOf(line)
    return moment === null ? '' : shortSpan(at.getTime() - moment.getTime())
  },
})
const amount = (
  numberOf: (line: StreamStatus) => number | null,
  otherwise: string,
): Pick<Column, 'cell'> => ({
  cell(line) {
    const number = numberOf(line)
    return number === null ? otherwise : count(Math.round(number))
  },
})

const columns: readonly Column[] = [
  { title: 'STREAM', rank: 0, isText: true, cell: ({ stream }) => stream },
  { title: 'STATE', rank: 0, isText: true, cell: stateCell },
  { title: 'READ', rank: 0, ...age(({ read_through }) => read_through) },
  { title: 'SETTLED', rank: 3, ...age(({ settled_through }) => settled_through) },
  { title: 'DELETIONS', rank: 2, ...age((line) => line.deletions_known_through) },
  { title: 'ROWS', rank: 4, ...amount((line) => line.living_rows ?? line.rows, '?') },
  // Where they are not counted, they are in the column before.
  { title: 'DELETED', rank: 1, ...amount(({ deleted_rows }) => deleted_rows, 'incl.') },
  { title: 'ROWS/MIN', rank: 1, ...amount((line) => line.rows_per_minute, '') },
]

function stateCell({ stream, state, tone }: StreamStatus, { readings }: WholeStatus): string {
  const load = readings.find((one) => one.stream === stream && one.reading === 'first load')
  return tone !== 'busy' || load?.share == null ? state : `${state} ${percent(load.share)} %`
}

// ── the lines ────────────────────────────────────────────────────────────────────────────────────────────────

type Look = Pick<Output, 'mark' | 'plain' | 'style' | 'columns'>
const narrowest = 60
const widthOf = (out: Look): number => Math.max(narrowest, out.columns() ?? Number.POSITIVE_INFINITY)

/** `before`: what was shown last; what is another since then is bold. */
export function statusLines(
  status: ShownStatus,
  out: Look,
  before: WholeStatus | null = null,
): readonly string[] {
  const clock = `${status.at.toISOString().slice(11, 19)} UTC`
  return [
    out.style('bold', out.plain(`${status.verdict} · ${clock}`)),
    ...workerLine(status, out),
    ...sourceLines(status, out),
    ...(hasNamed(status.sources) ? [] : ['']),
    ...tableLines(status, out, before),
    ...readingLines(status, out),
    ...settlingLines(status, out),
    ...unexplainedLines(status, out),
    ...problemLines(status, out),
  ]
}

/** A worker that was killed may have read for so long after it was last heard. */
const silentMs = 60_000

/** Whether nothing was read since the last worker was heard: then somebody has to start one. */
export const isLeftAlone = ({ worker, streams }: Pick<WholeStatus, 'worker' | 'streams'>): boolean =>
  worker !== null &&
  !worker.running &&
  streams.every(
    ({ last_success_at: at }) => at === null || at.getTime() <= worker.seen_at.getTime() + silentMs,
  )

function workerLine(status: WholeStatus, out: Look): readonly string[] {
  const { worker, at } = status
  if (worker === null || worker.running) return []
  const since = shortSpan(at.getTime() - worker.seen_at.getTime())
  const words = isLeftAlone(status)
    ? `No worker has run for ${since}, so nothing is read. Start one: tidemark serve`
    : `No worker has run for ${since}. Rows come only from tidemark sync.`
  return [out.plain(words)]
}

const mostSources = 10
const sourceMarks: Readonly<Record<Source['state'], Mark>> = {
  stopped: 'needs',
  behind: 'heals',
  loading: 'loading',
  paused: 'idle',
  new: 'idle',
  live: 'current',
}

/** Those that are not well, the worst first, and how many others are in which state. The streams below are those of the first source. */
function sourceLines({ sources, at }: WholeStatus, out: Look): readonly string[] {
  if (!hasNamed(sources)) return []
  const unwell = sources.filter((one) => !isWell(one))
  const shown = unwell.slice(0, mostSources)
  const more = unwell.length - shown.length
  const left = [...Map.groupBy(sources.filter(isWell), ({ state }) => state)]
  const ages = ({ read_through_at: through }: Source) =>
    through === null ? 'not read through yet' : `read ${shortSpan(at.getTime() - through.getTime())} ago`
  return [
    '',
    ...shown.flatMap((one) => {
      const { problem, problems, reasons } = one
      const why = problem ?? reasons[0] ?? (problems > 0 ? plural(problems, 'problem') : '')
      const text = `${sourceTitle(one.name)}: ${one.state}, ${ages(one)}. ${why}`
      const mark = one.state === 'live' ? 'needs' : sourceMarks[one.state]
      return marked(out, mark, text).slice(0, 2)
    }),
    ...(more > 0 ? marked(out, 'needs', `${more} more are not well: \`tidemark sources list\``) : []),
    ...left.flatMap(([state, some]) =>
      marked(out, sourceMarks[state], `${plural(some.length, 'source')} ${state}`),
    ),
    '',
    out.style('dim', out.plain('Streams of the first source; of others: tidemark status --source NAME')),
  ]
}

function tableLines(status: WholeStatus, out: Look, before: WholeStatus | null): readonly string[] {
  const cellsOf = (of: WholeStatus) =>
    new Map(of.streams.map((line) => [line.stream, columns.map(({ cell }) => cell(line, of))]))
  const cells = cellsOf(status)
  const known = before && cellsOf(before)
  const widths = columns.map(({ title }, index) =>
    Math.max(title.length, ...[...cells.values()].map((row) => row[index]?.length ?? 0)),
  )
  const shown = columnsThatFit(widths, widthOf(out))
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
    ...status.streams.map(({ stream, tone }) => {
      const mine = cells.get(stream) ?? []
      const last = known?.get(stream)
      const isNew = (index: number) =>
        last !== undefined && columns[index]?.isAge !== true && last[index] !== mine[index]
      return `${out.mark(markOf[tone])} ${row((index) => mine[index] ?? '', isNew)}`
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

function readingLines({ readings }: WholeStatus, out: Look): readonly string[] {
  const lines = readings.flatMap(({ stalled, words }) =>
    words === null ? [] : marked(out, stalled ? 'heals' : 'loading', words),
  )
  return lines.length === 0 ? [] : ['', ...lines]
}

/** Lines that explain empty cells of SETTLED. A first load has a line of its own. */
function settlingLines({ streams }: WholeStatus, out: Look): readonly string[] {
  const waiting = streams.filter((one) => one.settling && one.read_through !== null)
  const [first] = waiting
  if (!first?.settling) return []
  const named = waiting.map(({ stream, settling }) => `${stream} (${settling?.when})`).join(', ')
  const why = waiting.length === 1 ? first.settling.why : notSettledBecause
  return ['', ...marked(out, 'idle', `Not settled yet: ${named}. ${why}`)]
}

/** Lines that explain why an age of DELETIONS grows. */
const unexplainedLines = ({ streams }: WholeStatus, out: Look): readonly string[] =>
  streams.flatMap(({ stream, unexplained_differences: unexplained, blocked_deletions, paused }) =>
    unexplained === null || blocked_deletions !== null || paused !== null
      ? []
      : ['', ...marked(out, 'idle', `${stream}: ${unexplainedInWords(unexplained)}`)],
  )

const isOfService: readonly ProblemKind[] = ['service_down', 'told_to_wait']

function problemLines(
  { problems: ofNone, streams, sources, waits, at, seen = {} }: ShownStatus,
  out: Look,
): readonly string[] {
  const all = [...ofNone, ...streams.flatMap((one) => one.problems)]
  const problems = all.map((one) => ({ ...one, isLong: one.care === 'needs you' }))
  const nextTry = ({ kind, key }: (typeof problems)[number]): string => {
    const wait = waits.find(
      ({ what }) => isOfService.includes(kind) && what === `the ${key.split(':')[1]} service`,
    )
    return wait && wait.until > at ? ` Next try in ${shortSpan(wait.until.getTime() - at.getTime())}.` : ''
  }
  const indented = (text: string) => (text === '' ? [] : folded(text, out, 4).split('\n'))
  const order = ['needs you', 'heals', 'news']
  const known = byCause(problems.toSorted((a, b) => order.indexOf(a.care) - order.indexOf(b.care)))
  const most = hasNamed(sources) ? mostProblems : known.length
  const more = known.length - most
  const lines = known.slice(0, most).flatMap((group) => {
    const [problem] = group
    if (!problem) return []
    const what = [sharedBy(group), problem.what + nextTry(problem)].filter(Boolean).join(' ')
    const seenLast = seen[problem.key]
    return [
      ...marked(out, markOfCare[problem.care], what),
      ...indented(seenLast ? `What was seen last: ${seenLast}` : ''),
      ...indented(problem.what_to_do),
    ]
  })
  const others = `${plural(more, 'more problem')}: \`tidemark sources list\`, or the console.`
  return lines.length === 0 ? [] : ['', ...lines, ...(more > 0 ? marked(out, 'idle', others) : [])]
}

/** Of many sources, so that the first ones stay in sight. */
const mostProblems = 5

const marked = (out: Look, mark: Mark, text: string): readonly string[] =>
  `${out.mark(mark)}${folded(text, out, 2).slice(1)}`.split('\n')

/** The last column stays free: some terminals begin a new line in it. */
const folded = (text: string, out: Look, indent: number): string =>
  wrapped(`${' '.repeat(indent)}${out.plain(text).replaceAll(/\s+/g, ' ')}`, widthOf(out) - 1, indent)
