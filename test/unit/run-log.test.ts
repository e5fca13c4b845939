// What a run did, line by line, from what is recorded of it.

import { describe, expect, it } from 'vitest'
import { type LoggedRun, runLog } from '../../src/streams/run-log.ts'

const at = (time: string) => new Date(`2026-11-22T${time}Z`)
const run: LoggedRun = {
  ...{ stream: 'assignment_note', kind: 'reconcile', status: 'done', polls: 1 },
  ...{ startedAt: at('03:09:01.114'), finishedAt: at('03:12:48.207') },
  ...{ inserted: 0, updated: 12, unchanged: 104_582, markedDeleted: 0, error: null },
  note: 'blocked: 27,310 of 131,904 rows are missing',
  steps: [
    {
      ...{ what: 'List everything', from: 6, to: 152_288, requests: 106, records: 104_594, waitedMs: 9_000 },
      waits: [{ from: 89_756, to: 98_756, what: '429 from the assignment service' }],
    },
    {
      ...{ what: 'Look up 50 missing rows', from: 152_288, to: 227_093 },
      requests: 50,
      records: 0,
      waitedMs: 0,
      waits: [],
    },
  ],
}
const lines = (one: LoggedRun) =>
  runLog(one).map(({ at, text }) => `${at.toISOString().slice(11, 23)} ${text}`)

describe('the log of a run', () => {
  it('has a line for its beginning, each step, each wait and its end', () => {
    expect(lines(run)).toEqual([
      '03:09:01.114 reconcile of assignment_note begins',
      '03:09:01.120 List everything: 2 m 32 s, 106 requests, 104,594 records',
      '03:10:30.870 waits 9 s: 429 from the assignment service',
      '03:11:33.402 Look up 50 missing rows: 1 m 15 s, 50 requests',
      '03:12:48.207 done: 0 new, 12 changed, 104,582 unchanged, 0 marked deleted. blocked: 27,310 of 131,904 rows are missing.',
    ])
  })

  it('ends where a run is that goes on, and says why one failed', () => {
    expect(lines({ ...run, finishedAt: null, status: 'running' })).toHaveLength(4)
    const failed = { ...run, status: 'failed', steps: null, note: null, error: 'the upstream answers 503' }
    expect(lines(failed).at(-1)).toMatch(/^03:12:48\.207 failed: 0 new, .* the upstream answers 503\.$/)
  })

  it('is none where several runs share a line, which holds the steps of the last one only', () => {
    expect(runLog({ ...run, polls: 2 })).toEqual([])
  })
})
