// Backfills in words.

import { describe, expect, it } from 'vitest'
import { backfillSentence } from '../../src/operator/backfill.ts'
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

describe('a backfill in words', () => {
  it('tells at the end what was done, or how to go on', () => {
    expect(backfillSentence({ ...begun, status: 'done', rowsRead: 9, inserted: 2 })).toBe(
      'assignment: backfill 7 from 1000 to 5000 done, 9 rows read, 2 new, 0 changed',
    )
    expect(backfillSentence({ ...begun, status: 'waiting', error: 'no network' })).toMatch(
      /failed at 1000: no network .*`tidemark backfill assignment` goes on from there\.$/,
    )
  })
})
