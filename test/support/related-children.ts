// What assignments carry with them in the stand-in, compared with what the mirror shows of it.

import type { Pool } from 'pg'
import type { Simulator } from '../../src/simulator/simulator.ts'
import { openCaller } from './simulator-caller.ts'

const groups = {
  Customer: 'customer',
  Employee: 'employee',
  AssignmentProduct: 'assignment_product',
  AssignmentService: 'assignment_service',
  AssignmentQualityControl: 'assignment_quality_control',
  Attachment: 'attachment',
} as const

type Child = Readonly<Record<string, unknown>>

/** What each table should hold: the children of all living assignments, by key. */
async function childrenOf(simulator: Simulator): Promise<Map<string, Map<string, Child>>> {
  const tables = new Map<string, Map<string, Child>>(Object.values(groups).map((name) => [name, new Map()]))
  const caller = await openCaller(simulator)
  for (const id of simulator.source.ids('assignment')) {
    const extended = (await caller.assignment(`GET /api/Assignment/extended/Id/${id}`)).json() as Child
    for (const [group, name] of Object.entries(groups))
      for (const child of [extended[group] ?? []].flat() as Child[])
        tables.get(name)?.set(String(child[`${group}Id`]), child)
  }
  return tables
}

/** What differs between the children that the mirror shows and those of the source, in words. */
export async function childDifferences(pool: Pool, simulator: Simulator): Promise<string[]> {
  const found: string[] = []
  for (const [name, children] of await childrenOf(simulator)) {
    const { rows } = await pool.query(`select * from bi.${name}`)
    const mirrored = new Map(rows.map((row) => [String(row[`${name}_id`]), row]))
    for (const [key, child] of children)
      if (
        String(mirrored.get(key)?.row_version) !== String(child.RowVersion) &&
        child.RowVersion !== undefined
      )
        found.push(`${name} ${key}: ${mirrored.has(key) ? 'stale' : 'missing'}`)
    for (const key of mirrored.keys()) if (!children.has(key)) found.push(`${name} ${key}: no longer there`)
  }
  return found
}
