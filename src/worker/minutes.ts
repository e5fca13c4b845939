// What is noted by the minute: requests to the services of the upstream, as this worker makes them, and how streams were. A state of a stream
// that lasts is one line for five minutes, and a line for each minute tells all others. Pure: what was seen in, what is to be noted out.

import type { Ages, MinuteState, ServiceMinute, StateMinutes } from '../store/book/watch.ts'
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
        const at = floor(now(), minuteMs)
        const key = `${service} ${at}`
        const counts: Counts = minutes.get(key) ?? {
          service,
          at: new Date(at),
          requests: 0,
          bytes: 0,
          isNew: true,
          failures: {},
          askedFor: {},
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

type Seen = Ages & { readonly stream: string; readonly state: MinuteState }

/** As long as the buckets of the charts. */
const spanMs = 5 * minuteMs
const lasting: readonly MinuteState[] = ['up to date', 'paused']

export function openStreamMinutes() {
  const open = new Map<string, StateMinutes>()
  const lastNoted = new Map<string, MinuteState>()
  const close = (stream: string, upToMs: number): readonly StateMinutes[] => {
    const span = open.get(stream)
    open.delete(stream)
    if (!span) return []
    const fromMs = span.at.getTime()
    const untilMs = Math.min(endOf(span), Math.max(fromMs + minuteMs, floor(upToMs, minuteMs)))
    return [{ ...span, minutes: (untilMs - fromMs) / minuteMs }]
  }
  const look = (seen: Seen, nowMs: number): readonly StateMinutes[] => {
    const span = open.get(seen.stream)
    const isOver = span && (span.state !== seen.state || nowMs >= endOf(span))
    const closed = isOver ? close(seen.stream, nowMs) : []
    const minute = { ...seen, at: new Date(floor(nowMs, minuteMs)), minutes: 1 }
    const current = open.get(seen.stream)
    // Until its line is there, whoever reads takes the state of the line before.
    const mayLast = lasting.includes(seen.state) && lastNoted.get(seen.stream) === seen.state
    if (current) open.set(seen.stream, worse(current, seen))
    else if (mayLast && (span || nowMs % spanMs < minuteMs)) open.set(seen.stream, minute)
    else {
      lastNoted.set(seen.stream, seen.state)
      return [...closed, minute]
    }
    return closed
  }
  return {
    /** Returns what is to be noted now. */
    saw: (seen: readonly Seen[], now: Date): readonly StateMinutes[] =>
      seen.flatMap((one) => look(one, now.getTime())),
    /** Nobody looks any more: returns what is not noted yet. */
    end: (now: Date): readonly StateMinutes[] =>
      [...open.keys()].flatMap((stream) => close(stream, now.getTime() + minuteMs - 1)),
  }
}

const endOf = ({ at }: StateMinutes): number => floor(at.getTime(), spanMs) + spanMs

const floor = (ms: number, stepMs: number): number => Math.floor(ms / stepMs) * stepMs

const worse = (span: StateMinutes, seen: Ages): StateMinutes => ({
  ...span,
  readAge: oldest(span.readAge, seen.readAge),
  settledAge: oldest(span.settledAge, seen.settledAge),
  deletionsAge: oldest(span.deletionsAge, seen.deletionsAge),
})

const oldest = (one: number | null, other: number | null): number | null =>
  one === null || other === null ? (one ?? other) : Math.max(one, other)
