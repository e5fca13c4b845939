// A mirror in memory that keeps the promises of the real one about single writes, so that the rules of reading can be tried
// alone. It can be made to fail before or after any write.

import type { RunKind } from '../../src/streams/catalog.ts'
import { isFlaggedDeleted, isObject, keyReader, type Records, type Row } from '../../src/streams/record.ts'
import type {
  Belief,
  CommitAlso,
  Pin,
  Run,
  RunEnd,
  RunRoles,
  SeenKeys,
  Store,
  StreamState,
  Unread,
  Written,
} from '../../src/sync/ports/store.ts'
import {
  type AuditedRows,
  differenceOf,
  isSameRecord,
  modelAbsentRows,
  modelPinnedRecords,
  modelReconciliation,
  modelShownRows,
  type Sweep,
} from './model-audits.ts'
import { earliest, type Freshness, latest, nothingRead } from './model-freshness.ts'

export type StoredRow = Row & {
  /** Why it is marked as deleted. */
  readonly gone: 'source' | 'absent' | null
  readonly writtenAt: number
  readonly firstSeenAt: Date
  /** When the run began that found its record gone. */
  readonly markedAt?: Date
}
/** A store of which is known what it holds when a run has ended. */
export type ObservedStore = Store & {
  readonly rows: Map<string, StoredRow>
  readonly position: () => bigint
  /** Called when a run ends; throws when that cannot be written down. */
  onFinish: (end: RunEnd, kind: RunKind) => void
  /** Called when that is written down. */
  onFinished: (kind: RunKind) => void
  /** Deletions wait for an operator. */
  readonly isBlocked: () => boolean
  /** A person keeps the rows of deletions that are blocked; false: takes that back. */
  reject(isRejected: boolean): void | Promise<void>
  /** As `tidemark.freshness` says it. */
  readonly freshness: () => Freshness
}
export type ModelStore = ObservedStore & {
  readonly state: () => StreamState
  readonly unread: () => Unread | null
  /** Called before and after each write; throws to crash there. */
  onWrite: (moment: 'before' | 'after') => void
  retreats: number
  epochs: number
}
export function modelStore(now: () => Date, knownVersionField: string | null = 'RowVersion'): ModelStore {
  const rows = new Map<string, StoredRow>()
  const checkpoints: { position: bigint; reachedAt: Date }[] = []
  let beliefs: Belief[] = []
  let versionField = knownVersionField
  /** The one that rows and positions go by, also while it is doubted. */
  let lastVersionField = knownVersionField
  let inconclusiveRuns = 0
  let blocked: { readonly missing: string; readonly isRejected: boolean } | null = null
  const fresh: { -readonly [Name in keyof Freshness]: Freshness[Name] } = { ...nothingRead }
  let hiddenSince: Date | null = null
  let ranksAgreedAt: Date | null = null
  let ticks = 0
  const pins = new Map<string, Pin>()
  const distrusted = new Set<string>()
  let unguardedBefore = 0
  const sweep: Sweep = { after: null, beganAt: null, suspects: new Set() }
  const mirror: AuditedRows = {
    rows,
    now,
    tick: () => ++ticks,
    quarantined: new Set(),
    hidden: new Map(),
    marks: [],
    blocked: () => blocked,
    block: (missing) => {
      const isKept = blocked?.isRejected === true && blocked.missing === missing
      blocked = missing === null ? null : { missing, isRejected: isKept }
      if (blocked) sweep.beganAt = null
    },
    knownThrough: (at) => {
      fresh.deletionsKnownThrough = latest(fresh.deletionsKnownThrough, at)
    },
    ranksAgree: (at) => {
      const isSince = (read: Date | null) => !ranksAgreedAt || (read !== null && read >= ranksAgreedAt)
      if (!isSince(lastLookbackAt) || !isSince(fresh.readThroughTime)) return
      if (ranksAgreedAt && !cameAmong(ranksAgreedAt)) mirror.knownThrough(ranksAgreedAt)
      ranksAgreedAt = at
    },
    missed() {},
  }
  let position = 0n
  let unread: Unread | null = null
  let lookbackMs: number | null = null
  let lastLookbackAt: Date | null = null
  const lastRuns = new Map<RunKind, Date>()
  const state = (kind: RunKind = 'incremental'): StreamState => ({
    position,
    positionReachedAt: checkpoints.at(-1)?.reachedAt ?? null,
    keyField: 'Id',
    versionField,
    inconclusiveRuns,
    lookbackMs,
    lookbackReason: null,
    lastLookbackAt,
    settledThrough: null,
    startedAt: now(),
    lastRunAt: lastRuns.get(kind) ?? null,
    isLocallyChanged: false,
    beliefs,
  })

  const store: ModelStore = {
    rows,
    position: () => position,
    state,
    unread: () => unread,
    onWrite: () => {},
    onFinish: () => {},
    onFinished: () => {},
    retreats: 0,
    epochs: 0,
    isBlocked: () => blocked !== null,
    reject(isRejected) {
      if (blocked) blocked = { ...blocked, isRejected }
    },
    freshness: () => ({ ...fresh, readThroughVersion: position, lookedBackAt: lastLookbackAt }),
    openRun: async <Kind extends RunKind>(kind: Kind) => openRun(kind) as unknown as Run<Kind>,
    nextBackfill: async () => null,
    history: {
      positionAt: async (_stream, time) =>
        checkpoints.findLast(({ reachedAt }) => reachedAt <= time)?.position ?? null,
      reachedAt: async (_stream, versions) =>
        versions.map(
          (version) => checkpoints.find((checkpoint) => checkpoint.position >= version)?.reachedAt ?? null,
        ),
      anchors: async (_stream, atMost, limit) => highest(atMost, limit),
      known: async (_stream, position, limit) => ({
        anchors: highest(position, limit),
        hasAbove: highest(2n ** 63n - 1n, 1).some(({ version }) => version > position),
      }),
      hasRows: async () => [...rows.values()].some(({ gone }) => gone === null),
    },
  }
  return store

  /** Read before the upstream went back: whatever comes replaces it. */
  function isDoubtful({ key, writtenAt }: StoredRow): boolean {
    return distrusted.has(key) || writtenAt <= unguardedBefore
  }

  /** Whether a row came since then below one that was there. */
  function cameAmong(then: Date): boolean {
    const isNew = ({ firstSeenAt }: StoredRow) => firstSeenAt >= then
    const highest = Math.max(...[...rows.values()].filter((row) => !isNew(row)).map(({ key }) => Number(key)))
    return [...rows.values()].some((row) => isNew(row) && Number(row.key) < highest)
  }

  function beginEpoch(): void {
    unguardedBefore = ticks
    inconclusiveRuns = 0
    position = 0n
    unread = null
    checkpoints.length = 0
    beliefs = []
    pins.clear()
    Object.assign(fresh, nothingRead)
    ranksAgreedAt = null
    Object.assign(sweep, { after: null, beganAt: null })
    store.epochs += 1
  }

  function highest(atMost: bigint, limit: number) {
    return [...rows.values()]
      .filter((row) => row.gone !== 'absent' && !isDoubtful(row))
      .map(({ key, version }) => ({ key, version: version ?? 0n }))
      .filter(({ version }) => version <= atMost)
      .sort((a, b) => Number(b.version - a.version))
      .slice(0, limit)
  }

  function commit(kind: RunKind, page: Records, to: bigint | null, also: CommitAlso = {}): Written {
    store.onWrite('before')
    for (const { record } of page.rejected) {
      const key = isObject(record) ? keyOf(record) : null
      if (key !== null) mirror.quarantined.add(key)
    }
    const arrivals = []
    for (const row of page.rows) {
      const known = rows.get(row.key)
      if (known && !isDoubtful(known) && !isNews(row, known)) {
        const difference = differenceOf({ rows }, row)
        if (difference) arrivals.push({ ...difference, isNew: false, isWritten: false })
        continue
      }
      const wasRewound = known !== undefined && known.writtenAt <= unguardedBefore
      const wasDistrusted = distrusted.delete(row.key)
      const gone = isFlaggedDeleted(row.record) ? 'source' : null
      if (known?.gone === 'absent' && gone === null) ranksAgreedAt = null
      rows.set(row.key, { ...row, gone, writtenAt: ++ticks, firstSeenAt: known?.firstSeenAt ?? now() })
      arrivals.push({
        key: row.key,
        version: row.version,
        mirrored: known?.version ?? null,
        kind: !known
          ? ('missing' as const)
          : isHigher(row, known)
            ? ('stale' as const)
            : ('content' as const),
        columns: ['content'],
        record: null,
        isLocal: wasDistrusted,
        isBack: known?.gone === 'absent',
        isRewound: wasRewound,
        isWritten: true,
      })
    }
    if (to !== null && kind === 'incremental' && to > position) {
      position = to
      checkpoints.push({ position, reachedAt: now() })
    }
    if (kind === 'incremental' && also.unread) unread = also.unread.ranges.length > 0 ? also.unread : null
    store.onWrite('after')
    return {
      inserted: arrivals.length,
      updated: 0,
      unchanged: page.rows.length - arrivals.length,
      rescued: 0,
      quarantined: page.rejected.length,
      arrivals: kind === 'lookback' || kind === 'reconcile' ? arrivals : [],
    }
  }

  /** As the ledger has it. */
  function noteFreshness(end: RunEnd, kind: RunKind, startedAt: Date): void {
    if (end.isHidden === true) {
      const seen = latest(lastLookbackAt, checkpoints.at(-1)?.reachedAt ?? null)
      fresh.readThroughTime = earliest(fresh.readThroughTime, seen)
    } else if (kind === 'incremental' && end.isComplete && !hiddenSince) fresh.readThroughTime = startedAt
    if (end.isHidden !== undefined) hiddenSince = end.isHidden ? (hiddenSince ?? now()) : null
    if (end.settled) {
      const { version, at } = end.settled
      if (version > (fresh.settledThroughVersion ?? -1n)) fresh.settledThroughVersion = version
      fresh.settledThroughTime = latest(fresh.settledThroughTime, at)
    }
    if (end.knowsDeletions) mirror.knownThrough(startedAt)
  }

  function openRun(kind: RunKind): ModelRun {
    const startedAt = now()
    const begun = ++ticks
    const seen = modelSeenKeys()
    const start = position
    let failure: { readonly error: unknown } | null = null
    return {
      id: '1',
      state: state(kind),
      pages: {
        // A page that fails takes every later one with it.
        async commit(page, to, also) {
          if (failure) throw failure.error
          try {
            return commit(kind, page, to, also)
          } catch (error) {
            failure = { error }
            throw error
          }
        },
      },
      position: {
        start,
        unread,
        async retreat(_reason, to) {
          if (kind !== 'incremental') return
          unread = null
          beliefs = beliefs.map((belief) => ({ ...belief, restsFrom: null }))
          if (position <= to) return
          fresh.readThroughTime =
            checkpoints.findLast((one) => one.position <= to && one.reachedAt <= (fresh.readThroughTime ?? 0))
              ?.reachedAt ?? null
          position = to
          checkpoints.push({ position, reachedAt: now() })
          store.retreats += 1
        },
      },
      seen,
      absent: modelAbsentRows(mirror, begun, seen.has, seen.count),
      reconciliation: modelReconciliation(mirror, () => {
        if (unguardedBefore < begun) unguardedBefore = 0
      }),
      shown: modelShownRows(mirror, begun, sweep),
      pinned: modelPinnedRecords(pins, mirror, isDoubtful, distrusted, beginEpoch),
      findings: {
        wantReconcile: async () => {},
        async learn(learnt) {
          if (learnt.some(({ name, value }) => name === 'sorting' && value !== 'proven')) unread = null
          const restsFrom = (name: string) => beliefs.find((known) => known.name === name)?.restsFrom
          beliefs = [
            ...beliefs.filter(({ name }) => !learnt.some((one) => one.name === name)),
            ...learnt.map((one) => ({
              ...one,
              restsFrom: restsFrom(one.name) ?? (one.value === 'proven' ? position : null),
            })),
          ]
        },
        async setKeyField() {},
        async setVersionField(field) {
          const isOther = lastVersionField !== null && lastVersionField !== field
          versionField = field
          lastVersionField = field
          if (!isOther) return false
          const beginsAnew = position > 0n || unread !== null
          unguardedBefore = ticks
          position = 0n
          unread = null
          checkpoints.length = 0
          if (beginsAnew)
            Object.assign(fresh, { ...nothingRead, deletionsKnownThrough: fresh.deletionsKnownThrough })
          beliefs = beliefs.filter(({ name }) => !lostWithVersionField.includes(name))
          return beginsAnew
        },
        async invalidate(name) {
          if (name === 'version_field') versionField = null
          beliefs = beliefs.filter((belief) => belief.name !== name)
        },
        async recordLateArrivals() {},
        async recordDifferences() {},
        async setVolatile() {
          return []
        },
        async setLookback(ms) {
          lookbackMs = ms
        },
      },
      progress: { asked() {}, step() {} },
      async finish(end) {
        store.onFinish(end, kind)
        if (end.status !== 'failed') noteFreshness(end, kind, startedAt)
        if (end.status === 'done') lastRuns.set(kind, now())
        if (kind === 'lookback' && end.isComplete) lastLookbackAt = startedAt
        if (end.status === 'inconclusive') inconclusiveRuns += 1
        else if (kind === 'incremental' && end.isComplete) inconclusiveRuns = 0
        store.onFinished(kind)
      },
    }
  }
}

const keyOf = keyReader(['Id'])

/** Of the kinds that the model can do. */
type ModelRun = Run<'incremental' | 'lookback'> & RunRoles['reconcile'] & RunRoles['deletions']

/** What was learnt in values of the field. */
const lostWithVersionField = ['sorting', 'paging', 'largest_answer', 'first_top']

const isHigher = (row: Row, known: StoredRow): boolean => (row.version ?? 0n) > (known.version ?? 0n)

/** As the merge of the real one has it: a higher version, or the same one with other content, or back from the dead. */
function isNews(row: Row, known: StoredRow): boolean {
  const [ours, theirs] = [known.version ?? 0n, row.version ?? 0n]
  const isBack = known.gone !== null && !isFlaggedDeleted(row.record)
  if (theirs !== ours) return theirs > ours || (isBack && known.gone === 'absent')
  return isBack || !isSameRecord(row.record, known.record)
}

function modelSeenKeys(): SeenKeys & { has(key: string): boolean; count(): number } {
  const seen = new Map<string, { first: number; last: number }>()
  return {
    has: (key) => seen.has(key),
    count: () => seen.size,
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
