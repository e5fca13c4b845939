// A mirror in memory that keeps the promises of the real one about single writes, so that the rules of reading can be tried
// alone. It can be made to fail before or after any write.

import type { RunKind } from '../../src/streams/catalog.ts'
import type { Records, Row } from '../../src/streams/record.ts'
import type {
  Belief,
  Run,
  RunEnd,
  SeenKeys,
  Store,
  StreamState,
  Written,
} from '../../src/sync/ports/store.ts'

export type ModelStore = Store & {
  readonly rows: Map<string, Row>
  readonly position: () => bigint
  readonly state: () => StreamState
  /** Called before and after each write; throws to crash there. */
  onWrite: (moment: 'before' | 'after') => void
  /** Called when a run ends; throws when that cannot be written down. */
  onFinish: (end: RunEnd) => void
  retreats: number
}

export function modelStore(now: () => Date): ModelStore {
  const rows = new Map<string, Row>()
  const checkpoints: { position: bigint; reachedAt: Date }[] = []
  let beliefs: Belief[] = []
  let position = 0n
  let lookbackMs: number | null = null
  let stoppedReason: string | null = null
  let lastLookbackAt: Date | null = null
  const state = (): StreamState => ({
    position,
    positionReachedAt: checkpoints.at(-1)?.reachedAt ?? null,
    keyField: 'Id',
    versionField: 'RowVersion',
    inconclusiveRuns: 0,
    lookbackMs,
    lookbackReason: null,
    stoppedReason,
    lastLookbackAt,
    isLocallyChanged: false,
    beliefs,
  })

  const store: ModelStore = {
    rows,
    position: () => position,
    state,
    onWrite: () => {},
    onFinish: () => {},
    retreats: 0,
    openRun: async <Kind extends RunKind>(kind: Kind) => openRun(kind) as unknown as Run<Kind>,
    nextBackfill: async () => null,
    history: {
      positionAt: async (_stream, time) =>
        checkpoints.findLast(({ reachedAt }) => reachedAt <= time)?.position ?? null,
      reachedAt: async (_stream, versions) =>
        versions.map(
          (version) => checkpoints.find((checkpoint) => checkpoint.position >= version)?.reachedAt ?? null,
        ),
      anchors: (stream, atMost, limit) => store.history.highestRows(stream, atMost, limit),
      highestRows: async (_stream, atMost, limit) =>
        [...rows.values()]
          .map(({ key, version }) => ({ key, version: version ?? 0n }))
          .filter(({ version }) => version <= atMost)
          .sort((a, b) => Number(b.version - a.version))
          .slice(0, limit),
    },
  }
  return store

  async function commit(kind: RunKind, page: Records, to: bigint | null): Promise<Written> {
    store.onWrite('before')
    const arrivals = []
    for (const row of page.rows) {
      const known = rows.get(row.key)
      if (known && (known.version ?? 0n) >= (row.version ?? 0n)) continue
      rows.set(row.key, row)
      arrivals.push({ key: row.key, version: row.version, isNew: !known })
    }
    if (to !== null && kind === 'incremental' && to > position) {
      position = to
      checkpoints.push({ position, reachedAt: now() })
    }
    store.onWrite('after')
    return {
      inserted: arrivals.length,
      updated: 0,
      unchanged: page.rows.length - arrivals.length,
      rescued: 0,
      quarantined: page.rejected.length,
      arrivals: kind === 'lookback' ? arrivals : [],
    }
  }

  /** Of the kinds that read by row version. */
  function openRun(kind: RunKind): Run<'incremental' | 'lookback'> {
    const startedAt = now()
    const start = position
    return {
      id: '1',
      state: state(),
      pages: { commit: (page, to) => commit(kind, page, to) },
      position: {
        start,
        async retreat() {
          if (kind !== 'incremental') return
          position = start
          checkpoints.push({ position, reachedAt: now() })
          store.retreats += 1
        },
      },
      seen: modelSeenKeys(),
      findings: {
        async learn(learnt) {
          beliefs = [...beliefs.filter(({ name }) => !learnt.some((one) => one.name === name)), ...learnt]
        },
        async setKeyField() {},
        async setVersionField() {
          return false
        },
        async doubt() {},
        async stopStream(reason) {
          stoppedReason = reason
        },
        async recordLateArrivals() {},
        async setLookback(ms) {
          lookbackMs = ms
        },
      },
      async finish(end) {
        store.onFinish(end)
        if (kind === 'lookback' && end.isComplete) lastLookbackAt = startedAt
      },
    }
  }
}

function modelSeenKeys(): SeenKeys {
  const seen = new Map<string, { first: number; last: number }>()
  return {
    async add(pageNumber, keys) {
      if (pageNumber === 1) seen.clear()
      for (const key of keys) {
        const known = seen.get(key)
        seen.set(key, {
          first: Math.min(known?.first ?? pageNumber, pageNumber),
          last: Math.max(known?.last ?? 0, pageNumber),
        })
      }
    },
    countAround: async (page) =>
      [...seen.values()].filter(({ first, last }) => first <= page && last > page).length,
  }
}
