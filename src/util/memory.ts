// Collects garbage when this program asks for it, which V8 offers only by a flag.

import { flushCompileCache } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** `last-resort`: also what V8 keeps because it may be needed again, such as compiled code. */
type Collect = (
  how?: { readonly type: 'minor' } | { readonly type: 'major'; readonly flavor: 'last-resort' },
) => void

export function openCollector(): Collect {
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
