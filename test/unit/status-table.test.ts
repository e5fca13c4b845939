// What the terminal shows of streams and of readings that go on, as text.

import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { blockOf, lineOf } from '../../src/cli/live-progress.ts'
import { openOutput } from '../../src/cli/output.ts'
import { statusLines as linesOf } from '../../src/cli/status-table.ts'
import { type Status, type StatusLine, statusJson } from '../../src/documents/status.ts'
import type { Problem } from '../../src/problems/stream-problems.ts'
import { problemsByKey, stateOfStream } from '../../src/problems/stream-state.ts'
import type { StreamOverview } from '../../src/store/book/streams.ts'
import type { Mark, ReadingProgress } from '../../src/streams/load-progress.ts'

const now = new Date('2026-11-22T14:02:31Z')
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1000)

const overview = (stream: string, more: Partial<StreamOverview> = {}): StreamOverview => ({
  stream,
  position: '5',
  readThroughAt: ago(3),
  lagMs: 3_000,
  rows: 48_212,
  lastSuccessAt: ago(3),
  lastReconcileAt: ago(39_060),
  settledThroughAt: ago(660),
  firstReadThroughAt: ago(86_400),
  isReadAgain: false,
  deletionsKnownAt: ago(39_060),
  lastRun: null,
  running: [],
  lookbackMs: null,
  lookbackReason: null,
  lateArrivals: 0,
  quarantined: 0,
  rescued: 0,
  deletedRows: 12,
  unexplained: null,
  missedRows: 0,
  unfinishedBackfills: 0,
  related: null,
  blockedDeletions: null,
  paused: null,
  ...more,
})
const line = (one: StreamOverview, problems: readonly Problem[], more: Partial<StatusLine> = {}) => ({
  overview: one,
  kind: 'changes' as const,
  state: stateOfStream(
    one,
    one.stream === 'tracker_object' ? 'tracking' : 'assignment',
    problemsByKey(problems),
  ),
  settledAt: one.settledThroughAt,
  settling: null,
  targets: [],
  rowsPerMinute: 38,
  ...more,
})
const problem = (kind: Problem['kind'], subject: string, what: string): Problem => ({
  ...{ key: `${kind}:${subject}`, kind, stream: null, since: null, runbook: '', what },
  whatToDo: `Look: \`tidemark look ${subject}\`.`,
})
const problems = [
  problem('service_down', 'tracking', 'The tracking service answers 503.'),
  problem(
    'deletions_blocked',
    'assignment_note',
    'assignment_note: 27,310 of 131,904 deletions are blocked (20.7 %, limit 20 %), and that is a sentence which is longer than any narrow terminal.',
  ),
]
const marks = (rowsBy: (second: number) => number): readonly Mark[] =>
  Array.from({ length: 13 }, (_, index): Mark => [now.getTime() / 1000 - 60 + index * 5, rowsBy(index * 5)])
const load: ReadingProgress = {
  stream: 'assignment',
  reading: 'first load',
  beganAt: ago(60),
  updatedAt: now,
  endedAt: null,
  isComplete: false,
  rows: 36_000,
  rowsAt: now,
  requests: 38,
  bytes: 1,
  total: 60_005,
  totalAt: ago(50),
  totalRequests: 13,
  share: 0.62,
  waitsFor: null,
  waitsUntil: null,
  error: null,
  marks: marks((second) => 600 * second),
  unread: null,
}
const status: Status = {
  now,
  problems,
  waits: [{ what: 'the tracking service', until: ago(-40) }],
  readings: [],
  worker: { isThere: true, seenAt: ago(2) },
  sources: [],
  lines: [
    line(overview('assignment'), problems),
    line(
      overview('assignment_note', { rows: 131_904, deletedRows: 0, deletionsKnownAt: ago(126_000) }),
      problems,
    ),
    line(overview('tracker_object', { readThroughAt: ago(240), rows: 64, deletedRows: null }), problems),
  ],
}

function look(columns: number | undefined, environment: Record<string, string> = { LANG: 'en_GB.UTF-8' }) {
  const stream = Object.assign(new PassThrough(), {
    isTTY: columns !== undefined,
    ...(columns && { columns }),
  })
  return openOutput(stream, environment)
}

const statusLines = (found: Status, out: ReturnType<typeof look>, before?: Status) =>
  linesOf(statusJson(found), out, before && statusJson(before))

describe('the status', () => {
  it('says first what needs somebody, then how each stream is, then what to do', () => {
    expect(statusLines(status, look(undefined))).toEqual([
      'One thing needs you, one heals by itself · 14:02:31 UTC',
      '',
      '  STREAM           STATE               READ  SETTLED    DELETIONS     ROWS  DELETED  ROWS/MIN',
      '● assignment       up to date           3 s   11 min  10 h 51 min   48,200       12        38',
      '■ assignment_note  deletions blocked    3 s   11 min         35 h  131,904        0        38',
      '▲ tracker_object   behind, retrying   4 min   11 min  10 h 51 min       64    incl.        38',
      '',
      `■ ${problems[1]?.what}`,
      '    Look: `tidemark look assignment_note`.',
      '▲ The tracking service answers 503. Next try in 40 s.',
      '    Look: `tidemark look tracking`.',
    ])
  })

  it('says of two hundred sources on one screen which are not well, the worst first, and counts the others (P18)', () => {
    const states = ['stopped', 'behind', 'loading', 'paused'] as const
    const sources = Array.from({ length: 200 }, (_, index): Status['sources'][number] => ({
      name: index === 199 ? '' : `client_${index}`,
      state: index < 20 ? 'behind' : (states[index - 18] ?? 'live'),
      streams: 3,
      readThroughAt: ago(7_200),
      deletionsKnownAt: ago(3),
      reasons: [`assignment: The upstream of ${index} answers 503, and that has been so since this morning.`],
      tags: [],
      isGone: false,
      problem: null,
      changedSettings: 0,
      problems: index < 20 ? 1 : 0,
    }))
    const problems = sources
      .slice(0, 20)
      .map(({ name }) => problem('service_down', `${name}.x`, `${name} is down.`))
    const lines = statusLines(
      { ...status, problems, sources },
      look(100, { LANG: 'en_GB.UTF-8', NO_COLOR: '1' }),
    )
    expect(lines.length).toBeLessThanOrEqual(50)
    const text = lines.join('\n')
    expect(text).toContain('▲ client_0: behind, read 2 h ago. assignment: The upstream of 0 answers 503')
    expect(text).toContain('10 more are not well: `tidemark sources list`')
    expect(text).toContain('● 178 sources live')
    // Twenty with one cause are one.
    expect(text).toMatch(/20 sources have this problem: client_0, .* and 15 more\.\s+client_0 is down/)
    expect(text).not.toContain('client_7 is down')
    const unlike = sources
      .slice(0, 20)
      .map(({ name }, index) => problem('service_down', `${name}.x`, `${'y'.repeat(index + 1)} is down.`))
    const many = statusLines({ ...status, problems: unlike, sources }, look(100, { LANG: 'en_GB.UTF-8' }))
    expect(many.length).toBeLessThanOrEqual(50)
    expect(many.join('\n')).toContain('15 more problems')
    expect(text).not.toContain('up to date ·')
    const calm = { ...status, problems: [], sources: sources.slice(20) }
    expect(statusLines(calm, look(100)).join('\n')).toContain('The source client_20 is loading')
  })

  it.each([60, 70, 80, 100, 200])('fits into %d columns', (columns) => {
    const environment = { LANG: 'en_GB.UTF-8', NO_COLOR: '1' }
    const lines = statusLines({ ...status, readings: [load] }, look(columns, environment))
    for (const one of lines) expect(one.length, one).toBeLessThanOrEqual(columns)
    expect(lines.join('\n')).toMatch(/READ\b/)
    expect(lines.join('\n').includes('ROWS/MIN')).toBe(columns >= 100)
  })

  it('is ASCII where the terminal shows nothing else, and has no colour where nobody wants it', () => {
    const plain = statusLines({ ...status, readings: [load] }, look(100, { LANG: 'C', NO_COLOR: '1' })).join(
      '\n',
    )
    expect(plain).not.toMatch(/[^\x20-\x7e\n]/)
    expect(plain).toMatch(/^\* assignment /m)
    expect(plain).toMatch(/^X assignment_note /m)
    expect(plain).toMatch(/^! tracker_object /m)
    expect(statusLines(status, look(100)).join('\n')).toContain('\x1b[31m■\x1b[0m')
  })

  it('shows in bold what is another than before, and no age', () => {
    const before = {
      ...status,
      now: ago(2),
      lines: status.lines.map((one) => ({ ...one, rowsPerMinute: 12 })),
    }
    const [, , , first = ''] = statusLines(status, look(100), before)
    expect(first).toContain(`\x1b[1m${'38'.padStart(8)}\x1b[0m`)
    expect(first.split('\x1b[1m')).toHaveLength(2)
  })

  it('tells that no worker runs, and how far a first load is', () => {
    const loading = overview('assignment', {
      ...{ readThroughAt: null, firstReadThroughAt: null, lastSuccessAt: null, running: ['incremental'] },
    })
    const lines = statusLines(
      {
        ...status,
        problems: [],
        readings: [load],
        lines: [line(loading, [])],
        worker: { isThere: false, seenAt: ago(300) },
      },
      look(undefined),
    )
    const loaded = { ...status, problems: [], worker: { isThere: false, seenAt: ago(300) } }
    expect(statusLines(loaded, look(undefined))[0]).toBe('No worker is running · 14:02:31 UTC')
    expect(lines[0]).toBe('First load: 0 of 1 streams are complete · 14:02:31 UTC')
    expect(lines[1]).toBe('No worker has run for 5 min, so nothing is read. Start one: tidemark serve')
    expect(lines.join('\n')).toContain('◐ assignment  first load 62 %')
    expect(lines.at(-1)).toBe(
      '◐ assignment: first load 62 %, 36,000 of about 60,005, 600 rows/s, about 40 s left'.replace(
        'about 40 s',
        '40–45 s',
      ),
    )
  })
})

describe('the progress of a reading', () => {
  const block = (columns: number, environment?: Record<string, string>, of = load) =>
    blockOf(of, { terminal: look(columns, environment), title: of.stream, hint: '', frame: 2, now })

  it('is a bar, and the facts below it', () => {
    expect(block(100)).toEqual([
      '⠹ assignment          first load  ━━━━━━━━━━━━╌╌╌╌╌╌╌╌  62 %',
      `${' '.repeat(22)}36,000 of about 60,005  600/s  40–45 s left`,
    ])
  })

  it.each([60, 64, 80])('fits into %d columns', (columns) => {
    const long = { ...load, stream: 'webhook_subscription', rows: 1_234_567, total: 9_876_543, share: 0.12 }
    for (const one of block(columns, undefined, long)) expect(one.length, one).toBeLessThan(columns)
  })

  it('is ASCII where the terminal shows nothing else', () => {
    expect(block(80, { LANG: 'C' })[0]).toBe('| assignment          first load  ============........  62 %')
  })

  it('is one line for programs', () => {
    expect(lineOf(load, 'assignment', now)).toBe('assignment 62% 36000/~60005 rows 600/s left=40-45s')
    const uncounted = { ...load, total: null, share: null }
    expect(lineOf(uncounted, 'assignment', now)).toBe('assignment 36000 rows 600/s')
    const unread = [
      [0.2, 0.5],
      [0.7, 0.8],
    ] as const
    expect(lineOf({ ...load, unread }, 'assignment', now)).toContain(' 600/s ranges=2 left=')
    const later = new Date(now.getTime() + 40_000)
    expect(lineOf({ ...load, waitsFor: 'the service answers 429' }, 'assignment', later)).toBe(
      'assignment 62% 36000/~60005 rows 0/s stalled for 40 s: the service answers 429',
    )
  })
})
