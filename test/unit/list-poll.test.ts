// A poll of a list stream against an answer in memory.

import { expect, it } from 'vitest'
import type { ListStream } from '../../src/streams/catalog.ts'
import { pollList } from '../../src/sync/lists/poll.ts'
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
