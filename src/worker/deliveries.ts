// What deliveries of webhooks start: a reading of the streams of their source, however many come at once.

import type { Logger } from '../log.ts'
import type { RunRequest, Stream } from '../streams/catalog.ts'
import { sourceIn } from '../streams/names.ts'
import { withTimeout } from '../util/waiting.ts'
import { openRunDebounce, type RunDebounce } from './queue/requests.ts'

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
  const bySource = new Map<string, RunDebounce>()
  const open = (source: string): RunDebounce =>
    openRunDebounce({
      windowMs,
      log,
      async requestRun() {
        // One that hangs would keep all later deliveries waiting.
        const isPaused = await withTimeout(longestLookMs, paused())
        for (const { name: stream, kind } of streams())
          if (kind === 'changes' && sourceIn(stream) === source && !isPaused.has(stream))
            await requestRun({ stream, kind: 'incremental', cause: 'webhook' })
      },
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
