// Faults in the rules of reading (P6).

import type { Mutation } from './mutation.ts'

const decisions = { promise: 'P6', project: 'unit' } as const
const reading = { promise: 'P6', project: 'property', test: 'test/property/reading.test.ts' } as const

export const readingMutations: readonly Mutation[] = [
  {
    ...reading,
    name: 'sorting is believed without a proof',
    file: 'src/sync/changes.ts',
    find: 'return askProof(reading, isPerhapsCut ? cursor : 0n, [])',
    replace: "return sawAhead({ ...reading, sorting: 'proven' }, phase, page, isPerhapsCut)",
  },
  {
    ...decisions,
    test: 'test/unit/changes.test.ts',
    name: 'a page that looks ascending is a proof',
    file: 'src/sync/sorting-proof.ts',
    find: 'if (isOpposite) continue',
    replace: 'continue',
  },
  {
    ...reading,
    name: 'paging goes on by the size asked for',
    file: 'src/sync/listing.ts',
    find: 'pageSize: lastPage ? pageSize : page.received,',
    replace: 'pageSize,',
  },
  {
    ...reading,
    name: 'the position moves in the middle of a pass',
    file: 'src/sync/changes.ts',
    find: "const here: Reading = { ...reading, phase: { name: 'listing', since, listing } }",
    replace:
      "const here: Reading = { ...advance(reading, listing.highest ?? reading.cursor), phase: { name: 'listing', since, listing } }",
  },
  {
    ...reading,
    name: 'the last version of a page is taken for complete',
    file: 'src/sync/changes.ts',
    find: 'advance(reading, last - 1n)',
    replace: 'advance(reading, last)',
  },
  {
    ...reading,
    name: 'a page of one version is taken for all of it',
    file: 'src/sync/changes.ts',
    find: 'if (!isPerhapsCut) return end(advance(reading, version))',
    replace: 'return lookAhead(advance(reading, version))',
  },
  {
    ...reading,
    name: 'one pass is enough',
    file: 'src/sync/listing.ts',
    find: "return { listing: ended, step: { kind: 'passed' } }",
    replace: "return { listing: ended, step: { kind: 'complete', highest: end.highest } }",
  },
  {
    ...decisions,
    test: 'test/unit/listing.test.ts',
    name: 'rows that came between two pages are not missed',
    file: 'src/sync/listing.ts',
    find: '(lastPage ? pageSize - lastPage.received : 0)',
    replace: '0',
  },
  {
    promise: 'P6',
    project: 'integration',
    test: 'test/integration/mirror-sightings.test.ts',
    name: 'what an earlier listing showed counts for the next',
    file: 'src/mirror/sightings.ts',
    find: 'if (pageNumber === 1)',
    replace: 'if (pageNumber < 0)',
  },
  {
    ...decisions,
    test: 'test/unit/changes.test.ts',
    name: 'a proof that was wrong is kept',
    file: 'src/sync/changes.ts',
    find: 'if (!isAscending(versions)) return takeBackProof(reading, versions)\n  if (options.until',
    replace: 'if (options.until',
  },
]
