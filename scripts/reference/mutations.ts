// The faults that the tests must notice, for docs/how-it-works/proof.md.

import { allMutations } from '../../test/mutations/mutation.ts'
import { code, table } from './markdown.ts'

export function mutationList(): string {
  return table(
    ['promise', 'fault', 'put into', 'noticed by'],
    allMutations.map(({ promise, name, file, test }) => [
      promise,
      name,
      code(file),
      code(test.replace(/^test\/(.*)\.test\.ts$/, '$1')),
    ]),
  )
}
