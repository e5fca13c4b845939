// What is looked up when somebody asks for the metrics: how complete the streams are, what waits, which parts work. A database
// that is away leaves these out; the rest is still told.

import { Gauge, type Registry } from 'prom-client'
import { type Concern, concernKinds } from '../concerns/concern.ts'
import type { StreamOverview } from '../mirror/overview.ts'

export type States = {
  /** Null while the database does not answer. */
  overview(): Promise<readonly StreamOverview[] | null>
  /** Null while the database does not answer. */
  concerns(): Promise<readonly Concern[] | null>
  /** Null while the queue does not answer. */
  queueCounts(): Promise<Readonly<Record<string, number>> | null>
  /** Parts of the worker and upstream services, and whether they work. */
  parts(): Readonly<Record<string, boolean>>
}

type StreamGauge = readonly [name: string, help: string, value: (one: StreamOverview) => number | null]

const seconds = (date: Date | null): number | null => (date === null ? null : new Date(date).getTime() / 1000)
const perThousand = (ms: number | null): number | null => (ms === null ? null : ms / 1000)

const streamGauges: readonly StreamGauge[] = [
  ['lag_seconds', 'Age of the moment up to which the stream is complete', (one) => perThousand(one.lagMs)],
  [
    'complete_through_timestamp_seconds',
    'The moment up to which the stream is complete',
    (one) => seconds(one.completeAt),
  ],
  [
    'complete_through_version',
    'The row version up to which the stream is complete; above 2^53 it is rounded',
    (one) => (one.position === '0' ? null : Number(one.position)),
  ],
  ['last_success_timestamp_seconds', 'When a run last ended well', (one) => seconds(one.lastSuccessAt)],
  ['last_census_timestamp_seconds', 'When everything was last listed', (one) => seconds(one.lastCensusAt)],
  ['lookback_seconds', 'How far back the trailing lane reads', (one) => perThousand(one.lookbackMs)],
  ['late_arrivals', 'Late arrivals measured in the last 90 days', (one) => one.lateArrivals],
  [
    'related_backlog',
    'Assignments whose related records are still to be read',
    (one) => one.related?.waiting ?? null,
  ],
  [
    'related_set_aside',
    'Assignments whose related records could not be read',
    (one) => one.related?.setAside ?? null,
  ],
  ['quarantined', 'Records that cannot be rows', (one) => one.quarantined],
  ['rescued_values', 'Values that did not fit their column, since the beginning', (one) => one.rescued],
  ['census_rescued_rows', 'Rows that only a census found, until acknowledged', (one) => one.censusRescues],
  ['held', '1 while deletions are held for an operator', (one) => (one.held === null ? 0 : 1)],
  ['stopped', '1 while the stream waits for an operator', (one) => (one.stoppedReason === null ? 0 : 1)],
  ['paused', '1 while an operator has the stream paused', (one) => (one.paused === null ? 0 : 1)],
]

/** Returns what looks everything up again. */
export function addStateGauges(registry: Registry, states: States): () => Promise<void> {
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
    new Gauge({ name: `tidemark_${name}`, help, labelNames, registers: [registry] })
  const perStream = streamGauges.map(([name, help, value]) => ({
    value,
    gauge: gauge(name, help, ['stream']),
  }))
  const concernCount = gauge('concerns', 'What needs a person, by kind', ['kind'])
  const queueJobs = gauge('queue_jobs', 'Runs in the queue by state', ['state'])
  const up = gauge('up', '1 while this part of the worker, or this upstream service, works', ['part'])

  return async () => {
    const [overview, concerns, counts] = await Promise.all([
      states.overview(),
      states.concerns(),
      states.queueCounts(),
    ])
    for (const { gauge: one, value } of perStream) {
      one.reset()
      for (const stream of overview ?? []) {
        const found = value(stream)
        if (found !== null) one.set({ stream: stream.stream }, found)
      }
    }
    concernCount.reset()
    for (const kind of concerns ? concernKinds : [])
      concernCount.set({ kind }, (concerns ?? []).filter((concern) => concern.kind === kind).length)
    queueJobs.reset()
    for (const [state, count] of Object.entries(counts ?? {})) queueJobs.set({ state }, count)
    for (const [part, isUp] of Object.entries(states.parts())) up.set({ part }, isUp ? 1 : 0)
  }
}
