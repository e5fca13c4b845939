// Whose data the mirror holds is noted before the first row of a service, and compared by every program that writes: the rows of two
// customers in one table could not be told apart again.

import type { Pool } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import {
  otherSources,
  otherSourceText,
  SourceDiffers,
  type SourceIdentity,
  waysOut,
} from '../queries/sources.ts'
import { hasRows } from './positions.ts'

export type WantedSource = SourceIdentity & { readonly streams: readonly Stream[] }

/** Asks again, before each run: somebody may have said meanwhile that the rows are those of another source. */
export async function expectSources(pool: Pool, wanted: readonly WantedSource[]): Promise<void> {
  if ((await otherSources(pool, wanted)).length > 0) await claimSources(pool, wanted)
}

/** Notes it, as long as there are no rows of that service; refuses when those that are here came from another source. */
export async function claimSources(pool: Pool, wanted: readonly WantedSource[]): Promise<void> {
  for (const { service, baseUrl, account } of wanted)
    await pool.query(
      'insert into tidemark.source (service, base_url, account) values ($1, $2, $3) on conflict do nothing',
      [service, baseUrl, account],
    )
  const refused: string[] = []
  for (const other of await otherSources(pool, wanted)) {
    const { service, baseUrl, account } = other.wanted
    if (await hasAnyRows(pool, other.wanted.streams)) refused.push(otherSourceText(other))
    else
      await pool.query(
        'update tidemark.source set base_url = $2, account = $3, noted_at = now() where service = $1',
        [service, baseUrl, account],
      )
  }
  if (refused.length > 0)
    throw new SourceDiffers(`${refused.join(' ')} Nothing was read or written. ${waysOut}`)
}

async function hasAnyRows(pool: Pool, streams: readonly Stream[]): Promise<boolean> {
  for (const stream of streams) if (await hasRows(pool, stream)) return true
  return false
}
