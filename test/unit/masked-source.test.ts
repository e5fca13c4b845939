// What a source shows of a secret of this program: nothing, wherever in a record it stands (P9).

import { expect, it } from 'vitest'
import type { JsonArray } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import { readRecords } from '../../src/streams/record.ts'
import type { Source } from '../../src/sync/ports/source.ts'
import { maskSource } from '../../src/upstream/stream-source.ts'

const secret = 'a-webhook-secret-of-the-tests'
const text = `[{"Id":1,"Url":"https://me.example/hooks/${secret}?a","Url":"https://other.example",
  "More":{"Urls":["x","${secret}"],"Url":"${secret}","Url":"y"},"Price":1.50},7]`
const listing = (records: JsonArray): Source => ({
  sortedBy() {
    return this
  },
  changes: async () => ({ records: [], bytes: 0 }),
  list: async () => ({ records, bytes: 0 }),
  listHasPages: false,
  lookup: async () => ({ found: readRecords(records, ['Id'], null).rows[0]?.record ?? {} }),
})

it('is masked in fields, in what lies inside them, and in earlier values of repeated fields', async () => {
  const records = parseJson(Buffer.from(text)) as JsonArray
  const signal = new AbortController().signal
  const source = maskSource(listing(records), [secret])
  const answer = await source.list({ page: 1, pageSize: 10 }, signal)
  const looked = await source.lookup?.('1', signal)
  const expected = parseJson(Buffer.from(text.replaceAll(secret, '[secret]'))) as JsonArray
  expect('records' in answer && answer.records).toEqual(expected)
  expect(looked).toEqual({ found: expected[0] })
})
