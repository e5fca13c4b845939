// Which records in quarantine an operator means.

import type { Pool } from 'pg'
import { parseInt64 } from '../int64.ts'
import { type QuarantineSelection, streamOfEntry } from '../mirror/quarantine-review.ts'
import { pickStream } from '../pick-streams.ts'
import { relatedStreams, streams } from '../streams.ts'
import { UsageError } from '../usage-error.ts'

/** A word that is a number is an id, any other a stream. */
export function selectionOf(target: string | undefined): QuarantineSelection {
  if (target === undefined) return { stream: null, id: null }
  const id = parseInt64(target)
  return id === null
    ? { stream: pickStream(target, [...streams, ...relatedStreams]).name, id: null }
    : { stream: null, id }
}

/** The number of an entry, as people type it. */
export function entryIn(text: string): bigint {
  const id = parseInt64(text)
  if (id !== null) return id
  throw new UsageError(
    `"${text}": write the number of an entry in quarantine, as \`tidemark quarantine\` shows them`,
  )
}

export async function expectEntry(pool: Pool, { id }: QuarantineSelection): Promise<void> {
  if (id === null || (await streamOfEntry(pool, id)) !== null) return
  throw new UsageError(
    `There is no record ${id} in quarantine: \`tidemark quarantine\` shows those there are`,
  )
}
