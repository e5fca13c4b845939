// Which parts the work of a worker depends on, how long each may be silent, and who is told when one does not work. All of it is there
// from the first moment, before anything is connected.

import { scheduleOf } from '../config/dynamic-settings.ts'
import type { Config } from '../config/load.ts'
import { lastSlot, type Schedule } from '../config/parsers.ts'
import { streamsIn } from '../configured.ts'
import type { Pool } from '../context.ts'
import type { Logger } from '../log.ts'
import { runAlertLoop } from '../problems/alert-loop.ts'
import { sendTests } from '../problems/deliver.ts'
import { problemsOfParts } from '../problems/find-problems.ts'
import {
  type GivenPart,
  isDiskFull,
  openParts,
  type Parts,
  type Returned,
  titleOf,
} from '../problems/parts.ts'
import { alertingOf, timingOf } from '../problems/receivers.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { noteEnd, openAlertBook } from '../store/book/problems.ts'
import { readSilences } from '../store/book/silences.ts'
import type { Stream } from '../streams/catalog.ts'
import { sourceIn } from '../streams/names.ts'
import { UsageError } from '../util/errors.ts'
import { queueRhythmMs } from './queue/canary.ts'
import type { Jobs } from './queue/jobs.ts'
import type { Mirror } from './start.ts'
import { databaseRhythmMs } from './watch.ts'

/** The receivers of alerts among the parts. */
const partName = 'alerts'

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
      name: 'database',
      kind: 'database',
      longestSilenceMs: () => 2 * databaseRhythmMs,
      outage() {
        // Runs may need room where the worker's own small writes need none.
        const error = outageOf('database')
        return isDiskFull(error) ? error : null
      },
      onReturn: () => jobs()?.breaker.tryAgain('database'),
    },
    {
      name: 'queue',
      kind: 'queue',
      longestSilenceMs: () => 2 * queueRhythmMs,
      onReturn: () =>
        void jobs()
          ?.planNow()
          .catch(() => {}),
    },
    ...[...services].map(
      (name): GivenPart => ({
        name,
        kind: 'service',
        outage: () => outageOf(name),
        longestSilenceMs() {
          const all = streams().flatMap((stream) => {
            // The services of other sources are no parts: only that source waits for them.
            if (stream.service !== name || sourceIn(stream.name) !== '') return []
            const silenceMs = longestSilenceOf(scheduleOf(config.dynamic.now(), stream), new Date())
            // A stream that was resumed has that long for its first request.
            return pauses.readForMs(stream.name) > silenceMs ? [silenceMs] : []
          })
          return all.length === 0 ? null : Math.min(...all)
        },
      }),
    ),
    {
      name: partName,
      kind: 'receiver',
      longestSilenceMs: () => null,
      isThere() {
        if (config.alertWebhookUrl !== null || config.alerts !== null) return true
        const { receivers, unusable } = alertingOf(config)
        return receivers.length + unusable.length > 0
      },
    },
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

const theSettings = 'the settings'

/** How each receiver took what was sent last; the part works when all do, and the file of their settings has no mistakes. */
export function openReceivers(parts: Pick<Parts, 'list' | 'worked' | 'failed' | 'forget'>) {
  const failures = new Map<string, { readonly error: unknown; readonly at: Date }>()
  const show = (otherwise: 'worked' | 'forget') => {
    const [first] = failures.values()
    if (first) parts.failed(partName, first.error)
    else parts[otherwise](partName)
  }
  const note = (name: string, error: unknown) => {
    failures.delete(name)
    if (error !== null) failures.set(name, { error, at: new Date() })
    show('worked')
  }
  return {
    sent: note,
    /** A test that failed stands in no book: it counts until something was accepted, whichever worker sent it. */
    allSent(name: string, isUnsent: boolean, lastToldAt: Date | null) {
      const failed = failures.get(name)
      if (!failed || !(isUnsent || (lastToldAt && lastToldAt > failed.at))) return
      failures.delete(name)
      show('forget')
    },
    settingsSay(problem: string | null) {
      if (problem !== null) note(theSettings, new Error(problem))
      else if (failures.delete(theSettings)) show('forget')
    },
    /** Of receivers that are not there any more nothing is said. */
    keep(names: readonly string[]) {
      for (const name of failures.keys())
        if (name !== theSettings && !names.includes(name) && failures.delete(name)) show('forget')
    },
  }
}
type Receivers = ReturnType<typeof openReceivers>

/** What was set up in the console is looked up every four seconds, and promised to be taken up within five. */
const settingsEveryMs = 1_000

type Alerting = {
  readonly config: Config
  readonly parts: Parts
  readonly receivers: Receivers
  /** Null before Postgres is open. */
  readonly mirror: () => Mirror | null
  readonly now: () => Date
  readonly signal: AbortSignal
  readonly log: Logger
}

/** Goes on by itself until the signal: a loop for each receiver, as the settings are at the moment. */
export function alertPeople(options: Alerting): void {
  const { config, receivers, signal, log } = options
  const running = new Set<string>()
  const problems = openFindings(options)
  let told = ''
  const look = () => {
    const { receivers: all, problem, unusable, remarks } = alertingOf(config)
    const names = all.map(({ name }) => name)
    const mistakes = [problem ?? [], unusable].flat()
    const said = [mistakes, remarks].flat().join('\n')
    if (said !== told && said !== '') log.warn(`Alerts are not set up as they should be: ${said}`)
    if (said !== told && told !== '' && said === '') log.info('Alerts are set up as they should be again')
    told = said
    receivers.settingsSay(mistakes.length === 0 ? null : mistakes.join('\n'))
    receivers.keep(names)
    for (const name of names.filter((one) => !running.has(one))) {
      running.add(name)
      void alertOne({ ...options, problems, name }).finally(() => running.delete(name))
    }
  }
  look()
  const timer = setInterval(look, settingsEveryMs).unref()
  signal.addEventListener('abort', () => clearInterval(timer))
}

/** The receivers look one after the other, and need not look up the same. */
const findingsLastMs = 5_000

function openFindings({ mirror }: Pick<Alerting, 'mirror'>) {
  let [found, atMs]: [ReturnType<Mirror['problems']> | null, number] = [null, 0]
  return async () => {
    if (found === null || performance.now() - atMs > findingsLastMs)
      [found, atMs] = [mirror()?.problems() ?? null, performance.now()]
    return (await found) ?? []
  }
}

type Loop = Alerting & {
  readonly problems: () => Promise<readonly Problem[]>
  readonly name: string
}

async function alertOne({ config, parts, receivers, mirror, problems, name, ...given }: Loop): Promise<void> {
  const isUp = (part: string) => parts.list().some((one) => one.name === part && one.isUp)
  let isUnsent = false
  await runAlertLoop({
    ...given,
    asked(at) {
      const alerting = alertingOf(config)
      const receiver = alerting.receivers.find((one) => one.name === name)
      return receiver ? { receiver, timingOf: timingOf(alerting, name, at) } : null
    },
    database() {
      const there = mirror()
      if (there === null || !isUp('database')) return null
      const { pool } = there
      return { problems, silences: () => readSilences(pool), book: openAlertBook(pool, name) }
    },
    ownProblems: () => problemsOfParts({ parts: parts.list() }, new Date()),
    onSent(failure) {
      isUnsent = failure !== null
      receivers.sent(name, failure)
    },
    onAllSent(lastToldAt) {
      receivers.allSent(name, isUnsent, lastToldAt)
      isUnsent = false
    },
  })
}

const longestTestMs = 35_000

/** Sends a test to one receiver, or to all, which work or do not by what comes of it; null: there is none. */
export function testAlertOf(
  config: Config,
  receivers: Receivers,
): ((name: string | null) => Promise<string>) | null {
  const { receivers: all } = alertingOf(config)
  if (all.length === 0) return null
  return async (name) => {
    const wanted = all.filter((one) => name === null || one.name === name)
    const known = all.map((one) => one.name).join(', ')
    if (wanted.length === 0) throw new UsageError(`There is no receiver ${name}. There are ${known}.`)
    const tested = await sendTests(wanted, AbortSignal.timeout(longestTestMs))
    for (const { receiver, failure } of tested) receivers.sent(receiver, failure)
    const text = tested.map((one) => one.text).join(' ')
    if (tested.some(({ failure }) => failure !== null)) throw new Error(text)
    return text
  }
}
