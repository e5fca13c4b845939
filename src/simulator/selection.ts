// Which rows a list request is about, and in what order. In the default order, and in the order of the keys, a
// selection is a window into an index and costs nothing; any other is worked out once and kept while the data rests.

import type { Behaviour } from './behaviour.ts'
import { compareValues, parseFilters } from './filters.ts'
import { type Random, shuffle } from './random.ts'
import type { Rendering } from './rendering.ts'
import { compareIds, compareVersions, type Row } from './row.ts'
import type { Table } from './table.ts'

type Selection = { readonly size: number; slice(from: number, to: number): readonly Row[] }
export type Criteria = {
  /** The row version of neworchanged; null for a plain list. */
  readonly since: bigint | null
  readonly filters: string | null
  readonly sorts: string | null
}
/** Sorts was refused, or switched paging off; otherwise the selection is to be paged. */
export type Selected =
  | { readonly selection: Selection; readonly isPaged: boolean }
  | { readonly refused: string }

type Sort = { readonly field: string; readonly isDescending: boolean }
type Order = 'version' | 'version-descending' | 'id' | 'id-descending' | 'unstable' | readonly Sort[]
const keptSelections = 8

export function openSelections(parts: {
  readonly behaviour: Behaviour
  readonly rendering: Rendering
  readonly random: Random
}): (table: Table, criteria: Criteria) => Selected {
  const { behaviour, rendering, random } = parts
  const kept = new Map<string, { readonly mutations: number; readonly rows: readonly Row[] }>()

  return (table, criteria) => {
    const sorting = readSorts(table, criteria.sorts, behaviour)
    if (sorting === 'refused') return { refused: `Sorts=${criteria.sorts} is not supported.` }
    const isPaged = sorting !== 'unpaged'
    const sorts = sorting === 'unpaged' ? [] : sorting
    const order = orderOf(table, sorts, criteria.since !== null, behaviour)
    const filters = behaviour.filters === 'honoured' ? (criteria.filters ?? '') : ''
    const lowest = criteria.since === null ? null : criteria.since + (behaviour.inclusive ? 0n : 1n)
    const selection =
      (filters === '' ? windowOf(table, order, lowest) : null) ??
      listOf(worked(table, order, lowest, filters))
    return { selection, isPaged }
  }

  function worked(table: Table, order: Order, lowest: bigint | null, filters: string): readonly Row[] {
    if (order === 'unstable') return shuffle(chosen(table, lowest, filters), random)
    const name = JSON.stringify([table.resource.name, order, String(lowest), filters, behaviour.rowVersions])
    const known = kept.get(name)
    if (known?.mutations === table.mutations) return known.rows
    const rows = inOrder(table, chosen(table, lowest, filters), order)
    kept.delete(name)
    kept.set(name, { mutations: table.mutations, rows })
    for (const oldest of kept.keys()) if (kept.size > keptSelections) kept.delete(oldest)
    return rows
  }

  function chosen(table: Table, lowest: bigint | null, text: string): Row[] {
    const from = lowest === null ? 0 : table.countBelow(lowest)
    const rows = (lowest === null ? table.byId : table.byVersion).slice(from, Number.POSITIVE_INFINITY)
    const filters = parseFilters(text, table.resource.fieldNames)
    if (filters.length === 0) return rows
    return rows.filter((row) => {
      const fields = rendering.fields(table.resource, row)
      return filters.every((holds) => holds(fields))
    })
  }

  function inOrder(table: Table, rows: Row[], order: Exclude<Order, 'unstable'>): Row[] {
    if (order === 'version') return rows.sort(compareVersions)
    if (order === 'version-descending') return rows.sort((a, b) => compareVersions(b, a))
    if (order === 'id') return rows.sort(compareIds)
    if (order === 'id-descending') return rows.sort((a, b) => compareIds(b, a))
    const keyed = rows.map((row) => {
      const fields = rendering.fields(table.resource, row)
      return {
        row,
        keys: order.map(({ field }) => (isVersion(field) ? row.version.toString() : fields[field])),
      }
    })
    keyed.sort((a, b) => {
      for (const [index, { isDescending }] of order.entries()) {
        const result = compareValues(a.keys[index], b.keys[index])
        if (result !== 0) return isDescending ? -result : result
      }
      return compareIds(a.row, b.row)
    })
    return keyed.map(({ row }) => row)
  }
}

const isVersion = (field: string) => field === 'RowVersion' || field === 'SysRowVersion'

function readSorts(table: Table, text: string | null, behaviour: Behaviour): Sort[] | 'refused' | 'unpaged' {
  if (text === null || text.trim() === '' || behaviour.sorts === 'ignored') return []
  if (behaviour.sorts === 'refused') return 'refused'
  const sortable = behaviour.sortableFields?.map((name) => name.toLowerCase())
  const sorts: Sort[] = []
  for (const part of text.split(',')) {
    const name = part.trim().replace(/^-/, '').toLowerCase()
    const field = sortable && !sortable.includes(name) ? undefined : table.resource.fieldNames.get(name)
    if (field !== undefined) sorts.push({ field, isDescending: part.trim().startsWith('-') })
    else if (behaviour.sorts === 'unpaged-when-unknown') return 'unpaged'
  }
  return sorts
}

function orderOf(table: Table, sorts: readonly Sort[], isChanges: boolean, behaviour: Behaviour): Order {
  const [first] = sorts
  if (first && isVersion(first.field) && sorts.length === 1)
    return first.isDescending ? 'version-descending' : 'version'
  if (first?.field === table.resource.keyField) return first.isDescending ? 'id-descending' : 'id'
  if (first) return sorts
  if (behaviour.order === 'unstable') return 'unstable'
  if (behaviour.order === 'descending') return isChanges ? 'version-descending' : 'id-descending'
  return behaviour.order === 'row-version' && isChanges ? 'version' : 'id'
}

/** A part of an index, when that is what is asked for. */
function windowOf(table: Table, order: Order, lowest: bigint | null): Selection | null {
  const first = lowest === null ? 0 : table.countBelow(lowest)
  const isById = order === 'id' || order === 'id-descending'
  const isByVersion = order === 'version' || order === 'version-descending'
  if (!isByVersion && !(isById && first === 0)) return null
  const index = isById ? table.byId : table.byVersion
  const size = index.size - first
  if (order === 'id' || order === 'version')
    return { size, slice: (from, to) => index.slice(first + from, first + to) }
  return {
    size,
    slice: (from, to) => index.slice(Math.max(first, index.size - to), index.size - from).reverse(),
  }
}

const listOf = (rows: readonly Row[]): Selection => ({
  size: rows.length,
  slice: (from, to) => rows.slice(from, to),
})
