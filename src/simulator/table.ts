// The visible rows of one resource, found by id, by external id and by row version. It knows nothing of requests,
// and nothing of rows that are written but not committed.

import type { Resource } from './resources.ts'
import { compareIds, compareVersions, type Row } from './row.ts'
import { type SortedRows, sortedRows } from './sorted-rows.ts'

export type Table = {
  readonly resource: Resource
  readonly byId: Pick<SortedRows<Row>, 'size' | 'slice' | 'at'>
  readonly byVersion: Pick<SortedRows<Row>, 'size' | 'slice' | 'at'>
  /** Rises with every change, so that whatever was derived from the rows can be known to be old. */
  readonly mutations: number
  find(id: number): Row | undefined
  findExternal(externalId: string): Row | undefined
  /** How many rows have a version below this one. */
  countBelow(version: bigint): number
  /** Adds the row or puts it in the place of the one with its id, which is returned. */
  put(row: Row): Row | undefined
  drop(id: number): Row | undefined
  /** Everything is exchanged, e.g. for a backup. */
  load(rows: readonly Row[]): void
  /** An id that no record had yet. */
  takeId(): number
  reserveId(id: number): void
}

export function openTable(resource: Resource): Table {
  const externalIds = openExternalIds(resource)
  let byId = sortedRows(compareIds)
  let byVersion = sortedRows(compareVersions)
  let mutations = 0
  let lastId = 0

  return {
    resource,
    get byId() {
      return byId
    },
    get byVersion() {
      return byVersion
    },
    get mutations() {
      return mutations
    },
    find: (id) => byId.find(probe(id)),
    findExternal: (externalId) => externalIds.find(externalId, byId),
    countBelow: (version) => byVersion.rankOf(probe(Number.NEGATIVE_INFINITY, version)),
    put(row) {
      const before = byId.put(row)
      if (before) byVersion.remove(before)
      byVersion.put(row)
      externalIds.replace(before, row)
      lastId = Math.max(lastId, row.id)
      mutations++
      return before
    },
    drop(id) {
      const row = byId.find(probe(id))
      if (!row) return undefined
      byId.remove(row)
      byVersion.remove(row)
      externalIds.replace(row, undefined)
      mutations++
      return row
    },
    load(rows) {
      byId = sortedRows(compareIds, [...rows].sort(compareIds))
      byVersion = sortedRows(compareVersions, [...rows].sort(compareVersions))
      externalIds.clear()
      lastId = Math.max(lastId, byId.at(byId.size - 1)?.id ?? 0)
      mutations++
    },
    takeId: () => ++lastId,
    reserveId(id) {
      lastId = Math.max(lastId, id)
    },
  }
}

const probe = (id: number, version = 0n) => ({ id, version }) as Row

/** A million names take long to index, so that is done when the first one is looked for, and then kept up. */
function openExternalIds(resource: Resource) {
  let rowsByName: Map<string, Row> | null = null

  function nameOf(row: Row): string | null {
    const own = resource.externalField === null ? undefined : row.own?.[resource.externalField]
    return typeof own === 'string' ? own : own === null ? null : resource.externalId(row.id)
  }

  function index(rows: Iterable<Row>): Map<string, Row> {
    const found = new Map<string, Row>()
    for (const row of rows) {
      const name = nameOf(row)
      if (name !== null) found.set(name, row)
    }
    return found
  }

  return {
    find(name: string, rows: Iterable<Row>): Row | undefined {
      rowsByName ??= index(rows)
      return rowsByName.get(name)
    },
    replace(before: Row | undefined, after: Row | undefined): void {
      if (rowsByName === null) return
      const oldName = before && nameOf(before)
      const newName = after && nameOf(after)
      if (oldName && oldName !== newName) rowsByName.delete(oldName)
      if (newName && after) rowsByName.set(newName, after)
    },
    clear(): void {
      rowsByName = null
    },
  }
}
