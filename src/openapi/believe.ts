// Keeps a belief about each stream: its records are as the upstream's description says, or otherwise. Runs note what they see of that,
// with the counts of the fields.

import type { Pool } from 'pg'
import { readBeliefs } from '../store/book/dictionary.ts'
import { learn } from '../store/runs/run-findings.ts'
import { sourceSql } from '../store/schema/places.ts'
import { withConnection } from '../store/server/session.ts'
import { isConfirmed } from '../streams/beliefs.ts'
import type { MirroredStream } from '../streams/catalog.ts'
import { keyIn, sourceIn } from '../streams/names.ts'
import type { RecordType } from './description.ts'
import { readFieldsBeside, verdictOn } from './differences.ts'
import { readUnusableDescriptions, type StoredDescription } from './stored.ts'

const name = 'contract'
/** A description is read once a day, perhaps an hour late. If it is not served any more, the belief expires. */
const believedForMs = 25 * 3_600_000

export async function believeDescriptions(
  pool: Pool,
  stored: readonly StoredDescription[],
  types: ReadonlyMap<string, RecordType>,
  mirrored: readonly MirroredStream[],
): Promise<void> {
  const now = new Date()
  const source = sourceIn(mirrored[0]?.name ?? '')
  const unusable = (await readUnusableDescriptions(pool)).map(({ service }) => service)
  const fresh = stored.filter(
    ({ service, lastReadAt }) =>
      now.getTime() - lastReadAt.getTime() <= believedForMs && !unusable.includes(keyIn(source, service)),
  )
  const streams = mirrored.map((stream) => stream.name)
  const known = (await readBeliefs(pool, { streams })).filter((line) => line.name === name)
  const fields = await readFieldsBeside(pool, [...types.keys()], { mostCounted: 0 })
  for (const stream of mirrored) {
    const type = types.get(stream.name)
    const of = (wanted: string) => fresh.find(({ service }) => service === wanted)
    const found = (stream.kind !== 'related' && of(stream.service)) || of('assignment')
    if (!type || !found) continue
    const beside = fields.filter((field) => field.stream === stream.name)
    const verdict = verdictOn(type, beside, { openApi: found.description.openApi, at: found.location })
    const line = known.find((one) => one.stream === stream.name)
    if (isConfirmed(line, verdict.value, now) && line?.evidence === verdict.evidence) continue
    await withConnection(pool, (client) => learn(client, stream.name, [{ name, ...verdict, testedAt: now }]))
  }
}

/** The description is not used. */
export async function forgetDescriptionBeliefs(pool: Pool, source: string): Promise<void> {
  await pool.query(`delete from tidemark.belief where name = $1 and ${sourceSql('stream')} = $2`, [
    name,
    source,
  ])
}
