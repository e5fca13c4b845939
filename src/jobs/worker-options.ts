// How workers hold their jobs: long enough for a busy process to renew its lock, short enough that the jobs of a killed one
// are soon somebody else's.

export const lockOptions = {
  lockDuration: 15_000,
  stalledInterval: 5_000,
  // Being killed is nothing a job could be blamed for.
  maxStalledCount: 1_000_000,
  runRetryDelay: 1_000,
} as const
