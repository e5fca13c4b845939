// Signing in: one token of one service, shared by all requests, renewed before it ends or when it is rejected. However
// many requests wait, the identity provider is asked once; when it refuses or repeats itself, it is left alone for a while.

import { UpstreamError } from '../http/errors.ts'
import type { SignInDone } from '../http/transport.ts'
import type { TokenAnswer } from './token-answer.ts'
import { requestToken, type SignInOptions, tokenUrl } from './token-request.ts'

/** How many more sign-ins a request may cause. */
export type SignInAllowance = { left: number }
export type SignIn = {
  token(allowance: SignInAllowance, signal: AbortSignal): Promise<string>
  /** The upstream rejected this token: gets another one, or fails when there is no other. */
  renew(rejected: string, allowance: SignInAllowance, signal: AbortSignal): Promise<void>
  /** The upstream refused a request with this token, which may be over: whether there is another one now. */
  check(refused: string, signal: AbortSignal): Promise<boolean>
  /** The upstream accepted this token. */
  confirm(token: string): void
}

const renewBeforeEndMs = 60_000
/** Mostly a refusal is about rights, and no other token would help. */
const checkEveryMs = 600_000
const firstHoldMs = { refused: 60_000, repeated: 1_000 } as const
const longestHoldMs = { refused: 900_000, repeated: 300_000 } as const

type Token = { readonly text: string; readonly renewAtMs: number; readonly endsAtMs: number }
/** Why the identity provider is left alone, and until when. */
type Hold = { readonly error: UpstreamError; readonly untilMs: number }

export function openSignIn(options: SignInOptions): SignIn {
  const { service, clock, observer, log } = options
  let token: Token | null = null
  let rejected: string | null = null
  let hold: Hold | null = null
  let holds = 0
  let running: Promise<Token> | null = null
  let trustedUntilMs = 0

  /** Joins the sign-in under way or starts one. */
  function signIn(): Promise<Token> {
    if (hold && clock.now() < hold.untilMs) return Promise.reject(hold.error)
    running ??= signInOnce().finally(() => {
      running = null
    })
    return running
  }

  async function signInOnce(): Promise<Token> {
    const startedMs = clock.now()
    const tell = (outcome: SignInDone['outcome']) =>
      observer.signInDone?.({ service, outcome, durationMs: clock.now() - startedMs })
    try {
      const answer = await requestToken(options)
      const isSame = token?.text === answer.token
      tell(isSame ? 'same token' : 'new token')
      token = newToken(answer, isSame, clock.now())
      trustedUntilMs = clock.now() + checkEveryMs
      hold = null
      if (answer.token === rejected) holdRepeated()
      else holds = 0
      return token
    } catch (error) {
      tell('failed')
      if (error instanceof UpstreamError) holdFailed(error)
      throw error
    }
  }

  function holdRepeated(): void {
    const untilMs = clock.now() + holdTime('repeated')
    hold = { error: repeatedError(options, new Date(untilMs)), untilMs }
    log.warn(
      { service, until: new Date(untilMs) },
      'the upstream rejects the token, and the identity provider hands out the same one again',
    )
  }

  function holdFailed(error: UpstreamError): void {
    const untilMs = error.retryable ? (error.notBefore?.getTime() ?? 0) : clock.now() + holdTime('refused')
    hold = untilMs > clock.now() ? { error, untilMs } : null
  }

  const holdTime = (kind: 'refused' | 'repeated'): number =>
    Math.min(longestHoldMs[kind], firstHoldMs[kind] * 2 ** Math.min(holds++, 20))

  return {
    async token(allowance, signal) {
      const nowMs = clock.now()
      if (token && token.text === rejected && allowance.left <= 0) return token.text
      if (!token || token.text === rejected || nowMs >= token.endsAtMs) {
        allowance.left--
        return (await untilAborted(signIn(), signal)).text
      }
      // The old one is still good: nobody has to wait, and a failure shows when it is over.
      if (nowMs >= token.renewAtMs)
        signIn().catch((err) => log.debug({ service, err }, 'early sign-in failed'))
      return token.text
    },
    async renew(text, allowance, signal) {
      if (token && token.text !== text) return
      rejected = text
      allowance.left--
      const { text: renewed } = await untilAborted(signIn(), signal)
      if (renewed === text && hold) throw hold.error
    },
    async check(text, signal) {
      if (token?.text === text && (running || clock.now() >= trustedUntilMs)) {
        trustedUntilMs = clock.now() + checkEveryMs
        await untilAborted(
          signIn().catch((err) => log.debug({ service, err }, 'the sign-in after a refusal failed')),
          signal,
        )
      }
      return token?.text !== text
    },
    confirm(text) {
      if (text !== rejected) return
      rejected = null
      hold = null
      holds = 0
    },
  }
}

function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(signal.reason)
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp))
  })
}

function newToken({ token, endsAtMs }: TokenAnswer, isSame: boolean, nowMs: number): Token {
  if (endsAtMs === null)
    return { text: token, renewAtMs: Number.POSITIVE_INFINITY, endsAtMs: Number.POSITIVE_INFINITY }
  // An identity provider that caches hands out the same one until its end: asking earlier was in vain.
  const earlyMs = isSame ? 0 : Math.min(renewBeforeEndMs, (endsAtMs - nowMs) / 10)
  return { text: token, renewAtMs: endsAtMs - earlyMs, endsAtMs }
}

const repeatedError = ({ service, authUrl }: SignInOptions, notBefore: Date): UpstreamError =>
  new UpstreamError({
    code: 'UPSTREAM_TOKEN_REPEATED',
    method: 'POST',
    path: tokenUrl(authUrl).pathname,
    status: 401,
    retryable: true,
    mayHaveArrived: false,
    notBefore,
    problem: `the ${service} service rejects the token, and the identity provider hands out the same one again (it caches). It is asked again at ${notBefore.toISOString()}.`,
  })
