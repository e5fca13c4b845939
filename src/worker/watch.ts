// Notes what people watch: that this worker is there and what it does, how each stream stands minute by minute, and what requests came to.
// Says in the log how far long readings have come. What fails here is tried again the next time, and stops nothing else. That this worker
// is there is noted from the moment at which Postgres is open, and is the write by which Postgres is known to work.

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import type { Pool, SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { forgetDeleted } from '../operator/erase.ts'
import { partsDown, problemsOfParts } from '../problems/find-problems.ts'
import { type Part, type Parts, titleOf } from '../problems/parts.ts'
import { isNews, type Problem } from '../problems/stream-problems.ts'
import { minuteStateOf, problemsByKey, stateOfStream } from '../problems/stream-state.ts'
import { forgetOldActions, noteAction } from '../store/book/actions.ts'
import { forgetOldProblems, noteProblems } from '../store/book/problems.ts'
import { readProgress } from '../store/book/progress.ts'
import { settleRepaired } from '../store/book/quarantine.ts'
import { noteSilenced } from '../store/book/silences.ts'
import { pausedStreams } from '../store/book/streams.ts'
import type { Target } from '../store/book/targets.ts'
import {
  type Ages,
  forgetWorker,
  type MinuteState,
  noteRequests,
  noteStandings,
  noteStateMinutes,
  noteWorker,
  readServicesWorked,
  readStandings,
  type Standing,
  type StateMinutes,
  thinMinutes,
  type WorkerLine,
} from '../store/book/watch.ts'
import { relatedBeside } from '../streams/catalog.ts'
import { estimate, isLogged, readingInWords } from '../streams/load-progress.ts'
import { formatDuration, plural } from '../util/text.ts'
import { withTimeout } from '../util/waiting.ts'
import type { Pauses } from './health.ts'
import { openStreamMinutes, type RequestMinutes } from './minutes.ts'
import type { Jobs } from './queue/jobs.ts'

export type WorkerId = Pick<WorkerLine, 'id' | 'host' | 'pid' | 'version' | 'startedAt'>

export const databaseRhythmMs = 10_000
const rhythmWhileDownMs = 5_000
const beatTimeoutMs = 5_000

type BeatOptions = {
  readonly worker: WorkerId
  readonly pool: Pool
  readonly parts: Pick<Parts, 'list' | 'worked' | 'failed'>
  readonly running: () => WorkerLine['runs']
  readonly waits: Jobs['breaker']['waits']
  /** Which workers there are, this one among them. */
  readonly onLiving: (workers: readonly string[]) => void
  readonly signal: AbortSignal
}

/** Notes again and again that this worker is there, until the signal. Postgres works as long as that succeeds. */
export async function keepBeating(options: BeatOptions): Promise<void> {
  const { worker, pool, parts, running, waits, onLiving, signal } = options
  while (!signal.aborted) {
    const line = { ...worker, runs: running(), waits: waitsOf(waits(), partsDown(parts.list())) }
    const beat = noteWorker(pool, line).then(
      (living) => {
        parts.worked('database')
        onLiving(living)
      },
      (error) => parts.failed('database', error),
    )
    await withTimeout(beatTimeoutMs, beat).catch((tooLate) => parts.failed('database', tooLate))
    // One that hangs is not started again, so that nothing piles up behind it.
    await beat
    const isUp = parts.list().every(({ kind, isUp: works }) => kind !== 'database' || works)
    await untilNextBeat(pool, isUp ? databaseRhythmMs : rhythmWhileDownMs, signal)
  }
}

/** A connection that breaks while nobody uses it may be the first sign that Postgres is gone. */
async function untilNextBeat(pool: Pool, ms: number, signal: AbortSignal): Promise<void> {
  const broken = new AbortController()
  const onBroken = () => broken.abort()
  pool.once('error', onBroken)
  const either = AbortSignal.any([signal, broken.signal])
  await wait(ms, undefined, { signal: either, ref: false }).catch(() => null)
  pool.off('error', onBroken)
  if (broken.signal.aborted) await wait(brokenPauseMs, undefined, { signal, ref: false }).catch(() => null)
}
/** So many break at once. */
const brokenPauseMs = 1_000

/** A part that is down is named once, with the time of the next try where runs met it. */
const waitsOf = (met: ReturnType<BeatOptions['waits']>, down: readonly Part[]): WorkerLine['waits'] => [
  ...met
    .filter(({ partName }) => !down.some(({ name }) => name === partName))
    .map(({ what, until }) => ({ what, until })),
  ...down.map((part) => ({
    what: titleOf(part),
    part,
    until: met.find(({ partName }) => partName === part.name)?.until ?? null,
  })),
]

export function ownVersion(): string {
  const file = new URL('../../package.json', import.meta.url)
  const { version }: { version: string } = JSON.parse(readFileSync(file, 'utf8'))
  return version
}

export function newWorkerId(): WorkerId {
  const version = ownVersion()
  const [host, pid] = [hostname(), process.pid]
  const id = `${host}-${pid}-${randomBytes(4).toString('hex')}`
  return { id, host, pid, version, startedAt: new Date() }
}

type Options = {
  readonly worker: WorkerId
  readonly context: SyncContext
  /** After how long what was marked as deleted is erased; null: never. */
  readonly forgetAfterMs: (stream: string) => number | null
  readonly parts: Pick<Parts, 'worked' | 'list'>
  readonly pauses: Pick<Pauses, 'note'>
  readonly problems: () => Promise<readonly Problem[]>
  readonly targets: () => readonly Target[]
  readonly running: () => WorkerLine['runs']
  /** Which workers there are, the one that began first before the others. */
  readonly living: () => readonly string[]
  readonly requests: Pick<RequestMinutes, 'take'>
  readonly signal: AbortSignal
  readonly log: Logger
}
export type Watch = {
  /** Takes this worker's line away. */
  stop(): Promise<void>
}

const everyMs = { look: 15_000, log: 30_000, thin: 3_600_000 }
/** Time enough for each worker to note what it saw, and for what is over to end. */
const settledLooks = 5
/** Then one look a minute. */
const restingMs = 55_000
/** Before reports take what a worker noted for old. */
const standingLastsMs = 170_000

export function startWatch(options: Options): Watch {
  const { worker, context, signal, log } = options
  const { pool } = context.database
  const states = openStates(options)
  const regularly = (ms: number, what: string, work: () => Promise<void>) => {
    let isAtIt = false
    const once = async () => {
      if (isAtIt || signal.aborted) return
      isAtIt = true
      await work().catch((error) => log.debug({ err: error }, `could not note ${what}`))
      isAtIt = false
    }
    void once()
    return setInterval(once, ms).unref()
  }
  // One looks for all: whoever is there for longest.
  const isFirst = () => [undefined, worker.id].includes(options.living()[0])
  const timers = [
    regularly(everyMs.look, 'how the streams are', async () => {
      if (!isFirst()) await states.lookAtParts()
      else if (!states.mayRest()) await states.look()
    }),
    regularly(everyMs.look, 'what was asked', () => noteAsked(options, options.living().length > 1)),
    regularly(everyMs.thin, 'what is old', async () => {
      await thinMinutes(pool, options.targets())
      await forgetOldProblems(pool)
      await forgetOldActions(pool, hostname())
      if (isFirst()) await forgetOldRows(options)
    }),
    regularly(everyMs.log, 'how far readings are', async () => {
      const isLong = (since: Date) => Date.now() - since.getTime() >= everyMs.log / 2
      if ((isFirst() && states.isLoading()) || options.running().some(({ since }) => isLong(since)))
        await logProgress(options, isFirst())
    }),
  ]
  return {
    async stop() {
      timers.forEach(clearInterval)
      await noteRequests(pool, worker.id, options.requests.take())
      await states.end()
      await forgetWorker(pool, worker.id)
    },
  }
}

async function forgetOldRows({ context, forgetAfterMs, signal }: Options): Promise<void> {
  const { pool } = context.database
  for (const { stream, rows, ageMs } of await forgetDeleted(context, { ageOf: forgetAfterMs, signal })) {
    const told = `Erased ${plural(rows, 'row')} that had been marked as deleted for longer than ${formatDuration(ageMs)}.`
    const by = { who: '', door: 'worker', address: hostname() }
    const erased = { action: 'erase', target: stream, stream, reason: null, confirmed: null, before: null }
    await noteAction(pool, { ...by, ...erased }, { result: 'done', told })
  }
}

/** Requests of a minute are noted when it is over; at once if some failed, or other workers know by them that a service works. */
async function noteAsked(
  { worker, context, parts, pauses, requests }: Options,
  hasOthers: boolean,
): Promise<void> {
  const { pool } = context.database
  await noteRequests(pool, worker.id, requests.take({ onlyWholeOrFailed: !hasOthers }))
  // Whoever is alone sees that with the states of the streams.
  if (!hasOthers) return
  pauses.note(await pausedStreams(pool))
  // Requests of other workers show as well that a service works.
  for (const { service, agoMs } of await readServicesWorked(pool)) parts.worked(service, agoMs)
}

/** What is noted of the streams, and of problems. */
function openStates(options: Options) {
  const { context, parts } = options
  const { pool } = context.database
  const minutes = openStreamMinutes()
  let [standings, notedMs]: [string, number] = ['', Number.NEGATIVE_INFINITY]
  let [quietLooks, lookedMs, isLoading] = [0, Number.NEGATIVE_INFINITY, true]
  const note = async (lines: readonly StateMinutes[]) => {
    if (lines.length > 0) await noteStateMinutes(pool, lines)
  }
  const ownProblems = () => problemsOfParts({ parts: parts.list() }, new Date())
  return {
    /** Nothing was wrong for so long that what is noted of problems is settled, and nothing is under way. */
    mayRest: () =>
      quietLooks >= settledLooks &&
      performance.now() - lookedMs < restingMs &&
      options.running().length === 0 &&
      ownProblems().length === 0,
    isLoading: () => isLoading,
    async look() {
      const found = await options.problems()
      const lasting = found.filter(({ kind }) => !isNews(kind))
      const seen = await statesOf(options, found)
      const isQuiet = lasting.length === 0 && seen.every(({ state }) => state === 'live')
      ;[quietLooks, lookedMs] = [isQuiet ? quietLooks + 1 : 0, performance.now()]
      isLoading = seen.some(({ state }) => state === 'loading')
      const told = JSON.stringify(seen.map(({ stream, state, reason }) => ({ stream, state, reason })))
      const nowMs = performance.now()
      if (told !== standings || nowMs - notedMs >= standingLastsMs) {
        await noteStandings(pool, seen)
        ;[standings, notedMs] = [told, nowMs]
      }
      const inMinute = seen.map(({ inMinute: state, stream, readAge, settledAge, deletionsAge }) => {
        return { stream, state, readAge, settledAge, deletionsAge }
      })
      await note(minutes.saw(inMinute, new Date()))
      await noteProblems(pool, lasting)
      await noteSilenced(pool, found, { seesAll: true })
      await settleQuarantine(options, found)
    },
    /** Only this worker sees them. */
    async lookAtParts() {
      await note(minutes.end(new Date()))
      const found = ownProblems()
      if (found.length === 0) return
      await noteProblems(pool, found, { seesAll: false })
      await noteSilenced(pool, found, { seesAll: false })
    },
    end: () => note(minutes.end(new Date())),
  }
}

/** A record that was corrected upstream and came again is a problem no more; the next look no longer finds it. */
async function settleQuarantine({ context, log }: Options, found: readonly Problem[]): Promise<void> {
  const { streams, database } = context
  const hasEntries = ({ name }: { readonly name: string }) =>
    found.some(({ kind, stream }) => kind === 'quarantine' && stream === name)
  for (const stream of [...streams, ...relatedBeside(streams)].filter(hasEntries)) {
    const records = await settleRepaired(database.pool, stream)
    const text = `${plural(records, 'record')} in quarantine came again, and ${records === 1 ? 'is a row' : 'are rows'} now`
    if (records > 0) log.info({ stream: stream.name, records }, text)
  }
}

async function statesOf(
  { context, pauses }: Options,
  found: readonly Problem[],
): Promise<readonly (Standing & Ages & { readonly inMinute: MinuteState })[]> {
  const { database, streams } = context
  const names = streams.map(({ name }) => name)
  const standings = await readStandings(database.pool, names)
  pauses.note(new Set(standings.flatMap(({ stream, paused }) => (paused === null ? [] : [stream]))))
  const problems = problemsByKey(found)
  const services = new Map(streams.map(({ name, service }) => [name, service]))
  return standings.map((one) => {
    const service = services.get(one.stream) ?? 'assignment'
    const { tone, state, reason } = stateOfStream(one, service, problems)
    const { stream, readAge, settledAge, deletionsAge } = one
    return { stream, readAge, settledAge, deletionsAge, inMinute: minuteStateOf({ tone }), state, reason }
  })
}

/** Logs how far long readings of this worker have come, and which first loads stand still, whichever worker does them. */
async function logProgress({ context, running, log }: Options, isFirst: boolean): Promise<void> {
  const now = new Date()
  const names = context.streams.map(({ name }) => name)
  for (const progress of await readProgress(context.database.pool, names)) {
    const isOwn = running().some(({ stream }) => stream === progress.stream)
    const isLong = now.getTime() - progress.beganAt.getTime() >= everyMs.log / 2
    const seen = estimate(progress, now)
    if (!isLogged(progress, { isOwn, isLong, isStalled: seen.stalled !== null, isFirst })) continue
    const { stream, reading, rows, total } = progress
    const { share, rowsPerSecond } = seen
    const fields = { stream, reading, rows, total, share, rowsPerSecond, ...leftOf(seen) }
    log[seen.stalled ? 'warn' : 'info'](fields, readingInWords(progress, seen, now))
  }
}

const leftOf = ({ left }: ReturnType<typeof estimate>) =>
  left && {
    secondsLeftAtLeast: Math.round(left.leastMs / 1000),
    secondsLeftAtMost: left.mostMs === null ? null : Math.round(left.mostMs / 1000),
  }
