// Which rows a list request is about, and in what order. In the order of keys, of versions or of places a selection is
// a window into an index and costs little; any other is worked out once and kept while the data rests.

import type { Behaviour } from './behaviour.ts'
import type { Field } from './fields.ts'
import {
  type Condition,
  compareValues,
  type Filter,
  type FilterContext,
  meets,
  NotApplicable,
  parseFilters,
  parseSorts,
  type Sort,
} from './filters.ts'
import { hash, type Random, shuffle, uuidFrom } from './random.ts'
import { type Rendering, servedVersionFields } from './rendering.ts'
import type { Resource } from './resources.ts'
import { compareIds, comparePlaces, compareVersions, type Row } from './row.ts'
import type { Table } from './table.ts'

type Selection = { readonly size: number; slice(from: number, to: number): readonly Row[] }
export type Criteria = {
  /** The row version of neworchanged; null for a plain list. */
  readonly since: bigint | null
  readonly filters: string | null
  readonly sorts: string | null
  /** The end of the page: rows without a defined order come in another order for each limit. */
  readonly limit: number
}
/** Refused with a status, or a selection, that is not paged when a step before paging could not be carried out. */
export type Selected =
  | { readonly selection: Selection; readonly isPaged: boolean }
  | { readonly refused: 400 | 500; readonly why: string }

type NamedOrder = 'version' | 'version-descending' | 'id' | 'id-descending' | 'heap'
type Order = NamedOrder | 'unstable' | readonly Sort[]
type Plan = {
  readonly lowest: bigint | null
  readonly filters: readonly Filter[]
  readonly order: Order
  readonly limit: number
}
type Parts = { readonly behaviour: Behaviour; readonly rendering: Rendering; readonly random: Random }

const keptSelections = 8

export function openSelections(parts: Parts): (table: Table, criteria: Criteria) => Selected {
  const { behaviour } = parts
  const sorted = openSortedSelections(parts)

  return (table, criteria) => {
    const lowest = criteria.since === null ? null : criteria.since + (behaviour.inclusive ? 0n : 1n)
    const steps = readSteps(table.resource, criteria, behaviour)
    if ('refused' in steps) return steps
    const order = orderOf(table.resource, steps.sorts, criteria.since !== null, behaviour)
    const limit = typeof order === 'string' ? Number.POSITIVE_INFINITY : criteria.limit
    const plan: Plan = { lowest, filters: steps.filters, order, limit }
    const selection = windowOf(table, plan, behaviour) ?? listOf(sorted(table, plan))
    return { selection, isPaged: steps.isPaged }
  }
}

type Steps = {
  readonly filters: readonly Filter[]
  readonly sorts: readonly Sort[]
  readonly isPaged: boolean
}

/** Filter, sort, page: a step that cannot be carried out is left out with all that come after it, or ends in a 500. */
function readSteps(resource: Resource, criteria: Criteria, behaviour: Behaviour): Steps | Refused {
  const context: FilterContext = {
    find: (name) => knownField(resource, name, behaviour),
    timeZone: behaviour.timeZone,
    skipsUnknown: behaviour.unknownNames === 'ignored',
  }
  const wantsSort = (criteria.sorts ?? '').trim() !== '' && behaviour.sorts !== 'ignored'
  if (wantsSort && behaviour.sorts === 'refused')
    return { refused: 400, why: `Sorts=${criteria.sorts} is not supported.` }
  const steps = { filters: [] as readonly Filter[], sorts: [] as readonly Sort[], isPaged: false }
  try {
    if (behaviour.filters === 'honoured') steps.filters = parseFilters(criteria.filters ?? '', context)
    const find = (name: string) => sortableField(context.find(name), behaviour)
    if (wantsSort) steps.sorts = parseSorts(criteria.sorts ?? '', { ...context, find })
    return { ...steps, isPaged: true }
  } catch (error) {
    if (!(error instanceof NotApplicable)) throw error
    return behaviour.unknownNames === 'error' ? { refused: 500, why: error.message } : steps
  }
}
type Refused = Extract<Selected, { readonly refused: number }>

/** Version fields are known by the names under which they are served; the plain look knows both at all times. */
function knownField(resource: Resource, name: string, behaviour: Behaviour): Field | undefined {
  const field = resource.field(name)
  if (field?.type === 'bytes' || field?.type === 'record') return undefined
  if (!field || !isVersionName(field.name) || resource.look === 'plain') return field
  const { counters, legacy } = servedVersionFields(behaviour)
  return counters.includes(field.name) || field.name === legacy ? field : undefined
}

function sortableField(field: Field | undefined, { sortableFields }: Behaviour): Field | undefined {
  const isSortable = sortableFields?.some((name) => name.toLowerCase() === field?.name.toLowerCase()) ?? true
  return isSortable ? field : undefined
}

const isVersionName = (name: string) => name === 'RowVersion' || name === 'SysRowVersion'
const isCounter = (name: string, behaviour: Behaviour) =>
  isVersionName(name) && name !== servedVersionFields(behaviour).legacy

function orderOf(
  resource: Resource,
  sorts: readonly Sort[],
  isChanges: boolean,
  behaviour: Behaviour,
): Order {
  const [first] = sorts
  if (first && isCounter(first.field.name, behaviour) && sorts.length === 1)
    return first.isDescending ? 'version-descending' : 'version'
  if (first?.field.name === resource.keyField) return first.isDescending ? 'id-descending' : 'id'
  if (first) return sorts
  switch (behaviour.order) {
    case 'unstable':
    case 'heap':
    case 'id':
      return behaviour.order
    case 'descending':
      return isChanges ? 'version-descending' : 'id-descending'
    default:
      return isChanges || resource.look === 'recorded' ? 'version' : 'id'
  }
}

/** A part of an index, when that is what is asked for. */
function windowOf(table: Table, plan: Plan, behaviour: Behaviour): Selection | null {
  const { order } = plan
  if (typeof order !== 'string' || order === 'unstable') return null
  if (behaviour.cutBeforeSort !== null || behaviour.hideDeleted || behaviour.twins !== null) return null
  const isByVersion = order === 'version' || order === 'version-descending'
  const bounds = versionBounds(table, plan, behaviour)
  if (bounds === null || (!isByVersion && (plan.lowest !== null || plan.filters.length > 0))) return null
  const index = isByVersion ? table.byVersion : order === 'heap' ? table.byPlace : table.byId
  const { first, end } = isByVersion ? bounds : { first: 0, end: index.size }
  const size = Math.max(0, end - first)
  if (isByVersion && behaviour.order === 'heap') return openTies(index, { first, end, order, behaviour })
  if (!order.endsWith('descending'))
    return { size, slice: (from, to) => index.slice(first + from, Math.min(end, first + to)) }
  return {
    size,
    slice: (from, to) => index.slice(Math.max(first, end - to), Math.max(first, end - from)).reverse(),
  }
}

/** A window in the order of versions. Rows with equal versions come in the order of a heap, which is another one for each page. */
function openTies(
  index: Table['byVersion'],
  { first, end, order, behaviour }: { first: number; end: number; order: string; behaviour: Behaviour },
): Selection {
  const isSame = (a: number, b: number) => index.at(a)?.version === index.at(b)?.version
  const isTurned = order.endsWith('descending')
  return {
    size: Math.max(0, end - first),
    slice(from, to) {
      const [start, stop] = isTurned ? [end - to, end - from] : [first + from, first + to]
      let [low, high] = [Math.max(first, start), Math.max(first, Math.min(end, stop))]
      const [wantedLow, wantedCount] = [low, high - low]
      if (wantedCount <= 0) return []
      while (low > first && isSame(low - 1, low)) low--
      while (high < end && isSame(high - 1, high)) high++
      const compareTies = tieOrder(behaviour, to)
      const turn = isTurned ? -1 : 1
      const rows = index
        .slice(low, high)
        .sort((a, b) => (a.version === b.version ? turn * compareTies(a, b) : compareVersions(a, b)))
      const page = rows.slice(wantedLow - low, wantedLow - low + wantedCount)
      return isTurned ? page.reverse() : page
    },
  }
}

/** The part of the index of versions that neworchanged and filters leave; null when the filters ask for more. */
function versionBounds(
  table: Table,
  { lowest, filters }: Plan,
  behaviour: Behaviour,
): { readonly first: number; readonly end: number } | null {
  let [low, high]: [bigint, bigint | null] = [lowest ?? -(2n ** 64n), null]
  const atMost = (version: bigint) => {
    high = high === null || version < high ? version : high
  }
  for (const filter of filters) {
    const [condition] = filter
    if (filter.length !== 1 || !condition || !isCounter(condition.field.name, behaviour)) return null
    const { base, wanted, isNegated } = condition
    if (typeof wanted !== 'bigint' || isNegated || base === '!=') return null
    if (base === '>' && wanted >= low) low = wanted + 1n
    if ((base === '>=' || base === '==') && wanted > low) low = wanted
    if (base === '<') atMost(wanted - 1n)
    if (base === '<=' || base === '==') atMost(wanted)
  }
  const end = high === null ? table.byVersion.size : table.countBelow(high + 1n)
  return { first: table.countBelow(low), end }
}

const listOf = (rows: readonly Row[]): Selection => ({
  size: rows.length,
  slice: (from, to) => rows.slice(from, to),
})

/** Selections that no index has: filtered, cut and sorted row by row. */
function openSortedSelections(parts: Parts): (table: Table, plan: Plan) => readonly Row[] {
  const { behaviour, rendering, random } = parts
  type Kept = Map<string, { readonly mutations: number; readonly rows: readonly Row[] }>
  const keptOf = new WeakMap<Table, Kept>()

  return (table, plan) => {
    const kept: Kept = keptOf.get(table) ?? new Map()
    keptOf.set(table, kept)
    const { order } = plan
    if (order === 'unstable') return shuffle(chosenRows(table, plan, parts), random)
    const { rowVersions, rowVersionField, cutBeforeSort, hideDeleted, twins } = behaviour
    const switches = [rowVersions, rowVersionField, cutBeforeSort, hideDeleted, twins, behaviour.order]
    const name = JSON.stringify([plan, switches], (_, value) =>
      typeof value === 'bigint' ? String(value) : value,
    )
    const known = kept.get(name)
    if (known?.mutations === table.mutations) return known.rows
    const rows = sortedRowsOf(chosenRows(table, plan, parts), table.resource, plan, { behaviour, rendering })
    kept.delete(name)
    kept.set(name, { mutations: table.mutations, rows })
    for (const oldest of kept.keys()) if (kept.size > keptSelections) kept.delete(oldest)
    return rows
  }
}

function chosenRows(table: Table, plan: Plan, { behaviour, rendering }: Omit<Parts, 'random'>): Row[] {
  const bounds = versionBounds(table, { ...plan, filters: [] }, behaviour)
  const all =
    plan.lowest === null || bounds === null
      ? table.byId.slice(0, Number.POSITIVE_INFINITY)
      : table.byVersion.slice(bounds.first, bounds.end)
  const shown = behaviour.hideDeleted ? all.filter(({ isDeleted }) => !isDeleted) : all
  const rows =
    plan.filters.length === 0
      ? shown
      : shown.filter(filterBy(table.resource, plan.filters, rendering, behaviour))
  const cut =
    behaviour.cutBeforeSort === null ? rows : rows.sort(compareIds).slice(0, behaviour.cutBeforeSort)
  return twinsAmong(cut, table.resource, behaviour)
}

function filterBy(
  { keyField, ...resource }: Resource,
  filters: readonly Filter[],
  rendering: Rendering,
  behaviour: Behaviour,
): (row: Row) => boolean {
  const holdsFor = (row: Row, fields: () => Record<string, unknown>, condition: Condition) => {
    const { name } = condition.field
    if (isCounter(name, behaviour)) return meets(condition, row.version)
    const isOwnKey = name === keyField && row.raw === null && row.own?.[keyField] === undefined
    return meets(condition, isOwnKey ? row.id : fields()[name])
  }
  return (row) => {
    let rendered: Record<string, unknown> | null = null
    const fields = () => {
      rendered ??= rendering.fields({ keyField, ...resource }, row)
      return rendered
    }
    return filters.every((filter) => filter.some((condition) => holdsFor(row, fields, condition)))
  }
}

function sortedRowsOf(
  rows: Row[],
  resource: Resource,
  { order, limit }: Plan,
  { behaviour, rendering }: Omit<Parts, 'random'>,
): readonly Row[] {
  if (order === 'version') return rows.sort(compareVersions)
  if (order === 'version-descending') return rows.sort((a, b) => compareVersions(b, a))
  if (order === 'id') return rows.sort(compareIds)
  if (order === 'id-descending') return rows.sort((a, b) => compareIds(b, a))
  if (typeof order === 'string') return rows.sort(comparePlaces)
  const sorts = order
  const keyed = rows.map((row) => {
    const fields = rendering.fields(resource, row)
    const keys = sorts.map(({ field: { name } }) =>
      isCounter(name, behaviour) ? row.version.toString() : fields[name],
    )
    return { row, keys }
  })
  const compareTies = tieOrder(behaviour, limit)
  const compareKeys = behaviour.order === 'heap' ? nullsLast : compareValues
  keyed.sort((a, b) => {
    for (const [index, { isDescending }] of sorts.entries()) {
      const result = compareKeys(a.keys[index], b.keys[index])
      if (result !== 0) return isDescending ? -result : result
    }
    return compareTies(a.row, b.row)
  })
  return keyed.map(({ row }) => row)
}

/** Postgres has nulls last, and first where the order is turned round. */
function nullsLast(a: unknown, b: unknown): number {
  if ((a ?? null) === null || (b ?? null) === null) return -compareValues(a, b)
  return compareValues(a, b)
}

/** What a sort leaves open, a heap decides: in another way for each LIMIT, and in the same way for the same one. */
function tieOrder(behaviour: Behaviour, limit: number): (a: Row, b: Row) => number {
  if (behaviour.order !== 'heap') return compareIds
  if (!Number.isFinite(limit)) return comparePlaces
  return (a, b) => hash(limit, a.id, 77) - hash(limit, b.id, 77) || comparePlaces(a, b)
}

// Twins: two records that have one and the same key. A service that joins what belongs to two clients, or two
// databases, into one list shows such a pair.
/** The rows, and beside each whose id is a multiple of `twins` another one that differs in all but its key and version. */
function twinsAmong(rows: Row[], resource: Resource, { twins }: Behaviour): Row[] {
  if (twins === null) return rows
  return rows.flatMap((row) =>
    row.id % twins === 0 && row.raw === null ? [row, twinOf(row, resource)] : [row],
  )
}

export const twinFields = (id: number, seed: number) => ({
  UID: uuidFrom(seed, id, 0x7717),
  DepartmentId: 990 + (id % 9),
})

const twinOf = (row: Row, resource: Resource): Row => ({
  ...row,
  own: { ...row.own, ...twinFields(row.id, resource.name.length) },
  cached: null,
})
