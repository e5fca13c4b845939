// Notes whose data the mirror holds, before the first row of a service, and has every program that writes compare it: once the rows of
// two customers are in one table, nobody can tell them apart again.

import type { Pool } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import {
  type OtherSource,
  otherSources,
  otherSourceText,
  othersAmong,
  SourceDiffers,
  type SourceIdentity,
  waysOut,
} from '../book/sources.ts'
import { inTransaction, type Queryable, withConnection } from '../server/session.ts'
import { fenceRuns } from './lease.ts'
import { hasRows } from './positions.ts'

export type WantedSource = SourceIdentity & { readonly streams: readonly Stream[] }

export function expectSources(known: readonly SourceIdentity[], wanted: readonly WantedSource[]): void {
  expectNone(othersAmong(known, wanted).map(otherSourceText))
}

/** Notes it, as long as there are no rows of that service; refuses when those that are here came from another source. */
export async function claimSources(pool: Pool, wanted: readonly WantedSource[]): Promise<void> {
  for (const { service, baseUrl, account } of wanted)
    await pool.query(
      'insert into tidemark.source (service, base_url, account) values ($1, $2, $3) on conflict do nothing',
      [service, baseUrl, account],
    )
  const refused: string[] = []
  for (const other of await otherSources(pool, wanted))
    if (await hasAnyRows(pool, other.wanted)) refused.push(otherSourceText(other))
    else await takeOver(pool, other)
  expectNone(refused)
}

function expectNone(others: readonly string[]): void {
  if (others.length > 0)
    throw new SourceDiffers(`${others.join(' ')} Nothing was read or written. ${waysOut}`)
}

/** No run of the other source can write after this (P2): it may be about to bring the first rows. */
const takeOver = (pool: Pool, other: OtherSource<WantedSource>): Promise<void> =>
  withConnection(pool, (client) =>
    inTransaction(client, async () => {
      const { service, baseUrl, account, streams } = other.wanted
      // Update the source first: a run that takes its lease from now on waits for this. Runs that have theirs are fenced out next.
      await client.query(
        'update tidemark.source set base_url = $2, account = $3, noted_at = now() where service = $1',
        [service, baseUrl, account],
      )
      const every = [...streams, ...(await addedStreams(client, service))]
      await fenceRuns(
        client,
        every.map(({ name }) => name),
      )
      if (await hasAnyRows(client, other.wanted)) expectNone([otherSourceText(other)])
    }),
  )

/** The streams that settings once added. Their rows stay, and come back with the setting. All are lists of the assignment service. */
async function addedStreams(client: Queryable, service: string): Promise<readonly Stream[]> {
  const { rows } = await client.query<{ name: string }>(
    `select name from tidemark.stream where found_out is not null and $1 = 'assignment'`,
    [service],
  )
  return rows.map(({ name }) => ({ name, kind: 'list' }) as Stream)
}

async function hasAnyRows(
  client: Queryable,
  { service, streams }: Pick<WantedSource, 'service' | 'streams'>,
): Promise<boolean> {
  for (const stream of [...streams, ...(await addedStreams(client, service))])
    if (await hasRows(client, stream)) return true
  return false
}
