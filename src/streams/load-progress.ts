// What there is to say of a reading that goes on: how much is read, how fast, how long still, and whether it stands still. Pure: from what
// was recorded, and the time. Pages, terminal, log and metrics all say the same.

import { count, formatDuration, plural } from '../util/text.ts'
import { markingInWords } from './run-steps.ts'

/** How many rows had been read at a moment, which is in seconds since 1970. */
export type Mark = readonly [seconds: number, rows: number]

/** A reading as it is recorded. */
export type ReadingProgress = {
  readonly stream: string
  /** `first load`, or the kind of its runs. */
  readonly reading: string
  readonly beganAt: Date
  readonly updatedAt: Date
  /** When its last run was over; null while one reads. */
  readonly endedAt: Date | null
  readonly isComplete: boolean
  /** Of a first load: the stream was loaded before, and is read again from its beginning. */
  readonly isAgain?: boolean
  readonly rows: number
  readonly rowsAt: Date | null
  readonly requests: number
  readonly bytes: number
  /** How many there are; null: nobody can count them. */
  readonly total: number | null
  readonly totalAt: Date | null
  /** 0: counted here, without the upstream. */
  readonly totalRequests: number | null
  readonly share: number | null
  readonly waitsFor: string | null
  readonly waitsUntil: Date | null
  readonly error: string | null
  readonly marks: readonly Mark[]
  /** Ranges of versions that are not read yet, the lowest first; null: the stream is not read in ranges. */
  readonly unread: readonly UnreadPart[] | null
  /** What its run does; null: it has not said so, or no run goes on. */
  readonly step?: string | null
}
/** A range, as shares of all versions from where the reading began up to where it goes. */
export type UnreadPart = readonly [from: number, to: number]

/** Most others only look for something, and find nothing. */
export const isTold = ({ reading, rows }: Pick<ReadingProgress, 'reading' | 'rows'>): boolean =>
  reading === 'first load' || rows > 0

/**
 * Whether a worker logs how far it is: of its own runs, once they take long; and of first loads that stand still, one worker for all. That a
 * poll waits for an upstream that does not answer is said of its service.
 */
export const isLogged = (
  progress: Pick<ReadingProgress, 'reading' | 'rows'>,
  worker: {
    readonly isOwn: boolean
    readonly isLong: boolean
    readonly isStalled: boolean
    readonly isFirst: boolean
  },
): boolean =>
  isTold(progress) &&
  ((worker.isOwn && worker.isLong) ||
    (worker.isFirst && worker.isStalled && progress.reading === 'first load'))

/** What it is called. */
export const readingName = ({ reading, isAgain }: Pick<ReadingProgress, 'reading' | 'isAgain'>): string =>
  isAgain ? 'reading again' : reading

/** These list records and compare them; others store what they read. */
const listing: readonly string[] = ['reconcile', 'verify', 'deletions']
export const isListing = ({ reading }: Pick<ReadingProgress, 'reading'>): boolean => listing.includes(reading)

export type Estimate = {
  /** From 0 to 1; null: nobody knows how many there are. Never falls. */
  readonly share: number | null
  /** What it does when nearly all is read, in words; null before. */
  readonly closing: string | null
  readonly rowsPerSecond: number | null
  /** Null: it cannot be said yet. `mostMs` null: it may take any time. */
  readonly left: { readonly leastMs: number; readonly mostMs: number | null } | null
  readonly stalled: Stalled | null
  readonly elapsedMs: number
}
export type Stalled = {
  readonly forMs: number
  readonly why: string | null
  readonly until: Date | null
}

/** The rate is that of the rows which were read within this time. */
const rateWindowMs = 30_000
/** The slowest and the fastest window of so long make the range of the time left. */
const lookMs = 300_000
const stepMs = 5_000
const stallsAfterMs = 20_000
const catchesUpFrom = 0.99

export function estimate(progress: ReadingProgress, now: Date): Estimate {
  const { rows, total, share, isComplete, beganAt, updatedAt, endedAt } = progress
  const isCatchingUp = !isComplete && share !== null && share >= catchesUpFrom
  const stalled = stalledSince(progress, now)
  const rowsBy = rowsAt(progress)
  const [nowMs, beganMs] = [updatedAt.getTime(), beganAt.getTime()]
  const since = Math.max(beganMs, nowMs - rateWindowMs)
  const rowsPerSecond =
    nowMs - since < 1_000 ? null : Math.max(0, ((rows - rowsBy(since)) / (nowMs - since)) * 1_000)
  const isLeftUnknown = total === null || isComplete || isCatchingUp || stalled !== null
  return {
    share: isComplete ? 1 : share,
    closing: isCatchingUp ? closingInWords(progress) : null,
    rowsPerSecond: stalled ? 0 : rowsPerSecond,
    left: isLeftUnknown ? null : timeLeft(total - rows, rowsBy, beganMs, nowMs),
    stalled,
    elapsedMs: ((isComplete && endedAt) || now).getTime() - beganMs,
  }
}

/** Assumes that rows came evenly between two marks. */
function rowsAt({ marks, rows, beganAt, updatedAt }: ReadingProgress): (ms: number) => number {
  const points: Mark[] = [...marks, [updatedAt.getTime() / 1000, rows]]
  return (ms) => {
    const seconds = ms / 1000
    const after = points.findIndex(([at]) => at >= seconds)
    const [nextAt, next] = points[after] ?? [seconds, rows]
    const [lastAt, last] = points[after - 1] ?? [beganAt.getTime() / 1000, 0]
    if (after <= 0 || nextAt <= lastAt) return next
    return last + ((next - last) * (seconds - lastAt)) / (nextAt - lastAt)
  }
}

function timeLeft(
  rowsLeft: number,
  rowsBy: (ms: number) => number,
  beganMs: number,
  nowMs: number,
): Estimate['left'] {
  const rates: number[] = []
  for (let end = nowMs; end - rateWindowMs >= beganMs && end > nowMs - lookMs; end -= stepMs)
    rates.push((rowsBy(end) - rowsBy(end - rateWindowMs)) / rateWindowMs)
  const [slowest, fastest] = [Math.min(...rates), Math.max(...rates)]
  if (rates.length === 0 || fastest <= 0) return null
  const left = Math.max(0, rowsLeft)
  return { leastMs: left / fastest, mostMs: slowest > 0 ? left / slowest : null }
}

const marking = ({ step }: ReadingProgress): string | null => (step ? markingInWords(step) : null)

function stalledSince(progress: ReadingProgress, now: Date): Stalled | null {
  const { isComplete, rowsAt: lastAt, beganAt, endedAt, error, waitsFor, waitsUntil } = progress
  const forMs = now.getTime() - (lastAt ?? beganAt).getTime()
  // Rows are written in one piece, which may take long: then nothing is read, and nothing stands still.
  if (isComplete || forMs < stallsAfterMs || marking(progress) !== null) return null
  const isWaiting = waitsUntil !== null && waitsUntil > now
  const why =
    endedAt === null ? waitsFor : error === null ? 'no worker goes on with it' : firstSentence(error)
  return { forMs, why, until: isWaiting && endedAt === null ? waitsUntil : null }
}

/** Only what went wrong: the page of the run tells what was asked and answered. */
const firstSentence = (text: string): string => text.split(/(?<=\.)\s+(?=[A-Z])/)[0] ?? text

// ── words ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Rounded down: 100 % is said of what is complete alone. */
export const percent = (share: number): number => (share >= 1 ? 100 : Math.min(99, Math.floor(share * 100)))

/** `37,412 of about 60,005`. */
export function rowsInWords(progress: Pick<ReadingProgress, 'reading' | 'rows' | 'total'>): string {
  const { rows, total } = progress
  if (total === null) return `${count(rows)} rows`
  if (isAgain(progress)) return `${count(rows)} records of about ${count(total)} rows`
  return `${count(rows)} of about ${count(Math.max(total, rows))}`
}

/** A comparison lists again what moved, or differed, and counts it once more. */
const isAgain = (progress: Pick<ReadingProgress, 'reading' | 'rows' | 'total'>): boolean =>
  isListing(progress) && progress.total !== null && progress.rows > progress.total

function closingInWords(progress: ReadingProgress): string {
  if (!isListing(progress)) return 'catching up'
  const marks = marking(progress)
  if (marks !== null) return marks
  return isAgain(progress) ? 'listing again what may differ' : 'nearly all is listed'
}

/** `35–45 s`, `2–2.5 min`, `about 3 h`: two digits at most, the least rounded down and the most up. */
export function leftInWords({ leastMs, mostMs }: NonNullable<Estimate['left']>): string {
  const [unitMs, unit, step] = unitFor(mostMs ?? leastMs)
  const [least, most] = [
    Math.floor(leastMs / unitMs / step) * step,
    mostMs && Math.ceil(mostMs / unitMs / step) * step,
  ]
  if (most === null) return `${least || step} ${unit} or more`
  if (most <= step) return `less than ${step} ${unit}`
  return least === most ? `about ${most} ${unit}` : `${least}–${most} ${unit}`
}

function unitFor(ms: number): readonly [unitMs: number, unit: string, step: number] {
  if (ms <= 10_000) return [1_000, 's', 1]
  if (ms < 95_000) return [1_000, 's', 5]
  if (ms < 600_000) return [60_000, 'min', 0.5]
  if (ms < 95 * 60_000) return [60_000, 'min', ms < 30 * 60_000 ? 1 : 5]
  return [3_600_000, 'h', ms < 10 * 3_600_000 ? 0.5 : 1]
}

/** `stalled for 40 s: status 429, next try in 9 s`. */
function stalledInWords({ forMs, why, until }: Stalled, now: Date): string {
  const next = until === null ? '' : `, next try in ${formatDuration(until.getTime() - now.getTime())}`
  return `stalled for ${formatDuration(forMs)}${why === null ? '' : `: ${why.replace(/\.$/, '')}`}${next}`
}

/** `12 ranges of versions are left`: read side by side. */
export const rangesInWords = (unread: readonly UnreadPart[]): string =>
  `${plural(unread.length, 'range')} of versions ${unread.length === 1 ? 'is' : 'are'} left`

/** What follows the rows and the rate: how long still, or why nobody can say. */
export function outlookInWords(found: Estimate, now: Date): string | null {
  if (found.stalled) return stalledInWords(found.stalled, now)
  if (found.closing !== null) return found.closing
  return found.left && `${leftInWords(found.left)} left`
}

/** `assignment: first load 62 %, 36,000 of about 60,005, 600 rows/s, 40–45 s left`. */
export function readingInWords(progress: ReadingProgress, seen: Estimate, now: Date): string {
  const facts = [
    rowsInWords(progress),
    seen.rowsPerSecond === null ? null : `${count(Math.round(seen.rowsPerSecond))} rows/s`,
    outlookInWords(seen, now),
  ].filter((part) => part !== null)
  const share = seen.share === null ? '' : ` ${percent(seen.share)} %`
  return `${progress.stream}: ${readingName(progress)}${share}, ${facts.join(', ')}`
}
