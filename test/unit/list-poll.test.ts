// A poll of a list stream against an answer in memory.

import { expect, it } from 'vitest'
import type { ListStream } from '../../src/streams/catalog.ts'
import { readRecords } from '../../src/streams/record.ts'
import { pollList } from '../../src/sync/lists/poll.ts'
import { listWhole } from '../../src/sync/lists/read-whole.ts'
import type { Source } from '../../src/sync/ports/source.ts'
import { newFieldOrder } from '../../src/wire/field-order.ts'
import type { RecordList } from '../../src/wire/record-page.ts'
import { scanRecords } from '../../src/wire/scan.ts'
import { modelStore } from '../support/model-store.ts'

const stream: ListStream = {
  name: 'thing',
  kind: 'list',
  service: 'assignment',
  list: 'listThings',
  lookup: null,
  keyFields: ['Id'],
  defaultSchedule: '1h',
}

/** Each request is served the next answer. */
function poll(...answers: RecordList[]) {
  const store = modelStore(() => new Date(0))
  const notOffered = async () => {
    throw new Error('the test does not offer it')
  }
  const source: Source = {
    sortedBy: () => source,
    ...{ changes: notOffered, listHasPages: false, lookup: null },
    list: async () => ({ records: answers.shift() ?? [], bytes: 1 }),
  }
  const signal = new AbortController().signal
  const polled = pollList({ store, source, stream, keyField: null, pageSize: 100, signal })
  return { polled, store }
}

it('keeps each of two records that one answer gives the same key: one as a row, one in quarantine (P5)', async () => {
  const { polled, store } = poll([
    { Id: 1, Name: 'one' },
    { Id: 2, Name: 'other' },
    { Id: 1, Name: 'another' },
  ])
  expect((await polled).tally).toMatchObject({ inserted: 2, quarantined: 1 })
  expect(store.rows.get('1')?.record).toEqual({ Id: 1, Name: 'another' })
})

it('asks a second time when it is answered with nothing', async () => {
  const { polled } = poll([], [{ Id: 1 }])
  expect((await polled).tally).toMatchObject({ inserted: 1 })
})

/** A list whose first page comes whichever is asked for, and of which rights hide every tenth record. */
async function listFirstPageAlone(records: number, longestPage: number, status = 400) {
  const run = await modelStore(() => new Date(0)).openRun('reconcile', 'thing')
  if ('busy' in run) throw new Error(run.busy)
  const list: Source['list'] = async ({ pageSize }) => {
    if (pageSize > longestPage) throw Object.assign(new Error('so long a page is refused'), { status })
    const page = Array.from({ length: Math.min(records, pageSize) }, (_, index) => ({ Id: index + 1 }))
    return { records: page.filter(({ Id }) => Id % 10 !== 0), bytes: 1 }
  }
  const read = (page: RecordList) => readRecords(page, ['Id'], null)
  const signal = new AbortController().signal
  const asked = { source: { list, listHasPages: true }, run, read, pageSize: 100, signal }
  return await listWhole(asked, async () => {})
}

it('does not take the only page that a list shows for the whole list where rights have shortened it (P6)', async () => {
  expect(await listFirstPageAlone(150, 1_000)).toMatchObject({
    isProven: false,
    lacks:
      'the list shows its first page whichever is asked for, and there may be more records than are on it',
  })
  expect(await listFirstPageAlone(50, 1_000)).toMatchObject({ isProven: true })
  // Nobody can ask this one for more.
  expect(await listFirstPageAlone(50, 100)).toMatchObject({ isProven: true })
  // A question that failed proves nothing.
  expect(await listFirstPageAlone(50, 100, 503)).toMatchObject({ isProven: false })
})

it('takes a record that one answer shows twice for one', async () => {
  const { polled } = poll([{ Id: 1 }, { Id: 2 }, { Id: 1 }])
  expect((await polled).tally).toMatchObject({ inserted: 2, quarantined: 0 })
})

it('gives the memory of a page back when its rows are written (P10)', async () => {
  let timesReleased = 0
  const page = scanRecords(Buffer.from('[{"Id":1},{"Id":2}]'), newFieldOrder(), () => {
    timesReleased++
  })
  const { polled, store } = poll(page ?? [])
  let releasedBefore = -1
  store.onWrite = () => {
    releasedBefore = timesReleased
  }
  expect((await polled).tally).toMatchObject({ inserted: 2 })
  expect([releasedBefore, timesReleased]).toEqual([0, 1])
})
