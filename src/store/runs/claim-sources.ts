// Whose data the mirror holds is noted before the first row of a service, and compared by every program that writes: the rows of two
// customers in one table could not be told apart again.

import type { ClientBase } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import {
  otherSources,
  otherSourceText,
  SourceDiffers,
  type SourceIdentity,
  waysOut,
} from '../queries/sources.ts'
import { hasRows } from './positions.ts'

type Queryable = Pick<ClientBase, 'query'>

export type WantedSource = SourceIdentity & { readonly streams: readonly Stream[] }

/** Asks again, once a run has its lease: somebody may have said meanwhile, or be about to say, that the rows are those of another source. */
export async function expectSources(client: Queryable, wanted: readonly WantedSource[]): Promise<void> {
  const others = await otherSources(client, wanted, { waits: true })
  if (others.length > 0) await claimSources(client, wanted)
}

/** Notes it, as long as there are no rows of that service; refuses when those that are here came from another source. */
export async function claimSources(client: Queryable, wanted: readonly WantedSource[]): Promise<void> {
  for (const { service, baseUrl, account } of wanted)
    await client.query(
      'insert into tidemark.source (service, base_url, account) values ($1, $2, $3) on conflict do nothing',
      [service, baseUrl, account],
    )
  const refused: string[] = []
  for (const other of await otherSources(client, wanted)) {
    const { service, baseUrl, account } = other.wanted
    if (await hasAnyRows(client, other.wanted.streams)) refused.push(otherSourceText(other))
    else
      await client.query(
        'update tidemark.source set base_url = $2, account = $3, noted_at = now() where service = $1',
        [service, baseUrl, account],
      )
  }
  if (refused.length > 0)
    throw new SourceDiffers(`${refused.join(' ')} Nothing was read or written. ${waysOut}`)
}

async function hasAnyRows(client: Queryable, streams: readonly Stream[]): Promise<boolean> {
  for (const stream of streams) if (await hasRows(client, stream)) return true
  return false
}
