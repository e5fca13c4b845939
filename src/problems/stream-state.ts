// In which state a stream is, in a few words: the same on pages, in the terminal and in the history of minutes. Pure.

import type { StreamStanding } from '../store/queries/watch.ts'
import type { ServiceName } from '../streams/catalog.ts'
import { isNews, type Problem } from './stream-problems.ts'

/** Who does something about a problem: a person, Tidemark itself, or nobody, because it only has to be known. */
export type Care = 'needs you' | 'heals' | 'news'
export const careOf = ({ kind }: Pick<Problem, 'kind'>): Care =>
  kind === 'service_down' ? 'heals' : isNews(kind) ? 'news' : 'needs you'

/** `ok`: up to date. `busy`: loading. `warn`: gets better by itself. `bad`: needs a person. */
export type Tone = 'ok' | 'busy' | 'idle' | 'todo' | 'warn' | 'bad'
export type StreamState = { readonly tone: Tone; readonly words: string }

/** The worst first. */
export function stateOfStream(
  { stream, stoppedReason, paused, readThroughAt, running }: StreamStanding,
  service: ServiceName,
  problems: readonly Problem[],
): StreamState {
  const has = (kind: string, key: string = stream) => problems.some((one) => one.key === `${kind}:${key}`)
  if (stoppedReason !== null) return { tone: 'bad', words: 'stopped' }
  if (paused !== null) return { tone: 'idle', words: 'paused' }
  if (has('access_lost')) return { tone: 'bad', words: 'access lost' }
  if (has('deletions_blocked')) return { tone: 'bad', words: 'deletions blocked' }
  if (has('token_refused', service)) return { tone: 'bad', words: 'sign-in refused' }
  if (has('service_down', service)) return { tone: 'warn', words: 'behind, retrying' }
  if (has('failing')) return { tone: 'bad', words: 'runs fail' }
  if (has('stuck') || has('inconclusive')) return { tone: 'bad', words: 'comes no further' }
  if (has('stale')) return { tone: 'warn', words: 'behind' }
  if (readThroughAt !== null) return { tone: 'ok', words: 'up to date' }
  return running.length > 0 ? { tone: 'busy', words: 'first load' } : { tone: 'todo', words: 'not read yet' }
}

/** As the history of minutes has it. */
export const minuteStateOf = ({ tone }: StreamState) =>
  (
    ({
      ok: 'up to date',
      busy: 'loading',
      todo: 'loading',
      idle: 'paused',
      warn: 'behind',
      bad: 'needs you',
    }) as const
  )[tone]
