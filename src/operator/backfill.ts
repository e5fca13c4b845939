// The part of a stream's past that an operator names for a backfill.

import type { Pool, SyncContext } from '../context.ts'
import { estimateBackfill } from '../store/book/backfills.ts'
import { countBetween, livePosition } from '../store/book/checkpoints.ts'
import { type ChangesStream, pickStream } from '../streams/catalog.ts'
import type { Backfill } from '../sync/ports/store.ts'
import { UsageError } from '../util/errors.ts'
import { count, formatDuration, plural, snakeCased } from '../util/text.ts'
import { type Asked, asChangesStream, findPosition, readPositionOptions, rowVersionIn } from './positions.ts'

type WantedSpan = {
  readonly from: NonNullable<ReturnType<typeof readPositionOptions>>
  /** Null: up to the live position. */
  readonly to: bigint | null
}
type Span = { readonly from: bigint; readonly to: bigint }

/** Reads the options without looking at the mirror. `from` is null when none of its options is given. */
export function readSpanOptions(values: Asked): {
  readonly from: WantedSpan['from'] | null
  readonly to: bigint | null
} {
  const from = readPositionOptions(values, {
    version: 'from-version',
    checkpoint: 'from-checkpoint',
    time: 'at',
  })
  const to = values['to-version']
  return { from, to: to === undefined ? null : rowVersionIn(String(to), 'to-version') }
}

/** All of it at once, for a stream and options that come as text. */
export async function askedSpan(
  { database, streams }: Pick<SyncContext, 'database' | 'streams'>,
  name: string,
  values: Asked,
): Promise<{ readonly stream: ChangesStream; readonly span: Span }> {
  const stream = asChangesStream(pickStream(name, streams), streams)
  const { from, to } = readSpanOptions(values)
  if (from === null)
    throw new UsageError('Say where the backfill begins: a row version, a checkpoint or a time.')
  return { stream, span: await findSpan(database.pool, stream, { from, to }) }
}

export async function findSpan(pool: Pool, stream: ChangesStream, wanted: WantedSpan): Promise<Span> {
  const from = await findPosition(pool, stream, wanted.from)
  const live = await livePosition(pool, stream.name)
  const to = wanted.to ?? live
  if (live === 0n && wanted.to === null)
    throw new UsageError(
      `${stream.name} has no position yet: \`tidemark sync ${stream.name}\` reads everything for the first time.`,
    )
  if (from >= to)
    throw new UsageError(
      wanted.to === null
        ? `The position of ${stream.name} is ${live}: there is nothing between ${from} and it to read again.`
        : `Row version ${to} is not above ${from}, where the backfill would begin.`,
      { field: wanted.to === null ? wanted.from.field : 'to-version' },
    )
  return { from, to }
}

/** The plan of a backfill that is named by text, as a form or a script sends it. */
export async function planAskedBackfill(
  context: Pick<SyncContext, 'database' | 'streams' | 'contextOf'>,
  name: string,
  values: Asked,
): Promise<{ readonly text: string; readonly from: string; readonly to: string }> {
  const { stream, span } = await askedSpan(context, name, values)
  const { text, json } = await planBackfill(context, stream, span)
  return { text, from: json.from, to: json.to }
}

// What a backfill would take, from what the mirror holds and how fast earlier readings were. Asks the upstream nothing.
export async function planBackfill(
  { database: { pool }, contextOf }: Pick<SyncContext, 'database' | 'contextOf'>,
  stream: ChangesStream,
  { from, to }: Span,
) {
  const { pageSize } = contextOf(stream)
  const rows = await countBetween(pool, stream, from, to)
  const { msPerRow, largestAnswer } = await estimateBackfill(pool, stream.name)
  // Where the upstream caps pages, a page holds no more than the largest answer so far.
  const perPage = Math.max(1, largestAnswer === null ? pageSize : Math.min(pageSize, largestAnswer))
  const requests = Math.ceil(rows / perPage) + 1
  const expectedMs = msPerRow === null ? null : Math.round(rows * msPerRow)
  const time =
    expectedMs === null
      ? 'No earlier run tells how long that takes.'
      : `At the speed of earlier runs it takes about ${formatDuration(expectedMs)}.`
  return {
    text: `${stream.name}: the mirror holds ${count(rows)} rows from ${from} to ${to}; rows that are gone upstream and rows that it lacks are not in this count. The backfill needs about ${count(requests)} requests. ${time} Nothing was read yet.`,
    json: {
      stream: stream.name,
      from: from.toString(),
      to: to.toString(),
      rows,
      requests,
      expected_ms: expectedMs,
    },
  }
}

export function backfillSentence(backfill: Backfill): string {
  const { id, stream, status, rowsRead, inserted, updated, quarantined, note, error } = backfill
  const counts = `${count(rowsRead)} rows read, ${count(inserted)} new, ${count(updated)} changed${quarantined > 0 ? `, ${plural(quarantined, 'record')} in quarantine` : ''}`
  const span = `from ${backfill.from} to ${backfill.to}`
  if (status === 'done') return `${stream}: backfill ${id} ${span} done, ${counts}${note ? `; ${note}` : ''}`
  if (status === 'cancelled')
    return `${stream}: backfill ${id} ${span} ${note ?? 'cancelled'} at ${backfill.position}, ${counts}`
  const why = error ? `failed at ${backfill.position}: ${error}` : `stopped at ${backfill.position}`
  return `${stream}: backfill ${id} ${span} ${why} (${counts}). \`tidemark backfill ${stream}\` goes on from there.`
}

export const backfillJson = (backfill: Backfill) => snakeCased(backfill)
