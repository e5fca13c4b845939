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

type Chunks<T> = T[][]
type Compare<T> = (a: T, b: T) => number
type Place<T> = { readonly chunkIndex: number; readonly index: number; readonly found: T | undefined }

export function sortedRows<T>(compare: Compare<T>, sorted: readonly T[] = []): SortedRows<T> {
  const chunks = chunksOf(sorted)
  let size = sorted.length

  function* walk(): IterableIterator<T> {
    for (const chunk of chunks) yield* chunk
  }

  return {
    get size() {
      return size
    },
    put(item) {
      const place = locate(chunks, compare, item)
      if (place.found === undefined) size++
      putAt(chunks, place, item)
      return place.found
    },
    remove(item) {
      const { chunkIndex, index, found } = locate(chunks, compare, item)
      if (found === undefined) return false
      const chunk = chunks[chunkIndex] as T[]
      chunk.splice(index, 1)
      if (chunk.length === 0) chunks.splice(chunkIndex, 1)
      size--
      return true
    },
    find: (item) => locate(chunks, compare, item).found,
    rankOf(item) {
      const { chunkIndex, index } = locate(chunks, compare, item)
      let rank = index
      for (let before = 0; before < chunkIndex; before++) rank += chunks[before]?.length ?? 0
      return rank
    },
    at: (index) => slice(chunks, index, index + 1)[0],
    slice: (from, to) => slice(chunks, from, to),
    [Symbol.iterator]: walk,
  }
}

function chunksOf<T>(sorted: readonly T[]): Chunks<T> {
  const chunks: Chunks<T> = []
  for (let start = 0; start < sorted.length; start += chunkLimit / 2)
    chunks.push(sorted.slice(start, start + chunkLimit / 2))
  return chunks
}

function locate<T>(chunks: Chunks<T>, compare: Compare<T>, item: T): Place<T> {
  // The first chunk whose last item is not below this one; the last chunk when all are.
  const chunkIndex = firstIndex(Math.max(0, chunks.length - 1), (index) => {
    const last = chunks[index]?.at(-1)
    return last === undefined || compare(last, item) >= 0
  })
  const chunk = chunks[chunkIndex] ?? []
  const index = firstIndex(chunk.length, (at) => compare(chunk[at] as T, item) >= 0)
  const candidate = chunk[index]
  const isFound = candidate !== undefined && compare(candidate, item) === 0
  return { chunkIndex, index, found: isFound ? candidate : undefined }
}

/** The first index that reaches it, where every later one does too; the end when none does. */
function firstIndex(end: number, reaches: (index: number) => boolean): number {
  let low = 0
  let high = end
  while (low < high) {
    const middle = (low + high) >>> 1
    if (reaches(middle)) high = middle
    else low = middle + 1
  }
  return low
}

function putAt<T>(chunks: Chunks<T>, { chunkIndex, index, found }: Place<T>, item: T): void {
  const chunk = chunks[chunkIndex] ?? []
  chunk.splice(index, found === undefined ? 0 : 1, item)
  chunks[chunkIndex] = chunk
  if (chunk.length <= chunkLimit) return
  // Appending is the usual case: a split near the end leaves full chunks behind.
  const isLast = chunkIndex === chunks.length - 1
  chunks.splice(chunkIndex + 1, 0, chunk.splice(isLast ? chunkLimit - 64 : chunkLimit / 2))
}

function slice<T>(chunks: Chunks<T>, from: number, to: number): T[] {
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
