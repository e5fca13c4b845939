// The faults that the tests must notice, for docs/how-it-works/proof.md.

import { byPromise } from '../../test/mutations/mutation.ts'
import { promiseMutations } from '../../test/mutations/promise-mutations.ts'
import { readingMutations } from '../../test/mutations/reading-mutations.ts'
import { code, table } from './markdown.ts'

export function mutationList(): string {
  const mutations = [...promiseMutations, ...readingMutations].toSorted(byPromise)
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
