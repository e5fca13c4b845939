// What the worker counts while it works, for Prometheus. Every name begins with `tidemark_`; labels are only what there are few
// of: streams, lanes, services, statuses. The names are documented in the README.

import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client'

export type RunSeen = {
  readonly stream: string
  readonly lane: string
  readonly status: string
  readonly durationMs: number
  /** Whether a webhook asked for the run; null where none ever does. */
  readonly isAnnounced: boolean | null
  readonly tally: Readonly<Record<(typeof outcomes)[number], number>>
}
export type Metrics = {
  readonly registry: Registry
  /** Told by the client of the upstream. */
  readonly upstream: {
    requestDone(request: {
      readonly service: string
      readonly status: number | null
      readonly durationMs: number
      readonly bytes: number
    }): void
    retryPlanned(retry: { readonly service: string; readonly reason: string }): void
    waited(wait: { readonly service: string; readonly reason: string; readonly waitedMs: number }): void
    signInDone(signIn: { readonly service: string; readonly outcome: string }): void
  }
  runDone(run: RunSeen): void
  delivered(): void
}

const outcomes = ['inserted', 'updated', 'unchanged', 'rescued', 'quarantined'] as const
const runSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200]
const requestSeconds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export function openMetrics(): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry, prefix: 'tidemark_' })
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
    new Counter({ name: `tidemark_${name}`, help, labelNames, registers })
  const histogram = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    buckets: number[],
  ) => new Histogram({ name: `tidemark_${name}`, help, labelNames, buckets, registers })

  const rows = counter('rows_total', 'Rows by what a run did with them', ['stream', 'outcome'])
  const runs = counter('runs_total', 'Runs by how they ended', ['stream', 'lane', 'status'])
  const runDuration = histogram('run_duration_seconds', 'How long runs took', ['stream', 'lane'], runSeconds)
  const requests = counter('requests_total', 'Requests to the upstream by status; none: no answer', [
    'service',
    'status',
  ])
  const requestDuration = histogram(
    'request_duration_seconds',
    'How long requests took',
    ['service'],
    requestSeconds,
  )
  const bytes = counter('response_bytes_total', 'Bytes of answers, unpacked', ['service'])
  const retries = counter('retries_total', 'Requests that are made again', ['service', 'reason'])
  const waits = counter('rate_limit_waits_total', 'Requests that had to wait their turn', [
    'service',
    'reason',
  ])
  const waited = counter('rate_limit_wait_seconds_total', 'How long they waited', ['service', 'reason'])
  const signIns = counter('sign_ins_total', 'Sign-ins by outcome', ['service', 'outcome'])
  const deliveries = counter('webhook_deliveries_total', 'Webhook deliveries that were accepted', [])
  const changes = counter(
    'webhook_changes_total',
    'Changed rows of head runs, by whether a webhook asked for the run',
    ['stream', 'announced'],
  )

  return {
    registry,
    upstream: {
      requestDone({ service, status, durationMs, bytes: received }) {
        requests.inc({ service, status: status === null ? 'none' : String(status) })
        requestDuration.observe({ service }, durationMs / 1000)
        bytes.inc({ service }, received)
      },
      retryPlanned: ({ service, reason }) => retries.inc({ service, reason }),
      waited({ service, reason, waitedMs }) {
        waits.inc({ service, reason })
        waited.inc({ service, reason }, waitedMs / 1000)
      },
      signInDone: ({ service, outcome }) => signIns.inc({ service, outcome: outcome.replaceAll(' ', '_') }),
    },
    runDone({ stream, lane, status, durationMs, isAnnounced, tally }) {
      runs.inc({ stream, lane, status })
      runDuration.observe({ stream, lane }, durationMs / 1000)
      for (const outcome of outcomes) rows.inc({ stream, outcome }, tally[outcome])
      const changed = tally.inserted + tally.updated
      if (isAnnounced !== null && changed > 0)
        changes.inc({ stream, announced: String(isAnnounced) }, changed)
    },
    delivered: () => deliveries.inc(),
  }
}
