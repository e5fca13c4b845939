// A status queries on which nothing lies, for tests of what is around the pages.

import type { Snapshot, StatusQueries } from '../../src/web/status-queries.ts'

export const emptySnapshot: Snapshot = {
  at: new Date('2026-01-02T03:04:05Z'),
  streams: [],
  latestRuns: [],
  rates: { from: new Date(0), bucketMs: 15_000, buckets: 2, streams: new Map() },
  nextRuns: [],
  loads: [],
  runbooksUrl: null,
}

export const statusQueriesWith = (more: Partial<StatusQueries> = {}): StatusQueries => ({
  streams: ['assignment'],
  alertFormat: null,
  snapshot: async () => emptySnapshot,
  problems: async () => [],
  runs: async () => [],
  runSpans: async () => [],
  staleAfterMs: 900_000,
  checkpoints: async () => [],
  backfills: async () => [],
  quarantine: async () => [],
  quarantineOf: async () => null,
  deletionEvidence: async () => ({
    ...{ samples: [], looked: { gone: 0, there: 0, unclear: 0 }, lookedAt: null },
    ...{ spread: null, runId: null, mostInARun: 0, markedWithinDay: 0 },
  }),
  actions: async () => [],
  closedProblems: async () => [],
  happenings: async () => [],
  minutes: async () => [],
  states: async () => [],
  requests: async () => [],
  workers: async () => [],
  run: async () => null,
  runsSince: async () => [],
  queueCounts: async () => null,
  find: async () => [],
  fields: async () => [],
  fieldStreams: async () => [],
  beliefs: async () => [],
  contract: async () => ({
    descriptions: [],
    unusable: [],
    changes: [],
    types: new Map(),
    differences: [],
    lists: [],
  }),
  rows: async () => null,
  settings: () => ({ settings: [], unknown: [] }),
  record: async () => null,
  planRewind: async () => ({ from: '2', to: '1', reachedAt: null, rows: 0, expectedMs: null }),
  planBackfill: async () => ({ text: 'nothing', from: '0', to: '0' }),
  ...more,
})
