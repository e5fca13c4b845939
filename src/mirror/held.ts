// Deletions that are held back until an operator believes them, as they are stored with their stream. Older versions and people may
// have written them: what is no number or no time is not known, and held they are all the same.

import type { ClientBase } from 'pg'
import type { Shortfall } from '../sync/audit-ports.ts'

export type Held = {
  readonly missing: number | null
  readonly living: number | null
  readonly seen: number | null
  readonly at: Date | null
}

/** Null when nothing is held any more. What is held already stays so since then, also when the next listing lacks other rows. */
export async function storeHeld(
  client: Pick<ClientBase, 'query'>,
  stream: string,
  shortfall: Shortfall | null,
): Promise<void> {
  await client.query(
    `with known as (
       select name, $2::jsonb || jsonb_build_object('at',
         coalesce(case when jsonb_typeof(held) = 'object' then held->'at' end, to_jsonb(now()))) as told
       from tidemark.stream where name = $1
     )
     update tidemark.stream set held = told from known where stream.name = known.name and held is distinct from told`,
    [stream, shortfall && JSON.stringify(shortfall)],
  )
}

/** Null when nothing is held. */
export function heldOf(stored: unknown): Held | null {
  if (stored === null || stored === undefined) return null
  const fields: Partial<Record<keyof Held, unknown>> = typeof stored === 'object' ? stored : {}
  return {
    missing: countOf(fields.missing),
    living: countOf(fields.living),
    seen: countOf(fields.seen),
    at: momentOf(fields.at),
  }
}

const countOf = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null

function momentOf(value: unknown): Date | null {
  const moment = new Date(typeof value === 'string' ? value : Number.NaN)
  return Number.isNaN(moment.getTime()) ? null : moment
}
