// One sign-in for all programs that sign in as the same: whoever needs a token first looks whether another one has got one, and only one of
// them signs in while the others wait. A place that is away is done without.

import { setTimeout as wait } from 'node:timers/promises'
import { keepToken, type Logger } from '../../log.ts'
import { messageOf } from '../../util/errors.ts'
import { sentence } from '../../util/text.ts'
import { withTimeout } from '../../util/waiting.ts'
import type { TokenAnswer } from './token-request.ts'

/** Who signs in, and by which key. Whoever lacks the key cannot read the token. */
export type Identity = {
  readonly service: string
  readonly authUrl: string
  readonly subjectId: string
  readonly apiKey: string
}
export type HeldToken = TokenAnswer & {
  /** Takes this one away, unless another one has come. */
  drop(): Promise<void>
}
/** Where tokens are kept for all programs of a deployment. */
export type TokenPlace = {
  /** For people. */
  readonly place: string
  /** Null: there is none, or none for this key. */
  get(identity: Identity): Promise<HeldToken | null>
  /** For as long as it is good, but for the last minute. */
  put(identity: Identity, answer: TokenAnswer): Promise<void>
  /** Null: somebody else signs in. Otherwise what to call afterwards. */
  claim(identity: Identity, longestMs: number): Promise<(() => Promise<void>) | null>
}
/** A token that is of no more use, and whether that is because it was rejected. */
type Unlike = { readonly token: string; readonly isRejected: boolean } | null
export type SharedTokens = ReturnType<typeof openSharedTokens>

const longestSignInMs = 15_000
const lookEveryMs = 200
const answerMs = 2_000

export function openSharedTokens(kept: TokenPlace, log: Logger) {
  let isAway = false
  /** Rejects when the place is away. */
  async function ask<Answer>(work: Promise<Answer>): Promise<Answer> {
    const answer = await withTimeout(answerMs, work)
    if (isAway) log.info(`Tokens are shared through ${kept.place} again.`)
    isAway = false
    return answer
  }
  function noteAway(error: unknown): null {
    if (!isAway)
      log.warn(
        `Tokens cannot be shared through ${kept.place}: ${sentence(messageOf(error))} Until they can, each worker signs in for itself.`,
      )
    isAway = true
    return null
  }

  async function lookUp(identity: Identity, unlike: Unlike) {
    const held = await ask(kept.get(identity))
    if (held === null) return null
    keepToken(held.token)
    if (held.token !== unlike?.token) return held
    if (unlike.isRejected) await ask(held.drop())
    return null
  }

  return {
    async through(
      identity: Identity,
      unlike: Unlike,
      signIn: () => Promise<TokenAnswer>,
    ): Promise<TokenAnswer> {
      const endsMs = performance.now() + longestSignInMs
      let release: (() => Promise<void>) | null = null
      try {
        while (performance.now() < endsMs) {
          const held = await lookUp(identity, unlike)
          if (held) return { token: held.token, endsAtMs: held.endsAtMs }
          release = await ask(kept.claim(identity, longestSignInMs))
          if (release) break
          await wait(lookEveryMs * (0.5 + Math.random()))
        }
        // Somebody may have signed in between the look and the claim.
        const held = release && (await lookUp(identity, unlike))
        if (held) return { token: held.token, endsAtMs: held.endsAtMs }
      } catch (error) {
        noteAway(error)
      }
      try {
        const answer = await signIn()
        if (!isAway) await ask(kept.put(identity, answer)).catch(noteAway)
        return answer
      } finally {
        if (release) await ask(release()).catch(noteAway)
      }
    },
  }
}
