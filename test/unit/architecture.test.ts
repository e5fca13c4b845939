// The documents for those who change the code name what is there: files, tests, and for each promise the faults that a test must
// notice.

import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { promiseMutations } from '../mutations/promise-mutations.ts'
import { readingMutations } from '../mutations/reading-mutations.ts'

const textOf = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const map = textOf('ARCHITECTURE.md')
const isThere = (path: string) => existsSync(new URL(`../../${path}`, import.meta.url))

describe.each(['ARCHITECTURE.md', 'SECURITY.md', 'RELEASING.md'])('%s', (name) => {
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
    const lost = [...promiseMutations, ...readingMutations].filter(
      ({ file, find }) => textOf(file).split(find).length !== 2,
    )
    expect(lost.map(({ name }) => name)).toEqual([])
  })

  it('are on the map, each with where it is kept, and with faults that its tests notice', () => {
    const rows = [...map.matchAll(/^\| (P\d+) \| .+? \| (.+?) \| (.+) \|$/gm)]
    expect(rows.map(([, promise]) => promise)).toEqual(
      Array.from({ length: 10 }, (_, index) => `P${index + 1}`),
    )
    for (const [, promise = '', kept = '', noticed = ''] of rows) {
      const files = [...kept.matchAll(/`([\w/-]+\.ts)`/g)].map(([, file]) => `src/${file}`)
      expect(files.filter((file) => !isThere(file))).toEqual([])
      const told = [...noticed.matchAll(/`([a-z0-9]+\/[\w-]+)`: ([^`]+?)\.?(?= `|$| Memory)/g)]
      expect(told.length, promise).toBeGreaterThan(0)
      for (const [, test = '', faults = ''] of told)
        for (const fault of faults.split('; ').filter((words) => !words.endsWith(' more'))) {
          const mutation = [...promiseMutations, ...readingMutations].find(({ name }) => name === fault)
          expect(mutation, `${promise}: ${fault}`).toMatchObject({ promise, test: `test/${test}.test.ts` })
        }
    }
  })
})
