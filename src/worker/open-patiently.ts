// Waits for what is not there yet: a Postgres or a Redis that starts later than this program. Says so once.

import { setTimeout as wait } from 'node:timers/promises'
import { formatDuration } from '../duration.ts'
import type { Logger } from '../log.ts'

type Options<Opened> = {
  readonly what: string
  readonly open: () => Promise<Opened>
  /** Whether waiting can help. */
  readonly isPassing: (error: unknown) => boolean
  readonly signal: AbortSignal
  readonly log: Logger
}

const firstPauseMs = 500
const longestPauseMs = 10_000

export async function openPatiently<Opened>(options: Options<Opened>): Promise<Opened> {
  const { what, open, isPassing, signal, log } = options
  const startedMs = Date.now()
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, 2 * pauseMs)) {
    signal.throwIfAborted()
    try {
      const opened = await open()
      if (pauseMs > firstPauseMs)
        log.info(`${what} is there, after ${formatDuration(Date.now() - startedMs)}`)
      return opened
    } catch (error) {
      if (!isPassing(error)) throw error
      if (pauseMs === firstPauseMs) log.warn({ err: error }, `waiting for ${what}`)
    }
    await wait(pauseMs, undefined, { signal })
  }
}

/** What Postgres and the network say when something is starting, stopping, full or away. */
const passing =
  /^(?:08|53|57P|3D000|ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENOTFOUND|EAI_AGAIN|ENOENT)/

export function isPassingTrouble(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string' && passing.test(cause.code)) return true
    if (/timeout|terminated unexpectedly|ended by server|not queryable/i.test(cause.message)) return true
  }
  return false
}
