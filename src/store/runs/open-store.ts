// The store: implements src/sync/ports/store.ts with Postgres, and says what each kind of run can do.

import type { Logger } from '../../log.ts'
import { type FieldKinds, type RunKind, type Stream, versionedBy } from '../../streams/catalog.ts'
import { asMeant, type Dictionary } from '../../streams/dictionary.ts'
import { int64 } from '../../streams/record.ts'
import type { Store } from '../../sync/ports/store.ts'
import { nextBackfill } from '../book/backfills.ts'
import { positionAt, reachedAt, readVersionField } from '../book/checkpoints.ts'
import type { Database } from '../server/connect.ts'
import { openDictionaries } from '../writing/dictionary.ts'
import { absentRowsOf, listAbsencesOf } from './absences.ts'
import { longestSilenceMs } from './lease.ts'
import { thinHistory } from './ledger.ts'
import { pinnedRecordsOf } from './pinned-records.ts'
import {
  backfillPosition,
  hasRows,
  highestRows,
  livePosition,
  noPosition,
  type Versioned,
} from './positions.ts'
import { comparisonOf, reconciliationOf, verificationOf } from './reconciliation.ts'
import { backlogOf, relatedKeyFieldsOf } from './related-work.ts'
import { type KindOfRun, positionOf, type RunOptions, type RunParts, takeRun } from './run.ts'
import { seenKeysOf } from './seen-keys.ts'
import { shownRowsOf } from './shown-rows.ts'

const seenOf = ({ session, seenKeys }: RunParts) => seenKeysOf(session, seenKeys)
const listingOf = (parts: RunParts) => ({ seen: seenOf(parts), absent: absentRowsOf(parts) })
const readingOf = (parts: RunParts) => ({ seen: seenOf(parts), position: positionOf(parts) })
const silent = { position: noPosition, returns: 'counts' } as const

const kindsOfRuns: { readonly [Kind in RunKind]: KindOfRun<Kind> } = {
  incremental: {
    ...silent,
    position: livePosition,
    roles: (parts) => ({ ...readingOf(parts), pinned: pinnedRecordsOf(parts) }),
  },
  lookback: {
    ...silent,
    returns: 'arrivals',
    roles: (parts) => ({ ...readingOf(parts), pinned: pinnedRecordsOf(parts) }),
  },
  backfill: { ...silent, position: backfillPosition, roles: readingOf },
  list: { ...silent, roles: (parts) => ({ seen: seenOf(parts), absences: listAbsencesOf(parts) }) },
  reconcile: {
    ...silent,
    returns: 'differences',
    roles: (parts) => ({
      ...listingOf(parts),
      reconciliation: reconciliationOf(parts),
      pinned: pinnedRecordsOf(parts),
    }),
  },
  verify: {
    ...silent,
    roles: (parts) => ({ ...listingOf(parts), verification: verificationOf(parts) }),
  },
  'quarantine-retry': { ...silent, roles: (parts) => ({ verification: comparisonOf(parts) }) },
  probe: { ...silent, roles: () => ({}) },
  deletions: { ...silent, roles: (parts) => ({ shown: shownRowsOf(parts) }) },
  related: {
    ...silent,
    roles: (parts) => ({
      backlog: backlogOf(parts),
      keyFields: relatedKeyFieldsOf(parts),
      shown: shownRowsOf(parts),
    }),
  },
}

type Options = {
  readonly database: Pick<Database, 'pool'>
  readonly streams: readonly Stream[]
  /** In which date-times without an offset are read. */
  readonly sourceTimezone: string
  /** What the owner says at the moment. */
  readonly dictionary?: () => Dictionary
  /** Types of fields by the name of the stream, as the upstream describes them at the moment. */
  readonly fieldKindsOf?: (stream: string) => FieldKinds | undefined
  /** How many connections one run writes with: 1 or 2. */
  readonly writeConnections?: 1 | 2
  readonly log: Logger
} & Partial<Pick<RunOptions<RunKind>, 'silenceMs' | 'related' | 'waitsFor' | 'beforeRun'>>

const thinEveryMs = 3_600_000
/** Longer than most streams rest between two polls. */
const anchorsLastMs = 65_000

/** The database must have been migrated. */
export function openStore({
  database,
  streams,
  sourceTimezone,
  dictionary = () => new Map(),
  fieldKindsOf = () => undefined,
  writeConnections = 2,
  related = { groups: [], refreshMs: null },
  silenceMs = longestSilenceMs,
  waitsFor = () => null,
  beforeRun = async () => {},
  log,
}: Options): Store {
  const { pool } = database
  const lastThinned = new Map<string, number>()
  const dictionaryOf = openDictionaries()

  function knownStream(name: string): Stream {
    const stream = streams.find((candidate) => candidate.name === name)
    if (!stream)
      throw new Error(`There is no stream ${name}. There are ${streams.map((one) => one.name).join(', ')}.`)
    const fieldKinds = fieldKindsOf(name)
    return asMeant({ ...stream, ...(fieldKinds && { fieldKinds }) }, dictionary())
  }

  async function thin(stream: string): Promise<void> {
    if (Date.now() - (lastThinned.get(stream) ?? 0) < thinEveryMs) return
    lastThinned.set(stream, Date.now())
    // A failure here does not matter to the run, which is over: the next one thins again.
    await thinHistory(pool, stream).catch((error) =>
      log.warn(
        { err: error, stream },
        'Old checkpoints and runs could not be removed. The next run tries again.',
      ),
    )
  }

  const rows = openHighestRows(pool, knownStream)

  return {
    async openRun(kind, name, { id = null } = {}) {
      if ((kind === 'backfill') !== (id !== null))
        throw new Error('An id belongs to a run of kind backfill, and to no other.')
      return await takeRun({
        pool,
        kind,
        related,
        silenceMs,
        waitsFor,
        beforeRun,
        dictionaryOf,
        log,
        stream: knownStream(name),
        needs: kindsOfRuns[kind],
        backfill: id,
        timeZone: sourceTimezone,
        connections: writeConnections,
        afterChange: thin,
      })
    },
    nextBackfill: (stream) => nextBackfill(pool, stream),
    history: {
      positionAt: (stream, time) => positionAt(pool, stream, time),
      reachedAt: (stream, versions) => reachedAt(pool, stream, versions),
      anchors: rows.upTo,
      known: rows.around,
      hasRows: (stream) => hasRows(pool, knownStream(stream)),
    },
  }
}

function openHighestRows(pool: Database['pool'], knownStream: (name: string) => Stream) {
  // Most polls find nothing new, so the highest rows are those of the poll before. If the record of one is gone by now, a look shows it.
  type Known = {
    readonly position: bigint
    readonly anchors: readonly Versioned[]
    readonly hasAbove: boolean
    readonly untilMs: number
  }
  const lastKnown = new Map<string, Known>()

  async function around(name: string, position: bigint, limit: number): Promise<Known> {
    const last = lastKnown.get(name)
    const isFresh = last?.position === position && last.anchors.length > 0 && last.untilMs > Date.now()
    if (isFresh) return last
    const highest = await upTo(name, int64.max, limit)
    const hasAbove = highest[0] !== undefined && highest[0].version > position
    const anchors = hasAbove ? await upTo(name, position, limit) : highest
    // Not kept for long: other runs may find that records are gone, and mark their rows.
    const found = { position, anchors, hasAbove, untilMs: Date.now() + anchorsLastMs }
    lastKnown.set(name, found)
    return found
  }

  async function upTo(name: string, atMost: bigint, limit: number): Promise<readonly Versioned[]> {
    const versioned = versionedBy(knownStream(name), await readVersionField(pool, name))
    return await highestRows(pool, versioned, { atMost, limit })
  }

  return { upTo, around }
}
