// Moving the position of a stream back by a person's word (P2): what it would mean, doing it, and what is said of it. The terminal and the
// console do the same.

import type { Pool, SyncContext } from '../context.ts'
import { estimateBackfill } from '../store/book/backfills.ts'
import {
  countBetween,
  livePosition,
  type Rewound,
  reachedAt,
  rewindStream,
} from '../store/book/checkpoints.ts'
import { type ChangesStream, pickStream } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { type Asked, asChangesStream, findPosition, readPositionOptions } from './positions.ts'

type Target = NonNullable<ReturnType<typeof readPositionOptions>>

export function rewindTargetIn(values: Asked): Target {
  const wanted = readPositionOptions(values, {
    version: 'to-version',
    checkpoint: 'to-checkpoint',
    time: 'to-time',
  })
  if (wanted) return wanted
  throw new UsageError(
    'Say where to rewind to: --to-version N, --to-checkpoint ID (`tidemark checkpoints` lists them) or --to-time TIME.',
  )
}

type Wanted = {
  readonly stream: ChangesStream
  readonly target: Target
  readonly reason: string
  readonly by: string
  /** Forward is allowed too, which skips what was never read. */
  readonly isForced?: boolean
  /** The position that the person saw when confirming this; null: none was shown. */
  readonly seen?: bigint | null
}

export async function moveBack(
  pool: Pool,
  { stream, target, isForced = false, seen = null, ...order }: Wanted,
): Promise<Rewound> {
  const position = await findPosition(pool, stream, target)
  const current = await livePosition(pool, stream.name)
  const refused = (why: string) =>
    new UsageError(`${stream.name} is at ${current}${why}`, { field: target.field })
  if (position === current) throw refused(' already, so there is nothing to go back to.')
  if (position > current && !isForced)
    throw refused(
      `. Moving it forward to ${position} would skip everything in between; if you want that: \`tidemark rewind\` with --force.`,
    )
  // While the rewind waits for commits under way, the position may go below the target: then rewindStream() moves nothing.
  return await rewindStream(pool, { stream: stream.name, position, seen: seen ?? current, ...order })
}

/** What a rewind would mean, for somebody who is to confirm it. */
export type RewindPlan = {
  readonly from: string
  readonly to: string
  /** When the target was reached; null where no checkpoint tells. */
  readonly reachedAt: Date | null
  /** How many rows the mirror holds above the target. */
  readonly rows: number
  /** How long reading them again takes, by earlier runs; null: none tells. */
  readonly expectedMs: number | null
}

export async function planAskedRewind(
  { database: { pool }, streams }: Pick<SyncContext, 'database' | 'streams'>,
  name: string,
  values: Asked,
): Promise<RewindPlan> {
  const stream = asChangesStream(pickStream(name, streams), streams)
  const target = rewindTargetIn(values)
  const to = await findPosition(pool, stream, target)
  const from = await livePosition(pool, stream.name)
  if (to >= from)
    throw new UsageError(
      `${stream.name} is at ${from}: ${to} is not below it, so there is nothing to go back to.`,
      { field: target.field },
    )
  const [rows, { msPerRow }, [reached = null]] = await Promise.all([
    countBetween(pool, stream, to, from),
    estimateBackfill(pool, stream.name),
    reachedAt(pool, stream.name, [to]),
  ])
  const expectedMs = msPerRow === null ? null : Math.round(rows * msPerRow)
  return { from: from.toString(), to: to.toString(), reachedAt: reached, rows, expectedMs }
}
