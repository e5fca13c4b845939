// What the pages read: one object, put together where the parts of the worker meet. Pages see no SQL and no queue.

import type { Concern } from '../concerns.ts'
import type { LaneRun } from '../mirror/lane-runs.ts'
import type { StreamOverview } from '../mirror/overview.ts'
import type { RowRates } from '../mirror/row-rates.ts'

export type NextRun = { readonly stream: string; readonly lane: string; readonly at: Date }
/** Everything of the overview, as of one moment. */
export type Sight = {
  readonly at: Date
  readonly streams: readonly StreamOverview[]
  readonly laneRuns: readonly LaneRun[]
  readonly rates: RowRates
  readonly nextRuns: readonly NextRun[]
  readonly concerns: readonly Concern[]
}
export type Desk = {
  sight(): Promise<Sight>
  concerns(): Promise<readonly Concern[]>
}
