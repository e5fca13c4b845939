// The data of one client and everything that works on it, put together. It knows nothing of HTTP, tokens or faults.

import type { Behaviour, Look } from './behaviour.ts'
import { firstCreatedChildId, openExtended } from './extended.ts'
import { openLists } from './lists.ts'
import type { ServiceState } from './operations.ts'
import { customerCount, employeeCount } from './plain-assignments.ts'
import { webhookEvents } from './plain-records.ts'
import { hash, seededRandom, shuffle } from './random.ts'
import { openRendering } from './rendering.ts'
import { openReplica } from './replica.ts'
import { defineResources, type ResourceName, resourceNames } from './resources.ts'
import { emptyRow, epochMs, type Row, type Versions } from './row.ts'
import { openRowBytes } from './row-bytes.ts'
import { openSelections } from './selection.ts'
import { openSource, type Source } from './source.ts'
import { type Ids, openTable, type Table } from './table.ts'
import { openWrites, type Tables } from './writes.ts'

export type Counts = {
  readonly assignments: number
  readonly notes: number
  readonly trackers: number
  readonly objects: number
}

/** What all clients of one service share. */
export type Shared = {
  readonly look: Look
  readonly behaviour: Behaviour
  readonly seed: number
  readonly versions: Versions
  readonly ids: Readonly<Record<ResourceName, Ids>>
  /** Customers and employees, and children of assignments, that nobody created. */
  readonly hasGeneratedRecords: boolean
  readonly now: () => number
  /** The clients that are open so far. */
  readonly states: OpenedState[]
}
export type OpenedState = ServiceState & { readonly source: Source }

export const newIds = (): Shared['ids'] =>
  Object.fromEntries(resourceNames.map((name) => [name, { last: 0 }])) as Record<ResourceName, Ids>

export function openServiceState(shared: Shared, counts: Counts): OpenedState {
  const { behaviour, seed, versions, states, hasGeneratedRecords, now } = shared
  const tables = openTables(shared, counts)
  const random = seededRandom(seed + 1)
  const rendering = openRendering(behaviour)
  const rowBytes = openRowBytes(rendering)
  const replica = openReplica({ tables, behaviour, random: seededRandom(seed + 3), now })
  const writes = openWrites({ tables, versions, behaviour, rowBytes, random, replica })
  const select = openSelections({ behaviour, rendering, random })
  const readTables = replica.forRead
  const extended = openExtended({
    readTables,
    rendering,
    seed,
    hasGeneratedChildren: hasGeneratedRecords,
  })
  const state: OpenedState = {
    tables,
    readTables,
    writes,
    rendering,
    behaviour,
    versions,
    extended,
    lists: openLists({ behaviour, rowBytes, select }),
    source: openSource({ tables, writes, versions, rendering, extended, replica }),
    exists: (resource, id) => states.some(({ tables: those }) => those[resource].find(id) !== undefined),
  }
  states.push(state)
  return state
}

const children: readonly ResourceName[] = [
  'assignment_product',
  'assignment_service',
  'assignment_quality_control',
  'attachment',
]

function openTables(
  { look, behaviour, seed, ids, versions, hasGeneratedRecords }: Shared,
  counts: Counts,
): Tables {
  const first = ids.assignment.last
  const { timeZone } = behaviour
  const resources = defineResources({ look, seed, timeZone, assignments: counts.assignments, first })
  const tables = Object.fromEntries(
    resourceNames.map((name) => [name, openTable(resources[name], ids[name])]),
  ) as Tables
  loadInitialData(
    { tables, versions, seed },
    {
      assignment: counts.assignments,
      assignment_note: counts.notes,
      assignment_object: counts.objects,
      ...(hasGeneratedRecords && { customer: customerCount, employee: employeeCount }),
      tracker_object: counts.trackers,
      webhook_definition: webhookEvents.length,
    },
  )
  if (hasGeneratedRecords) for (const name of children) tables[name].reserveId(firstCreatedChildId)
  return tables
}

// The records that are there at the start. A quarter of them was changed later than all the others, so ids and row
// versions do not rise together, and versions have gaps.
const yearMs = 31_536_000_000

function loadInitialData(
  { tables, versions, seed }: { readonly tables: Tables; readonly versions: Versions; readonly seed: number },
  counts: Partial<Record<ResourceName, number>>,
): void {
  const names = Object.keys(counts) as ResourceName[]
  const written = names.map((name) => firstRows(counts[name] ?? 0, tables[name], versions))
  names.forEach((name, index) => {
    const rows = written[index] ?? []
    tables[name].load(laterChanges(rows, versions, seed))
  })
}

function firstRows(count: number, table: Table, versions: Versions): Row[] {
  if (count === 0) return []
  const stepMs = Math.floor(yearMs / (count + 1))
  // Definitions of webhooks belong to the service and have the same ids for every client.
  const first = table.resource.name === 'webhook_definition' ? 1 : table.takeId()
  return Array.from({ length: count }, (_, index) => {
    const timeMs = epochMs + index * stepMs
    return {
      ...emptyRow,
      id: first + index,
      version: versions.next(),
      createdAtMs: timeMs,
      changedAtMs: timeMs,
    }
  })
}

function laterChanges(rows: Row[], versions: Versions, seed: number): Row[] {
  const chosen = rows.filter((row) => hash(seed, row.id, 7) % 4 === 0)
  const first = rows[0]?.id ?? 1
  for (const row of shuffle(chosen, seededRandom(seed)))
    rows[row.id - first] = {
      ...row,
      version: versions.next(),
      revision: 1,
      changedAtMs: epochMs + yearMs + (hash(seed, row.id, 8) % yearMs) / 8,
    }
  return rows
}
