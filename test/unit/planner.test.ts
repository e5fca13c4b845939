// The one plan of a deployment, whatever becomes of it: a Postgres that does not answer, a plan that does not come round, a second plan.

import { DelayedError } from 'bullmq'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openPlanner, type PlannerOptions, planName } from '../../src/worker/queue/planner.ts'
import { quietLog } from '../support/database.ts'
import { plannedBy } from '../support/planned.ts'

const plannedEvery = plannedBy([{ stream: 'assignment', kind: 'incremental', schedule: { everyMs: 30_000 } }])

/** A plan in a queue that is only noted. */
function openTestPlanner(more: Partial<PlannerOptions> = {}) {
  const calls: string[] = []
  const job = {
    id: planName,
    data: {} as object,
    isDelayed: async () => true,
    promote: async () => void calls.push('promoted'),
    remove: async () => void calls.push('removed'),
    async updateData(data: object) {
      job.data = data
    },
    moveToDelayed: async (atMs: number) => void calls.push(`in ${Math.round((atMs - Date.now()) / 1_000)} s`),
  }
  const there: { job: typeof job | null } = { job }
  const planner = openPlanner({
    queue: {
      requestRun: async ({ stream, kind }) => void calls.push(`${stream}/${kind}`),
      countsOf: async () => ({ waiting: 0, active: 0 }),
      pollsLongerThan: async () => [],
      forPlan: {
        add: async (name) => void calls.push(`added ${name}`),
        getJob: async () => there.job ?? undefined,
      },
    },
    ...plannedEvery,
    ...{ mustWait: () => false, slots: { polls: 6, loads: 3 }, log: quietLog },
    ...more,
  })
  return { planner, calls, job, there }
}

describe('the plan', () => {
  beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 0, 1, 12, 0, 5) }))
  afterEach(() => void vi.useRealTimers())

  it('releases what is due, and comes again when the next run is', async () => {
    const { planner, calls, job } = openTestPlanner()
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(calls).toEqual(['assignment/incremental', 'in 25 s'])
    vi.setSystemTime(Date.UTC(2026, 0, 1, 12, 0, 20))
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(calls.slice(2)).toEqual(['in 10 s'])
  })

  it('leaves what a worker does not know of a source that it has not opened to the next plan of another (P19)', async () => {
    const poll = (stream: string) => ({ stream, kind: 'incremental' as const, schedule: { everyMs: 30_000 } })
    const knowing = { ...plannedBy([poll('assignment'), poll('acme.assignment')], { workers: 2 }) }
    const { planner, calls, job } = openTestPlanner(knowing)
    const absent = ['acme']
    const lacking = openTestPlanner(plannedBy([poll('assignment')], { workers: 2, absent }))
    const planBy = async (one: typeof planner) => {
      await expect(one.plan(job, 'token')).rejects.toThrow(DelayedError)
      return [...calls.splice(0), ...lacking.calls.splice(0)].toSorted()
    }
    const both = ['acme.assignment/incremental', 'assignment/incremental']
    expect(await planBy(planner)).toEqual([...both, 'in 25 s'])
    vi.setSystemTime(Date.UTC(2026, 0, 1, 12, 0, 30))
    // Another worker has its turn soon.
    expect(await planBy(lacking.planner)).toEqual(['assignment/incremental', 'in 5 s'])
    vi.setSystemTime(Date.UTC(2026, 0, 1, 12, 0, 35))
    expect(await planBy(lacking.planner)).toEqual(['in 5 s'])
    vi.setSystemTime(Date.UTC(2026, 0, 1, 12, 0, 40))
    expect(await planBy(planner)).toEqual(['acme.assignment/incremental', 'in 20 s'])
    vi.setSystemTime(Date.UTC(2026, 0, 1, 12, 0, 45))
    expect(await planBy(planner)).toEqual(['in 15 s'])
  })

  it('releases at once what was never read and came since the last plan, however rare its schedule is, and once (P19)', async () => {
    const overdue: string[] = []
    const hourly = plannedBy([
      { stream: 'assignment', kind: 'incremental', schedule: { everyMs: 3_600_000 } },
    ])
    const look = async () => ({ ...(await hourly.look()), overdue: [...overdue] })
    const { planner, calls, job } = openTestPlanner({ ...hourly, look })
    const plan = async (second: number) => {
      vi.setSystemTime(Date.UTC(2026, 0, 1, 12, 0, second))
      calls.length = 0
      await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
      return calls.filter((call) => !call.startsWith('in '))
    }
    overdue.push('assignment')
    expect(await plan(5)).toEqual(['assignment/incremental'])
    expect(await plan(10)).toEqual([])
    overdue.push('acme.assignment')
    expect(await plan(15)).toEqual(['acme.assignment/incremental'])
    expect(await plan(20)).toEqual([])
    // Now what was released should have begun.
    expect(await plan(70)).toEqual(['assignment/incremental', 'acme.assignment/incremental'])
    expect(job.data).not.toHaveProperty('overdue')
  })

  it('is left to others by a worker whose Postgres does not answer, and forgets nothing', async () => {
    const { planner, calls, job } = openTestPlanner({
      look: () => new Promise(() => {}),
      longestPlanMs: 20,
    })
    job.data = { throughMs: 7 }
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(calls).toEqual(['in 5 s'])
    expect(job.data).toMatchObject({ throughMs: 7 })
  })

  it('is soon left to others, without another look, by a worker whose Postgres did not answer a moment ago', async () => {
    let looks = 0
    const { planner, calls, job } = openTestPlanner({
      workers: () => 2,
      look: () => {
        looks++
        return Promise.reject(new Error('no route to host'))
      },
    })
    const plan = () => expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    for (let time = 0; time < 3; time++) await plan()
    expect([looks, calls]).toEqual([1, ['in 1 s', 'in 1 s', 'in 1 s']])
    await vi.advanceTimersByTimeAsync(20_000)
    await plan()
    expect(looks).toBe(2)
  })

  it('gives no room to what has nothing to do, so that what has is not late (P19)', async () => {
    const related = Array.from({ length: 40 }, (_, nth) => ({
      ...{ stream: `s${nth}.assignment`, kind: 'related' as const, schedule: { everyMs: 15_000 } },
    }))
    let asked = 0
    const { planner, calls, job } = openTestPlanner({
      ...plannedBy(related),
      async isDue({ stream }) {
        asked++
        return stream === 's39.assignment'
      },
    })
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(calls).toEqual(['s39.assignment/related', 'in 10 s'])
    expect(asked).toBe(40)
  })

  it('is not known to be over until all was added', async () => {
    const { planner, job } = openTestPlanner({
      queue: {
        requestRun: () => Promise.reject(new Error('the queue is full')),
        countsOf: async () => ({ waiting: 0, active: 0 }),
        pollsLongerThan: async () => [],
        forPlan: { add: async () => {}, getJob: async () => job },
      },
    })
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(job.data).not.toHaveProperty('throughMs')
  })

  it('is one: a second one ends', async () => {
    const { planner, calls, job } = openTestPlanner()
    await planner.plan({ ...job, id: 'another' }, 'token')
    expect(calls).toEqual([])
  })

  it('is made where it is not, and taken up where it does not come round', async () => {
    const { planner, calls, job, there } = openTestPlanner()
    there.job = null
    expect(await planner.keep()).toBe(true)
    expect(calls).toEqual([`added ${planName}`])
    there.job = job
    expect(await planner.keep()).toBe(true)
    vi.advanceTimersByTime(20_000)
    expect(await planner.keep()).toBe(false)
    expect(calls).toHaveLength(1)
    vi.advanceTimersByTime(10_000)
    await planner.keep()
    expect(calls.slice(1)).toEqual(['promoted'])
    job.isDelayed = async () => false
    expect(await planner.keep()).toBe(true)
    vi.advanceTimersByTime(30_000)
    await planner.keep()
    await vi.advanceTimersByTimeAsync(0)
    expect(calls.slice(2)).toEqual(['removed', `added ${planName}`])
  })

  it('is late by the pause that its last turn told, not by a plan that waits for less', async () => {
    const { planner, calls, job } = openTestPlanner()
    job.data = { round: 1, pauseMs: 30_000 }
    expect(await planner.keep()).toBe(true)
    vi.advanceTimersByTime(32_000)
    expect(await planner.keep()).toBe(true)
    vi.advanceTimersByTime(1_000)
    expect(await planner.keep()).toBe(false)
    expect(calls).toEqual([])
    vi.advanceTimersByTime(12_000)
    await planner.keep()
    expect(calls).toEqual(['promoted'])
  })

  it('comes again for what is asked for while it is under way', async () => {
    const { planner, calls, job } = openTestPlanner()
    const { promote } = job
    job.promote = () => Promise.reject(new Error('it is active'))
    await planner.planNow()
    job.promote = promote
    await vi.advanceTimersByTimeAsync(1_000)
    expect(calls).toEqual(['promoted'])
  })

  it('that goes by other schedules for three times in a row is told once', async () => {
    const warned: string[] = []
    const log = Object.assign(Object.create(quietLog), { warn: (text: string) => void warned.push(text) })
    const { planner, job } = openTestPlanner({ log })
    for (const settings of ['a', 'a', undefined, 'a', 'a', 'a', 'a', 'a']) {
      job.data = { round: Math.random(), ...(settings && { settings }) }
      await planner.keep()
      await planner.keep()
    }
    expect(warned).toEqual([expect.stringContaining('All need the same STREAMS')])
  })

  it('is of no other worker where only named sources are read by other schedules: those come from Postgres', async () => {
    const warned: string[] = []
    const log = Object.assign(Object.create(quietLog), { warn: (text: string) => void warned.push(text) })
    const ofEnvironment = [{ stream: 'assignment', kind: 'incremental', everyMs: 1 }] as const
    const schedulesWith = (source: string) => () => [
      ...ofEnvironment,
      { stream: `${source}.assignment`, kind: 'incremental' as const, everyMs: 2 },
    ]
    const other = openTestPlanner({ schedules: schedulesWith('acme') })
    await expect(other.planner.plan(other.job, 'token')).rejects.toThrow(DelayedError)
    const { planner, job } = openTestPlanner({ log, schedules: schedulesWith('other') })
    for (const round of [1, 2, 3]) {
      job.data = { ...other.job.data, round }
      await planner.keep()
    }
    expect(warned).toEqual([])
    const { planner: stranger, job: theirs } = openTestPlanner({ log, schedules: () => [] })
    for (const round of [1, 2, 3]) {
      theirs.data = { ...other.job.data, round }
      await stranger.keep()
    }
    expect(warned).toHaveLength(1)
  })

  it('is not asked for by whoever had it a moment ago, and within seconds again', async () => {
    const { planner, calls, job, there } = openTestPlanner()
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    there.job = null
    expect(await planner.keep()).toBe(true)
    expect(calls).not.toContain(`added ${planName}`)
    vi.advanceTimersByTime(6_000)
    expect(await planner.keep()).toBe(true)
    expect(calls.at(-1)).toBe(`added ${planName}`)
  })

  it('asks how much room there is only where something is due', async () => {
    let asked = 0
    const queue = {
      requestRun: async () => {},
      async countsOf() {
        asked++
        return { waiting: 0, active: 0 }
      },
      pollsLongerThan: async () => [],
      forPlan: { add: async () => {}, getJob: async () => job },
    }
    const { planner, job } = openTestPlanner({ queue })
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(asked).toBe(2)
    vi.setSystemTime(Date.UTC(2026, 0, 1, 12, 0, 20))
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(asked).toBe(2)
  })

  it('asks whether there is anything to do of what there is room for, and of all where there is not (P19)', async () => {
    const streams = Array.from({ length: 500 }, (_, nth) => `s${nth}`)
    const schedules = streams.map((stream) => ({
      ...{ stream, kind: 'incremental' as const, schedule: { everyMs: 30_000 } },
    }))
    const asked: string[] = []
    const askOf = (isBusy: (stream: string) => boolean) => ({
      ...plannedBy(schedules),
      async isDue({ stream }: { readonly stream: string }) {
        asked.push(stream)
        return isBusy(stream)
      },
    })
    const busy = openTestPlanner(askOf(() => true))
    await expect(busy.planner.plan(busy.job, 'token')).rejects.toThrow(DelayedError)
    expect(asked).toHaveLength(14)
    asked.length = 0
    const idle = openTestPlanner(askOf((stream) => stream === 's499'))
    await expect(idle.planner.plan(idle.job, 'token')).rejects.toThrow(DelayedError)
    expect(idle.calls).toEqual(['s499/incremental', 'in 25 s'])
    expect(asked.toSorted()).toEqual(streams.toSorted())
  })

  it('releases more at once while it comes when it should, and fewer when polls keep it waiting (P19)', async () => {
    const streams = Array.from({ length: 300 }, (_, nth) => `s${nth}`)
    const schedules = streams.map((stream) => ({
      ...{ stream, kind: 'incremental' as const, schedule: { everyMs: 300_000 } },
    }))
    let [released, waiting] = [0, 0]
    const queue = {
      requestRun: async () => void released++,
      countsOf: async (name: string) => ({ waiting: name === 'polls' ? waiting : 0, active: 1 }),
      pollsLongerThan: async () => [],
      forPlan: { add: async () => {}, getJob: async () => job },
    }
    const { planner, job } = openTestPlanner({ queue, ...plannedBy(schedules) })
    const planned: number[] = []
    async function plan(afterMs: number, left = 0): Promise<void> {
      vi.advanceTimersByTime(afterMs)
      released = 0
      waiting = left
      await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
      planned.push(released)
    }
    for (const afterMs of [0, 1_000, 1_500, 2_500, 1_000]) await plan(afterMs)
    // Twice the places at first; the fourth was kept waiting.
    expect(planned).toEqual([12, 24, 48, 24, 48])
    // What others asked for waits, too. Where not all of the room was needed, it does not grow.
    await plan(1_000, 8)
    await plan(1_000)
    await plan(1_000)
    expect(planned.slice(5)).toEqual([32, 80, 32])
    await plan(1_000)
    expect(job.data).toMatchObject({ mostPolls: 160 })
  })

  it('gives no more places to a host whose polls hang, and those of others to others (P19)', async () => {
    const streams = ['slow.a', 'slow.b', 'other.a', 'full.a']
    const schedules = streams.map((stream) => ({
      ...{ stream, kind: 'incremental' as const, schedule: { everyMs: 30_000 } },
    }))
    const hanging = (host: string, count: number) =>
      Array.from({ length: count }, () => ({ stream: `${host}.x`, kind: 'deletions' as const }))
    const released: string[] = []
    let slow: readonly { readonly stream: string; readonly kind: 'deletions' }[] = []
    const queue = {
      requestRun: async ({ stream }: { readonly stream: string }) => void released.push(stream),
      // All places are taken, by what hangs.
      countsOf: async () => ({ waiting: 0, active: 1 + slow.length }),
      pollsLongerThan: async () => slow,
      forPlan: { add: async () => {}, getJob: async () => job },
    }
    const hostOf = (stream: string) => stream.slice(0, stream.indexOf('.'))
    const { planner, job } = openTestPlanner({
      queue,
      ...plannedBy(schedules, { workers: 2 }),
      hostOf,
      slots: { polls: 4, loads: 3 },
    })
    slow = hanging('slow', 4)
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(released).toEqual(['other.a', 'full.a'])
    // What rests is late, and comes once the host answers; one that hangs a little is tried.
    vi.advanceTimersByTime(5_000)
    slow = hanging('slow', 1)
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(released.slice(2).toSorted()).toEqual(['slow.a', 'slow.b'])
    // Several hosts together take no more places than there are.
    released.length = 0
    vi.advanceTimersByTime(30_000)
    slow = [...hanging('slow', 3), ...hanging('full', 3), ...hanging('third', 2)]
    await expect(planner.plan(job, 'token')).rejects.toThrow(DelayedError)
    expect(released).toEqual(['other.a'])
  })

  it('that comes round is left alone', async () => {
    const { planner, calls, job } = openTestPlanner()
    for (let round = 1; round <= 5; round++) {
      job.data = { round }
      expect(await planner.keep()).toBe(true)
      vi.advanceTimersByTime(15_000)
    }
    expect(calls).toEqual([])
  })
})
