// How often a sign-in may fail: a few times a minute from one address, and a bounded number in all, which bounds the memory too.
// Pure; time is an argument.

export type Attempts = {
  /** How long this address has to wait before it may try; 0: now. */
  waitMs(address: string, nowMs: number): number
  failed(address: string, nowMs: number): void
}

const windowMs = 60_000
const mostOfOne = 5
const mostInAll = 60

export function openAttempts(): Attempts {
  let failures: { readonly address: string; readonly atMs: number }[] = []

  /** Until the oldest of too many is forgotten. */
  const waitFor = (known: typeof failures, most: number, nowMs: number): number => {
    const oldest = known.at(-most)
    return oldest === undefined ? 0 : Math.max(0, oldest.atMs + windowMs - nowMs)
  }

  return {
    waitMs(address, nowMs) {
      const own = failures.filter((failure) => failure.address === address)
      return Math.max(waitFor(own, mostOfOne, nowMs), waitFor(failures, mostInAll, nowMs))
    },
    failed(address, nowMs) {
      failures = [...failures.filter(({ atMs }) => atMs > nowMs - windowMs), { address, atMs: nowMs }]
      failures = failures.slice(-mostInAll)
    },
  }
}
