// Taking records out of quarantine for good, with a reason that is kept with them.

import type { Pool } from 'pg'
import { plural } from '../count.ts'
import { dropFromQuarantine, type QuarantineSelection } from '../mirror/quarantine-review.ts'
import { UsageError } from '../usage-error.ts'
import { expectEntry } from './quarantine-selection.ts'

type Wanted = {
  readonly selection: QuarantineSelection
  /** No later entry than this one: what nobody has seen yet stays (P5). */
  readonly through?: bigint
  readonly reason: string
  readonly by: string
}

export async function dropRecords(pool: Pool, { selection, through, reason, by }: Wanted): Promise<number> {
  if (reason === '') throw new UsageError('Records are dropped for a reason, which is kept with them')
  await expectEntry(pool, selection)
  return await dropFromQuarantine(pool, selection, `${reason} (${by})`, through)
}

export const droppedSentence = (dropped: number): string => `${plural(dropped, 'record')} dropped`
