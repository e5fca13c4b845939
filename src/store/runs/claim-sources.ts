// Notes whose data the mirror holds, before the first row of a service, and has every program that writes compare it: once the rows of
// two customers are in one table, nobody can tell them apart again.

import type { ClientBase, Pool } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import { sourceIn } from '../../streams/names.ts'
import type { PrivateFields } from '../../streams/private-fields.ts'
import { inOneTransaction } from '../book/ask.ts'
import {
  identitiesSql,
  type OtherSource,
  otherSources,
  otherSourceText,
  othersAmong,
  SourceDiffers,
  type SourceIdentity,
  waysOut,
} from '../book/sources.ts'
import { sourceSql } from '../schema/places.ts'
import { queryColumn, queryRow } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { fenceRuns } from './lease.ts'
import { hasRows } from './positions.ts'
import { expectRules, type RuleInForce, rulesSql } from './private-fields.ts'

export type WantedSource = SourceIdentity & { readonly streams: readonly Stream[] }

/** Notes it, as long as there are no rows of that service; refuses when those that are here came from another source. */
export async function claimSources(pool: Pool, wanted: readonly WantedSource[]): Promise<void> {
  for (const { name, service, baseUrl, account } of wanted)
    await pool.query(
      'insert into tidemark.source (name, service, base_url, account) values ($1, $2, $3, $4) on conflict do nothing',
      [name, service, baseUrl, account],
    )
  const refused: OtherSource[] = []
  for (const other of await otherSources(pool, wanted))
    if (await hasAnyRows(pool, other.wanted)) refused.push(other)
    else await takeOver(pool, other)
  expectNone(refused)
}

/** All are services of one source. */
function expectNone(others: readonly OtherSource[]): void {
  const [first] = others
  if (first)
    throw new SourceDiffers(
      `${others.map(otherSourceText).join(' ')} Nothing was read or written. ${waysOut(first.wanted.name)}`,
    )
}

/** No run of the other source can write after this (P2): it may be about to bring the first rows. */
const takeOver = (pool: Pool, other: OtherSource<WantedSource>): Promise<void> =>
  inOneTransaction(pool, async (client) => {
    const { name: source, service, baseUrl, account, streams } = other.wanted
    // Update the source first: a run that takes its lease from now on waits for this. Runs that have theirs are fenced out next.
    await client.query(
      'update tidemark.source set base_url = $2, account = $3, noted_at = now() where service = $1 and name = $4',
      [service, baseUrl, account, source],
    )
    const every = [...streams, ...(await addedStreams(client, other.wanted))]
    await fenceRuns(
      client,
      every.map(({ name }) => name),
    )
    if (await hasAnyRows(client, other.wanted)) expectNone([other])
  })

/** The streams that settings once added. Their rows stay, and come back with the setting. All are lists of the assignment service. */
async function addedStreams(client: Queryable, { name, service }: Pick<SourceIdentity, 'name' | 'service'>) {
  const names = await queryColumn<string>(
    client,
    `select name from tidemark.stream where found_out is not null and $1 = 'assignment' and ${sourceSql('name')} = $2`,
    [service, name],
  )
  return names.map((added) => ({ name: added, kind: 'list' }) as Stream)
}

async function hasAnyRows(
  client: Queryable,
  { streams, ...source }: Pick<WantedSource, 'name' | 'service' | 'streams'>,
): Promise<boolean> {
  for (const stream of [...streams, ...(await addedStreams(client, source))])
    if (await hasRows(client, stream)) return true
  return false
}

/**
 * What has to hold when a run has its lease, asked in one statement, because every poll asks: that the rows are of the source that the
 * settings name, and that the dictionary says of private fields what is in force (P20). Waits for a transaction that is about to
 * declare that the rows are of another source. `sources`: null where any will do.
 */
export async function expectBeforeRun(
  client: ClientBase,
  streams: readonly string[],
  wanted: {
    readonly sources: readonly WantedSource[] | null
    readonly privateFields: Pick<PrivateFields, 'wanted' | 'takeUp' | 'hides'>
  },
): Promise<void> {
  const found = await queryRow<{ sources: readonly SourceIdentity[]; rules: readonly RuleInForce[] }>(
    client,
    {
      name: 'tidemark_before_run',
      text: `select
        (select coalesce(jsonb_agg(known), '[]') from (${identitiesSql} for share) as known) as sources,
        (select coalesce(jsonb_agg(noted), '[]') from (${rulesSql}) as noted) as rules`,
      values: [sourceIn(streams[0] ?? '')],
    },
  )
  const { sources = [], rules = [] } = found ?? {}
  if (wanted.sources) expectNone(othersAmong(sources, wanted.sources))
  await expectRules(client, streams, wanted.privateFields, rules)
}
