// Changes records a number of times a second and moves the vehicles. What it does follows from the seed; when it does
// it, from the clock.

import { integerBelow, type Random } from './random.ts'
import type { ResourceName } from './resources.ts'
import type { Tables, Writes } from './writes.ts'

const tickMs = 100

export function startChurn(parts: {
  readonly tables: Tables
  readonly writes: Writes
  readonly random: Random
  readonly changesPerSecond: number
}): { stop(): void } {
  const { tables, writes, random, changesPerSecond } = parts
  let startedAtMs = performance.now()
  let done = 0

  const timer = setInterval(() => {
    // After a pause of the process the missed changes are not made up for all at once.
    const due = ((performance.now() - startedAtMs) / 1000) * changesPerSecond
    if (due - done > changesPerSecond) {
      startedAtMs = performance.now()
      done = 0
      return
    }
    for (; done < due; done++) changeSomething()
    moveVehicles()
  }, tickMs)

  function changeSomething(): void {
    const resource: ResourceName = random() < 0.7 ? 'assignment' : 'assignment_note'
    const chance = random()
    const row = tables[resource].byId.at(integerBelow(random, tables[resource].byId.size))
    if (!row || chance < 0.1) writes.insert(resource, null)
    else if (chance < 0.15) writes.remove(resource, row.id)
    else if (chance < 0.2) writes.remove(resource, row.id, 'soft')
    else writes.change(resource, row.id, null)
  }

  /** Each vehicle reports about once in ten seconds. */
  function moveVehicles(): void {
    const { byId } = tables.tracker_object
    const moves = Math.ceil((byId.size * tickMs) / 10_000)
    for (let move = 0; move < moves; move++) {
      const row = byId.at(integerBelow(random, byId.size))
      if (row) writes.change('tracker_object', row.id, null, { isLate: false })
    }
  }

  return { stop: () => clearInterval(timer) }
}
