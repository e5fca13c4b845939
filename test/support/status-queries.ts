// A status queries on which nothing lies, for tests of what is around the pages.

import { knownStreams } from '../../src/streams/catalog.ts'
import type { Snapshot, StatusQueries } from '../../src/web/status-queries.ts'

export const emptySnapshot: Snapshot = {
  at: new Date('2026-01-02T03:04:05Z'),
  streams: [],
  latestRuns: [],
  rates: { from: new Date(0), bucketMs: 15_000, buckets: 2, streams: new Map() },
  nextRuns: [],
  loads: [],
  runbooksUrl: null,
  silences: [],
}

const answers: Partial<StatusQueries> = {
  ...{ streams: ['assignment'], mirrored: ['assignment'] },
  catalogue: knownStreams,
  alerting: () => ({
    receivers: [],
    rules: [],
    targets: {},
    remarks: [],
    problem: null,
    unusable: [],
    keepsNone: null,
  }),
  alertSettings: async () => [],
  staleAfterMs: () => 900_000,
  snapshot: async () => emptySnapshot,
  quarantineOf: async () => null,
  deletionEvidence: async () => ({
    ...{ samples: [], looked: { gone: 0, there: 0, unclear: 0 }, lookedAt: null },
    ...{ spread: null, runId: null, mostInARun: 0, marked: 0, isSinceDecision: false },
  }),
  run: async () => null,
  queueCounts: async () => null,
  contract: async () => ({
    ...{ descriptions: [], unusable: [], changes: [], types: new Map(), differences: [], lists: [] },
  }),
  rows: async () => null,
  settings: async () => ({ source: '', settings: [], unknown: [] }),
  record: async () => null,
  planRewind: async () => ({ from: '2', to: '1', reachedAt: null, rows: 0, expectedMs: null }),
  planBackfill: async () => ({ text: 'nothing', from: '0', to: '0' }),
}

/** All others answer with an empty list. */
export const statusQueriesWith = (more: Partial<StatusQueries> = {}): StatusQueries =>
  new Proxy({ ...answers, ...more } as StatusQueries, {
    get: (known, name) => (Object.hasOwn(known, name) ? Reflect.get(known, name) : async () => []),
  })
