// Workers that start at the same moment make the same schedules.

import { ErrorCode } from 'bullmq'
import { expect, it } from 'vitest'
import { keepSchedules, type ScheduleKeeper, type Wanted } from '../../src/worker/queue/schedules.ts'

const wanted: readonly Wanted[] = ['assignment', 'assignment_note', 'tracker_object'].map((stream) => ({
  stream,
  kind: 'incremental',
  schedule: { everyMs: 30_000 },
}))
const now = { nowMs: 0, isStart: true }

function keeperThatFails(error: Error) {
  const made: string[] = []
  const keeper: ScheduleKeeper = {
    getJobSchedulers: async () => [],
    removeJobScheduler: async () => true,
    async upsertJobScheduler(id) {
      if (id === 'assignment_note/incremental') throw error
      made.push(id)
    },
  }
  return { keeper, made }
}

const ofCode = (code: ErrorCode) => Object.assign(new Error('as the queue says it'), { code })

it.each([ErrorCode.SchedulerJobIdCollision, ErrorCode.SchedulerJobSlotsBusy])(
  'leaves a schedule to the worker that made it first, and makes the others (%i)',
  async (code) => {
    const { keeper, made } = keeperThatFails(ofCode(code))
    await keepSchedules(keeper, wanted, now)
    expect(made).toEqual(['assignment/incremental', 'tracker_object/incremental'])
  },
)

it('tells every other failure', async () => {
  const failure = ofCode(ErrorCode.JobNotExist)
  await expect(keepSchedules(keeperThatFails(failure).keeper, wanted, now)).rejects.toBe(failure)
})
