// The mirror: the side of Postgres of src/sync/ports.ts.

import type { Logger } from '../../log.ts'
import type { RunKind, Stream } from '../../streams/catalog.ts'
import type { Audits, Backfills, Relations, Store } from '../../sync/ports/store.ts'
import { nextBackfill, noteBackfillError } from '../queries/backfills.ts'
import { highestRows, positionAt, reachedAt } from '../queries/positions.ts'
import type { Database } from '../server/connect.ts'
import { longestSilenceMs, withinLease } from './lease.ts'
import { thinHistory } from './ledger.ts'
import { endBackfill } from './positions.ts'
import { auditing } from './reconciliation.ts'
import { type RelatedOptions, relating } from './related-work.ts'
import { takeRun } from './run.ts'

type Options = {
  readonly database: Pick<Database, 'pool'>
  readonly streams: readonly Stream[]
  /** Of date-times without an offset. */
  readonly sourceTimezone: string
  /** How many connections one run writes with: 1 or 2. */
  readonly writeConnections?: 1 | 2
  /** How long the past of rows is kept, in the streams that keep it; null: it is not. */
  readonly historyMs?: number | null
  /** How long a run may be silent before it loses its lane. */
  readonly silenceMs?: number
  /** Which related records are wanted. */
  readonly related?: RelatedOptions
  readonly log: Logger
}

const thinEveryMs = 3_600_000
const defaultHistoryMs = 90 * 24 * 3_600_000

/** The database must have been migrated. */
export function openStore({
  database,
  streams,
  sourceTimezone,
  writeConnections = 2,
  historyMs = defaultHistoryMs,
  related = { groups: [], refreshMs: null },
  silenceMs = longestSilenceMs,
  log,
}: Options): Store & Audits & Backfills & Relations {
  const { pool } = database
  const lastThinned = new Map<string, number>()

  function known(name: string): Stream {
    const stream = streams.find((candidate) => candidate.name === name)
    if (!stream)
      throw new Error(`there is no stream ${name}; there are ${streams.map((one) => one.name).join(', ')}`)
    return historyMs === null && stream.kind === 'list' ? { ...stream, keepsHistory: false } : stream
  }

  async function thin(stream: string): Promise<void> {
    if (Date.now() - (lastThinned.get(stream) ?? 0) < thinEveryMs) return
    lastThinned.set(stream, Date.now())
    // The run itself is over and done with; the next one thins again.
    await thinHistory(pool, stream).catch((error) =>
      log.warn({ err: error, stream }, 'the history could not be thinned'),
    )
  }

  const options = (name: string, kind: RunKind, collectArrivals = false) => ({
    pool,
    stream: known(name),
    kind,
    collectArrivals,
    timeZone: sourceTimezone,
    connections: writeConnections,
    keptMs: historyMs ?? 0,
    silenceMs,
    log,
    afterChange: thin,
  })

  return {
    startRun: (name, kind, wanted) => takeRun(options(name, kind, wanted?.collectArrivals), () => ({})),
    startRelated: () => takeRun(options('assignment', 'related'), relating(related)),
    startAudit: (name, kind, wanted) => takeRun(options(name, kind, wanted?.collectArrivals), auditing),
    startBackfill: (name, id) =>
      takeRun({ ...options(name, 'backfill'), backfill: id }, ({ client, lease, afterWrites }) => ({
        endBackfill: (isComplete: boolean, note: string | null) =>
          afterWrites(() => withinLease(client, lease, () => endBackfill(client, id, isComplete, note))),
      })),
    nextBackfill: (stream) => nextBackfill(pool, stream),
    noteBackfillError: (id, error) => noteBackfillError(pool, id, error),
    positionAt: (stream, time) => positionAt(pool, stream, time),
    reachedAt: (stream, version) => reachedAt(pool, stream, version),
    highestRows: (stream, atMost, limit) => highestRows(pool, known(stream), atMost, limit),
  }
}
