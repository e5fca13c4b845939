// How often may be asked, and until when not at all, of all requests that go to one place with one sign-in: those of this process, and with
// a store those of every program that has the same store (P10, P19). While the store is away, this process takes its share.

import type { Logger } from '../../log.ts'
import { type BackoffPolicy, leftUntil, longestAskedMs } from '../../util/backoff.ts'
import { messageOf } from '../../util/errors.ts'
import { sentence } from '../../util/text.ts'
import { openTurns } from '../../util/turns.ts'
import { type Clock, systemClock, withTimeout } from '../../util/waiting.ts'
import { type CircuitPlace, type Circuits, openCircuits, type StoredCircuit } from './circuit.ts'
import type { Told } from './circuit-state.ts'

/** An answer asked for no requests for a while. */
export type Pause = Told & { readonly untilMs: number; readonly askedMs: number }
/** The same, by nobody's clock. */
export type SharedPause = Told & { readonly leftMs: number }

export type Reservation = {
  /** False: it would be too long until then, or there is a pause. Nothing is reserved. */
  readonly isReserved: boolean
  /** Until the first of the requests. */
  readonly waitMs: number
  readonly pause: SharedPause | null
  /** Of its host; left out: it was not asked for. */
  readonly circuit?: StoredCircuit
}
/** Where all programs of a deployment keep their budgets. Its own clock counts. */
export type BudgetStore = CircuitPlace & {
  /** For people. */
  readonly place: string
  /** The next requests, `gapMs` apart. Asked for none, it tells only whether there is a pause. With what is known of the host, if that is named. */
  reserve(
    bucket: string,
    wanted: { readonly count: number; readonly gapMs: number; readonly longestMs: number },
    host?: string | null,
  ): Promise<Reservation>
  /** The later of two pauses holds. */
  pause(bucket: string, pause: SharedPause): Promise<void>
}

/** Of one bucket. */
export type Budget = {
  /**
   * Waits for its turn and returns how long that took; null: there is no limit. Requests that give way wait one at a time: so at most one is
   * ahead of any other. `meanwhile`: what it waits for besides before it is sent, and how many soon follow it. The next one has its turn after that.
   */
  take(
    requestsPerSecond: number | null,
    signal: AbortSignal,
    how?: {
      readonly lowPriority?: boolean
      readonly soon?: number
      readonly meanwhile?: (soon: number) => Promise<void>
    },
  ): Promise<number>
  /** Null: none is known. */
  pauseNow(): Promise<Pause | null>
  heed(pause: Pause): void
  /** The service says that they are too many, and not until when: what all may send is put off a little. */
  wereTooMany(): void
  /** The pause is over, and one request tries: the promise that others wait for. */
  first: Promise<void> | null
  forgetPause(): void
}
export type Budgets = ReturnType<typeof openBudgets>

type Options = {
  readonly clock?: Clock
  /** Left out: there is nobody else. */
  readonly store?: BudgetStore | null
  /** How many workers were there when that was last known; 0: it never was. */
  readonly workers?: () => number
  /** How long a host that fails is left alone. */
  readonly circuitPolicy?: BackoffPolicy
  readonly log?: Logger
}

/** At higher rates several requests are reserved at once, worth so long. */
const atOnceMs = 200
const longestReservedMs = 2_000
/** Without a budget, a pause that others were told is looked up so often at most, and only while requests are sent. */
const lookEveryMs = 250
const putOffMs = 500
/** Requests that were under way together may all get that answer. */
const putOffEveryMs = 1_000
const samePauseMs = 1_000
const answerMs = 2_000
const awayMs = 2_000
const mostWorkers = 8

/** Nothing when the clock was put back meanwhile: it would last longer than was asked for. */
export const leftOf = ({ untilMs, askedMs }: Pause, nowMs: number): number =>
  leftUntil(untilMs, nowMs, askedMs + samePauseMs)

/** One for each process. */
export function openBudgets(options: Options = {}) {
  const { clock = systemClock, store = null, workers = () => 0, circuitPolicy: policy } = options
  const known = new Map<string, Budget>()
  const shared = store && openShared({ ...options, store, workers })
  const circuits = openCircuits({ clock, shared, ...(policy && { policy }) })
  return {
    circuits,
    /** `host`: where its requests go. */
    of(bucket: string, host?: string): Budget {
      const budget = known.get(bucket) ?? openBudget({ bucket, host: host ?? null, circuits }, clock, shared)
      known.set(bucket, budget)
      return budget
    },
  }
}

/** The store, as it is used: what it does not answer in time is done without it. */
type Shared = ReturnType<typeof openShared>

function openShared({
  store,
  workers,
  log,
}: Options & { readonly store: BudgetStore; readonly workers: () => number }) {
  let awayUntilMs = Number.NEGATIVE_INFINITY
  let isAway = false
  const sharers = () => Math.min(mostWorkers, workers() || mostWorkers)
  const hanging = new Set<Promise<unknown>>()
  /** Null: it is away. One that hangs is asked no more, so that nothing piles up behind it. */
  async function ask<Answer>(work: () => Promise<Answer>): Promise<Answer | null> {
    if (performance.now() < awayUntilMs || (isAway && hanging.size > 0)) return null
    const asked = work()
    hanging.add(asked)
    const forget = () => void hanging.delete(asked)
    asked.then(forget, forget)
    try {
      const answer = await withTimeout(answerMs, asked)
      if (isAway) log?.info(`The budget of requests is kept in ${store.place} again.`)
      isAway = false
      return answer
    } catch (error) {
      awayUntilMs = performance.now() + awayMs
      if (!isAway)
        log?.warn(
          `The budget of requests cannot be kept in ${store.place}: ${sentence(messageOf(error))} Until it can, this program asks on its own, with 1/${sharers()} of REQUESTS_PER_SECOND where that is set.`,
        )
      isAway = true
      return null
    }
  }
  return {
    sharers,
    /** There is nobody who could be told to wait. */
    isAlone: () => workers() === 1,
    reserve: (...asked: Parameters<BudgetStore['reserve']>) => ask(() => store.reserve(...asked)),
    pause: (...told: Parameters<BudgetStore['pause']>) => void ask(() => store.pause(...told)),
    circuit: (...asked: Parameters<BudgetStore['circuit']>) => ask(() => store.circuit(...asked)),
  }
}

type Place = { readonly bucket: string; readonly host: string | null; readonly circuits: Circuits }

function openBudget({ bucket, host, circuits }: Place, clock: Clock, shared: Shared | null): Budget {
  let pause: Pause | null = null
  let lookedMs = Number.NEGATIVE_INFINITY
  let looking: Promise<void> | null = null
  let toldMs = Number.NEGATIVE_INFINITY
  const leftOfPause = () => (pause === null ? 0 : leftOf(pause, clock.now()))

  function keep(found: Pause): void {
    // A pause from before the clock was put back is over, though it would end later.
    if (leftOfPause() === 0 || found.untilMs > (pause?.untilMs ?? 0)) pause = found
  }
  const reserve = shared && {
    sharers: shared.sharers,
    async of(count: number, gapMs: number): Promise<Reservation | null> {
      const longestMs = Math.max(longestReservedMs, 2 * gapMs)
      const found = await shared.reserve(bucket, { count, gapMs, longestMs }, host)
      lookedMs = performance.now()
      if (host !== null && found?.circuit) circuits.seen(host, found.circuit)
      if (found?.pause && found.pause.leftMs <= longestAskedMs) {
        const { leftMs, ...told } = found.pause
        const untilMs = clock.now() + leftMs
        // A known one comes back a little later than it was told, and is as long as before.
        const known = pause !== null && Math.abs(untilMs - pause.untilMs) < samePauseMs ? pause : null
        keep({ ...told, untilMs, askedMs: known?.askedMs ?? leftMs })
      }
      return found
    },
  }
  async function look(): Promise<void> {
    await reserve?.of(0, 0)
    looking = null
  }
  const limit = openRateLimit({ clock, reserve, isPaused: () => leftOfPause() > 0 })
  return {
    first: null,
    take: limit.take,
    async pauseNow() {
      const isKnown = leftOfPause() > 0 || shared === null || shared.isAlone()
      if (!isKnown && performance.now() - lookedMs > lookEveryMs) {
        looking ??= look()
        await looking
      }
      return pause
    },
    heed(found) {
      keep(found)
      const { untilMs, askedMs, ...told } = found
      const leftMs = untilMs - clock.now()
      if (leftMs > 0) shared?.pause(bucket, { ...told, leftMs })
    },
    wereTooMany() {
      if (shared === null || performance.now() - toldMs < putOffEveryMs) return
      toldMs = performance.now()
      void shared.reserve(bucket, { count: 1, gapMs: putOffMs, longestMs: longestReservedMs })
    },
    forgetPause() {
      pause = null
    },
  }
}

type RateLimitOptions = {
  readonly clock: Clock
  /** Null: there is nobody else. */
  readonly reserve?: {
    sharers(): number
    /** Null: nobody can say. */
    of(count: number, gapMs: number): Promise<Reservation | null>
  } | null
  /** Nobody may be sent, so nothing is reserved. */
  readonly isPaused?: () => boolean
}

type Wanted = {
  readonly requestsPerSecond: number
  readonly signal: AbortSignal
  readonly soon: number
  readonly meanwhile: (soon: number) => Promise<void>
}

/** Keeps a least time from one request to the next. Nothing is saved up while nobody asks. */
export function openRateLimit(options: RateLimitOptions): Pick<Budget, 'take'> {
  const { clock, reserve = null, isPaused = () => false } = options
  let lastMs = Number.NEGATIVE_INFINITY
  let waiting = 0
  let reserved = { nextMs: 0, left: 0, endsMs: 0 }

  const mostAtOnce = (gapMs: number, soon: number): number =>
    Math.max(1, Math.min(Math.max(waiting, soon), Math.floor(atOnceMs / gapMs)))

  /** Returns how far apart requests are for now. */
  async function waitForPlace(gapMs: number, { signal, soon }: Wanted): Promise<number> {
    while (reserve && !isPaused()) {
      signal.throwIfAborted()
      const nowMs = clock.now()
      if (reserved.left > 0 && nowMs < reserved.endsMs && reserved.endsMs - nowMs < 2 * longestReservedMs) {
        reserved = { ...reserved, nextMs: reserved.nextMs + gapMs, left: reserved.left - 1 }
        await clock.waitUntil(reserved.nextMs, signal)
        return gapMs
      }
      const count = mostAtOnce(gapMs, soon)
      const found = await reserve.of(count, gapMs)
      if (found === null) return gapMs * reserve.sharers()
      const firstMs = clock.now() + found.waitMs
      if (found.isReserved) {
        const endsMs = firstMs + count * gapMs + atOnceMs
        reserved = { nextMs: firstMs, left: count - 1, endsMs }
        await clock.waitUntil(firstMs, signal)
        return gapMs
      }
      if (found.pause) return gapMs
      // Others are ahead: asks again when there may be a place.
      const againMs = Math.min(found.waitMs, longestReservedMs) * (0.5 + Math.random() / 2)
      await clock.waitUntil(clock.now() + againMs, signal)
    }
    return gapMs
  }

  async function takeToken(wanted: Wanted): Promise<void> {
    const { signal, soon, meanwhile } = wanted
    const gapMs = 1000 / wanted.requestsPerSecond
    signal.throwIfAborted()
    const intervalMs = await waitForPlace(gapMs, wanted)
    const nowMs = clock.now()
    // Never longer than one interval, even if the clock was set back meanwhile.
    const waitMs = Math.min(lastMs + intervalMs - nowMs, intervalMs)
    if (waitMs > 0) await clock.waitUntil(nowMs + waitMs, signal)
    await meanwhile(mostAtOnce(gapMs, soon))
    lastMs = clock.now()
  }

  const [oneByOne, givingWay] = [openTurns(), openTurns()]
  return {
    async take(
      requestsPerSecond,
      signal,
      { lowPriority = false, soon = 0, meanwhile = async () => {} } = {},
    ) {
      const askedMs = clock.now()
      if (requestsPerSecond === null) {
        await meanwhile(soon)
        return 0
      }
      waiting++
      try {
        const takeTurn = () => oneByOne(() => takeToken({ requestsPerSecond, signal, soon, meanwhile }))
        await (lowPriority ? givingWay(takeTurn) : takeTurn())
      } finally {
        waiting--
      }
      return clock.now() - askedMs
    },
  }
}
