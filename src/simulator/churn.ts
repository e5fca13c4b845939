// Life goes on: changes records a number of times a second and moves the vehicles. What it does follows from the seed;
// when it does it, from the clock.

import { customerCount, employeeCount } from './assignment-fields.ts'
import type { Behaviour } from './behaviour.ts'
import { webhookEvents } from './child-fields.ts'
import { firstCreatedChildId, openExtended } from './extended.ts'
import { loadInitialData } from './initial-data.ts'
import { openLists } from './lists.ts'
import type { Stock } from './operations.ts'
import { integerBelow, type Random, seededRandom } from './random.ts'
import { openRendering, openRowBytes, type Rendering } from './rendering.ts'
import { defineResources, type ResourceName } from './resources.ts'
import { countVersions } from './row.ts'
import { openSelections } from './selection.ts'
import { openSource, type Source } from './source.ts'
import { openTable } from './table.ts'
import { openWrites, type Tables, type Writes } from './writes.ts'

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

// The data and everything that works on it, put together. It knows nothing of HTTP, tokens or faults.
export type Counts = {
  readonly assignments: number
  readonly notes: number
  readonly trackers: number
  readonly objects: number
}
export type FilledStock = Stock & { readonly source: Source; readonly rendering: Rendering }

export function openStock(parts: {
  readonly behaviour: Behaviour
  readonly seed: number
  readonly counts: Counts
  readonly firstRowVersion: bigint
}): FilledStock {
  const { behaviour, seed, counts } = parts
  const resources = defineResources({ seed, assignments: counts.assignments })
  const tables = Object.fromEntries(
    Object.entries(resources).map(([name, resource]) => [name, openTable(resource)]),
  ) as Tables
  const versions = countVersions(behaviour, parts.firstRowVersion)
  loadInitialData(
    { tables, versions, seed },
    {
      assignment: counts.assignments,
      assignment_note: counts.notes,
      assignment_object: counts.objects,
      customer: customerCount,
      employee: employeeCount,
      tracker_object: counts.trackers,
      webhook_definition: webhookEvents.length,
    },
  )
  const children: ResourceName[] = [
    'assignment_product',
    'assignment_service',
    'assignment_quality_control',
    'attachment',
  ]
  for (const name of children) tables[name].keepClearOf(firstCreatedChildId)

  const random = seededRandom(seed + 1)
  const rendering = openRendering(behaviour)
  const rowBytes = openRowBytes(rendering)
  const writes = openWrites({ tables, versions, behaviour, rowBytes, random })
  const select = openSelections({ behaviour, rendering, random })
  return {
    tables,
    writes,
    rendering,
    lists: openLists({ behaviour, rowBytes, select }),
    extended: openExtended({ tables, rendering, seed }),
    source: openSource({ tables, writes, versions, rendering }),
  }
}
