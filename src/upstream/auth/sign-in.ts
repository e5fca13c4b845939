// Signing in: one token of one service, shared by all its requests, renewed before it ends or when it is rejected. However many requests
// wait, the identity provider is asked once. When it refuses, or hands out the same token again, it is left alone for a while.

import { type BackoffPolicy, backoff, delayAfter, leftUntil } from '../../util/backoff.ts'
import { untilAborted } from '../../util/waiting.ts'
import { errorOf, isLeftAlone, UpstreamError } from '../http/errors.ts'
import type { SignInDone } from '../http/transport.ts'
import type { SharedTokens } from './shared-tokens.ts'
import { requestToken, type SignInOptions, type TokenAnswer, tokenUrl } from './token-request.ts'

/** How many more sign-ins a request may cause. */
export type SignInAllowance = { left: number }
export type SignIn = ReturnType<typeof openSignIn>

const renewBeforeEndMs = 60_000
/** Refusals lead to a new sign-in only so often: mostly they are about rights, and no other token would help. */
const checkEveryMs = 600_000

type Token = { readonly text: string; readonly renewAtMs: number; readonly endsAtMs: number }

export function openSignIn(options: SignInOptions) {
  const { service, clock, log } = options
  const attempts = openAttempts(options)
  let trustedUntilMs = 0

  async function signIn(): Promise<Token> {
    const token = await attempts.once()
    trustedUntilMs = clock.now() + checkEveryMs
    return token
  }

  return {
    async token(allowance: SignInAllowance, signal: AbortSignal): Promise<string> {
      const nowMs = clock.now()
      const token = attempts.current()
      const isRejected = token !== null && attempts.isRejected(token.text)
      if (isRejected && allowance.left <= 0) return token.text
      if (!token || isRejected || nowMs >= token.endsAtMs) {
        allowance.left--
        return (await untilAborted(signIn(), signal)).text
      }
      // The old token is still good, so nobody waits for the new one. If renewing fails, that shows when the old one ends.
      if (nowMs >= token.renewAtMs)
        signIn().catch((err) => log.debug({ service, err }, 'could not renew the token before its end'))
      return token.text
    },
    /** The upstream rejected this token: gets another one, or fails when there is no other. */
    async renew(text: string, allowance: SignInAllowance, signal: AbortSignal): Promise<void> {
      const token = attempts.current()
      if (token && token.text !== text) return
      attempts.reject(text)
      allowance.left--
      const { text: renewed } = await untilAborted(signIn(), signal)
      const reason = attempts.whyNotAsked()
      if (renewed === text && reason) throw reason
    },
    /** The upstream refused a request with this token, which may have ended. Signs in again if that is due; true: there is another one now. */
    async check(text: string, signal: AbortSignal): Promise<boolean> {
      const isDue = attempts.isUnderWay() || clock.now() >= trustedUntilMs
      if (attempts.current()?.text === text && isDue) {
        trustedUntilMs = clock.now() + checkEveryMs
        await untilAborted(
          signIn().catch((err) => log.debug({ service, err }, 'could not sign in again after a refusal')),
          signal,
        )
      }
      return attempts.current()?.text !== text
    },
    /** The upstream accepted this token. */
    confirm: attempts.accept,
  }
}

/** Why the identity provider is left alone, and until when. */
type Pause = {
  readonly error: UpstreamError
  readonly untilMs: number
  /** It is about this key, and another one may be tried at once; null: whatever the key is. */
  readonly apiKey: string | null
}

/** The sign-ins of a service one after the other, with what is known of its token. */
function openAttempts(options: SignInOptions) {
  const { service, name, clock, observer, log } = options
  let token: Token | null = null
  let rejected: string | null = null
  let pause: Pause | null = null
  let failures = 0
  let endedMs = 0
  let running: Promise<Token> | null = null

  async function signIn(): Promise<Token> {
    const [startedMs, apiKey] = [clock.now(), options.apiKey()]
    const observe = (outcome: SignInDone['outcome']) =>
      observer.signInDone?.({ service, outcome, durationMs: clock.now() - startedMs })
    try {
      const unlike = token && { token: token.text, isRejected: token.text === rejected }
      const answer = await getToken({ ...options, apiKey: () => apiKey }, unlike, observe)
      const isSame = token?.text === answer.token
      token = newToken(answer, isSame, clock.now())
      pause = answer.token === rejected ? pauseAfterSame() : null
      if (pause === null) failures = 0
      return token
    } catch (error) {
      observe('failed')
      if (error instanceof UpstreamError) pause = pauseAfterFailure(error, apiKey)
      throw error
    }
  }

  function pauseAfterSame(): Pause {
    const until = new Date(pauseEndMs(backoff.signInRepeated))
    log.warn(
      { service, until },
      `the ${name} service rejects its token, and the identity provider hands out the same one again; the next sign-in is at ${until.toISOString()}`,
    )
    return { error: repeatedError(options, until), untilMs: until.getTime(), apiKey: options.apiKey() }
  }

  function pauseAfterFailure(error: UpstreamError, apiKey: string): Pause | null {
    if (!error.retryable) return { error, untilMs: pauseEndMs(backoff.signInRefused), apiKey }
    const untilMs = isLeftAlone(error) ? 0 : (error.notBefore?.getTime() ?? 0)
    return untilMs > clock.now() ? { error, untilMs, apiKey: null } : null
  }

  const pauseEndMs = (policy: BackoffPolicy): number => clock.now() + delayAfter(policy, ++failures)

  return {
    current: () => token,
    isRejected: (text: string) => text === rejected,
    reject(text: string) {
      rejected = text
    },
    accept(text: string) {
      if (text !== rejected) return
      rejected = null
      pause = null
      failures = 0
    },
    isUnderWay: () => running !== null,
    /** Why the identity provider is not asked at the moment; null when it is. */
    whyNotAsked: () => pause?.error ?? null,
    /** Joins the sign-in under way or starts one. */
    once(): Promise<Token> {
      const isLeft = pause && leftUntil(pause.untilMs, clock.now(), pause.untilMs - endedMs) > 0
      if (pause && isLeft && (pause.apiKey ?? options.apiKey()) === options.apiKey())
        return Promise.reject(pause.error)
      running ??= signIn().finally(() => {
        ;[running, endedMs] = [null, clock.now()]
      })
      return running
    },
  }
}

/** From a sign-in of this program, or of another one that shares its tokens. */
function getToken(
  options: SignInOptions,
  unlike: Parameters<SharedTokens['through']>[1],
  observe: (outcome: SignInDone['outcome']) => void,
): Promise<TokenAnswer> {
  const { service, authUrl, subjectId, apiKey, tokens } = options
  const ask = async () => {
    const answer = await requestToken(options)
    observe(answer.token === unlike?.token ? 'same token' : 'new token')
    return answer
  }
  return tokens ? tokens.through({ service, authUrl, subjectId, apiKey: apiKey() }, unlike, ask) : ask()
}

function newToken({ token, endsAtMs }: TokenAnswer, isSame: boolean, nowMs: number): Token {
  if (endsAtMs === null)
    return { text: token, renewAtMs: Number.POSITIVE_INFINITY, endsAtMs: Number.POSITIVE_INFINITY }
  // An identity provider with a cache hands out the same token until its end. So it is not asked early again.
  const earlyMs = isSame ? 0 : Math.min(renewBeforeEndMs, (endsAtMs - nowMs) / 10)
  return { text: token, renewAtMs: endsAtMs - earlyMs, endsAtMs }
}

const repeatedError = ({ service, authUrl }: SignInOptions, notBefore: Date): UpstreamError =>
  errorOf(
    { method: 'POST', url: tokenUrl(authUrl) },
    {
      code: 'UPSTREAM_TOKEN_REPEATED',
      status: 401,
      retryable: true,
      mayHaveArrived: false,
      notBefore,
      problem: `the ${service} service rejects its token, and the identity provider hands out the same one again from its cache. Tidemark signs in again at ${notBefore.toISOString()}.`,
    },
  )
