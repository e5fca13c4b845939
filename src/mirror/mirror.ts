// The mirror: the side of Postgres of src/sync/ports.ts.

import type { Logger } from '../log.ts'
import type { Stream } from '../streams.ts'
import type { Mirror } from '../sync/ports.ts'
import type { Database } from './database.ts'
import { highestRows, positionAt, reachedAt } from './history.ts'
import { thinHistory } from './retention.ts'
import { takeRun } from './run.ts'

type Options = {
  readonly database: Pick<Database, 'pool'>
  readonly streams: readonly Stream[]
  /** Of date-times without an offset. */
  readonly sourceTimezone: string
  /** How many connections one run writes with: 1 or 2. */
  readonly writeConnections?: 1 | 2
  readonly log: Logger
}

const thinEveryMs = 3_600_000

/** The database must have been migrated. */
export function openMirror({
  database,
  streams,
  sourceTimezone,
  writeConnections = 2,
  log,
}: Options): Mirror {
  const { pool } = database
  const lastThinned = new Map<string, number>()

  function known(name: string): Stream {
    const stream = streams.find((candidate) => candidate.name === name)
    if (!stream)
      throw new Error(`there is no stream ${name}; there are ${streams.map((one) => one.name).join(', ')}`)
    return stream
  }

  async function thin(stream: string): Promise<void> {
    if (Date.now() - (lastThinned.get(stream) ?? 0) < thinEveryMs) return
    lastThinned.set(stream, Date.now())
    // The run itself is over and done with; the next one thins again.
    await thinHistory(pool, stream).catch((error) =>
      log.warn({ err: error, stream }, 'the history could not be thinned'),
    )
  }

  return {
    startRun: (name, lane, options) =>
      takeRun({
        pool,
        stream: known(name),
        lane,
        collectArrivals: options?.collectArrivals ?? false,
        timeZone: sourceTimezone,
        connections: writeConnections,
        log,
        afterChange: thin,
      }),
    positionAt: (stream, time) => positionAt(pool, stream, time),
    reachedAt: (stream, version) => reachedAt(pool, stream, version),
    highestRows: (stream, atMost, limit) => highestRows(pool, known(stream), atMost, limit),
  }
}
