// Faults of the parts around the workers, drawn at random, one after the other. Each second the health of each worker is compared with the
// truth: within two minutes of a fault it has to be not ready, or people have to have been told; two minutes after its end it has to be ready.

import { setTimeout as wait } from 'node:timers/promises'
import type { AlertReceiver } from '../support/alert-receiver.ts'
import type { Finding } from './verdict.ts'

export type PartFault = {
  readonly name: string
  /** What an alert about it begins with. */
  readonly sentence: RegExp
  /** The worker serves the mirror meanwhile, so it stays ready; an alert tells. */
  readonly staysReady?: boolean
  /** The workers mend it sooner than anybody has to be told. */
  readonly healsItself?: boolean
  readonly begin: () => Promise<unknown>
  readonly end: () => Promise<unknown>
}

type Options = {
  readonly faults: readonly PartFault[]
  /** Of each worker, where it says whether it is ready. */
  readonly readyUrls: readonly string[]
  readonly alerts: AlertReceiver
  readonly random: () => number
  readonly signal: AbortSignal
  readonly say: (what: string) => void
}

type Tried = {
  readonly name: string
  readonly beganMs: number
  toldMs: number | null
  silentSeconds: number
  endedMs: number | null
  wellMs: number | null
}
/** `fault`: the one that is there, or null. */
type Truth = {
  /** When the workers were started. */
  readonly startedMs: number
  fault: PartFault | null
  readonly tried: Tried[]
  falseSeconds: number
  lookedSeconds: number
}

/** Within this people are told, and a worker is well again. */
const withinMs = 120_000
const shortestMs = 130_000
const quietMs = 45_000
const secondMs = 1_000

/** Ends after the signal, with everything well. */
export async function drawFaults(options: Options): Promise<readonly Finding[]> {
  const { faults, random, signal, say } = options
  const startedMs = performance.now()
  const truth: Truth = { startedMs, fault: null, tried: [], falseSeconds: 0, lookedSeconds: 0 }
  const done = new AbortController()
  const comparing = compareWithTruth(options, truth, done.signal)
  const pause = (ms: number) => wait(ms, undefined, { signal }).catch(() => {})
  let left: PartFault[] = []
  await pause(quietMs)
  while (!signal.aborted) {
    if (left.length === 0) left = [...faults]
    // Each once before any comes again.
    const [fault] = left.splice(Math.floor(random() * left.length), 1)
    if (!fault) break
    say(`begins: ${fault.name}`)
    const one: Tried = {
      ...{ name: fault.name, beganMs: performance.now(), toldMs: null, silentSeconds: 0 },
      ...{ endedMs: null, wellMs: null },
    }
    truth.tried.push(one)
    truth.fault = fault.healsItself ? null : fault
    await fault.begin()
    if (!fault.healsItself) await pause(shortestMs + random() * 40_000)
    // What ends it may take a while, and work is well before that is over.
    truth.fault = null
    await fault.end()
    one.endedMs = performance.now()
    await pause(quietMs + random() * quietMs)
    say(`over: ${wordsOf(one)}`)
  }
  done.abort()
  await comparing
  return findingsOf(truth, say)
}

async function compareWithTruth(options: Options, truth: Truth, done: AbortSignal): Promise<void> {
  while (!done.aborted) {
    await Promise.all([wait(secondMs), lookOnce(options, truth)])
    truth.lookedSeconds++
  }
}

async function lookOnce({ readyUrls, alerts }: Options, truth: Truth): Promise<void> {
  const { fault } = truth
  const one = truth.tried.at(-1)
  const ready = await Promise.all(readyUrls.map(isReady))
  // It began or ended meanwhile.
  if (truth.fault !== fault) return
  const nowMs = performance.now()
  if (one && fault) {
    const isSaid = openAlerts(alerts).some((what) => fault.sentence.test(what))
    const isShown = fault.staysReady === true || ready.every((is) => !is)
    if (isSaid && isShown) one.toldMs ??= nowMs - one.beganMs
    if (!(isSaid && isShown) && nowMs - one.beganMs > withinMs) one.silentSeconds++
    return
  }
  // It is being ended, or heals by itself.
  if (one && one.endedMs === null) return
  const isWell = ready.every((is) => is)
  if (one && isWell) one.wellMs ??= nowMs - (one.endedMs ?? nowMs)
  if (!isWell && nowMs - (one?.endedMs ?? truth.startedMs) > withinMs) truth.falseSeconds++
}

const isReady = (url: string): Promise<boolean> =>
  fetch(url, { signal: AbortSignal.timeout(5 * secondMs) }).then(
    ({ ok }) => ok,
    () => false,
  )

/** What people were told of and not told to be over. */
function openAlerts(alerts: AlertReceiver): readonly string[] {
  const open = new Map<string, string>()
  for (const { event, key, what } of alerts.received())
    if (event === 'began') open.set(key, what)
    else open.delete(key)
  return [...open.values()]
}

const seconds = (ms: number | null): string => (ms === null ? 'never' : `after ${(ms / 1000).toFixed(0)} s`)
const wordsOf = ({ name, toldMs, wellMs, silentSeconds }: Tried): string =>
  `${name}: told ${seconds(toldMs)}, ready ${seconds(wellMs)}, ${silentSeconds} silent seconds`

function findingsOf({ tried, falseSeconds, lookedSeconds }: Truth, say: Options['say']): readonly Finding[] {
  for (const one of tried) say(`fault: ${wordsOf(one)}`)
  const silent = tried.reduce((sum, { silentSeconds }) => sum + silentSeconds, 0)
  const whole = tried.filter(({ endedMs, beganMs }) => endedMs !== null && endedMs - beganMs >= withinMs)
  return [
    {
      what: 'no silent minute: each fault is told of within two minutes',
      isFine: silent === 0 && whole.every(({ toldMs }) => toldMs !== null && toldMs <= withinMs),
      told: `${(silent / 60).toFixed(1)} silent minutes of ${(lookedSeconds / 60).toFixed(1)}, in ${tried.length} faults`,
    },
    {
      what: 'ready whenever there is no fault, two minutes after the last one',
      isFine: falseSeconds === 0,
      told: `${(falseSeconds / 60).toFixed(1)} minutes not ready without a fault`,
    },
  ]
}
