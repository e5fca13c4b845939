// Reuses the memory that pages travel in for the next ones. If it were taken anew each time, the system would have to clear it, and the
// engine, which counts it, would run a full garbage collection after every few pages.

/** The next page may be a little longer. What is not written to takes no memory. */
const slack = 1.25

export type SpareBytes = ReturnType<typeof openSpareBytes>

/** `most` is how many bytes are kept at most while nobody uses them (P10). */
export function openSpareBytes(most: number) {
  const spare: Buffer[] = []
  let kept = 0
  return {
    /** At least so many bytes. What they hold is left over from before. */
    take(least: number): Buffer {
      const index = spare.findIndex(({ length }) => length >= least)
      const [found] = index < 0 ? [] : spare.splice(index, 1)
      kept -= found?.length ?? 0
      // All buffers are made in the same way: others have another shape for the engine, and it would compile what reads them once more.
      return found ?? Buffer.allocUnsafeSlow(Math.ceil(least * slack))
    },
    /** Nobody may look at them any more. */
    giveBack(bytes: Buffer): void {
      spare.push(bytes)
      kept += bytes.length
      while (kept > most) {
        const dropped = spare.shift()
        kept -= dropped?.length ?? kept
        if (dropped) freeBytes(dropped)
      }
    },
  }
}

/** Gives the memory back to the system at once, and not with the next collection: until then as much again may have come (P10). */
export function freeBytes(bytes: Buffer): void {
  // Some share their memory with others: those are not ours.
  if (bytes.buffer instanceof ArrayBuffer && bytes.buffer.byteLength === bytes.length)
    bytes.buffer.transfer(0)
}
