// What has to hold when a run has its lease, asked in one statement, because every poll asks: that the rows are of the source that the
// settings name, and that the dictionary says of private fields what is in force (P20).

import type { ClientBase } from 'pg'
import { sourceIn } from '../../streams/names.ts'
import type { PrivateFields } from '../../streams/private-fields.ts'
import { type SourceIdentity, sourceSql } from '../book/sources.ts'
import { expectSources, type WantedSource } from './claim-sources.ts'
import { expectRules } from './private-fields.ts'
import { type RuleInForce, rulesSql } from './rules-in-force.ts'

type Found = { readonly sources: readonly SourceIdentity[]; readonly rules: readonly RuleInForce[] }

/** Waits for a transaction that is about to declare that the rows are of another source. `sources`: null where any will do. */
export async function expectBeforeRun(
  client: ClientBase,
  streams: readonly string[],
  wanted: {
    readonly sources: readonly WantedSource[] | null
    readonly privateFields: Pick<PrivateFields, 'wanted' | 'takeUp' | 'hides'>
  },
): Promise<void> {
  const { rows } = await client.query<Found>({
    name: 'tidemark_before_run',
    text: `select
        (select coalesce(jsonb_agg(known), '[]') from (${sourceSql} for share) as known) as sources,
        (select coalesce(jsonb_agg(noted), '[]') from (${rulesSql}) as noted) as rules`,
    values: [sourceIn(streams[0] ?? '')],
  })
  const { sources = [], rules = [] } = rows[0] ?? {}
  if (wanted.sources) expectSources(sources, wanted.sources)
  await expectRules(client, streams, wanted.privateFields, rules)
}
