// The trailing lane against an upstream in memory: what it finds after it could not be read for a while.

import { expect, it } from 'vitest'
import { readHead } from '../../src/sync/head.ts'
import { readTrailing } from '../../src/sync/trailing.ts'
import { modelMirror } from '../support/model-mirror.ts'
import { modelStream, modelUpstream, ordinaryWorld } from '../support/model-upstream.ts'
import { seededRandom } from '../support/random.ts'

const minuteMs = 60_000

/** A mirror that is asked to read that upstream, and a clock that only moves when it is told to. */
function scene() {
  const upstream = modelUpstream({ ...ordinaryWorld, order: 'id' }, seededRandom(1))
  let time = 0
  const now = () => new Date(time)
  const mirror = modelMirror(now)
  const signal = new AbortController().signal
  const context = { mirror, source: upstream, stream: modelStream, pageSize: 100, now, signal }
  return {
    upstream,
    mirror,
    context,
    pass: (ms: number) => {
      time += ms
    },
    read: async () => {
      await readHead(context)
      return await readTrailing({ ...context, lookbackFloorMs: 10 * minuteMs })
    },
  }
}
const row = (id: number, version: bigint) => ({ id, version, deleted: false })
const old = Array.from({ length: 50 }, (_, index) => row(index + 1, BigInt(index + 1)))

it('finds what came late while nothing was read, however long that was (P6)', async () => {
  const { upstream, mirror, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore([...old, row(60, 60n)])
  await read()
  // Version 59 becomes visible just after; then nobody reads for hours.
  upstream.restore([...old, row(60, 60n), row(59, 59n)])
  pass(5 * 60 * minuteMs)
  expect(await read()).toMatchObject({ status: 'done', note: '1 late' })
  expect(mirror.rows.get('59')?.version).toBe(59n)
  // What was read long before is not read again.
  const quiet = await read()
  expect(quiet.tally.unchanged).toBeLessThan(10)
})

it('finds what came late while the upstream showed this client nothing at all (P6)', async () => {
  const { upstream, mirror, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore([...old, row(60, 60n)])
  expect(await read()).toMatchObject({ isComplete: true })
  // Another CLIENT_GUID, or a right that was lost: status 200 and an empty list.
  upstream.restore([])
  for (let reading = 0; reading < 5; reading++) {
    pass(60 * minuteMs)
    expect(await read()).toMatchObject({
      status: 'done',
      isComplete: false,
      note: expect.stringContaining('CLIENT_GUID'),
    })
  }
  upstream.restore([...old, row(60, 60n), row(59, 59n)])
  expect(await read()).toMatchObject({ status: 'done', isComplete: true, note: '1 late' })
  expect(mirror.rows.get('59')?.version).toBe(59n)
})

it('takes a record that is still there for no sign that its changes are shown (P6)', async () => {
  const { upstream, context, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  const silent = { ...upstream, changes: async () => ({ records: [], bytes: 2 }) }
  const trailing = () => readTrailing({ ...context, source: silent, lookbackFloorMs: 10 * minuteMs })
  expect(await trailing()).toMatchObject({ isComplete: false, note: expect.stringContaining('no changes') })
})

it('finds what came late although its question was once answered with nothing (P6)', async () => {
  const { upstream, mirror, context, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore([...old, row(60, 60n)])
  await read()
  upstream.restore([...old, row(60, 60n), row(59, 59n)])
  let answers = 0
  const slipping: typeof upstream = {
    ...upstream,
    changes: async (...asked) => (answers++ === 0 ? { records: [], bytes: 2 } : upstream.changes(...asked)),
  }
  pass(5 * minuteMs)
  const outcome = await readTrailing({ ...context, source: slipping, lookbackFloorMs: 10 * minuteMs })
  expect(outcome).toMatchObject({ isComplete: true, note: '1 late' })
  expect(mirror.rows.get('59')?.version).toBe(59n)
})

it('is complete in a quiet time after the newest records were deleted, however many', async () => {
  const { upstream, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore(old.slice(0, 20))
  expect(await read()).toMatchObject({ status: 'done', isComplete: true, note: null })
})

it('is complete when the records with the highest versions are gone and others are not', async () => {
  const { upstream, pass, read } = scene()
  upstream.restore(old)
  await read()
  pass(30 * minuteMs)
  upstream.restore(old.slice(0, 48))
  expect(await read()).toMatchObject({ status: 'done', isComplete: true, note: null })
})
