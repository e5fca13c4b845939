// The faults that the tests must notice, for docs/how-it-works/guarantees.md.

import { promiseMutations } from '../../test/mutations/promise-mutations.ts'
import { readingMutations } from '../../test/mutations/reading-mutations.ts'
import { code, table } from './markdown.ts'

export function mutationList(): string {
  const number = (promise: string) => Number(promise.slice(1))
  const mutations = [...promiseMutations, ...readingMutations].toSorted(
    (a, b) => number(a.promise) - number(b.promise),
  )
  return table(
    ['promise', 'fault', 'put into', 'noticed by'],
    mutations.map(({ promise, name, file, test }) => [
      promise,
      name,
      code(file),
      code(test.replace(/^test\/(.*)\.test\.ts$/, '$1')),
    ]),
  )
}
