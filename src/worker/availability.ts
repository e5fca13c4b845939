// Waits for what is not there yet: a Postgres or a Redis that starts later than this program. The log says so once.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import { backoff, delayAfter, retry } from '../util/backoff.ts'
import { TimedOut } from '../util/errors.ts'
import { formatDuration } from '../util/text.ts'

type Options<Opened> = {
  readonly what: string
  readonly open: () => Promise<Opened>
  /** Whether waiting can help. */
  readonly isPassing: (error: unknown) => boolean
  /** Each time that it cannot be opened yet. */
  readonly onFailure: (error: unknown) => void
  readonly signal: AbortSignal
  readonly log: Logger
}

export async function waitUntilAvailable<Opened>(options: Options<Opened>): Promise<Opened> {
  const { what, open, isPassing, onFailure, signal, log } = options
  const startedMs = Date.now()
  let hasFailed = false
  signal.throwIfAborted()
  const opened = await retry(open, {
    delayMs(error, failures) {
      if (!isPassing(error)) return null
      onFailure(error)
      if (!hasFailed) log.warn({ err: error }, `${what} does not answer yet; the worker waits for it`)
      hasFailed = true
      return delayAfter(backoff.startUp, failures)
    },
    wait: (delayMs) => wait(delayMs, undefined, { signal }),
  })
  if (hasFailed) log.info(`${what} answers, after ${formatDuration(Date.now() - startedMs)}`)
  return opened
}

/** What Postgres and the network say when something is starting, stopping, full, away or not promoted yet. */
const passing =
  /^(?:08|25006|53|57P|3D000|ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENOTFOUND|EAI_AGAIN|ENOENT)/

export function isPassingFailure(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof TimedOut) return true
    if ('code' in cause && typeof cause.code === 'string' && passing.test(cause.code)) return true
    if (/timeout|terminated unexpectedly|ended by server|not queryable/i.test(cause.message)) return true
  }
  return false
}
