// Looks up what needs a person: brings together what the mirror knows, what the worker sees and what the configuration calls
// too long.

import { type Concern, eventsLastMs, findConcerns } from '../concerns.ts'
import type { Config } from '../config.ts'
import type { Jobs } from '../jobs/jobs.ts'
import { readSymptoms } from '../mirror/symptoms.ts'
import type { Workplace } from '../workplace.ts'
import { isStale } from './staleness.ts'
import type { PartsWatch } from './watch-parts.ts'

type Options = {
  readonly workplace: Pick<Workplace, 'database' | 'streams'>
  readonly config: Pick<Config, 'schedules' | 'staleAfterMs'>
  readonly jobs: Pick<Jobs, 'servicesDown'>
  readonly parts: Pick<PartsWatch, 'states'>
  readonly now: Date
}

export async function readConcerns({
  workplace,
  config,
  jobs,
  parts,
  now,
}: Options): Promise<readonly Concern[]> {
  const { database, streams } = workplace
  const names = streams.map(({ name }) => name)
  return findConcerns({
    symptoms: await readSymptoms(database.pool, names, eventsLastMs),
    view: {
      partsDown: Object.entries(parts.states()).flatMap(([name, { isUp, since }]) =>
        isUp ? [] : [{ name, since }],
      ),
      servicesDown: jobs.servicesDown(),
    },
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
