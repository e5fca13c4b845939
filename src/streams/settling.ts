// Why a stream is not settled yet, and when it will be, in words for people. Pure.

export type Settling = {
  /** Beside a picture: `about 01:17:05`, `after the first load`. */
  readonly when: string
  /** A sentence or two. */
  readonly why: string
}
type Seen = {
  readonly kind: 'changes' | 'list'
  readonly readThroughAt: Date | null
  readonly settledThroughAt: Date | null
  readonly firstReadThroughAt: Date | null
  readonly running: readonly string[]
  readonly paused: unknown
  /** For so long late commits are waited for. */
  readonly lookbackMs: number
  /** Null: not known. */
  readonly nextReconcileAt: Date | null
}

/** Up to when nothing late is expected any more; a list is compared whole whenever it is read. */
export const settledThrough = (
  kind: string | undefined,
  seen: Pick<Seen, 'readThroughAt' | 'settledThroughAt'>,
): Date | null => (kind === 'list' ? seen.readThroughAt : seen.settledThroughAt)

export const notSettledBecause =
  'A record can become visible late, after others with a higher version. So Tidemark reads the recent past once more and compares everything with the whole list. What both agree on is settled.'

/** Null when it is settled, or every read settles it. */
export function settlingOf(stream: Seen, now: Date): Settling | null {
  if (stream.kind === 'list' || stream.settledThroughAt !== null) return null
  const [when, then] = waitsFor(stream, now)
  return { when, why: `${notSettledBecause} ${then}` }
}

function waitsFor(stream: Seen, now: Date): readonly [when: string, then: string] {
  const { readThroughAt, firstReadThroughAt, lookbackMs, nextReconcileAt } = stream
  if (readThroughAt === null || firstReadThroughAt === null)
    return ['after the first load', 'That begins after the first load.']
  if (stream.paused) return ['when it is resumed', 'That waits until the stream is resumed.']
  const from = new Date(firstReadThroughAt.getTime() + lookbackMs)
  if (from > now) {
    const at = clockOf(from, now)
    return [
      `soon after ${at}`,
      `That can begin at ${at}, when the look-back (${span(lookbackMs)}) has passed since the first load.`,
    ]
  }
  if (stream.running.includes('reconcile'))
    return ['being compared now', 'The comparison is running now; the stream is settled when it ends.']
  const startNow = 'To start one now: tidemark reconcile.'
  if (nextReconcileAt === null)
    return ['with the next reconcile', `The next reconcile does that. ${startNow}`]
  const at = clockOf(nextReconcileAt, now)
  return [`at the latest after ${at}`, `The next reconcile does that, at ${at} at the latest. ${startNow}`]
}

const span = (ms: number): string =>
  ms < 120_000 ? `${Math.round(ms / 1_000)} s` : `${Math.round(ms / 60_000)} min`

/** To the second today, with its day otherwise; UTC. */
function clockOf(moment: Date, now: Date): string {
  const iso = moment.toISOString()
  const isToday = iso.slice(0, 10) === now.toISOString().slice(0, 10)
  return isToday ? `${iso.slice(11, 19)} UTC` : `${iso.slice(0, 16).replace('T', ' ')} UTC`
}
