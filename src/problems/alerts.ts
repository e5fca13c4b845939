// Decides for which problems an alert is sent, and when: once when a problem has lasted for a while, once when it has been over for a
// while. What many sources have with one cause is one problem here, too. Pure.

import type { Alert } from '../store/book/problems.ts'
import type { Silence } from '../store/book/silences.ts'
import { backoff, delayAfter } from '../util/backoff.ts'
import { areMany, byCause, sourcesOf } from './one-cause.ts'
import { eventsLastMs, isNews, type Problem } from './stream-problems.ts'

export type AlertPlan = {
  /** All that stay known, as they are now. */
  readonly known: readonly Alert[]
  /** Of them, those to send an alert about: that they began, or that they are over. */
  readonly begun: readonly Alert[]
  readonly over: readonly Alert[]
  readonly forgotten: readonly string[]
}

/** When a receiver is told of a problem. */
export type Timing = {
  /** It lasts for so long before: no alert is sent of what comes and goes. */
  readonly afterMs: number
  /** Nothing is sent at the moment, neither that it began nor that it is over. */
  readonly isHeld: boolean
}
type About = Pick<Alert, 'key' | 'kind' | 'stream'>
export type AlertRules = {
  /** Null: this receiver is not told of it. What it was told before goes on until it is over. Left out: of everything, at any hour. */
  readonly timingOf?: (problem: About) => Timing | null
  /** Nobody is told that it began. That it is over is told all the same. */
  readonly isSilenced?: (problem: About) => boolean
}

const atOnce: Timing = { afterMs: 60_000, isHeld: false }
const goneMs = 120_000
const forgetUntoldMs = 45_000

export function planAlerts(
  before: readonly Alert[],
  problems: readonly Problem[],
  now: Date,
  { timingOf = () => atOnce, isSilenced = () => false }: AlertRules = {},
): AlertPlan {
  const agoMs = (moment: Date) => now.getTime() - moment.getTime()
  const seen = new Set(problems.map(({ key }) => key))
  const hidden = new Set(problems.flatMap(({ hides = [] }) => hides))
  const isQuietNow = ({ quietUntil }: Problem) => Boolean(quietUntil && quietUntil > now)
  const quiet = new Set(problems.filter(isQuietNow).map(({ key }) => key))
  const standing = problems.flatMap((problem) => {
    const known = before.find(({ key }) => key === problem.key) ?? null
    return known === null && timingOf(problem) === null ? [] : [stand(known, problem, now)]
  })
  const goneSince = ({ key, toldAt, goneSince: known }: Alert) =>
    hidden.has(key) && toldAt !== null ? null : (known ?? now)
  const gone = before
    .filter(({ key }) => !seen.has(key))
    .map((alert) => ({ ...alert, goneSince: goneSince(alert) }))
  const isForgotten = ({ kind, toldAt, goneSince }: Alert) =>
    goneSince !== null &&
    (toldAt === null ? agoMs(goneSince) >= forgetUntoldMs : isNews(kind) && agoMs(goneSince) >= eventsLastMs)
  const kept = gone.filter((alert) => !isForgotten(alert))
  const isOver = ({ kind, toldAt, goneSince, ...alert }: Alert) =>
    toldAt !== null &&
    !isNews(kind) &&
    goneSince !== null &&
    agoMs(goneSince) >= goneMs &&
    !timingOf({ ...alert, kind })?.isHeld
  const mayBeTold = standing.flatMap((alert) => {
    const timing = timingOf(alert)
    const isTold = timing !== null && !timing.isHeld && !quiet.has(alert.key) && !isSilenced(alert)
    return isTold ? [{ alert, lackedMs: timing.afterMs - agoMs(alert.since) }] : []
  })
  const lackedMs = new Map(mayBeTold.map((one) => [one.alert.key, one.lackedMs]))
  const told = [...standing, ...kept].filter(({ kind, toldAt }) => toldAt !== null && !isNews(kind))
  return {
    known: [...standing, ...kept],
    begun: byCause(mayBeTold.map(({ alert }) => alert)).flatMap((group) =>
      begunOf(group, now, ({ key }) => lackedMs.get(key) ?? 0),
    ),
    over: byMessage(told).flatMap((group) => (group.every(isOver) ? group : [])),
    forgotten: gone.filter(isForgotten).map(({ key }) => key),
  }
}

/** Sources that join what was told of many are told together, not each by itself: after so long, or when twice as many have it. */
const joinMs = 3_600_000
/** So long the first of many sources waits for others that have what it has. */
const gatherMs = 60_000

/** Of one problem, or of many sources with one cause: what is told now. `lackedMs`: how much longer it has to last before. */
function begunOf(group: readonly Alert[], now: Date, lackedMs: (alert: Alert) => number): readonly Alert[] {
  const isNew = ({ toldAt, isWorse }: Alert) => toldAt === null || isWorse
  const due = group.filter((alert) => isNew(alert) && lackedMs(alert) <= 0)
  if (due.length === 0 || group.length === 1) return due
  // Those that nobody was told of come first.
  const all = [...due, ...group.filter((alert) => !isNew(alert))]
  const [together = []] = byMessage(group.filter(({ toldAt }) => toldAt !== null)).filter(isOfMany)
  const agoMs = now.getTime() - (together[0]?.toldAt?.getTime() ?? 0)
  const isToWait =
    together.length > 0
      ? agoMs < joinMs && sourcesOf(all).length < 2 * sourcesOf(together).length
      : !isOfMany(all) && due.every((alert) => lackedMs(alert) > -gatherMs)
  return isToWait ? [] : all
}

const isOfMany = (group: readonly Alert[]): boolean => areMany(sourcesOf(group))

/** What was told of many sources in one message, the last one first, and all else by itself. What was sent together was told at the same moment. */
export function byMessage(told: readonly Alert[]): readonly (readonly Alert[])[] {
  const messages = byCause(told).flatMap((group) => [
    ...Map.groupBy(group, ({ toldAt }) => toldAt?.getTime() ?? 0),
  ])
  return messages
    .toSorted(([one], [other]) => other - one)
    .flatMap(([, alerts]) => (isOfMany(alerts) ? [alerts] : alerts.map((alert) => [alert])))
}

/** The rest of an event that went on for a while. When its beginning is forgotten, the rest gets another key; people know of it already. */
const isRest = ({ kind, since }: Problem, now: Date): boolean =>
  isNews(kind) && since !== null && now.getTime() - since.getTime() > eventsLastMs / 2

function stand(known: Alert | null, problem: Problem, now: Date): Alert {
  const { key, kind, stream, what, whatToDo } = problem
  const toldAt = isRest(problem, now) ? now : null
  const before = known ?? { since: now, toldAt, isWorse: false, attempts: 0, retryAt: null }
  return { ...before, key, kind, stream, what, whatToDo, goneSince: null }
}

/** Whether somebody muted or acknowledged a problem. */
export const isSilencedBy = (silences: readonly Silence[], now: Date) => (problem: About) =>
  silencesOf(problem, silences).some(({ until }) => until === null || until > now)

/** What was said of a problem: of it alone, of its kind, of its stream, or of everything. */
export const silencesOf = ({ key, kind, stream }: About, silences: readonly Silence[]): readonly Silence[] =>
  silences.filter(({ target }) => [key, `kind:${kind}`, `stream:${stream}`, 'all'].includes(target))

/** When a message that could not be delivered is sent again; never earlier than the receiver asked for, up to the longest. */
export const retryAfter = (attempts: number, askedForMs: number | null, now: Date): Date =>
  new Date(
    now.getTime() +
      Math.min(backoff.alert.longestMs, Math.max(delayAfter(backoff.alert, attempts + 1), askedForMs ?? 0)),
  )

// Quiet hours: a time of the day in which nobody is told. What began then and lasts is told at their end.
export type QuietHours = {
  /** Minutes since midnight; the end may lie on the next day. */
  readonly from: number
  readonly to: number
  readonly timeZone: string
}

export function isQuiet({ from, to, timeZone }: QuietHours, now: Date): boolean {
  const clock = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' }).format(now)
  const [hours = 0, minutes = 0] = clock.split(':').map(Number)
  const time = (hours % 24) * 60 + minutes
  return from <= to ? time >= from && time < to : time >= from || time < to
}
