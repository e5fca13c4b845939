// The part of a stream's past that an operator names for a backfill.

import type { Pool } from 'pg'
import { livePosition } from '../mirror/history.ts'
import { pickStream } from '../pick-streams.ts'
import type { ChangesStream } from '../streams.ts'
import type { Mirror } from '../sync/ports.ts'
import { UsageError } from '../usage-error.ts'
import type { Workplace } from '../workplace.ts'
import { type Asked, asChangesStream, findPosition, readPositionOptions, rowVersionIn } from './positions.ts'

type WantedSpan = {
  readonly from: NonNullable<ReturnType<typeof readPositionOptions>>
  /** Null: up to the live position. */
  readonly to: bigint | null
}
type Span = { readonly from: bigint; readonly to: bigint }

/** Looks at the words alone. `from` is null when none of its options is there. */
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
  return { from, to: to === undefined ? null : rowVersionIn(String(to)) }
}

/** All of it at once, for a stream and options that come as text. */
export async function askedSpan(
  { database, mirror, streams }: Pick<Workplace, 'database' | 'mirror' | 'streams'>,
  name: string,
  values: Asked,
): Promise<{ readonly stream: ChangesStream; readonly span: Span }> {
  const stream = asChangesStream(pickStream(name, streams), streams)
  const { from, to } = readSpanOptions(values)
  if (from === null)
    throw new UsageError('A backfill needs to know where from: a row version, a checkpoint or a time')
  return { stream, span: await findSpan({ pool: database.pool, mirror }, stream, { from, to }) }
}

export async function findSpan(
  { pool, mirror }: { readonly pool: Pool; readonly mirror: Pick<Mirror, 'positionAt'> },
  stream: ChangesStream,
  wanted: WantedSpan,
): Promise<Span> {
  const from = await findPosition({ pool, mirror }, stream, wanted.from)
  const live = await livePosition(pool, stream.name)
  const to = wanted.to ?? live
  if (live === 0n && wanted.to === null)
    throw new UsageError(
      `${stream.name} has no position yet: \`tidemark sync ${stream.name}\` reads all there is`,
    )
  if (from >= to)
    throw new UsageError(
      wanted.to === null
        ? `The live position of ${stream.name} is ${live}: there is nothing between ${from} and it to read again`
        : `Row version ${to} is not above ${from}, where the backfill would begin`,
    )
  return { from, to }
}
