// What was received, for tests that look at the server's side. When requests came is always kept; what they were, from when it is switched on
// and then only of the latest.

import type { Incoming, Service } from './answer.ts'

type ReceivedRequest = {
  readonly method: string
  readonly service: Service
  /** Without the service's prefix, e.g. `/api/Assignment`. */
  readonly path: string
  /** Spelt as it came. */
  readonly query: Readonly<Record<string, string>>
  readonly headers: Incoming['headers']
  readonly body: string
  readonly receivedAtMs: number
  /** Null while it is not answered, and for ever when the connection was cut instead. */
  readonly status: number | null
}

export type RequestLog = {
  /** Forgets what it has kept. */
  start(): void
  stop(): void
  clear(): void
  readonly entries: readonly ReceivedRequest[]
  /** When the latest requests came, in milliseconds of `performance.now()`, without sign-ins. */
  readonly times: readonly number[]
}
export type RecordingLog = RequestLog & {
  received(request: Incoming, query: URLSearchParams): { answered(status: number): void }
}

const keptRequests = 10_000
const keptBodyBytes = 65_536
const keptTimes = 100_000

/** How many of these times, which rise, are within any span of that length. */
export function mostWithin(spanMs: number, times: readonly number[]): number {
  let most = 0
  let first = 0
  for (const [last, time] of times.entries()) {
    while (time - (times[first] ?? time) >= spanMs) first++
    most = Math.max(most, last - first + 1)
  }
  return most
}

export function openRequestLog(): RecordingLog {
  let isOn = false
  let entries: ReceivedRequest[] = []
  let times: number[] = []
  return {
    get entries() {
      return entries
    },
    get times() {
      return times
    },
    start() {
      isOn = true
      entries = []
    },
    stop() {
      isOn = false
    },
    clear() {
      entries = []
      times = []
    },
    received(request, query) {
      if (request.service !== 'auth') times.push(performance.now())
      if (times.length > keptTimes) times.splice(0, keptTimes / 10)
      if (!isOn) return { answered: () => {} }
      const entry = {
        method: request.method,
        service: request.service,
        path: request.path,
        query: Object.fromEntries(query),
        headers: request.headers,
        body: request.body.subarray(0, keptBodyBytes).toString(),
        receivedAtMs: Date.now(),
        status: null as number | null,
      }
      entries.push(entry)
      if (entries.length > keptRequests) entries.splice(0, keptRequests / 10)
      return {
        answered(status) {
          entry.status = status
        },
      }
    },
  }
}
