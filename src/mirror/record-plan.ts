// Where the fields of a record go. Records of one stream mostly carry the same fields in the same order, so the answer
// is worked out once for each order and found again by comparing names.

import type { JsonObject } from '../json/json.ts'
import { foldName } from './column-names.ts'
import { type Shape, versionFields } from './shape.ts'

/** In place of a column: the field has none and gets none. */
const noColumn = -1
/** In place of a column: the table does not know the field yet. */
export const unknownField = -2

export type RecordPlan = {
  readonly fields: readonly string[]
  /** For each field, the index of its column. */
  readonly columns: Int32Array
  /** Each field has a column to itself, or none; those of the row version have one. */
  readonly isPlain: boolean
  /** The field by which the source itself says that a record is deleted. */
  readonly deletionFlag: string | null
}

// The dictionary is found by names, and an index of Postgres holds no entry of a third of a page.
const mostNameBytes = 2_000
const isTooLong = (name: string): boolean => Buffer.byteLength(name) > mostNameBytes

// An upstream may make up a field name for every record; what was planned for such names is forgotten again (P10).
const maxPlans = 200

export function createPlanner(shape: Shape): (record: JsonObject) => RecordPlan {
  const columnOf = new Map(shape.columns.map((column, index) => [foldName(column.field), index]))
  const versionNames = new Set(versionFields(shape.stream))
  const plans = new Map<string, RecordPlan>()
  let last: RecordPlan = makePlan([])

  function makePlan(fields: readonly string[]): RecordPlan {
    const folded = fields.map(foldName)
    const places = folded.map(
      (name) => columnOf.get(name) ?? (shape.unplaced.has(name) || isTooLong(name) ? noColumn : unknownField),
    )
    const columns = places.filter((place) => place >= 0)
    const isPlain =
      new Set(columns).size === columns.length &&
      folded.every((name, index) => !versionNames.has(name) || (places[index] ?? noColumn) >= 0)
    const flag = folded.indexOf('sysdeleted')
    return {
      fields,
      columns: Int32Array.from(places),
      isPlain,
      deletionFlag: flag < 0 ? null : (fields[flag] ?? null),
    }
  }

  return (record) => {
    const fields = Object.keys(record)
    if (isSame(fields, last.fields)) return last
    const order = fields.join('\0')
    let plan = plans.get(order)
    if (!plan || !isSame(fields, plan.fields)) {
      if (plans.size >= maxPlans) plans.clear()
      plan = makePlan(fields)
      plans.set(order, plan)
    }
    last = plan
    return plan
  }
}

function isSame(fields: readonly string[], others: readonly string[]): boolean {
  if (fields.length !== others.length) return false
  for (let index = 0; index < fields.length; index++) if (fields[index] !== others[index]) return false
  return true
}
