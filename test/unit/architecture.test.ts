// The documents for those who change the code name what is there: files, tests, and for each promise the faults that a test must
// notice.

import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { allMutations, mutated } from '../mutations/mutation.ts'

const textOf = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const guarantees = textOf('docs/how-it-works/guarantees.md')
const isThere = (path: string) => existsSync(new URL(`../../${path}`, import.meta.url))

describe.each([
  'CONTRIBUTING.md',
  'SECURITY.md',
  'RELEASING.md',
  'docs/how-it-works/proof.md',
  'docs/how-it-works/reading.md',
])('%s', (name) => {
  it('names files and tests that there are', () => {
    const text = textOf(name)
    const sources = [...text.matchAll(/src\/[\w./-]+?(?:\.ts|\/)(?![\w./-])/g)].map(([path]) => path)
    const tests = [...text.matchAll(/`((?:unit|property|integration|e2e|browser)\/[\w-]+)`/g)]
    const others = [...text.matchAll(/test\/[\w./-]+\.\w+/g)].map(([path]) => path)
    const named = [...sources, ...others, ...tests.map(([, test]) => `test/${test}.test.ts`)]
    expect(named).not.toEqual([])
    expect(named.filter((path) => !isThere(path))).toEqual([])
  })
})

describe('the promises', () => {
  it('are broken by every fault of the list, which finds its place in the code as it is', () => {
    const lost = allMutations.filter((mutation) => mutated(textOf(mutation.file), mutation) === null)
    expect(lost.map(({ name }) => name)).toEqual([])
  })

  it('are in the manual, each with a fault that a test must notice', () => {
    const [table = ''] = guarantees.split('## What is not promised')
    const told = [...table.matchAll(/^\| (P\d+) \| [^|]+ \| [^|]+ \|$/gm)].map(([, promise]) => promise)
    // The numbers between them are promises that are not kept yet: the page says so further down.
    const kept = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20]
    expect(told).toEqual(kept.map((number) => `P${number}`))
    const broken = new Set(allMutations.map(({ promise }) => promise))
    expect(told.filter((promise = '') => !broken.has(promise))).toEqual([])
  })

  it('are noticed by tests that there are', () => {
    const tests = allMutations.map(({ test }) => test)
    expect(tests.filter((test) => !isThere(test))).toEqual([])
  })
})
