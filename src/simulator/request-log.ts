// What was received, for tests that look at the server's side. Nothing is kept until it is switched on, and then only
// the latest requests.

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
}
export type RecordingLog = RequestLog & {
  received(request: Incoming, query: URLSearchParams): { answered(status: number): void }
}

const keptRequests = 10_000
const keptBodyBytes = 65_536

export function openRequestLog(): RecordingLog {
  let isOn = false
  let entries: ReceivedRequest[] = []
  return {
    get entries() {
      return entries
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
    },
    received(request, query) {
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
