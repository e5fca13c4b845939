// Looks up what needs a person: brings together what the mirror knows, what the worker sees and what the configuration calls
// too long.

import type { Pool } from 'pg'
import { type Concern, eventsLastMs } from '../concerns/concern.ts'
import { findConcerns, type WorkerView } from '../concerns/find-concerns.ts'
import type { Config } from '../config.ts'
import type { Jobs } from '../jobs/jobs.ts'
import { readSymptoms } from '../mirror/symptoms.ts'
import type { Stream } from '../streams.ts'
import { isStale } from './staleness.ts'
import type { PartsWatch } from './watch-parts.ts'

type Options = {
  readonly pool: Pool
  readonly streams: readonly Stream[]
  readonly config: Pick<Config, 'schedules' | 'staleAfterMs'>
  readonly view: WorkerView
  readonly now: Date
}

export async function readConcerns({
  pool,
  streams,
  config,
  view,
  now,
}: Options): Promise<readonly Concern[]> {
  const names = streams.map(({ name }) => name)
  return findConcerns({
    symptoms: await readSymptoms(pool, names, eventsLastMs),
    view,
    rules: {
      serviceOf: (name) => streams.find((stream) => stream.name === name)?.service ?? 'assignment',
      isStale(name, completeAt, at) {
        const schedule = config.schedules[name]
        return schedule !== undefined && isStale(schedule, config.staleAfterMs, completeAt, at)
      },
    },
    now,
  })
}

export const viewOf = (jobs: Pick<Jobs, 'servicesDown'>, parts: Pick<PartsWatch, 'states'>): WorkerView => ({
  partsDown: Object.entries(parts.states()).flatMap(([name, { isUp, since }]) =>
    isUp ? [] : [{ name, since }],
  ),
  servicesDown: jobs.servicesDown(),
})
