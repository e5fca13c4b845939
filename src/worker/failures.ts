// What failures mean to the worker: whether waiting helps, as for a Postgres or a Redis that starts later than this program, and what the
// failure of one run says about the others, whether its service, the database or the stream alone does not work.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import { isDiskFull } from '../problems/parts.ts'
import { RunFenced } from '../sync/ports/store.ts'
import {
  isAboutService,
  isLeftAlone,
  UpstreamError,
  type UpstreamErrorCode,
} from '../upstream/http/errors.ts'
import { backoff, delayAfter, retry } from '../util/backoff.ts'
import { errorOf, messageOf, TimedOut } from '../util/errors.ts'
import { formatDuration } from '../util/text.ts'
import type { FailureScope } from './queue/circuit-breaker.ts'

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

/** The log says once that it waits. */
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

/** About the sign-in, or asking to wait. */
const codesOfService: ReadonlySet<UpstreamErrorCode> = new Set([
  'UPSTREAM_SIGN_IN',
  'UPSTREAM_SIGN_IN_AWAY',
  'UPSTREAM_UNAUTHORIZED',
  'UPSTREAM_SIGN_IN_ASKS_LATER',
  'UPSTREAM_TOKEN_REPEATED',
  'UPSTREAM_ASKS_LATER',
  'UPSTREAM_LEFT_ALONE',
])

/** `isRecorded`: its failure is in the table of runs. When not even that could be written, the failure is Postgres's. */
export function failureScopeOf(thrown: unknown, isRecorded: boolean): FailureScope | null {
  if (thrown instanceof RunFenced) return null
  const [message, error] = [messageOf(thrown), errorOf(thrown)]
  const common = { notBefore: null, policy: backoff.circuit, level: 'warn', message, error } as const
  // That Postgres is away is logged with the state of the parts.
  if (!isRecorded) return { ...common, scope: 'database', level: isPassingFailure(error) ? 'debug' : 'warn' }
  if (isDiskFull(error)) return { ...common, scope: 'database' }
  if (!(error instanceof UpstreamError)) return { ...common, scope: 'stream' }
  const scope = codesOfService.has(error.code) || isAboutService(error) ? 'service' : 'stream'
  return { ...common, notBefore: error.notBefore, scope, isLeftAlone: isLeftAlone(error) }
}
