// The visible rows of one resource, found by id, by external id and by row version. It knows nothing of requests,
// and nothing of rows that are written but not committed.

import type { Resource } from './resources.ts'
import { compareIds, comparePlaces, compareVersions, type Row } from './row.ts'
import { type SortedRows, sortedRows } from './sorted-rows.ts'

export type Table = {
  readonly resource: Resource
  readonly byId: Pick<SortedRows<Row>, 'size' | 'slice' | 'at'>
  readonly byVersion: Pick<SortedRows<Row>, 'size' | 'slice' | 'at'>
  readonly byPlace: Pick<SortedRows<Row>, 'size' | 'slice' | 'at'>
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
  /** Where the database writes the next row: at the end of its heap, or where an older one was. */
  takePlace(): number
}

/** Ids are given to the records of all clients in one sequence. */
export type Ids = { last: number }

export function openTable(resource: Resource, ids: Ids = { last: 0 }): Table {
  const externalIds = openExternalIds(resource)
  const heap = openHeap()
  let byId = sortedRows(compareIds)
  let byVersion = sortedRows(compareVersions)
  let mutations = 0

  return {
    resource,
    get byId() {
      return byId
    },
    get byVersion() {
      return byVersion
    },
    get byPlace() {
      return heap.rows(byId)
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
      heap.replace(before, row)
      ids.last = Math.max(ids.last, row.id)
      mutations++
      return before
    },
    drop(id) {
      const row = byId.find(probe(id))
      if (!row) return undefined
      byId.remove(row)
      byVersion.remove(row)
      externalIds.replace(row, undefined)
      heap.replace(row, undefined)
      mutations++
      return row
    },
    load(rows) {
      byVersion = sortedRows(compareVersions, heap.load([...rows].sort(compareVersions)))
      byId = sortedRows(compareIds, [...byVersion].sort(compareIds))
      externalIds.clear()
      ids.last = Math.max(ids.last, byId.at(byId.size - 1)?.id ?? 0)
      mutations++
    },
    takeId: () => ++ids.last,
    reserveId(id) {
      ids.last = Math.max(ids.last, id)
    },
    takePlace: heap.takePlace,
  }
}

/** A database leaves the place of an older row alone for a while before it writes a newer one there. */
const placesLeftAlone = 16

function openHeap() {
  let indexed: SortedRows<Row> | null = null
  let free: number[] = []
  let last = 0

  return {
    /** Most services never ask for this order, so the index is made when one does. */
    rows(all: Iterable<Row>): SortedRows<Row> {
      indexed ??= sortedRows(comparePlaces, [...all].sort(comparePlaces))
      return indexed
    },
    takePlace: (): number => (free.length > placesLeftAlone ? (free.shift() ?? ++last) : ++last),
    replace(before: Row | undefined, after: Row | undefined): void {
      if (before) {
        free.push(before.place)
        indexed?.remove(before)
      }
      if (!after) return
      last = Math.max(last, after.place)
      indexed?.put(after)
    },
    /** Rows without a place get one, in the order in which they come. */
    load(rows: readonly Row[]): Row[] {
      indexed = null
      free = []
      return rows.map((row) => {
        const placed = row.place === 0 ? { ...row, place: last + 1 } : row
        last = Math.max(last, placed.place)
        return placed
      })
    },
  }
}

const probe = (id: number, version = 0n) => ({ id, version }) as Row

/** What others call the record: what somebody set, null included, or what was generated. */
export function externalIdOf(row: Row, { externalField, externalId }: Resource): string | null {
  const own = externalField === null ? undefined : row.own?.[externalField]
  return typeof own === 'string' ? own : own === null ? null : externalId(row)
}

/** A million names take long to index, so that is done when the first one is looked for, and then kept up. */
function openExternalIds(resource: Resource) {
  let rowsByName: Map<string, Row> | null = null

  const nameOf = (row: Row) => externalIdOf(row, resource)

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
