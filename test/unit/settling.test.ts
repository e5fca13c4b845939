// Why a stream is not settled, and when it will be, as people are told.

import { describe, expect, it } from 'vitest'
import { settlingOf } from '../../src/streams/settling.ts'

const now = new Date('2026-11-22T14:02:31Z')
const at = (seconds: number) => new Date(now.getTime() + seconds * 1_000)
const loaded = {
  ...({
    kind: 'changes',
    readThroughAt: at(-1),
    settledThroughAt: null,
    firstReadThroughAt: at(-20),
  } as const),
  ...{ running: [], paused: null, lookbackMs: 30_000, nextReconcileAt: null },
}

describe('what is said of a stream that is not settled', () => {
  it.each([
    ['the first load goes on', { readThroughAt: null, firstReadThroughAt: null }, 'after the first load'],
    ['the look-back has not passed', {}, 'soon after 14:02:41 UTC'],
    [
      'it has, and the comparison runs',
      { firstReadThroughAt: at(-40), running: ['reconcile'] },
      'being compared now',
    ],
    [
      'the comparison comes later',
      { firstReadThroughAt: at(-40), nextReconcileAt: at(50_000) },
      'at the latest after 2026-11-23 03:55 UTC',
    ],
    ['nobody knows when', { firstReadThroughAt: at(-40) }, 'with the next reconcile'],
    ['it is paused', { paused: { by: 'ops-1' } }, 'when it is resumed'],
  ])('%s', (_case, more, when) => {
    expect(settlingOf({ ...loaded, ...more }, now)?.when).toBe(when)
  })

  it('is nothing where it is settled, or every read settles it', () => {
    expect(settlingOf({ ...loaded, settledThroughAt: at(-60) }, now)).toBeNull()
    expect(settlingOf({ ...loaded, kind: 'list' }, now)).toBeNull()
  })

  it('says why', () => {
    expect(settlingOf(loaded, now)?.why).toMatch(
      /can become visible late[\s\S]*That can begin at 14:02:41 UTC, when the look-back \(30 s\)/,
    )
  })
})
