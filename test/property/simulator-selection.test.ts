// What the stand-in selects, against a model that does it in the plainest way; and its lagging replica, against
// snapshots of the tables.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Behaviour, initialBehaviour } from '../../src/simulator/behaviour.ts'
import { seededRandom } from '../../src/simulator/random.ts'
import { openRendering } from '../../src/simulator/rendering.ts'
import { openReplica } from '../../src/simulator/replica.ts'
import { defineResources, resourceNames } from '../../src/simulator/resources.ts'
import { emptyRow, type Row } from '../../src/simulator/row.ts'
import { openSelections } from '../../src/simulator/selection.ts'
import { openTable, type Table } from '../../src/simulator/table.ts'
import type { Tables } from '../../src/simulator/writes.ts'

const resources = defineResources({ look: 'recorded', seed: 1, assignments: 0 })

function tableOf(versions: readonly number[]): Table {
  const table = openTable(resources.assignment)
  for (const [index, version] of versions.entries())
    table.put({ ...emptyRow, id: index + 1, version: BigInt(version), place: table.takePlace() })
  return table
}

const bound = fc.record({ operator: fc.constantFrom('>', '>=', '<', '<=', '=='), value: fc.nat(40) })
const meets = (version: number, { operator, value }: { operator: string; value: number }) =>
  ({ '>': version > value, '>=': version >= value, '<': version < value, '<=': version <= value })[
    operator
  ] ?? version === value

describe('a selection', () => {
  const arbitrary = {
    versions: fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 40 }),
    since: fc.option(fc.integer({ min: -1, max: 41 })),
    bounds: fc.array(bound, { maxLength: 3 }),
    isDescending: fc.boolean(),
    inclusive: fc.boolean(),
    order: fc.constantFrom('heap', 'id') as fc.Arbitrary<Behaviour['order']>,
    from: fc.nat(30),
    size: fc.integer({ min: 1, max: 12 }),
  }

  it('by version holds what the bounds leave, in order, page by page', () => {
    fc.assert(
      fc.property(fc.record(arbitrary), (given) => {
        const { versions, since, bounds, isDescending, inclusive, order, from, size } = given
        const behaviour = initialBehaviour({ order, inclusive }, 'recorded')
        const rendering = openRendering(behaviour)
        const select = openSelections({ behaviour, rendering, random: seededRandom(1) })
        const selected = select(tableOf(versions), {
          since: since === null ? null : BigInt(since),
          filters: bounds.map(({ operator, value }) => `sysRowVersion${operator}${value}`).join(','),
          sorts: `${isDescending ? '-' : ''}sysRowVersion`,
          limit: from + size,
        })
        if ('refused' in selected) throw new Error(selected.why)
        const left = versions
          .filter((version) => since === null || (inclusive ? version >= since : version > since))
          .filter((version) => bounds.every((each) => meets(version, each)))
          .sort((a, b) => (isDescending ? b - a : a - b))
        expect(selected.isPaged).toBe(true)
        expect(selected.selection.size).toBe(left.length)
        const page = selected.selection.slice(from, from + size)
        expect(page.map(({ version }) => Number(version))).toEqual(left.slice(from, from + size))
        expect(new Set(page.map(({ id }) => id)).size).toBe(page.length)
      }),
      { numRuns: 2_000 },
    )
  })

  it('that a heap orders shows every record once when the sort leaves nothing open', () => {
    fc.assert(
      fc.property(arbitrary.versions, fc.integer({ min: 1, max: 9 }), (versions, size) => {
        const behaviour = initialBehaviour({}, 'recorded')
        const rendering = openRendering(behaviour)
        const select = openSelections({ behaviour, rendering, random: seededRandom(1) })
        const table = tableOf(versions)
        const pages = Array.from({ length: Math.ceil(versions.length / size) }, (_, page) => {
          const [from, limit] = [page * size, (page + 1) * size]
          const criteria = { since: null, filters: null, sorts: 'processed,-assignmentId', limit }
          const selected = select(table, criteria)
          return 'refused' in selected ? [] : selected.selection.slice(from, limit)
        })
        const ids = pages.flat().map(({ id }) => id)
        expect(ids.sort((a, b) => a - b)).toEqual(versions.map((_, index) => index + 1))
      }),
    )
  })
})

describe('a replica', () => {
  const step = fc.record({
    id: fc.integer({ min: 1, max: 6 }),
    isDrop: fc.boolean(),
    waitMs: fc.integer({ min: 0, max: 30 }),
    lagMs: fc.option(fc.integer({ min: 0, max: 60 })),
  })

  it('shows what the tables showed so long ago', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let nowMs = 1_000
        const behaviour = initialBehaviour({}, 'plain')
        const tables = Object.fromEntries(
          resourceNames.map((name) => [name, openTable(resources[name])]),
        ) as Tables
        const replica = openReplica({ tables, behaviour, random: seededRandom(1), now: () => nowMs })
        const shown = ({ assignment }: Tables) =>
          assignment.byId.slice(0, 99).map(({ id, version }) => `${id}@${version}`)
        const snapshots = [{ atMs: 0, rows: [] as string[] }]
        for (const [index, { id, isDrop, waitMs, lagMs }] of steps.entries()) {
          nowMs += waitMs
          const row: Row = { ...emptyRow, id, version: BigInt(index + 1), place: index + 1 }
          const before = isDrop ? tables.assignment.drop(id) : tables.assignment.put(row)
          if (before || !isDrop) replica.changed('assignment', id, before, isDrop ? undefined : row)
          snapshots.push({ atMs: nowMs, rows: shown(tables) })
          behaviour.replicaLagMs = lagMs
          const seen = snapshots.findLast(({ atMs }) => atMs <= nowMs - (lagMs ?? 0))
          expect(shown(replica.forRead())).toEqual(seen?.rows)
        }
      }),
      { numRuns: 1_000 },
    )
  })
})
