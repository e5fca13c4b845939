// The cached bytes of rows against their texts: whatever was read before, a page is its records with commas between.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { initialBehaviour } from '../../src/simulator/behaviour.ts'
import { openRendering } from '../../src/simulator/rendering.ts'
import { defineResources } from '../../src/simulator/resources.ts'
import { emptyRow } from '../../src/simulator/row.ts'
import { openRowBytes } from '../../src/simulator/row-bytes.ts'

const { assignment } = defineResources({ look: 'plain', seed: 1, assignments: 0 })
const raws = ['1', '22', '"ø"', '4', '55', '[]', '7', '{"😀":8}'] as const
type Step = {
  readonly rows: readonly number[]
  readonly casing: 'pascal' | 'camel'
  readonly forgotten: number | null
}
const indexes = fc.integer({ min: 0, max: raws.length - 1 })
const step: fc.Arbitrary<Step> = fc.record({
  rows: fc.uniqueArray(indexes),
  casing: fc.constantFrom('pascal', 'camel'),
  forgotten: fc.option(indexes),
})

describe('joined rows', () => {
  it('are their texts, joined by commas', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const behaviour = initialBehaviour({}, 'plain')
        const bytes = openRowBytes(openRendering(behaviour))
        const rows = raws.map((raw, index) => ({ ...emptyRow, id: index + 1, raw }))
        for (const { rows: chosen, casing, forgotten } of steps) {
          behaviour.casing = casing
          if (forgotten !== null) bytes.forget(rows[forgotten] ?? emptyRow)
          const page = chosen.flatMap((index) => rows[index] ?? [])
          expect(bytes.joined(assignment, page).toString()).toBe(page.map(({ raw }) => raw).join(','))
        }
      }),
      { numRuns: 1_000 },
    )
  })
})
