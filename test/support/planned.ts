// Jobs whose plans ask no Postgres: what is due follows from the schedules alone.

import type { Scheduled } from '../../src/worker/queue/plan.ts'
import type { Look } from '../../src/worker/queue/planner.ts'

export function plannedBy(schedules: readonly Scheduled[], more: Partial<Look> = {}) {
  const look = async (): Promise<Look> => ({
    ...{ nowMs: Date.now(), asked: [], overdue: [], loading: new Set<string>(), workers: 1, database: 'one' },
    wanted: schedules.map((one) => ({ ...one, doneMs: null })),
    ...more,
  })
  return {
    ...{ schedules: () => schedules, look, isDue: async () => true, onReleased: async () => {} },
    hostOf: (stream: string) => stream,
  }
}
