// Writes a few pages while the next one is fetched. Their number and size are limited, so memory stays bounded (P10). If a write
// fails, the next call throws its error, and no further write starts.

/** Limit for the JSON of all writes under way; as rows it takes a few times as much memory. A single larger page is written alone. */
const mostBytes = 20 * 1024 * 1024

/** One is copied while the one before it is merged: see src/store/writing/page-writer.ts. */
const mostWrites = 2

export function openPipeline() {
  const underWay = new Set<Promise<void>>()
  let held = 0
  let failure: { readonly error: unknown } | null = null
  const throwFailure = () => {
    if (failure) throw failure.error
  }
  return {
    /** Waits until there is room for another write, then starts it. `bytes`: the length of the JSON that it writes. */
    async start(write: () => Promise<void>, bytes = 0): Promise<void> {
      const isFull = () => underWay.size >= mostWrites || (underWay.size > 0 && held + bytes > mostBytes)
      while (isFull()) await Promise.race(underWay)
      throwFailure()
      held += bytes
      const writing = write().then(
        () => {},
        (error: unknown) => {
          failure ??= { error }
        },
      )
      underWay.add(writing)
      void writing.then(() => {
        held -= bytes
        underWay.delete(writing)
      })
    },
    async settled(): Promise<void> {
      await Promise.all(underWay)
      throwFailure()
    },
  }
}
