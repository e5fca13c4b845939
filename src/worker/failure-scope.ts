// What a failure in one run says about the others: whether its service, the database or the stream alone does not work.

import { isDiskFull } from '../problems/parts.ts'
import { RunFenced } from '../sync/ports/store.ts'
import {
  isAboutService,
  isLeftAlone,
  UpstreamError,
  type UpstreamErrorCode,
} from '../upstream/http/errors.ts'
import { backoff } from '../util/backoff.ts'
import { errorOf, messageOf } from '../util/errors.ts'
import { isPassingFailure } from './availability.ts'
import type { FailureScope } from './queue/circuit-breaker.ts'

const aboutSignIn: ReadonlySet<UpstreamErrorCode> = new Set([
  'UPSTREAM_SIGN_IN',
  'UPSTREAM_SIGN_IN_AWAY',
  'UPSTREAM_UNAUTHORIZED',
  'UPSTREAM_SIGN_IN_ASKS_LATER',
  'UPSTREAM_TOKEN_REPEATED',
])
const asksToWait: ReadonlySet<UpstreamErrorCode> = new Set(['UPSTREAM_ASKS_LATER', 'UPSTREAM_LEFT_ALONE'])

/** `isRecorded`: its failure is in the table of runs. When not even that could be written, the failure is Postgres's. */
export function failureScopeOf(thrown: unknown, isRecorded: boolean): FailureScope | null {
  if (thrown instanceof RunFenced) return null
  const [message, error] = [messageOf(thrown), errorOf(thrown)]
  const common = { notBefore: null, policy: backoff.circuit, level: 'warn', message, error } as const
  // That Postgres is away is logged with the state of the parts.
  if (!isRecorded) return { ...common, scope: 'database', level: isPassingFailure(error) ? 'debug' : 'warn' }
  if (isDiskFull(error)) return { ...common, scope: 'database' }
  if (!(error instanceof UpstreamError)) return { ...common, scope: 'stream' }
  const isOfService = aboutSignIn.has(error.code) || asksToWait.has(error.code) || isAboutService(error)
  return {
    ...{ ...common, notBefore: error.notBefore, scope: isOfService ? 'service' : 'stream' },
    isLeftAlone: isLeftAlone(error),
  }
}
