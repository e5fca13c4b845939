// Faults in the rules of reading (P6).

import type { Mutation } from './mutation.ts'

const decisions = { promise: 'P6' } as const
const reading = { promise: 'P6', test: 'test/property/reading.test.ts' } as const

export const readingMutations: readonly Mutation[] = [
  {
    ...reading,
    name: 'sorting is believed without a proof',
    file: 'src/sync/changes/machine.ts',
    find: '  const { from, pageSize, sorting, largestAnswer, anchor } = options\n',
    replace:
      "  const { from, pageSize, largestAnswer, anchor } = options\n  const sorting = options.sorting === 'unknown' ? 'proven' : options.sorting\n",
  },
  {
    ...decisions,
    test: 'test/unit/changes-machine.test.ts',
    name: 'a page that looks ascending is a proof',
    file: 'src/sync/changes/hypotheses.ts',
    find: 'if (isOpposite) continue',
    replace: 'if (isOpposite || distinct > 0) continue',
  },
  {
    ...reading,
    name: 'paging goes on by the size asked for',
    file: 'src/sync/lists/listing.ts',
    find: 'pageSize: lastPage ? pageSize : page.received,',
    replace: 'pageSize,',
  },
  {
    ...reading,
    name: 'the position moves in the middle of a pass',
    file: 'src/sync/changes/machine.ts',
    find: "return { reading: { ...reading, state: { name: 'scan', since, listing, question } }, effects }",
    replace:
      "return { reading: { ...advance(reading, listing.highest ?? reading.cursor), state: { name: 'scan', since, listing, question } }, effects }",
  },
  {
    ...reading,
    name: 'the last version of a page is taken for complete',
    file: 'src/sync/changes/machine.ts',
    find: 'advance(reading, page.last - 1n)',
    replace: 'advance(reading, page.last)',
  },
  {
    ...reading,
    name: 'a page of one version is taken for all of it',
    file: 'src/sync/changes/machine.ts',
    find: '({ page }) => !page.isOneVersion,\n    (seen) => ({ reading: ahead(belowLast(seen)) }),',
    replace:
      '() => true,\n    (seen) => ({ reading: ahead(seen.page.isOneVersion ? advance(seen.reading, seen.page.last) : belowLast(seen)) }),',
  },
  {
    ...decisions,
    test: 'test/unit/changes-machine.test.ts',
    name: 'a short page is taken for the last',
    file: 'src/sync/changes/machine.ts',
    find: "'tail',\n        ({ page }) => !page.isPerhapsCut,\n        (seen) => ({ reading: { ...belowLast(seen), state: { name: 'tail', page: seen.page } } }),",
    replace:
      "'done',\n        ({ page }) => !page.isPerhapsCut,\n        ({ reading, page }) => end(advance(reading, page.last)),",
  },
  {
    ...reading,
    name: 'an answer longer than asked for is taken for everything',
    file: 'src/sync/lists/listing.ts',
    find: '  if (!isRepeatOf(far, doubtful)) return countPage(listing, doubtful)\n',
    replace: '',
  },
  {
    ...reading,
    name: 'one pass is enough',
    file: 'src/sync/lists/listing.ts',
    find: "return { listing: ended, step: { kind: 'passed' } }",
    replace: 'return { listing: ended, step: complete(end.highest) }',
  },
  {
    ...decisions,
    test: 'test/unit/listing.test.ts',
    name: 'rows that came between two pages are not missed',
    file: 'src/sync/lists/listing.ts',
    find: 'lastPage ? Math.max(0, pageSize - lastPage.received) : 0',
    replace: '0',
  },
  {
    ...decisions,
    test: 'test/unit/text-order.test.ts',
    name: 'what is sorted as text is taken for sorted',
    file: 'src/sync/changes/text-order.ts',
    find: 'if (!hasRoomForShorter(cursor, page.last, end)) return numbers',
    replace: 'return numbers',
  },
  {
    ...decisions,
    test: 'test/unit/changes-machine.test.ts',
    name: 'a short page without a new row is the end',
    file: 'src/sync/changes/machine.ts',
    find: '({ page }) => page.received === 0,',
    replace: '({ page }) => page.received === 0 || !(page.isNew || page.isPerhapsCut),',
  },
  {
    ...reading,
    name: 'one empty answer is the end, wherever it comes',
    file: 'src/sync/changes/read-changes.ts',
    find: 'mayBeNothing ? fetch() : confirmEmpty(fetch)',
    replace: 'fetch()',
  },
  {
    ...decisions,
    test: 'test/unit/list-poll.test.ts',
    name: 'one empty answer is the end of a list',
    file: 'src/sync/lists/read-whole.ts',
    find: 'confirmEmpty(() => source.list(step, signal))',
    replace: 'source.list(step, signal)',
  },
  {
    promise: 'P6',
    test: 'test/integration/store-seen-keys.test.ts',
    name: 'what an earlier listing showed counts for the next',
    file: 'src/store/runs/seen-keys.ts',
    find: 'if (pageNumber === 1)',
    replace: 'if (pageNumber < 0)',
  },
  {
    ...decisions,
    test: 'test/unit/changes-machine.test.ts',
    name: 'a proof that was wrong is kept',
    file: 'src/sync/changes/machine.ts',
    find: '({ page }) => isOutOfOrder(page.versions),',
    replace: '({ page }) => !page.isNew && isOutOfOrder(page.versions),',
  },
  {
    ...decisions,
    test: 'test/unit/lookback.test.ts',
    name: 'what was there when a first load began is never looked at again',
    file: 'src/sync/changes/lookback.ts',
    find: 'return wasLoading && top > held ? top : held',
    replace: 'return top > held ? top : held',
  },
  {
    promise: 'P11',
    test: 'test/unit/changes-machine.test.ts',
    name: 'an answer that shows nothing known is believed',
    file: 'src/sync/changes/machine.ts',
    find: 'return (page.received === 0 || beginsBehind || !page.isPerhapsCut) && anchor',
    replace: 'return beginsBehind && page.received === 0 && anchor',
  },
  {
    promise: 'P11',
    test: 'test/integration/upstream-shows-nothing.test.ts',
    name: 'a poll that proved nothing counts as one that read everything',
    file: 'src/sync/changes/machine.ts',
    find: '            isComplete: false,\n            isInconclusive: true,',
    replace: '            isComplete: true,\n            isInconclusive: false,',
  },
]
