// Collects garbage when this program asks for it, which V8 offers only by a flag.

import { flushCompileCache } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** `last-resort`: also what V8 keeps because it may be needed again, such as compiled code. */
type Collect = (
  how?: { readonly type: 'minor' } | { readonly type: 'major'; readonly flavor: 'last-resort' },
) => void

function openCollector(): Collect {
  // The cache of compiled code depends on the flags. It is written before they change, so that other programs can use it.
  flushCompileCache()
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
}

const lookEveryMs = 60_000
/** A collection takes more than a tenth of a second, in which nothing else is done. */
const restMs = 600_000
const growth = 1.2

/**
 * Gives back what a start or a long run needed, when nothing is under way: V8 would keep it. Looks once a minute, until the signal, and
 * collects only where the program has grown by a fifth since the last time.
 */
export function giveMemoryBack({
  isBusy,
  signal,
}: {
  readonly isBusy: () => boolean
  readonly signal: AbortSignal
}): void {
  let collect: Collect | null = null
  let [leastBytes, lastMs] = [0, Number.NEGATIVE_INFINITY]
  const look = () => {
    if (isBusy() || performance.now() - lastMs < restMs) return
    if (process.memoryUsage.rss() < leastBytes * growth) return
    collect ??= openCollector()
    collect({ type: 'major', flavor: 'last-resort' })
    ;[leastBytes, lastMs] = [process.memoryUsage.rss(), performance.now()]
  }
  const looking = setInterval(look, lookEveryMs).unref()
  signal.addEventListener('abort', () => clearInterval(looking))
}

export type Memory = { readonly freeMemory: () => void; readonly freeChunks: () => void }

/**
 * Makes the engine collect old garbage more often, whenever the heap has grown by 40 %: assignments with all of their related records are
 * long, and those with files take megabytes (P10). Not for loads without related records: those would take 40 % more processor time, for
 * hardly less memory.
 */
export function growLittle(): Memory {
  const collect = openCollector()
  // What the start needed is given back before files come: some thirty megabytes.
  collect({ type: 'major', flavor: 'last-resort' })
  setFlagsFromString('--heap-growing-percent=40')
  // Twice: memory outside the heap is given back by the second collection.
  const freeMemory = () => {
    collect()
    collect()
  }
  return { freeMemory, freeChunks: () => collect({ type: 'minor' }) }
}
