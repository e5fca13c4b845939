// Work that may not be done side by side.

export type Alone = (work: () => Promise<void>) => Promise<void>

/** One at a time, in the order in which they came. */
export function openTurns(): Alone {
  let last: Promise<void> = Promise.resolve()
  return (work) => {
    const mine = last.then(work)
    last = mine.catch(() => {})
    return mine
  }
}
