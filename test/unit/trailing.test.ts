// The trailing lane against an upstream in memory: what it finds after it could not be read for a while.

import { expect, it } from 'vitest'
import { readHead } from '../../src/sync/head.ts'
import { readTrailing } from '../../src/sync/trailing.ts'
import { modelMirror } from '../support/model-mirror.ts'
import { modelStream, modelUpstream } from '../support/model-upstream.ts'
import { seededRandom } from '../support/random.ts'

const plain = {
  order: 'id',
  inclusive: false,
  sorts: 'honoured',
  cap: null,
  capHalvesAt: null,
  capArithmetic: 'requested',
  paging: 'works',
  hides: false,
  deletes: 'hard',
  tieChance: 0,
  lateChance: 0,
} as const

const minuteMs = 60_000

it('finds what came late while nothing was read, however long that was (P6)', async () => {
  const upstream = modelUpstream(plain, seededRandom(1))
  let time = 0
  const now = () => new Date(time)
  const mirror = modelMirror(now)
  const signal = new AbortController().signal
  const context = { mirror, source: upstream, stream: modelStream, pageSize: 100, now, signal }
  const read = async () => {
    await readHead(context)
    return await readTrailing({ ...context, lookbackFloorMs: 10 * minuteMs })
  }
  const row = (id: number, version: bigint) => ({ id, version, deleted: false })
  const old = Array.from({ length: 50 }, (_, index) => row(index + 1, BigInt(index + 1)))
  upstream.restore(old)
  await read()
  time += 30 * minuteMs
  upstream.restore([...old, row(60, 60n)])
  await read()
  // Version 59 becomes visible just after; then nobody reads for hours.
  upstream.restore([...old, row(60, 60n), row(59, 59n)])
  time += 5 * 60 * minuteMs
  expect(await read()).toMatchObject({ status: 'done', note: '1 late' })
  expect(mirror.rows.get('59')?.version).toBe(59n)
  // What was read long before is not read again.
  const quiet = await read()
  expect(quiet.tally.unchanged).toBeLessThan(10)
})
