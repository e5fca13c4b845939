// Which parts the work of a worker depends on, how long each may be silent, and who is told when one does not work. All of it is there
// from the first moment, before anything is connected.

import type { Config } from '../config/load.ts'
import { lastSlot, type Schedule } from '../config/parsers.ts'
import { scheduleOf } from '../config/stream-variables.ts'
import { streamsIn } from '../configured.ts'
import type { Pool } from '../context.ts'
import type { Logger } from '../log.ts'
import type { Receiver } from '../problems/alert-body.ts'
import { runAlertLoop, sendTest } from '../problems/alert-loop.ts'
import { problemsOfParts } from '../problems/find-problems.ts'
import {
  type GivenPart,
  isDiskFull,
  openParts,
  type Parts,
  type Returned,
  titleOf,
} from '../problems/parts.ts'
import { noteEnd, withAlertBook } from '../store/book/problems.ts'
import type { Stream } from '../streams/catalog.ts'
import { queueRhythmMs } from './queue/canary.ts'
import type { Jobs } from './queue/jobs.ts'
import type { Mirror } from './start.ts'
import { databaseRhythmMs } from './watch.ts'

/** Who is told of problems; null: nobody. */
export function receiverOf(config: Config): Receiver | null {
  const { alertWebhookUrl: url, alertFormat: format, consoleUrl, runbooksUrl, proxies } = config
  return url === null ? null : { url, proxies, format, consoleUrl, runbooksUrl }
}

/** The receiver of alerts among the parts. */
const receiverName = 'alerts'

/** For how long each stream has been read, which it is not while it is paused. */
export type Pauses = {
  note(paused: ReadonlySet<string>): void
  readForMs(stream: string): number
}

export function openPauses(nowMs: () => number = () => performance.now()): Pauses {
  let paused: ReadonlySet<string> = new Set()
  const resumedMs = new Map<string, number>()
  return {
    note(given) {
      for (const stream of paused) if (!given.has(stream)) resumedMs.set(stream, nowMs())
      paused = given
    },
    readForMs: (stream) =>
      paused.has(stream) ? 0 : nowMs() - (resumedMs.get(stream) ?? Number.NEGATIVE_INFINITY),
  }
}

type Options = {
  readonly config: Config
  /** Those that are configured, as far as it is known what they are like. */
  readonly streams: () => readonly Stream[]
  /** Null while the worker is starting. */
  readonly jobs: () => Jobs | null
  readonly pauses: Pick<Pauses, 'readForMs'>
  readonly log: Logger
  /** Where it is noted that a part works again; null before Postgres is open. */
  readonly pool: () => Pool | null
  /** A clock that nobody can set. */
  readonly nowMs?: () => number
}

export function openWorkerParts({ config, streams, jobs, pauses, pool, ...options }: Options): Parts {
  const services = new Set(streamsIn(config).map(({ service }) => service))
  const outageOf = (part: string) => jobs()?.breaker.outageOf(part) ?? null
  const given: GivenPart[] = [
    {
      ...{ name: 'database', kind: 'database', longestSilenceMs: () => 2 * databaseRhythmMs },
      outage() {
        // Runs may need room where the worker's own small writes need none.
        const error = outageOf('database')
        return isDiskFull(error) ? error : null
      },
      onReturn: () => jobs()?.breaker.tryAgain('database'),
    },
    {
      ...{ name: 'queue', kind: 'queue', longestSilenceMs: () => 2 * queueRhythmMs },
      onReturn: () =>
        void jobs()
          ?.planNow()
          .catch(() => {}),
    },
    ...[...services].map((name): GivenPart => {
      const silencesMs = (now: Date) =>
        streams().flatMap((stream) => {
          if (stream.service !== name) return []
          const silenceMs = longestSilenceOf(scheduleOf(config, stream), now)
          // A stream that was resumed has that long for its first request.
          return pauses.readForMs(stream.name) > silenceMs ? [silenceMs] : []
        })
      return {
        ...{ name, kind: 'service', outage: () => outageOf(name) },
        longestSilenceMs() {
          const all = silencesMs(new Date())
          return all.length === 0 ? null : Math.min(...all)
        },
      }
    }),
    ...(receiverOf(config) === null
      ? []
      : [{ name: receiverName, kind: 'receiver', longestSilenceMs: () => null } as const]),
  ]
  return openParts(given, { ...options, onReturn: (part) => noteReturn(pool(), part, options.log) })
}

const shortestOutageMs = 1_000

/** What happened is told when it is over, also of an outage that nobody could note. */
function noteReturn(pool: Pool | null, part: Returned, log: Logger): void {
  const { name, kind, since, wasSilent } = part
  // What was silent and is back at once never stood still: this worker did. So may one be that answered a write too late.
  const isOverAtOnce = Date.now() - since.getTime() < shortestOutageMs && (wasSilent || kind !== 'service')
  if (pool === null || kind === 'receiver' || isOverAtOnce) return
  const what = `${titleOf(part).replace(/^the/, 'The')} did not work.`
  const problem = kind === 'service' ? 'service_down' : 'part_down'
  noteEnd(pool, { key: `${problem}:${name}`, kind: problem, what, since }).catch((error) =>
    log.debug({ err: error, part: name }, 'it could not be noted that a part works again'),
  )
}

/** What other workers ask is known by the minute only. */
const shortestSilenceMs = 180_000

/** Twice as long as the schedule allows. */
const longestSilenceOf = (schedule: Schedule, now: Date): number =>
  Math.max(shortestSilenceMs, now.getTime() - lastSlot(schedule, lastSlot(schedule, now)).getTime())

/** Goes on by itself until the signal. */
export function alertPeople(options: {
  readonly config: Config
  readonly parts: Parts
  /** Null before Postgres is open. */
  readonly mirror: () => Mirror | null
  readonly now: () => Date
  readonly signal: AbortSignal
  readonly log: Logger
}): void {
  const { config, parts, mirror, now, signal, log } = options
  const receiver = receiverOf(config)
  if (receiver === null) return
  const isUp = (name: string) => parts.list().some((part) => part.name === name && part.isUp)
  const sent = noteSent(parts)
  let isAlertUnsent = false
  void runAlertLoop({
    ...receiver,
    quietHours: config.alertQuietHours,
    database() {
      const there = mirror()
      if (there === null || !isUp('database')) return null
      return { problems: there.problems, withBook: (work) => withAlertBook(there.pool, work) }
    },
    ownProblems: () => problemsOfParts({ parts: parts.list() }, new Date()),
    onSent(failure) {
      isAlertUnsent = failure !== null
      sent(failure)
    },
    // A test that failed stands in no book: it counts until something was accepted, whichever worker sent it.
    onAllSent(lastToldAt) {
      const part = parts.list().find(({ name }) => name === receiverName)
      const isAccepted = isAlertUnsent || (part && lastToldAt && lastToldAt > part.since)
      if (isAccepted && !part?.isUp) parts.forget(receiverName)
      isAlertUnsent = false
    },
    ...{ now, signal, log },
  })
}

const noteSent =
  (parts: Parts) =>
  (failure: unknown): void =>
    failure === null ? parts.worked(receiverName) : parts.failed(receiverName, failure)

const longestTestMs = 10_000

/** Sends a test to the receiver of alerts, which works or does not by what comes of it; null: there is none. */
export function testAlertOf(config: Config, parts: Parts): (() => Promise<string>) | null {
  const receiver = receiverOf(config)
  if (receiver === null) return null
  const sent = noteSent(parts)
  return async () => {
    try {
      const text = await sendTest(receiver, new Date(), AbortSignal.timeout(longestTestMs))
      sent(null)
      return text
    } catch (error) {
      sent(error)
      throw error
    }
  }
}
