// How far a backfill has come, in words.

import { describe, expect, it } from 'vitest'
import { backfillSentence, progressLine, whereItIs } from '../../src/cli/progress.ts'
import type { Backfill } from '../../src/sync/ports/store.ts'

const begun: Backfill = {
  id: '7',
  stream: 'assignment',
  from: 1000n,
  to: 5000n,
  position: 1000n,
  status: 'running',
  requestedAt: new Date(0),
  requestedBy: 'somebody@here',
  startedAt: new Date(0),
  finishedAt: null,
  rowsRead: 0,
  inserted: 0,
  updated: 0,
  quarantined: 0,
  attempts: 1,
  error: null,
  note: null,
}

describe('the progress of a backfill', () => {
  it('tells rows, rows a second, the share, and the time that is left', () => {
    const now: Backfill = { ...begun, position: 2000n, rowsRead: 4000 }
    expect(progressLine(now, begun, 2000)).toBe(
      'assignment: 4,000 rows, 2,000 rows/s, at 2000 of 5000 (25 %), about 6 s left',
    )
  })

  it('counts from where this program began to look', () => {
    const first: Backfill = { ...begun, position: 2000n, rowsRead: 4000 }
    const now: Backfill = { ...begun, position: 3000n, rowsRead: 4500 }
    expect(progressLine(now, first, 1000)).toContain('500 rows/s, at 3000 of 5000 (50 %), about 2 s left')
  })

  it('estimates nothing before anything has moved', () => {
    expect(progressLine(begun, begun, 1000)).toBe('assignment: 0 rows, 0 rows/s, at 1000 of 5000 (0 %)')
  })

  it('tells at the end what was done, or how to go on', () => {
    expect(backfillSentence({ ...begun, status: 'done', rowsRead: 9, inserted: 2 })).toBe(
      'assignment: backfill 7 from 1000 to 5000 done, 9 rows read, 2 new, 0 changed',
    )
    expect(backfillSentence({ ...begun, status: 'waiting', error: 'no network' })).toMatch(
      /failed at 1000: no network .*`tidemark backfill assignment` goes on from there\.$/,
    )
  })
})

describe('the progress of a sync', () => {
  it('tells how much is read above a position that waits for the lowest range', () => {
    expect(whereItIs({ position: 10n, highestServed: 80n })).toBe(', position 10 of 80')
    expect(whereItIs({ position: 80n, highestServed: 80n })).toBe(', position 80')
    expect(whereItIs({ position: 10n, highestServed: 80n, share: 0.639 })).toBe(
      ', 63 % read in ranges, position 10 of 80',
    )
  })
})
