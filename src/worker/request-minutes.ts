// Counts requests to the services of the upstream by the minute, as this worker makes them.

import type { ServiceMinute } from '../store/book/watch.ts'
import type { UpstreamObserver } from '../upstream/http/transport.ts'
import { behalfNow } from '../util/on-behalf.ts'

export type RequestMinutes = {
  readonly observer: Required<Pick<UpstreamObserver, 'requestDone'>>
  /** The minutes that changed since the last call, each as a whole. Minutes that are over are forgotten then. */
  take(options?: { readonly onlyWholeOrFailed?: boolean }): readonly ServiceMinute[]
}

type Counts = {
  readonly service: string
  readonly at: Date
  requests: number
  bytes: number
  readonly failures: Record<string, number>
  readonly askedFor: Record<string, number>
  readonly latency: number[]
  isNew: boolean
}

const minuteMs = 60_000
/** Up to 10, 20, 40 … 40,960 ms, and more. */
const buckets = 14
const shortestMs = 10

export function openRequestMinutes(now: () => number = Date.now): RequestMinutes {
  const minutes = new Map<string, Counts>()
  return {
    observer: {
      requestDone({ service, status, isAnswered, durationMs, bytes }) {
        const behalf = behalfNow()
        const at = Math.floor(now() / minuteMs) * minuteMs
        const key = `${service} ${at}`
        const counts: Counts = minutes.get(key) ?? {
          ...{ service, at: new Date(at), requests: 0, bytes: 0, isNew: true },
          ...{ failures: {}, askedFor: {} },
          latency: new Array<number>(buckets).fill(0),
        }
        minutes.set(key, counts)
        counts.isNew = true
        counts.requests += 1
        counts.bytes += bytes
        const failure = isAnswered ? null : classOf(status)
        if (failure) add(counts.failures, failure)
        if (behalf) add(counts.askedFor, `${behalf.stream} ${behalf.kind}`)
        // When a connection is refused or a request times out, nothing was answered: that says nothing of how long answers take.
        if (status === null) return
        const place = bucketOf(durationMs)
        counts.latency[place] = (counts.latency[place] ?? 0) + 1
      },
    },
    take({ onlyWholeOrFailed = false } = {}) {
      const isOver = ({ at }: Counts) => at.getTime() + minuteMs <= now()
      const taken: Counts[] = []
      for (const [key, counts] of minutes) {
        if (onlyWholeOrFailed && !isOver(counts) && Object.keys(counts.failures).length === 0) continue
        if (counts.isNew) taken.push({ ...counts })
        counts.isNew = false
        if (isOver(counts)) minutes.delete(key)
      }
      return taken.map(({ isNew, ...counts }) => counts)
    },
  }
}

const add = (counts: Record<string, number>, name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1
}

function classOf(status: number | null): string | null {
  if (status === null) return 'none'
  if (status === 429) return '429'
  if (status >= 500) return '5xx'
  return status >= 400 ? '4xx' : null
}

const bucketOf = (ms: number): number =>
  Math.min(buckets - 1, Math.max(0, Math.ceil(Math.log2(ms / shortestMs))))
