// The data and everything that works on it, put together. It knows nothing of HTTP, tokens or faults.

import { customerCount, employeeCount } from './assignment-fields.ts'
import type { Behaviour } from './behaviour.ts'
import { webhookEvents } from './child-fields.ts'
import { firstCreatedChildId, openExtended } from './extended.ts'
import { loadInitialData } from './initial-data.ts'
import { openLists } from './lists.ts'
import type { ServiceState } from './operations.ts'
import { seededRandom } from './random.ts'
import { openRendering, type Rendering } from './rendering.ts'
import { defineResources, type ResourceName } from './resources.ts'
import { countVersions } from './row.ts'
import { openRowBytes } from './row-bytes.ts'
import { openSelections } from './selection.ts'
import { openSource, type Source } from './source.ts'
import { openTable } from './table.ts'
import { openWrites, type Tables } from './writes.ts'

export type Counts = {
  readonly assignments: number
  readonly notes: number
  readonly trackers: number
  readonly objects: number
}
export type OpenedState = ServiceState & { readonly source: Source; readonly rendering: Rendering }

export function openServiceState(parts: {
  readonly behaviour: Behaviour
  readonly seed: number
  readonly counts: Counts
  readonly firstRowVersion: bigint
}): OpenedState {
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
  for (const name of children) tables[name].reserveId(firstCreatedChildId)

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
