// How long to wait before something that failed is tried again: one formula, and the table of all policies. Pure; time and chance are
// arguments.

export type BackoffPolicy = {
  readonly firstMs: number
  readonly longestMs: number
  /** The share of a delay that is random, from 0 to 1, so that many workers do not come back together. */
  readonly jitter: number
}
/** For something that is tried a few times in a row, rather than for ever. */
export type RetryPolicy = BackoffPolicy & {
  /** Attempts in all, the first one included. */
  readonly attempts: number
  /** The longest wait that the other side may ask for. */
  readonly deadlineMs: number
}

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

export const backoff = {
  /** A request to the upstream that failed for now. */
  request: { firstMs: 500, longestMs: 20 * second, jitter: 0.5, attempts: 4, deadlineMs: 2 * minute },
  /** The identity provider refuses the credentials. */
  signInRefused: { firstMs: minute, longestMs: 15 * minute, jitter: 0 },
  /** The identity provider hands out the token again that the upstream rejected. */
  signInRepeated: { firstMs: second, longestMs: 5 * minute, jitter: 0 },
  /** A service, the database, or one stream's runs of a kind. */
  circuit: { firstMs: 5 * second, longestMs: 5 * minute, jitter: 0.25 },
  /** A run that another program has, or that the queue did not take. */
  busy: { firstMs: 5 * second, longestMs: 5 * second, jitter: 0.25 },
  /** A Postgres or a Redis that is not there yet. */
  startUp: { firstMs: 500, longestMs: 10 * second, jitter: 0 },
  /** The connection to Redis. */
  redis: { firstMs: 100, longestMs: 2 * second, jitter: 0 },
  /** A lock that somebody's query holds. All attempts together stay below the ten seconds that a stopping program has. */
  lockTimeout: { firstMs: 100, longestMs: second, jitter: 0, deadlineMs: 8 * second },
  /** A message to the receiver of alerts. */
  alert: { firstMs: 30 * second, longestMs: hour, jitter: 0 },
  /** A backfill whose span the upstream does not show completely. */
  backfill: { firstMs: minute, longestMs: hour, jitter: 0 },
  /** An assignment whose related records could not be read. */
  related: { firstMs: minute, longestMs: 6 * hour, jitter: 0 },
} as const satisfies Readonly<Record<string, BackoffPolicy & Partial<RetryPolicy>>>

/** What the other side asks for is believed for so long at most; a person has to look after more. */
export const longestAskedMs = hour

/** How long is left until a time that was set. More than `askedMs`, for which it was set, means that the clock was put back: nothing then. */
export const leftUntil = (untilMs: number, nowMs: number, askedMs: number): number =>
  untilMs - nowMs > askedMs ? 0 : Math.max(0, untilMs - nowMs)

const mostDoublings = 30

/** `failures` counts from 1; `random` is from 0 to 1. */
export function delayAfter(policy: BackoffPolicy, failures: number, random = 1): number {
  const doublings = Math.min(mostDoublings, Math.max(0, failures - 1))
  const longestMs = Math.min(policy.longestMs, policy.firstMs * 2 ** doublings)
  return longestMs * (1 - policy.jitter + policy.jitter * random)
}

/** Tries until it succeeds, or until `delayMs` says null: then the error is thrown. */
export async function retry<Result>(
  work: () => Promise<Result>,
  plan: {
    readonly delayMs: (error: unknown, failures: number) => number | null
    readonly wait: (delayMs: number) => Promise<unknown>
  },
): Promise<Result> {
  for (let failures = 1; ; failures++) {
    let delayMs: number | null
    try {
      return await work()
    } catch (error) {
      delayMs = plan.delayMs(error, failures)
      if (delayMs === null) throw error
    }
    await plan.wait(delayMs)
  }
}

// An outage: since when something fails, how often it failed, and until when it is left alone.
export type Outage = {
  readonly sinceMs: number
  readonly failures: number
  readonly lastFailureMs: number
  /** Not to be tried before. */
  readonly untilMs: number
}

export type Failure = {
  readonly nowMs: number
  /** When the attempt that failed began. */
  readonly startedMs: number
  /** What the other side asked for. */
  readonly notBeforeMs: number | null
  readonly policy: BackoffPolicy
  /** From 0 to 1. */
  readonly random: number
}

export function afterFailure(outage: Outage | null, failure: Failure): Outage {
  const { nowMs, startedMs, policy, random } = failure
  const notBeforeMs = failure.notBeforeMs ?? 0
  // Attempts that were under way together fail together: that is one failure.
  if (outage !== null && startedMs < outage.lastFailureMs)
    return { ...outage, untilMs: Math.max(outage.untilMs, notBeforeMs) }
  const failures = (outage?.failures ?? 0) + 1
  const untilMs = Math.max(nowMs + delayAfter(policy, failures, random), notBeforeMs)
  return { sinceMs: outage?.sinceMs ?? nowMs, failures, lastFailureMs: nowMs, untilMs }
}
