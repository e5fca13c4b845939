// What Postgres tells of a stream with which nothing is wrong.

import type { StreamSymptoms } from '../../src/store/book/symptoms.ts'

export function wellAt(now: Date): StreamSymptoms {
  const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000)
  return {
    stream: 'assignment',
    readThroughAt: ago(0),
    firstReadThroughAt: ago(1_000),
    settledThroughAt: ago(5),
    isPaused: false,
    movedBackAt: null,
    lastSuccessAt: ago(60),
    hiddenSince: null,
    deletionsKnownAt: ago(30),
    inconclusiveRuns: 0,
    inconclusiveSince: null,
    stuckRuns: 0,
    stuckSince: null,
    stuckNote: null,
    partialReconciles: 0,
    partialSince: null,
    partialNote: null,
    blockedDeletions: null,
    reconcilingSince: null,
    quarantined: 0,
    quarantinedSince: null,
    keyAdvice: null,
    missedRows: 0,
    missedSince: null,
    failing: [],
    flippedBeliefs: [],
    volatileFields: [],
    drift: [],
    localChanges: [],
    epochs: [],
  }
}
