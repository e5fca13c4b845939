// Finds the position that an operator names: by version, by checkpoint or by time. If there is no such position, one line says what
// would be right, in words that help at the terminal and on the page.

import type { Pool } from '../context.ts'
import { findCheckpoint, firstCheckpointAt, positionAt } from '../store/book/checkpoints.ts'
import type { ChangesStream, Stream } from '../streams/catalog.ts'
import { parseInt64 } from '../streams/record.ts'
import { UsageError } from '../util/errors.ts'

/** The names of the three options, e.g. `to-version`, `to-checkpoint` and `to-time`. */
export type PositionOptions = { readonly version: string; readonly checkpoint: string; readonly time: string }
/** What was asked for, by the names of the verb's options. */
export type Asked = { readonly [option: string]: unknown }
type Wanted = (
  | { readonly kind: 'version'; readonly position: bigint }
  | { readonly kind: 'checkpoint'; readonly id: bigint }
  | { readonly kind: 'time'; readonly time: Date }
) & {
  /** The option that said so. */
  readonly field: string
}

const whatItIs = { version: 'a row version', checkpoint: 'a checkpoint', time: 'a time' } as const

/** Reads the options without looking at the mirror. Null: none of them is given. */
export function readPositionOptions(values: Asked, options: PositionOptions): Wanted | null {
  const kinds = ['version', 'checkpoint', 'time'] as const
  const [kind, other] = kinds.filter((one) => values[options[one]] !== undefined)
  if (kind === undefined) return null
  if (other !== undefined)
    throw new UsageError(`Give ${whatItIs[kind]} or ${whatItIs[other]}, not both.`, { field: options[other] })
  const field = options[kind]
  const text = String(values[field])
  if (kind === 'version') return { kind, field, position: rowVersionIn(text, field) }
  if (kind === 'checkpoint') return { kind, field, id: numberIn(text, noCheckpoint, field) }
  return { kind, field, time: timeIn(text, field) }
}

/** `mistake` says what else the text should have been; `field`: where it was written. */
export function numberIn(text: string, mistake: string, field: string | null = null): bigint {
  const number = parseInt64(text)
  if (number !== null) return number
  throw new UsageError(`"${text}" is not ${mistake}`, { field })
}

const noVersion =
  'a row version: write a whole number from 0 to 9223372036854775807, without signs or separators.'
const noCheckpoint = 'a checkpoint: write its number, as `tidemark checkpoints` shows it.'

export const rowVersionIn = (text: string, field: string | null = null): bigint =>
  numberIn(text, noVersion, field)

const isoTime = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?)?$/

export function timeIn(text: string, field: string): Date {
  const [, day, timeOfDay = '00:00', offset = 'Z'] = isoTime.exec(text.toUpperCase()) ?? []
  const time = new Date(`${day}T${timeOfDay}${offset}`)
  // JavaScript takes the 31st of February for the 3rd of March, so the day is compared with what was typed.
  if (!day || Number.isNaN(time.getTime()) || new Date(day).toISOString().slice(0, 10) !== day)
    throw new UsageError(
      `"${text}" is not a time: write it as 2025-01-31T14:30:00Z (without an offset it is UTC).`,
      { field },
    )
  return time
}

export async function findPosition(pool: Pool, stream: ChangesStream, wanted: Wanted): Promise<bigint> {
  if (wanted.kind === 'version') return wanted.position
  const { field } = wanted
  if (wanted.kind === 'checkpoint') return await checkpointPosition(pool, stream, wanted)
  const time = wanted.time.toISOString()
  const tooLate = `${time} has not come yet. Write a time in the past; without an offset it is UTC.`
  if (wanted.time.getTime() > Date.now()) throw new UsageError(tooLate, { field })
  const position = await positionAt(pool, stream.name, wanted.time)
  if (position !== null) return position
  const first = await firstCheckpointAt(pool, stream.name)
  throw new UsageError(
    first
      ? `At ${time} ${stream.name} had no position yet: its first checkpoint was at ${first.toISOString()}. To begin at the very first record, give row version 0.`
      : `${stream.name} has no checkpoint yet: \`tidemark sync ${stream.name}\` makes the first.`,
    { field },
  )
}

async function checkpointPosition(
  pool: Pool,
  stream: ChangesStream,
  { id, field }: Extract<Wanted, { kind: 'checkpoint' }>,
): Promise<bigint> {
  const checkpoint = await findCheckpoint(pool, id)
  const noSuch = `There is no checkpoint ${id}: \`tidemark checkpoints ${stream.name}\` lists them.`
  if (!checkpoint) throw new UsageError(noSuch, { field })
  if (checkpoint.stream !== stream.name)
    throw new UsageError(
      `Checkpoint ${id} belongs to ${checkpoint.stream}, not to ${stream.name}: \`tidemark checkpoints ${stream.name}\` lists those of ${stream.name}.`,
      { field },
    )
  return BigInt(checkpoint.position)
}

/** Only changes streams have positions. */
export function asChangesStream(stream: Stream, known: readonly Stream[]): ChangesStream {
  if (stream.kind === 'changes') return stream
  const others = known.filter(({ kind }) => kind === 'changes').map(({ name }) => name)
  throw new UsageError(
    `${stream.name} is read whole each time and has no positions. Streams with positions are ${others.join(', ')}.`,
  )
}
