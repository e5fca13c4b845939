// Memory that pages travel in, used again by the next ones. Taken anew each time, the system would have to clear it, and the engine counts
// it: after every few pages it would look through all of its memory for what can be thrown away.

/** The next page may be a little longer. What is not written to takes no memory. */
const slack = 1.25

export type SpareBytes = {
  /** At least so many. What they hold is left over from before. */
  take(least: number): Buffer
  /** Nobody may look at them any more. */
  giveBack(bytes: Buffer): void
}

/** `most` is how many bytes are kept at most while nobody uses them (P10). */
export function openSpareBytes(most: number): SpareBytes {
  const spare: Buffer[] = []
  let kept = 0
  return {
    take(least) {
      const index = spare.findIndex(({ length }) => length >= least)
      const [found] = index < 0 ? [] : spare.splice(index, 1)
      kept -= found?.length ?? 0
      // All from the same place: to the engine, other buffers are of another shape, and it compiles what reads them once more.
      return found ?? Buffer.allocUnsafeSlow(Math.ceil(least * slack))
    },
    giveBack(bytes) {
      spare.push(bytes)
      kept += bytes.length
      while (kept > most) kept -= spare.shift()?.length ?? kept
    },
  }
}
