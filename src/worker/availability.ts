// Knows whether Postgres and the queue answer. The log has one line when one stops, and one when it is back.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import { backoff, delayAfter, retry } from '../util/backoff.ts'
import { formatDuration } from '../util/text.ts'
import { withTimeout } from '../util/waiting.ts'

export type Part = {
  readonly name: string
  /** Rejects while the part does not answer. */
  readonly check: () => Promise<void>
  readonly onReturn?: () => void
}
export type PartState = { readonly isUp: boolean; readonly since: Date }
export type PartsWatch = {
  readonly states: () => Readonly<Record<string, PartState>>
  close(): void
}

const everyMs = 2_500
const timeoutMs = 5_000

/** The parts answered a moment ago, when they were opened. */
export function watchParts(parts: readonly Part[], log: Logger): PartsWatch {
  const closing = new AbortController()
  const states = new Map(parts.map(({ name }) => [name, { isUp: true, since: new Date() }]))

  function seen(part: Part, isUp: boolean, error: unknown): void {
    const before = states.get(part.name)
    if (closing.signal.aborted || before?.isUp === isUp) return
    const since = new Date()
    states.set(part.name, { isUp, since })
    const lastedMs = since.getTime() - (before?.since ?? since).getTime()
    if (!isUp) log.warn({ err: error }, `the ${part.name} does not answer; runs wait until it does`)
    else {
      log.info(`the ${part.name} answers again, after ${formatDuration(lastedMs)}`)
      part.onReturn?.()
    }
  }

  async function watch(part: Part): Promise<void> {
    while (!closing.signal.aborted) {
      const answer = part.check().then(
        () => seen(part, true, null),
        (error) => seen(part, false, error),
      )
      await withTimeout(timeoutMs, answer).catch((tooLate) => seen(part, false, tooLate))
      // A check that hangs is not started again, so that nothing piles up behind it.
      await answer
      await wait(everyMs, undefined, { signal: closing.signal, ref: false }).catch(() => null)
    }
  }
  for (const part of parts) void watch(part)

  return { states: () => Object.fromEntries(states), close: () => closing.abort() }
}

// Waits for what is not there yet: a Postgres or a Redis that starts later than this program. Says so once.
type Options<Opened> = {
  readonly what: string
  readonly open: () => Promise<Opened>
  /** Whether waiting can help. */
  readonly isPassing: (error: unknown) => boolean
  readonly signal: AbortSignal
  readonly log: Logger
}

export async function waitUntilAvailable<Opened>(options: Options<Opened>): Promise<Opened> {
  const { what, open, isPassing, signal, log } = options
  const startedMs = Date.now()
  let hasFailed = false
  signal.throwIfAborted()
  const opened = await retry(open, {
    delayMs(error, failures) {
      if (!isPassing(error)) return null
      if (!hasFailed) log.warn({ err: error }, `${what} does not answer yet; the worker waits for it`)
      hasFailed = true
      return delayAfter(backoff.startUp, failures)
    },
    wait: (delayMs) => wait(delayMs, undefined, { signal }),
  })
  if (hasFailed) log.info(`${what} answers, after ${formatDuration(Date.now() - startedMs)}`)
  return opened
}

/** What Postgres and the network say when something is starting, stopping, full or away. */
const passing =
  /^(?:08|53|57P|3D000|ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENOTFOUND|EAI_AGAIN|ENOENT)/

export function isPassingFailure(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string' && passing.test(cause.code)) return true
    if (/timeout|terminated unexpectedly|ended by server|not queryable/i.test(cause.message)) return true
  }
  return false
}
