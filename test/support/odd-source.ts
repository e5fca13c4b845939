// Sources that do something before or after they answer, or hide what they have.

import type { Answer, Refusal, Source } from '../../src/sync/ports/source.ts'

type Asking = 'list' | 'changes'

export function before(source: Source, what: Asking, work: () => Promise<void>): Source {
  return {
    ...source,
    sortedBy: (field) => before(source.sortedBy(field), what, work),
    [what]: async (request: never, until: AbortSignal) => {
      await work()
      return await source[what](request, until)
    },
  }
}

export function after(
  source: Source,
  what: Asking,
  work: (answer: Answer | Refusal) => Promise<void>,
): Source {
  return {
    ...source,
    sortedBy: (field) => after(source.sortedBy(field), what, work),
    [what]: async (request: never, until: AbortSignal) => {
      const answer = await source[what](request, until)
      await work(answer)
      return answer
    },
  }
}

/** As after a lost right: there is nothing new. */
export const hiding = (source: Source): Source => ({
  ...source,
  sortedBy: (field) => hiding(source.sortedBy(field)),
  changes: (request, until) => source.changes({ ...request, since: 1_000_000_000n }, until),
})
