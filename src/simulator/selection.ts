// Which rows a list request is about, and in what order. In the default order, and in the order of the keys, a
// selection is a window into an index and costs nothing; any other is worked out once and kept while the data rests.

import type { Behaviour } from './behaviour.ts'
import { type Random, shuffle } from './random.ts'
import type { Rendering } from './rendering.ts'
import { compareIds, compareVersions, type Fields, type Row } from './row.ts'
import type { Table } from './table.ts'

// The subset of Sieve's filter language that is worth having: `Field==value`, `!=`, `>`, `<`, `>=`, `<=`, `@=`
// (contains), joined by commas. What cannot be read, or names no field, is ignored, as Sieve does.
export type Filter = (fields: Fields) => boolean

const expression = /^\s*([A-Za-z_]\w*)\s*(==|!=|>=|<=|@=|>|<)\s*(.*?)\s*$/

export function parseFilters(text: string, fieldNames: ReadonlyMap<string, string>): Filter[] {
  return text.split(',').flatMap((part) => {
    const [, name = '', operator = '', wanted = ''] = expression.exec(part) ?? []
    const field = fieldNames.get(name.toLowerCase())
    return field === undefined ? [] : [(fields: Fields) => holds(fields[field], operator, wanted)]
  })
}

function holds(value: unknown, operator: string, wanted: string): boolean {
  if (operator === '@=')
    return typeof value === 'string' && value.toLowerCase().includes(wanted.toLowerCase())
  if (value === null || value === undefined) return (wanted === 'null') === (operator === '==')
  const order = compareWith(value, wanted)
  switch (operator) {
    case '==':
      return order === 0
    case '!=':
      return order !== 0
    case '>':
      return order > 0
    case '<':
      return order < 0
    case '>=':
      return order >= 0
    default:
      return order <= 0
  }
}

function compareWith(value: unknown, wanted: string): number {
  if (typeof value === 'number') return value - Number(wanted)
  const integer = integerOf(value)
  if (integer !== null && integerOf(wanted) !== null) return sign(integer, integerOf(wanted) ?? 0n)
  return sign(String(value), wanted)
}

const sign = <T extends string | bigint>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)

function integerOf(value: unknown): bigint | null {
  const text = JSON.isRawJSON(value) ? value.rawJSON : value
  return typeof text === 'string' && /^-?\d+$/.test(text) ? BigInt(text) : null
}

/** The order of two values of one field; nulls first, as the database has it. */
export function compareValues(a: unknown, b: unknown): number {
  if (a === b) return 0
  if (a === null || a === undefined) return -1
  if (b === null || b === undefined) return 1
  if (typeof a === 'number' && typeof b === 'number') return a - b
  const left = integerOf(a)
  const right = integerOf(b)
  if (left !== null && right !== null) return sign(left, right)
  return sign(String(a), String(b))
}

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

// Which part of a list a page is. Pure arithmetic, faithful to the oddities of the real one.
export type PageRequest = { readonly page: number | null; readonly pageSize: number | null }
export type Span = { readonly from: number; readonly to: number }
export type PagingBehaviour = Pick<
  Behaviour,
  'pageCap' | 'pageCapArithmetic' | 'ownPageSize' | 'defaultPageSize' | 'pagingIgnored'
>

const everything: Span = { from: 0, to: Number.POSITIVE_INFINITY }

export function spanOf({ page, pageSize }: PageRequest, behaviour: PagingBehaviour): Span {
  const { ownPageSize } = behaviour
  const requested = ownPageSize ?? pageSize ?? behaviour.defaultPageSize
  if (behaviour.pagingIgnored || requested === null) return everything
  const taken = ownPageSize ?? Math.min(requested, behaviour.pageCap ?? requested)
  const skippedBy = behaviour.pageCapArithmetic === 'sieve' ? requested : taken
  const from = ((page ?? 1) - 1) * skippedBy
  return { from, to: from + taken }
}
