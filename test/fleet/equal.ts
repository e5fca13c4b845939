// While records change everywhere, services answer wrongly, workers are killed and frozen, and Postgres and Redis go away. Then quiet, and each
// mirror must equal its source, value by value: a row of another source would be one too many.

import { setTimeout as wait } from 'node:timers/promises'
import { mildMix } from '../../src/simulator/faults.ts'
import type { FleetClient } from '../../src/simulator/fleet.ts'
import { makeFailure } from '../soak/chaos.ts'
import { judgeMemory, overlappingRuns, startSampling } from '../soak/verdict.ts'
import { equalityFinding, type Trial, untilEqual } from './stage.ts'

/** Every ten seconds, and with more sources so rarely that two cores can do it: each read then counts as much, there are only fewer. */
const often = (sources: number) => {
  const seconds = Math.max(10, Math.round(sources / 5))
  return {
    ...{ schedule_assignment: `${seconds}s`, schedule_assignment_note: `${seconds}s` },
    ...{ lookback: `${2 * seconds}s`, schedule_deletions: `${3 * seconds}s` },
    schedule_reconcile: `${18 * seconds}s`,
  }
}
const changesPerSecond = 20
const longestQuietMs = 600_000
const faultyOfEach = 10

export const equal: Trial = {
  name: 'equal',
  what: 'kills, freezes, disconnects and wrong answers, while records change in all sources',
  async run(stage) {
    const { fleet, scale, workers, postgres, redis, pool, change, say } = stage
    await change({ defaults: often(scale.sources) }, scale.sources - 1)
    const ending = new AbortController()
    const { signal } = ending
    for (const client of fleet.clients.filter((_, index) => index % faultyOfEach === 0))
      for (const fault of mildMix) client.faults.add(fault)
    const sampling = startSampling(workers, signal)
    const changing = changeAll(fleet.clients, signal)
    const random = Math.random
    const failing = makeFailure({ workers, postgres, redis, random, signal, say })
    const time = wait(scale.minutes * 60_000).then(() => ending.abort())
    const [memory, changes, failures] = await Promise.all([sampling, changing, failing, time])
    say(`quiet after ${changes} changes and ${JSON.stringify(failures)}`)
    for (const { faults } of fleet.clients) faults.clear()
    const equality = await untilEqual(stage, fleet.clients, longestQuietMs)
    const overlaps = await overlappingRuns(pool)
    await change({}, scale.sources - 1)
    return [
      equalityFinding('each mirror equals its source', equality),
      { what: 'no two runs of one lane at once', isFine: overlaps.length === 0, told: `${overlaps.length}` },
      { what: 'memory is flat', ...judgeMemory(memory) },
    ]
  },
}

/** Of the records of a client. A person would be asked about more than a fifth (P7), and nobody is there. */
const mostRemoved = 0.1

/** Returns how many changes were made. */
export async function changeAll(clients: readonly FleetClient[], signal: AbortSignal): Promise<number> {
  let changes = 0
  const removed = new Map<string, number>()
  const mayRemove = (list: string, records: number) => {
    const count = 1 + (removed.get(list) ?? 0)
    if (count > records * mostRemoved) return false
    removed.set(list, count)
    return true
  }
  while (!signal.aborted) {
    const { name, source } = clients[Math.floor(Math.random() * clients.length)] as FleetClient
    const resource = Math.random() < 0.7 ? 'assignment' : 'assignment_note'
    const ids = source.ids(resource)
    const id = ids[Math.floor(Math.random() * ids.length)]
    const chance = Math.random()
    if (id === undefined || chance < 0.1) source.insert(resource)
    else if (chance < 0.12 && mayRemove(`${name} ${resource}`, ids.length)) source.remove(resource, id)
    else source.change(resource, id)
    changes++
    await wait(1_000 / changesPerSecond)
  }
  return changes
}
