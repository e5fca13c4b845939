// What deliveries of webhooks start: a reading of the streams of their source. Any number of them become few run requests: the first at once,
// then at most one in a window, and always one after the last delivery.

import type { Logger } from '../log.ts'
import type { RunRequest, Stream } from '../streams/catalog.ts'
import { sourceIn } from '../streams/names.ts'
import { withTimeout } from '../util/waiting.ts'

type Options = {
  /** Of all sources that are read here. */
  readonly streams: () => readonly Stream[]
  readonly paused: () => Promise<ReadonlySet<string>>
  readonly requestRun: (request: RunRequest) => Promise<void>
  readonly log: Logger
}
/** By the name of a source; empty: the one that the environment describes. */
export type Deliveries = { announce(source: string): void; close(): void }

const windowMs = 700
const longestLookMs = 2_000

/** Of each source by itself: many of one delay none of another (P19). */
export function openDeliveries({ streams, paused, requestRun, log }: Options): Deliveries {
  const bySource = new Map<string, Debounce>()
  const open = (source: string): Debounce =>
    openDebounce(log, async () => {
      // One that hangs would keep all later deliveries waiting.
      const isPaused = await withTimeout(longestLookMs, paused())
      for (const { name: stream, kind } of streams())
        if (kind === 'changes' && sourceIn(stream) === source && !isPaused.has(stream))
          await requestRun({ stream, kind: 'incremental', cause: 'webhook' })
    })
  return {
    announce(source) {
      const own = bySource.get(source) ?? open(source)
      bySource.set(source, own)
      own.announce()
    },
    close() {
      for (const one of bySource.values()) one.close()
    },
  }
}

type Debounce = { announce(): void; close(): void }

function openDebounce(log: Logger, requestRuns: () => Promise<void>): Debounce {
  let isAnnounced = false
  let isClosed = false
  let timer: NodeJS.Timeout | null = null
  let isUnderWay = false

  async function pass(): Promise<void> {
    isAnnounced = false
    isUnderWay = true
    try {
      await requestRuns()
    } catch (error) {
      isAnnounced = true
      log.debug({ err: error }, 'a webhook could not be passed on yet')
    }
    isUnderWay = false
    if (!isClosed) timer = setTimeout(next, windowMs)
  }

  function next(): void {
    timer = null
    if (isAnnounced) void pass()
  }

  return {
    announce() {
      isAnnounced = true
      if (timer === null && !isUnderWay && !isClosed) void pass()
    },
    close() {
      isClosed = true
      if (timer) clearTimeout(timer)
    },
  }
}
