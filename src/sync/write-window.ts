// Lets a few pages be written while the next is fetched, and no more: memory stays bounded (P10). A failed write is told at
// the next call, and nothing is started after it.

export type WriteWindow = {
  /** Waits for a free place, then starts the write. */
  start(write: () => Promise<void>): Promise<void>
  settled(): Promise<void>
}

export function openWriteWindow(most: number): WriteWindow {
  const underWay = new Set<Promise<void>>()
  let failure: { readonly error: unknown } | null = null
  const throwFailure = () => {
    if (failure) throw failure.error
  }
  return {
    async start(write) {
      while (underWay.size >= most) await Promise.race(underWay)
      throwFailure()
      const writing = write().then(
        () => {},
        (error: unknown) => {
          failure ??= { error }
        },
      )
      underWay.add(writing)
      void writing.then(() => underWay.delete(writing))
    },
    async settled() {
      await Promise.all(underWay)
      throwFailure()
    },
  }
}
