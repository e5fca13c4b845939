// When a host, or what one source asks of it, is left alone because it does not answer as it should, and who tries it again (P10, P19). Pure:
// what all programs of a deployment know of a host is one value, and time and chance are arguments.

import { afterFailure, type BackoffPolicy, delayAfter, type Outage } from '../../util/backoff.ts'
import type { UpstreamError } from './errors.ts'

export type Told = Pick<UpstreamError, 'code' | 'status' | 'problem'>
/** Who asks: what a source asks of one service, or a sign-in. */
export type Asker = { readonly name: string; readonly source: string }

/** Left alone, and until when nobody else tries it because somebody does. */
type Opening = Outage & { readonly triedUntilMs: number }
type Failing = {
  readonly source: string
  /** Exchanges in a row, since the host last answered after nobody had asked it. */
  readonly failures: number
  /** When the first of those that it was sent since its last answer began. */
  readonly sinceMs: number
  readonly lastFailureMs: number
  readonly told: Told
  readonly opening: Opening | null
}
/** Of one host. Null: nothing fails there. */
export type CircuitState = {
  /** The last exchanges: 1 answered, 0 failed. */
  readonly recent: string
  /** Nobody asks the host. */
  readonly host: Opening | null
  /** By name, those that fail. Each is left alone by itself. */
  readonly askers: Readonly<Record<string, Failing>>
  /** When the host last answered a source, by its name. */
  readonly answered: Readonly<Record<string, number>>
}
type Failure = {
  readonly startedMs: number
  readonly nowMs: number
  readonly random: number
  readonly policy: BackoffPolicy
  readonly told: Told
  /** What this program saw there before, if nothing failed. */
  readonly recent: string
  /** When it last saw an answer. */
  readonly answeredMs: number
}

/** Where nobody was answered for as long as an exchange hung, and at least so long, answers before it say nothing any more. */
const silenceMs = 10_000
/** As many as a request is sent in all before it is given up. */
const failuresThatCount = 4
const sourcesThatCount = 2
const mostRecent = 20
/** Only one request tries, so that it may try more often than each would by itself. */
const longestShare = 1 / 8
/** So long a try is the only one at first. */
const aloneFor = { firstMs: 10_000, jitter: 0 } as const
/** One that is asked nothing any more is forgotten. */
const forgottenAfterMs = 600_000

export const lastOf = (recent: string): string => recent.slice(-mostRecent)
const closed: CircuitState = { recent: '', host: null, askers: {}, answered: {} }

export function afterFailed(before: CircuitState | null, asker: Asker, failure: Failure): CircuitState {
  const { startedMs, nowMs, told } = failure
  const state = before ?? { ...closed, recent: failure.recent }
  const recent = lastOf(`${isSilent(state, failure) ? onlyFailures(state.recent) : state.recent}0`)
  const known = state.askers[asker.name]
  // Exchanges that were under way together fail together: that is one failure.
  const isSame = known !== undefined && startedMs < known.lastFailureMs
  const failures = (known?.failures ?? 0) + (isSame ? 0 : 1)
  const again = (opening: Opening | null): Opening =>
    opening !== null && startedMs < opening.lastFailureMs ? opening : openedAgain(opening, failure)
  const isOpen = state.host === null && (known?.opening != null || failures >= failuresThatCount)
  const opening = isOpen ? again(known?.opening ?? null) : (known?.opening ?? null)
  const failing: Failing = {
    source: asker.source,
    failures,
    told,
    opening,
    sinceMs: known?.sinceMs ?? startedMs,
    lastFailureMs: nowMs,
  }
  const askers = { ...remembered(state, nowMs), [asker.name]: failing }
  if (state.host !== null) return { ...state, recent, host: again(state.host), askers }
  const isDown = isHostDown({ ...state, recent, askers }, nowMs)
  return { ...state, recent, host: isDown ? again(longestOf(askers)) : null, askers }
}

const isSilent = ({ answered }: CircuitState, { startedMs, nowMs, answeredMs }: Failure): boolean =>
  nowMs - startedMs >= silenceMs && Math.max(answeredMs, ...Object.values(answered)) < startedMs
const onlyFailures = (recent: string): string => recent.slice(recent.lastIndexOf('1') + 1)

/** For as long as the policy says, but no longer than a share of the time for which it has failed: who was away for a minute is missed for seconds. */
function openedAgain(before: Opening | null, { nowMs, startedMs, random, policy }: Failure): Opening {
  const outage = afterFailure(before, { nowMs, startedMs, notBeforeMs: null, random, policy })
  const longestMs = Math.max(policy.firstMs, (nowMs - outage.sinceMs) * longestShare)
  return { ...outage, untilMs: Math.min(outage.untilMs, nowMs + longestMs), triedUntilMs: 0 }
}

function isHostDown({ recent, askers, answered }: CircuitState, nowMs: number): boolean {
  const failed = recent.replaceAll('1', '').length
  const failing = Object.values(askers).filter(({ failures }) => failures > 0)
  const sources = new Set(failing.map(({ source }) => source))
  // It answered another one after the last of these had begun to fail, and that one has not failed since: so it is up.
  const sinceMs = Math.max(...failing.map((one) => one.sinceMs))
  const isUp = Object.entries(answered).some(
    ([source, answeredMs]) => !sources.has(source) && answeredMs > sinceMs && isRecent(answeredMs, nowMs),
  )
  return (
    !isUp && sources.size >= sourcesThatCount && failed >= failuresThatCount && 2 * failed >= recent.length
  )
}

/** What was left alone for long already is not asked as often as at the beginning. */
const longestOf = (askers: CircuitState['askers']): Opening | null =>
  Object.values(askers)
    .flatMap(({ opening }) => opening ?? [])
    .toSorted((one, other) => other.failures - one.failures)[0] ?? null

const isRecent = (thenMs: number, nowMs: number): boolean => Math.abs(nowMs - thenMs) < forgottenAfterMs
const remembered = ({ askers }: CircuitState, nowMs: number): CircuitState['askers'] =>
  Object.fromEntries(Object.entries(askers).filter(([, { lastFailureMs }]) => isRecent(lastFailureMs, nowMs)))

/** So many exchanges of one were answered. Then the host works, and all others may try at once. */
export function afterAnswered(
  before: CircuitState | null,
  { name, source }: Asker,
  { count, nowMs }: { readonly count: number; readonly nowMs: number },
): CircuitState | null {
  if (before === null) return null
  const { [name]: _, ...others } = remembered(before, nowMs)
  if (Object.keys(others).length === 0) return null
  const ones = '1'.repeat(Math.min(count, mostRecent))
  const answered = {
    ...Object.fromEntries(Object.entries(before.answered).filter(([, thenMs]) => isRecent(thenMs, nowMs))),
    [source]: nowMs,
  }
  if (before.host === null)
    return { recent: lastOf(before.recent + ones), host: null, askers: others, answered }
  const mayTry = ([name, failing]: [string, Failing]): [string, Failing] => [
    name,
    {
      ...failing,
      failures: 0,
      opening: failing.opening && { ...failing.opening, untilMs: nowMs, triedUntilMs: 0 },
    },
  ]
  return {
    recent: ones,
    host: null,
    answered,
    askers: Object.fromEntries(Object.entries(others).map(mayTry)),
  }
}

/** What holds for one who would ask; null: it may. */
export type Held = {
  readonly whose: 'host' | 'own'
  readonly untilMs: number
  /** When it last failed. */
  readonly failedMs: number
  readonly told: Told | null
}

export function heldFor(state: CircuitState | null, { name }: Pick<Asker, 'name'>): Held | null {
  const own = state?.askers[name]
  const opening = state?.host ?? own?.opening ?? null
  if (state === null || opening === null) return null
  const told = own?.told ?? Object.values(state.askers).at(-1)?.told ?? null
  const untilMs = Math.max(opening.untilMs, opening.triedUntilMs)
  return { whose: state.host ? 'host' : 'own', untilMs, failedMs: opening.lastFailureMs, told }
}

/** Further ahead than clocks differ. What failed then did so before the clock went back. */
const isAhead = (thenMs: number, nowMs: number): boolean => thenMs > nowMs + 5_000
export const triedFrom = ({ untilMs, failedMs }: Held, nowMs: number): number =>
  isAhead(failedMs, nowMs) ? nowMs : untilMs
export const mayBeTried = (held: Held, nowMs: number): boolean => nowMs >= triedFrom(held, nowMs)

/** Only one tries, until it knows or its time is over: who hangs longer leaves the next try to another, which may be answered. */
export function afterClaimed(
  state: CircuitState,
  { name }: Pick<Asker, 'name'>,
  { nowMs, longestMs }: { readonly nowMs: number; readonly longestMs: number },
): CircuitState {
  const claimed = (opening: Opening): Opening => {
    const alone = delayAfter(
      { ...aloneFor, longestMs: Math.max(longestMs, aloneFor.firstMs) },
      opening.failures,
    )
    const isOfNow = !isAhead(opening.lastFailureMs, nowMs)
    const known = isOfNow ? opening : { ...opening, lastFailureMs: nowMs, untilMs: nowMs }
    return { ...known, triedUntilMs: nowMs + Math.min(alone, longestMs) }
  }
  if (state.host !== null) return { ...state, host: claimed(state.host) }
  const own = state.askers[name]
  if (own?.opening == null) return state
  return { ...state, askers: { ...state.askers, [name]: { ...own, opening: claimed(own.opening) } } }
}

export const fieldsOfState = Object.keys(closed)

/** Postgres and Redis may hold what another version has written. */
export function readCircuitState(value: unknown): CircuitState | null {
  if (value === null || typeof value !== 'object') return null
  return fieldsOfState.every((field) => field in value) ? (value as CircuitState) : null
}
