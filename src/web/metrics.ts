// What the worker counts while it works, for Prometheus. Every name begins with `tidemark_`; labels are only what there are few
// of: streams, kinds of runs, services, statuses.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Part } from '../problems/parts.ts'
import { type Problem, problemKinds } from '../problems/stream-problems.ts'
import type { BeliefLine } from '../store/book/dictionary.ts'
import type { StreamOverview } from '../store/book/streams.ts'
import { verdictOf } from '../streams/beliefs.ts'
import { estimate, type ReadingProgress, readingName } from '../streams/load-progress.ts'
import { longestTimerMs } from '../util/waiting.ts'

export type RunSeen = {
  readonly stream: string
  readonly kind: string
  readonly status: string
  readonly durationMs: number
  /** Whether a webhook asked for the run; null where none ever does. */
  readonly isAnnounced: boolean | null
  readonly tally: Readonly<Record<(typeof outcomes)[number], number>>
  /** How many differences were found, by cause. */
  readonly differences: Readonly<Record<string, number>>
}
export type Metrics = ReturnType<typeof openMetrics>

export const outcomes = ['inserted', 'updated', 'unchanged', 'rescued', 'quarantined'] as const
const runSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200]
const requestSeconds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export function openMetrics() {
  const registry = new Registry()
  // How late the event loop is, is measured when somebody asks. Doing so all the time would wake an idle program a hundred times a second.
  collectDefaultMetrics({
    register: registry,
    prefix: 'tidemark_',
    eventLoopMonitoringPrecision: longestTimerMs,
  })
  for (const statistic of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'])
    registry.removeSingleMetric(`tidemark_nodejs_eventloop_lag_${statistic}_seconds`)
  return {
    registry,
    /** For the client of the upstream. */
    upstream: countRequests(registry),
    ...countRuns(registry),
  }
}

const makers = (registry: Registry) => {
  const registers = [registry]
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
      new Counter({ name: `tidemark_${name}`, help, labelNames, registers }),
    gauge: <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
      new Gauge({ name: `tidemark_${name}`, help, labelNames, registers }),
    histogram: <Label extends string>(
      name: string,
      help: string,
      labelNames: readonly Label[],
      buckets: number[],
    ) => new Histogram({ name: `tidemark_${name}`, help, labelNames, buckets, registers }),
  }
}

function countRuns(registry: Registry) {
  const { counter, histogram } = makers(registry)
  const rows = counter('rows_total', 'Rows that runs read, by what became of them', ['stream', 'outcome'])
  const runs = counter('runs_total', 'Runs by how they ended', ['stream', 'kind', 'status'])
  const duration = histogram('run_duration_seconds', 'How long runs took', ['stream', 'kind'], runSeconds)
  const deliveries = counter('webhook_deliveries_total', 'Webhook deliveries that were accepted', [])
  const changes = counter(
    'webhook_changes_total',
    'Changed rows of incremental runs, by whether a webhook asked for the run',
    ['stream', 'announced'],
  )
  const differences = counter('differences_total', 'Differences that reconciles found, by cause', [
    'stream',
    'cause',
  ])
  return {
    runDone({ stream, kind, status, durationMs, isAnnounced, tally, ...run }: RunSeen): void {
      runs.inc({ stream, kind, status })
      duration.observe({ stream, kind }, durationMs / 1000)
      for (const outcome of outcomes) rows.inc({ stream, outcome }, tally[outcome])
      for (const [cause, found] of Object.entries(run.differences)) differences.inc({ stream, cause }, found)
      const changed = tally.inserted + tally.updated
      if (isAnnounced !== null && changed > 0)
        changes.inc({ stream, announced: String(isAnnounced) }, changed)
    },
    delivered: () => deliveries.inc(),
  }
}

type Service = { readonly service: string }
type Request = Service & {
  readonly status: number | null
  readonly isAnswered: boolean
  readonly durationMs: number
  readonly bytes: number
}
type Reason = Service & { readonly reason: string }

function countRequests(registry: Registry) {
  const { counter, histogram } = makers(registry)
  const byService = ['service'] as const
  const byReason = ['service', 'reason'] as const
  const requests = counter(
    'requests_total',
    'Requests to the upstream by status (none: no answer came) and outcome: `answered`, also with 404 where there is no such record or page, or `failed`',
    ['service', 'status', 'outcome'],
  )
  const duration = histogram(
    'request_duration_seconds',
    'How long requests to the upstream took',
    byService,
    requestSeconds,
  )
  const bytes = counter('response_bytes_total', 'Bytes of answers of the upstream, uncompressed', byService)
  const retries = counter('retries_total', 'Requests to the upstream that were repeated, by reason', byReason)
  const waits = counter(
    'rate_limit_waits_total',
    'Requests to the upstream that had to wait for REQUESTS_PER_SECOND or Retry-After',
    byReason,
  )
  const waited = counter('rate_limit_wait_seconds_total', 'How long those requests waited', byReason)
  const signIns = counter('sign_ins_total', 'Sign-ins to the upstream by outcome', ['service', 'outcome'])
  return {
    requestDone({ service, status, isAnswered, durationMs, bytes: received }: Request): void {
      const outcome = isAnswered ? 'answered' : 'failed'
      requests.inc({ service, status: status === null ? 'none' : String(status), outcome })
      duration.observe({ service }, durationMs / 1000)
      bytes.inc({ service }, received)
    },
    retryPlanned: ({ service, reason }: Reason) => retries.inc({ service, reason }),
    waited({ service, reason, waitedMs }: Reason & { readonly waitedMs: number }): void {
      waits.inc({ service, reason })
      waited.inc({ service, reason }, waitedMs / 1000)
    },
    signInDone: ({ service, outcome }: Service & { readonly outcome: string }) =>
      signIns.inc({ service, outcome: outcome.replaceAll(' ', '_') }),
  }
}

// What is looked up when somebody asks for the metrics: how complete the streams are, what waits, which parts work. A database
// that is away leaves these out; the rest is still exported.
export type States = {
  // Null while the database, or the queue, does not answer.
  overview(): Promise<readonly StreamOverview[] | null>
  beliefs(): Promise<readonly BeliefLine[] | null>
  problems(): Promise<readonly Problem[] | null>
  /** Readings that go on. */
  progress(): Promise<readonly ReadingProgress[] | null>
  queueCounts(): Promise<Readonly<Record<string, number>> | null>
  /** What the work depends on; there from the first moment. */
  parts(): readonly Part[]
}

type StreamGauge = readonly [name: string, help: string, value: (one: StreamOverview) => number | null]

const seconds = (date: Date | null): number | null => (date === null ? null : new Date(date).getTime() / 1000)
const ageOf = (date: Date | null): number | null =>
  date === null ? null : Math.max(0, Date.now() - new Date(date).getTime()) / 1000
const perThousand = (ms: number | null): number | null => (ms === null ? null : ms / 1000)

const streamGauges: readonly StreamGauge[] = [
  [
    'lag_seconds',
    'How long ago the moment was through which the stream is read',
    (one) => perThousand(one.lagMs),
  ],
  [
    'settled_age_seconds',
    'How long ago the moment was through which the stream is settled',
    (one) => ageOf(one.settledThroughAt),
  ],
  [
    'deletions_age_seconds',
    'How long ago the moment was through which deletions are known',
    (one) => ageOf(one.deletionsKnownAt),
  ],
  [
    'read_through_timestamp_seconds',
    'The moment through which the stream is read: every change before it is stored',
    (one) => seconds(one.readThroughAt),
  ],
  [
    'read_through_version',
    'The row version through which the stream is read; rounded above 2^53',
    (one) => (one.position === '0' ? null : Number(one.position)),
  ],
  ['last_success_timestamp_seconds', 'When a run last succeeded', (one) => seconds(one.lastSuccessAt)],
  [
    'last_reconcile_timestamp_seconds',
    'When the last reconcile ended',
    (one) => seconds(one.lastReconcileAt),
  ],
  ['lookback_seconds', 'How far back look-back runs read', (one) => perThousand(one.lookbackMs)],
  ['late_arrivals', 'Late arrivals of the last 90 days', (one) => one.lateArrivals],
  [
    'related_backlog',
    'Assignments whose related records are still to be read',
    (one) => one.related?.waiting ?? null,
  ],
  [
    'related_set_aside',
    'Assignments whose related records could not be read and are tried again later',
    (one) => one.related?.setAside ?? null,
  ],
  ['quarantined', 'Records in quarantine: they cannot be stored as rows', (one) => one.quarantined],
  [
    'rescued_values',
    'Misfit values since the beginning: they did not fit their column and are kept in _rescued',
    (one) => one.rescued,
  ],
  [
    'missed_rows',
    'Rows that only a reconcile found, until somebody acknowledges them',
    (one) => one.missedRows,
  ],
  [
    'deletions_blocked',
    '1 while deletions are blocked until an operator approves or rejects them',
    (one) => (one.blockedDeletions === null || one.blockedDeletions.rejected ? 0 : 1),
  ],
  ['paused', '1 while the stream is paused by an operator', (one) => (one.paused === null ? 0 : 1)],
]

function addProgressGauges(registry: Registry): (readings: readonly ReadingProgress[], now: Date) => void {
  const { gauge } = makers(registry)
  const share = gauge(
    'progress_ratio',
    'How much of a reading that goes on is read, from 0 to 1, such as of a first load; left out where nobody knows how many rows there are',
    ['stream', 'reading'],
  )
  const left = gauge(
    'eta_seconds',
    'How long a reading still takes: at least and at most, by the fastest and the slowest 30 seconds of the last five minutes; left out while it stands still',
    ['stream', 'reading', 'bound'],
  )
  return (readings, now) => {
    share.reset()
    left.reset()
    for (const one of readings) {
      const { stream } = one
      const reading = readingName(one)
      const seen = estimate(one, now)
      if (seen.share !== null) share.set({ stream, reading }, seen.share)
      if (!seen.left) continue
      left.set({ stream, reading, bound: 'least' }, seen.left.leastMs / 1000)
      if (seen.left.mostMs !== null) left.set({ stream, reading, bound: 'most' }, seen.left.mostMs / 1000)
    }
  }
}

/** Returns what looks everything up again. */
export function addStateGauges(registry: Registry, states: States): () => Promise<void> {
  const { gauge } = makers(registry)
  const perStream = streamGauges.map(([name, help, value]) => ({
    value,
    gauge: gauge(name, help, ['stream']),
  }))
  const problemCount = gauge('problems', 'Open problems, by kind', ['kind'])
  const beliefHolds = gauge(
    'belief_holds',
    '1 while a belief about the upstream or the tables holds, 0 when it does not; left out while it is to be tested again',
    ['stream', 'belief'],
  )
  const beliefAge = gauge('belief_age_seconds', 'How long ago a belief was last tested', ['stream', 'belief'])
  const progress = addProgressGauges(registry)
  const queueJobs = gauge('queue_jobs', 'Runs in the queue by state', ['state'])
  const up = gauge(
    'up',
    '1 while work goes through this part: `database`, `queue`, a service of the upstream, or `alerts`, their receiver, which also has 1 as long as nothing had to be sent; 0 otherwise, and from the start until work has gone through',
    ['part'],
  )

  return async () => {
    const [overview, beliefs, problems, readings, counts] = await Promise.all([
      states.overview(),
      states.beliefs(),
      states.problems(),
      states.progress(),
      states.queueCounts(),
    ])
    for (const { gauge: one, value } of perStream) {
      one.reset()
      for (const stream of overview ?? []) {
        const found = value(stream)
        if (found !== null) one.set({ stream: stream.stream }, found)
      }
    }
    beliefHolds.reset()
    beliefAge.reset()
    const now = new Date()
    for (const line of beliefs ?? []) {
      const labels = { stream: line.stream, belief: line.name }
      const verdict = verdictOf(line, now)
      if (verdict !== 'unknown') beliefHolds.set(labels, verdict === 'holds' ? 1 : 0)
      beliefAge.set(labels, (now.getTime() - line.testedAt.getTime()) / 1000)
    }
    problemCount.reset()
    for (const kind of problems ? problemKinds : [])
      problemCount.set({ kind }, (problems ?? []).filter((problem) => problem.kind === kind).length)
    progress(readings ?? [], now)
    queueJobs.reset()
    for (const [state, count] of Object.entries(counts ?? {})) queueJobs.set({ state }, count)
    up.reset()
    for (const { name, isUp } of states.parts()) up.set({ part: name }, isUp ? 1 : 0)
  }
}
