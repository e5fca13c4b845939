// The desk of the pages: what they read, put together from the mirror and the queue.

import type { Jobs } from './jobs/jobs.ts'
import { listBackfills } from './mirror/backfills.ts'
import { readCheckpoints } from './mirror/checkpoints.ts'
import { readFacts } from './mirror/fact-list.ts'
import { readFieldStreams, readFields } from './mirror/field-list.ts'
import { readLaneRuns } from './mirror/lane-runs.ts'
import { readOverview } from './mirror/overview.ts'
import { newestInQuarantine, readQuarantine } from './mirror/quarantine-review.ts'
import { readRowRates } from './mirror/row-rates.ts'
import { readRuns } from './mirror/run-list.ts'
import { planBackfill } from './operator/backfill-plan.ts'
import { askedSpan } from './operator/backfill-span.ts'
import type { Desk } from './web/desk.ts'
import { within } from './within.ts'
import type { PartsWatch } from './worker/watch-parts.ts'
import type { Workplace } from './workplace.ts'

type Context = {
  readonly workplace: Pick<Workplace, 'database' | 'mirror' | 'streams'>
  readonly pageSize: number
  readonly jobs: Pick<Jobs, 'nextTicks'>
  readonly parts: Pick<PartsWatch, 'states'>
  readonly concerns: Desk['concerns']
}

/** A queue that went away a moment ago has not been noticed yet, and answers when it is back. */
const queuePatienceMs = 1_000

export function openDesk({ workplace, jobs, parts, concerns, pageSize }: Context): Desk {
  const { pool } = workplace.database
  const names = workplace.streams.map(({ name }) => name)
  const kinds = new Map(workplace.streams.map(({ name, kind }) => [name, kind]))
  // The mirror can be shown without the queue.
  const nextTicks = async () =>
    parts.states().queue?.isUp ? await within(queuePatienceMs, jobs.nextTicks()).catch(() => []) : []
  return {
    streams: names,
    async sight() {
      const [streams, laneRuns, rates, nextRuns] = await Promise.all([
        readOverview(pool, names),
        readLaneRuns(pool, names),
        readRowRates(pool),
        nextTicks(),
      ])
      // The other schedules look whether something is to be done; mostly nothing is.
      const shown = nextRuns.filter(({ lane }) => lane === 'head' || lane === 'census')
      return {
        at: new Date(),
        streams: streams.map((one) => ({ ...one, kind: kinds.get(one.stream) ?? 'list' })),
        laneRuns,
        rates,
        nextRuns: shown,
      }
    },
    concerns,
    runs: (filter, page) => readRuns(pool, filter, page),
    checkpoints: (stream, limit) => readCheckpoints(pool, { stream, limit }),
    backfills: (stream) => listBackfills(pool, stream),
    quarantine: (stream, page) => readQuarantine(pool, { stream, id: null }, page),
    newestInQuarantine: (stream) => newestInQuarantine(pool, stream),
    fields: (search, limit) => readFields(pool, search, limit),
    fieldStreams: () => readFieldStreams(pool),
    facts: () => readFacts(pool),
    async planBackfill(name, options) {
      const { stream, span } = await askedSpan(workplace, name, options)
      const { text, json } = await planBackfill(pool, stream, span, pageSize)
      return { text, from: json.from, to: json.to }
    },
  }
}
