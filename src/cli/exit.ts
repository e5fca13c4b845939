// How the program ends: one number for each way, the same for every verb. Scripts rely on them.

import { ConfigError } from '../config/environment.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import { UpstreamError } from '../upstream/http/errors.ts'
import { DatabaseError, UsageError } from '../util/errors.ts'

export const exitCodes = { done: 0, failed: 1, usage: 2, upstream: 3, storage: 4, interrupted: 130 } as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

export const exitMeanings: readonly (readonly [ExitCode, string])[] = [
  [exitCodes.done, 'done'],
  [exitCodes.failed, 'a run failed, deletions are blocked, or a difference was found'],
  [exitCodes.usage, 'wrong usage or configuration'],
  [exitCodes.upstream, 'the upstream was unreachable, refused or inconclusive'],
  [exitCodes.storage, 'Postgres or the queue'],
  [exitCodes.interrupted, 'interrupted'],
]

/** What was asked for was not finished, because Ctrl-C (or SIGTERM) came first. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof Interrupted) return exitCodes.interrupted
  if (error instanceof UsageError || error instanceof ConfigError) return exitCodes.usage
  if (error instanceof UpstreamError) return exitCodes.upstream
  if (error instanceof DatabaseError || isOfStorage(error)) return exitCodes.storage
  return error instanceof Error && error.cause !== undefined ? exitCodeOf(error.cause) : exitCodes.failed
}

/** Whether Postgres or Redis failed. Their drivers throw several classes, so it is told by what these have in common. */
function isOfStorage(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const isPostgres = 'severity' in error && 'code' in error
  return (
    isPostgres ||
    /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error)/.test(
      error.message,
    ) ||
    ['ReplyError', 'MaxRetriesPerRequestError', 'ClusterAllFailedError'].includes(error.name)
  )
}

/** Exit codes in the order in which a person should look at them: of several results, the first one counts. */
const byWeight: readonly ExitCode[] = [
  exitCodes.interrupted,
  exitCodes.usage,
  exitCodes.storage,
  exitCodes.upstream,
  exitCodes.failed,
]

export const worst = (codes: readonly ExitCode[]): ExitCode =>
  byWeight.find((code) => codes.includes(code)) ?? exitCodes.done

type Ended = Pick<RunOutcome, 'status' | 'error'>

/** The exit code of a run. A run that was skipped because another program does it already counts as done. */
export function exitCodeOfRun({ status, error }: Ended): ExitCode {
  if (status === 'stopped') return exitCodes.interrupted
  if (status === 'inconclusive') return exitCodes.upstream
  if (status !== 'failed') return exitCodes.done
  const code = exitCodeOf(error)
  return code === exitCodes.usage ? exitCodes.failed : code
}
