// A few places for many people: each may have some of them at once, and waits for more in a short queue. So one who asks for very much
// waits for themselves, and all others are served. Knows nothing of what is done in a place.

type Limits = {
  readonly inAll: number
  readonly ofOne: number
  readonly waitingInAll: number
  readonly waitingOfOne: number
  readonly longestWaitMs: number
}
type Waiting = { readonly who: unknown; readonly begin: () => void }

export function openPlaces(most: Limits) {
  const taken: unknown[] = []
  const waiting = new Set<Waiting>()
  const takenBy = (who: unknown) => taken.filter((one) => one === who).length
  const isFree = (who: unknown) => taken.length < most.inAll && takenBy(who) < most.ofOne

  /** Whoever has least goes first, and of those whoever came first. */
  const nextWaiting = (): Waiting | undefined =>
    [...waiting]
      .filter((one) => isFree(one.who))
      .toSorted((one, other) => takenBy(one.who) - takenBy(other.who))[0]

  function begin(who: unknown): () => void {
    taken.push(who)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      taken.splice(taken.indexOf(who), 1)
      nextWaiting()?.begin()
    }
  }

  return {
    /** Resolves with what gives the place back, or with null: there are too many before this one, or the wait was too long or given up. */
    async take(who: unknown, givenUp: AbortSignal): Promise<(() => void) | null> {
      if (isFree(who)) return begin(who)
      const mine = [...waiting].filter((one) => one.who === who).length
      if (mine >= most.waitingOfOne || waiting.size >= most.waitingInAll || givenUp.aborted) return null
      const { promise, resolve } = Promise.withResolvers<(() => void) | null>()
      const entry: Waiting = { who, begin: () => end(begin(who)) }
      const end = (result: (() => void) | null) => {
        waiting.delete(entry)
        clearTimeout(timer)
        givenUp.removeEventListener('abort', giveUp)
        resolve(result)
      }
      const giveUp = () => end(null)
      const timer = setTimeout(giveUp, most.longestWaitMs)
      givenUp.addEventListener('abort', giveUp)
      waiting.add(entry)
      return await promise
    },
  }
}
