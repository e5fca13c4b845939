// A sorted list that stays sorted: chunks of a bounded length, so that adding, removing, finding by order and skipping
// a million items all cost microseconds.

const chunkLimit = 1024

export type SortedRows<T> = {
  readonly size: number
  /** Adds the item, or puts it in the place of the one that compares equal, which is returned. */
  put(item: T): T | undefined
  /** Removes the item that compares equal; says whether there was one. */
  remove(item: T): boolean
  /** The item that compares equal. */
  find(item: T): T | undefined
  /** How many items compare below this one. */
  rankOf(item: T): number
  at(index: number): T | undefined
  slice(from: number, to: number): T[]
  [Symbol.iterator](): IterableIterator<T>
}

export function sortedRows<T>(compare: (a: T, b: T) => number, sorted: readonly T[] = []): SortedRows<T> {
  const chunks: T[][] = []
  for (let start = 0; start < sorted.length; start += chunkLimit / 2)
    chunks.push(sorted.slice(start, start + chunkLimit / 2))
  let size = sorted.length

  /** The first chunk whose last item is not below this one; the last chunk when all are. */
  function chunkFor(item: T): number {
    let low = 0
    let high = chunks.length - 1
    while (low < high) {
      const middle = (low + high) >>> 1
      const last = chunks[middle]?.at(-1)
      if (last !== undefined && compare(last, item) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  function placeIn(chunk: readonly T[], item: T): number {
    let low = 0
    let high = chunk.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (compare(chunk[middle] as T, item) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  function locate(item: T): { chunkIndex: number; place: number; found: T | undefined } {
    const chunkIndex = chunkFor(item)
    const chunk = chunks[chunkIndex] ?? []
    const place = placeIn(chunk, item)
    const candidate = chunk[place]
    const isFound = candidate !== undefined && compare(candidate, item) === 0
    return { chunkIndex, place, found: isFound ? candidate : undefined }
  }

  function* walk(): IterableIterator<T> {
    for (const chunk of chunks) yield* chunk
  }

  function slice(from: number, to: number): T[] {
    const found: T[] = []
    let skipped = 0
    for (const chunk of chunks) {
      if (skipped >= to) break
      if (skipped + chunk.length > from) {
        const part = chunk.slice(Math.max(0, from - skipped), to - skipped)
        for (const item of part) found.push(item)
      }
      skipped += chunk.length
    }
    return found
  }

  return {
    get size() {
      return size
    },
    put(item) {
      const { chunkIndex, place, found } = locate(item)
      const chunk = chunks[chunkIndex] ?? []
      chunk.splice(place, found === undefined ? 0 : 1, item)
      if (found !== undefined) return found
      size++
      chunks[chunkIndex] = chunk
      if (chunk.length <= chunkLimit) return undefined
      // Appending is the usual case: a split near the end leaves full chunks behind.
      const isLast = chunkIndex === chunks.length - 1
      chunks.splice(chunkIndex + 1, 0, chunk.splice(isLast ? chunkLimit - 64 : chunkLimit / 2))
      return undefined
    },
    remove(item) {
      const { chunkIndex, place, found } = locate(item)
      if (found === undefined) return false
      const chunk = chunks[chunkIndex] as T[]
      chunk.splice(place, 1)
      if (chunk.length === 0) chunks.splice(chunkIndex, 1)
      size--
      return true
    },
    find: (item) => locate(item).found,
    rankOf(item) {
      const { chunkIndex, place } = locate(item)
      let rank = place
      for (let index = 0; index < chunkIndex; index++) rank += chunks[index]?.length ?? 0
      return rank
    },
    at: (index) => slice(index, index + 1)[0],
    slice,
    [Symbol.iterator]: walk,
  }
}
