// A fault that was put into the code counts as noticed when an assertion failed, and never by a crash, a timeout or by nothing.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Mutation, mutated, pickMutations } from '../mutations/mutation.ts'
import { judge, type SeenError } from '../mutations/verdict.ts'

const seenBy = (errors: readonly SeenError[]) =>
  judge({ passed: 3, failures: [{ title: 'counts', errors }], otherErrors: [] })

function thrownBy(work: () => void): SeenError {
  try {
    work()
  } catch (error) {
    if (error instanceof Error) return error as SeenError
  }
  throw new Error('nothing was thrown')
}

describe('a fault', () => {
  it('is noticed by an expectation that does not hold', () => {
    const error = thrownBy(() => expect(1).toBe(2))
    expect(seenBy([error])).toEqual({ verdict: 'noticed', reason: 'counts' })
    expect(seenBy([{ name: 'Error', message: 'the table is gone' }, error]).verdict).toBe('noticed')
  })

  it('is noticed by a property that an expectation broke, not by one that crashed', () => {
    const failing = (check: () => void) => thrownBy(() => fc.assert(fc.property(fc.nat(), check)))
    const broken = failing(() => expect(1).toBe(2))
    const crashed = failing(() => {
      throw new TypeError('x is undefined')
    })
    expect(seenBy([broken]).verdict).toBe('noticed')
    expect(seenBy([crashed])).toEqual({
      verdict: 'failed otherwise',
      reason: expect.stringMatching(
        /^counts: Error: Property failed after 1 .*\(TypeError: x is undefined\)$/,
      ),
    })
  })

  it('is not noticed by a timeout, nor by an error that wraps an assertion', () => {
    expect(seenBy([{ name: 'Error', message: 'Test timed out in 30000ms.' }])).toEqual({
      verdict: 'failed otherwise',
      reason: 'counts: Error: Test timed out in 30000ms.',
    })
    const cause = thrownBy(() => expect(1).toBe(2))
    expect(seenBy([{ name: 'Error', message: 'the run failed', cause }]).verdict).toBe('failed otherwise')
  })

  it('is not noticed by a file that cannot be loaded, nor where no test ran', () => {
    const none = { passed: 0, failures: [] }
    expect(judge({ ...none, otherErrors: ['cannot find x'] })).toEqual({
      verdict: 'failed otherwise',
      reason: 'cannot find x',
    })
    expect(judge({ ...none, otherErrors: [] }).verdict).toBe('failed otherwise')
  })

  it('is missed when all tests pass', () => {
    expect(judge({ passed: 3, failures: [], otherErrors: [] }).verdict).toBe('missed')
  })
})

const mutation: Mutation = {
  promise: 'P1',
  name: 'rows are lost',
  file: 'src/rows.ts',
  find: 'keep(row)',
  replace: "drop('$&')",
  test: 'test/unit/rows.test.ts',
}

describe('a mutation', () => {
  it('is put where its text stands, once and literally', () => {
    expect(mutated('for (row) keep(row)', mutation)).toBe("for (row) drop('$&')")
    expect(mutated('keep(row); keep(row)', mutation)).toBeNull()
    expect(mutated('', mutation)).toBeNull()
  })

  it('is picked by its promise, or by words of its name, file and test', () => {
    const all = [mutation, { ...mutation, promise: 'P10', name: 'rows are late' }]
    const picked = (...words: readonly string[]) => pickMutations(all, words).map(({ promise }) => promise)
    expect(picked()).toEqual(['P1', 'P10'])
    expect(picked('P1')).toEqual(['P1'])
    expect(picked('late', 'unit/rows')).toEqual(['P10'])
    expect(picked('late', 'unit/columns')).toEqual([])
  })
})
