// Which concerns people are told about, and when: once when one has stood for a while, once when it has been over for a while.
// Pure: what is known and what is seen now go in, what is to be told comes out.

import { type Concern, eventsLastMs, isNews } from '../concerns/concern.ts'
import type { Alert } from '../mirror/alerts.ts'

export type AlertPlan = {
  /** All that stay known, as they are now. */
  readonly known: readonly Alert[]
  /** Of them, those that people are to be told about: that they began, or that they are over. */
  readonly begun: readonly Alert[]
  readonly over: readonly Alert[]
  readonly forgotten: readonly string[]
}

/** What comes and goes faster than this is not told. */
const standsMs = 60_000
const goneMs = 120_000
const forgetUntoldMs = 45_000

export function planAlerts(before: readonly Alert[], concerns: readonly Concern[], now: Date): AlertPlan {
  const agoMs = (moment: Date) => now.getTime() - moment.getTime()
  const seen = new Set(concerns.map(({ key }) => key))
  const standing = concerns.map((concern) =>
    stand(
      before.find(({ key }) => key === concern.key),
      concern,
      now,
    ),
  )
  const gone = before
    .filter(({ key }) => !seen.has(key))
    .map((alert) => ({ ...alert, goneSince: alert.goneSince ?? now }))
  const isForgotten = ({ kind, toldAt, goneSince }: (typeof gone)[number]) =>
    toldAt === null ? agoMs(goneSince) >= forgetUntoldMs : isNews(kind) && agoMs(goneSince) >= eventsLastMs
  const kept = gone.filter((alert) => !isForgotten(alert))
  return {
    known: [...standing, ...kept],
    begun: standing.filter(({ toldAt, since }) => toldAt === null && agoMs(since) >= standsMs),
    over: kept.filter(
      ({ kind, toldAt, goneSince }) => toldAt !== null && !isNews(kind) && agoMs(goneSince) >= goneMs,
    ),
    forgotten: gone.filter(isForgotten).map(({ key }) => key),
  }
}

const stand = (
  known: Alert | undefined,
  { key, kind, stream, what, whatToDo }: Concern,
  now: Date,
): Alert => ({
  key,
  kind,
  stream,
  what,
  whatToDo,
  since: known?.since ?? now,
  goneSince: null,
  toldAt: known?.toldAt ?? null,
  attempts: known?.attempts ?? 0,
  retryAt: known?.retryAt ?? null,
})

const firstPauseMs = 30_000
const longestPauseMs = 3_600_000

/** When a telling that failed is tried again; never earlier than the receiver asked for. */
export const retryAfter = (attempts: number, askedForMs: number | null, now: Date): Date =>
  new Date(
    now.getTime() +
      Math.min(longestPauseMs, Math.max(firstPauseMs * 2 ** Math.min(attempts, 20), askedForMs ?? 0)),
  )
