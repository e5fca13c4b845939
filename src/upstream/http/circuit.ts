// Leaves hosts alone that do not answer as they should, and lets one request try them again: of all programs that share a place for what is
// known of them, and while that place is away of this one (P10, P19). What is decided is in circuit-state.ts.

import { type BackoffPolicy, backoff } from '../../util/backoff.ts'
import { type Alone, openTurns } from '../../util/turns.ts'
import type { Clock } from '../../util/waiting.ts'
import {
  type Asker,
  afterAnswered,
  afterClaimed,
  afterFailed,
  type CircuitState,
  type Held,
  heldFor,
  lastOf,
  mayBeTried,
  type Told,
  triedFrom,
} from './circuit-state.ts'
import { errorOf, type UpstreamError } from './errors.ts'
import type { HttpRequest } from './transport.ts'

/** With the time by the clock of where it is kept. */
export type StoredCircuit = { readonly state: CircuitState | null; readonly nowMs: number }
type Change = { readonly before: CircuitState | null; readonly after: CircuitState | null }
/** Where what is known of hosts is kept for all programs of a deployment. */
export type CircuitPlace = {
  /** Changes it unless somebody else has meanwhile; without a change it is looked up. */
  circuit(host: string, change?: Change | null): Promise<StoredCircuit & { readonly isChanged: boolean }>
}

/** Of one who asks a host. */
export type Circuit = ReturnType<typeof circuitOf>
export type Circuits = ReturnType<typeof openCircuits>

type Options = {
  readonly clock: Clock
  /** Null: there is nobody else. Its answers are null while it is away. */
  readonly shared: {
    isAlone(): boolean
    circuit(
      ...asked: Parameters<CircuitPlace['circuit']>
    ): Promise<Awaited<ReturnType<CircuitPlace['circuit']>> | null>
  } | null
  readonly policy?: BackoffPolicy
}

/** What others know is looked up so often at most, and only while requests are sent. */
const lookEveryMs = 250
/** While others fail, it is told so often at most that a host answers. */
const reportEveryMs = 1_000
/** Others may change it at the same time. */
const mostAttempts = 5
const longestTold = 300
/** So long one that tries a host may take though it answers others. */
const overtakenAfterMs = 5_000
const lookOvertakenMs = 1_000
/** One that tries is given so much more time than its request has. */
const moreMs = 5_000

export function openCircuits(options: Options) {
  const hosts = new Map<string, Host>()
  const hostOf = (host: string): Host => {
    const known = hosts.get(host) ?? openHost(host, options)
    hosts.set(host, known)
    return known
  }
  return {
    /** `longestMs`: so long a request takes at most. */
    of: (host: string, asker: Asker, longestMs: number): Circuit =>
      circuitOf(hostOf(host), asker, { ...options, host, longestMs: longestMs + moreMs }),
    /** It was found beside something else. */
    seen: (host: string, found: StoredCircuit) => hostOf(host).keep(found),
  }
}

type Host = ReturnType<typeof openHost>

/** What this program knows of a host. */
function openHost(host: string, { clock, shared }: Options) {
  let [state, aheadMs, lookedMs]: [CircuitState | null, number, number] = [null, 0, Number.NEGATIVE_INFINITY]
  let [recent, answeredMs] = ['', Number.NEGATIVE_INFINITY]
  let looking: Promise<void> | null = null
  const alone: Alone = openTurns()

  function keep(found: StoredCircuit): void {
    state = found.state
    aheadMs = found.nowMs - clock.now()
    lookedMs = performance.now()
  }
  /** By the clock of where it is kept. */
  const nowMs = (): number => clock.now() + aheadMs
  async function lookUp(): Promise<void> {
    const found = await shared?.circuit(host)
    if (found) keep(found)
    lookedMs = performance.now()
    looking = null
  }
  return {
    keep,
    nowMs,
    state: () => state,
    /** By its own clock. */
    answeredMs: () => answeredMs,
    /** Returns what came before. */
    note(isAnswered: boolean): string {
      if (isAnswered) answeredMs = clock.now()
      const before = recent
      recent = lastOf(`${recent}${isAnswered ? 1 : 0}`)
      return before
    },
    inOwnTime: (ms: number): Date => new Date(ms - aheadMs),
    async look(): Promise<void> {
      if (shared === null || shared.isAlone() || performance.now() - lookedMs <= lookEveryMs) return
      looking ??= lookUp()
      await looking
    },
    /** Null: nothing is to be changed. What others have changed meanwhile counts. */
    change(next: (state: CircuitState | null) => { readonly after: CircuitState | null } | null) {
      return alone(async () => {
        for (let attempt = 1; attempt <= mostAttempts; attempt++) {
          const change = next(state)
          if (change === null) return
          const found = (await shared?.circuit(host, { before: state, ...change })) ?? null
          if (found) keep(found)
          else state = change.after
          if (found === null || found.isChanged) return
        }
      })
    },
  }
}

type Place = Omit<Options, 'shared'> & { readonly host: string; readonly longestMs: number }

/** Of an exchange, by the clock that all workers share. */
function sharedTimes(known: Host, clock: Clock, startedMs: number) {
  const nowMs = known.nowMs()
  const aheadMs = nowMs - clock.now()
  return { nowMs, startedMs: startedMs + aheadMs, answeredMs: known.answeredMs() + aheadMs }
}

function circuitOf(known: Host, asker: Asker, { clock, policy = backoff.circuit, host, longestMs }: Place) {
  const reportAnswered = openReport(known, asker)

  function exchange(isTry = false, isOfHost = false) {
    const startedMs = clock.now()
    const { overtaken, end } = isOfHost ? watchOvertaken(known, clock, startedMs) : notOvertaken
    return {
      /** Of one that tries a host: aborted when it hangs and the host has answered another meanwhile. Its answer may never come. */
      overtaken,
      /** Somebody else may try. */
      async givenUp() {
        end()
        if (!isTry) return
        const now = { nowMs: known.nowMs(), longestMs: 0 }
        await known.change((state) => state && { after: afterClaimed(state, asker, now) })
      },
      answered() {
        end()
        known.note(true)
        reportAnswered()
      },
      async failed(told: Told) {
        end()
        const recent = known.note(false)
        const failed = { told: shortened(told), recent, policy, random: Math.random() }
        await known.change((before) => ({
          after: afterFailed(before, asker, { ...failed, ...sharedTimes(known, clock, startedMs) }),
        }))
      },
    }
  }
  const held = (): Held | null => heldFor(known.state(), asker)
  const error = (request: HttpRequest, found: Held): UpstreamError =>
    leftAloneError(request, found, known.inOwnTime(found.untilMs))

  return {
    host,
    /** Rejects when nothing is to be sent; looks only if that was so a moment ago. */
    async expect(request: HttpRequest): Promise<void> {
      if (held() === null) return
      await known.look()
      const found = held()
      if (found && !mayBeTried(found, known.nowMs())) throw error(request, found)
    },
    /** Rejects when nothing is to be sent. Whoever may send tells how it ended. */
    async begin(request: HttpRequest) {
      await known.look()
      let [isClaimed, isOfHost] = [held() === null, false]
      if (isClaimed) return exchange()
      await known.change((state) => {
        const found = heldFor(state, asker)
        const nowMs = known.nowMs()
        isClaimed = found === null || mayBeTried(found, nowMs)
        isOfHost = found?.whose === 'host'
        if (state === null || found === null || !isClaimed) return null
        return { after: afterClaimed(state, asker, { nowMs, longestMs }) }
      })
      const found = held()
      if (!isClaimed && found) throw error(request, found)
      return exchange(true, isOfHost)
    },
    /** Until when nothing may be sent, as all know it by now; null: it may. */
    async heldUntil() {
      await known.look()
      const found = held()
      return found && known.inOwnTime(triedFrom(found, known.nowMs()))
    },
  }
}

/** Others read it, and an answer may hold what is not for them. */
const shortened = ({ code, status, problem }: Told): Told => ({
  code,
  status,
  problem: status === null ? problem.slice(0, longestTold) : `status ${status}.`,
})

/** Looks while it is under way whether the host has answered another. */
function watchOvertaken(known: Host, { now }: Clock, startedMs: number) {
  const overtaken = new AbortController()
  async function look(): Promise<void> {
    if (now() - startedMs < overtakenAfterMs) return
    await known.look()
    if (known.state()?.host == null) overtaken.abort(new Error('the host answers others'))
  }
  const looking = setInterval(look, lookOvertakenMs).unref()
  return { overtaken: overtaken.signal, end: () => clearInterval(looking) }
}
const notOvertaken = { overtaken: null, end: () => {} }

/** Tells others that the host answers, while they may think that it does not. */
function openReport(known: Host, asker: Asker): () => void {
  let untold = 0
  let toldMs = Number.NEGATIVE_INFINITY
  return () => {
    const state = known.state()
    if (state === null) return
    untold++
    const isWaitedFor = state.host !== null || state.askers[asker.name] !== undefined
    if (!isWaitedFor && performance.now() - toldMs < reportEveryMs) return
    toldMs = performance.now()
    const count = untold
    untold = 0
    void known.change((before) =>
      before === null ? null : { after: afterAnswered(before, asker, { count, nowMs: known.nowMs() }) },
    )
  }
}

function leftAloneError(request: HttpRequest, { whose, told }: Held, until: Date): UpstreamError {
  const why =
    whose === 'host' ? `requests of several sources to ${request.url.host} fail` : 'it failed again and again'
  const last = told === null ? '' : ` The last failure: ${told.problem}`
  return errorOf(request, {
    code: 'UPSTREAM_LEFT_ALONE',
    status: told?.status ?? null,
    notBefore: until,
    retryable: true,
    mayHaveArrived: false,
    problem: `not sent, because ${why}. One request of all workers tries again at ${until.toISOString()}, and all go on once it is answered.${last}`,
  })
}
