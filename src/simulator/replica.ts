// A copy of the tables that lags behind them, as the read replica of a database does. The tables are not copied until
// somebody asks for an older state; a log of the latest changes says how to get there.

import type { Behaviour } from './behaviour.ts'
import type { Random } from './random.ts'
import { type ResourceName, resourceNames } from './resources.ts'
import type { Row } from './row.ts'
import { openTable, type Table } from './table.ts'

type Tables = Readonly<Record<ResourceName, Table>>
type Change = {
  readonly atMs: number
  readonly resource: ResourceName
  readonly id: number
  readonly before: Row | undefined
  readonly after: Row | undefined
}

export type Replica = {
  /** A row of the tables was exchanged for another one. */
  changed(resource: ResourceName, id: number, before: Row | undefined, after: Row | undefined): void
  /** Everything was exchanged: there is no older state any more. */
  restored(): void
  /** The tables for one read. */
  forRead(): Tables
}

const longestMs = 900_000
const mostChanges = 500_000

export function openReplica(parts: {
  readonly tables: Tables
  readonly behaviour: Behaviour
  readonly random: Random
  readonly now: () => number
}): Replica {
  const { tables, behaviour, random, now } = parts
  let log: Change[] = []
  let copy: { readonly tables: Tables; next: number } | null = null

  function forget(): void {
    const oldestMs = now() - longestMs
    const kept =
      log.length > mostChanges ? log.length - mostChanges / 2 : log.findIndex(({ atMs }) => atMs >= oldestMs)
    const dropped = kept === -1 ? log.length : kept
    log = log.slice(dropped)
    if (copy) copy.next = Math.max(0, copy.next - dropped)
  }

  function copyAt(timeMs: number): Tables {
    const next = log.findIndex(({ atMs }) => atMs > timeMs)
    const end = next === -1 ? log.length : next
    if (!copy || copy.next > end) copy = { tables: copied(tables, log.slice(end)), next: end }
    for (; copy.next < end; copy.next++) apply(copy.tables, log[copy.next])
    return copy.tables
  }

  return {
    changed(resource, id, before, after) {
      log.push({ atMs: now(), resource, id, before, after })
      if (log.length % 1_000 === 0) forget()
    },
    restored() {
      log = []
      copy = null
    },
    forRead() {
      if (behaviour.replicaLagMs === null) {
        copy = null
        return tables
      }
      const lags = behaviour.replicaShare >= 1 || random() < behaviour.replicaShare
      return lags ? copyAt(now() - behaviour.replicaLagMs) : tables
    },
  }
}

/** The tables as they were before these changes. */
function copied(tables: Tables, undone: readonly Change[]): Tables {
  const copies = resourceNames.map((name) => {
    const copy = openTable(tables[name].resource)
    copy.load(tables[name].byId.slice(0, Number.POSITIVE_INFINITY))
    return [name, copy] as const
  })
  const copy = Object.fromEntries(copies) as Tables
  for (const { resource, id, before } of undone.toReversed())
    if (before) copy[resource].put(before)
    else copy[resource].drop(id)
  return copy
}

function apply(copy: Tables, change: Change | undefined): void {
  if (!change) return
  if (change.after) copy[change.resource].put(change.after)
  else copy[change.resource].drop(change.id)
}
