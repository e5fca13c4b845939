// Keeps a belief about each stream: its records are as the upstream's description says, or otherwise. Runs note what they see of that,
// with the counts of the fields.

import type { Pool } from 'pg'
import { isConfirmed } from '../../streams/beliefs.ts'
import type { MirroredStream, ServiceName } from '../../streams/catalog.ts'
import type { RecordType } from '../../streams/contract.ts'
import { readContracts, readUnusableContracts, type StoredContract } from '../queries/contract.ts'
import { contractVerdict, describedBy, differencesOf } from '../queries/contract-differences.ts'
import { readFieldsBeside } from '../queries/contract-fields.ts'
import { readBeliefs } from '../queries/dictionary.ts'
import { withConnection } from '../server/session.ts'
import { learn } from './run-findings.ts'

const name = 'contract'

/** Only where the description was read within that time. If it is not served any more, the belief expires. */
export async function believeContracts(
  pool: Pool,
  types: ReadonlyMap<string, RecordType>,
  mirrored: readonly MirroredStream[],
  { readWithinMs, now }: { readonly readWithinMs: number; readonly now: Date },
): Promise<void> {
  const fresh = await readLately(pool, new Date(now.getTime() - readWithinMs))
  const known = (await readBeliefs(pool)).filter((line) => line.name === name)
  const fields = await readFieldsBeside(pool, [...types.keys()], { mostCounted: 0 })
  for (const stream of mirrored) {
    const type = types.get(stream.name)
    const contract = fresh.get(serviceOf(stream)) ?? fresh.get('assignment')
    if (!type || !contract) continue
    const from = describedBy(contract.contract.openApi, contract.location)
    const beside = fields.filter((field) => field.stream === stream.name)
    const found = contractVerdict(type, beside, differencesOf(beside, types), from)
    const line = known.find((one) => one.stream === stream.name)
    if (isConfirmed(line, found.value, now) && line?.evidence === found.evidence) continue
    await withConnection(pool, (client) => learn(client, stream.name, [{ name, ...found, testedAt: now }]))
  }
}

const serviceOf = (stream: MirroredStream): ServiceName =>
  stream.kind === 'related' ? 'assignment' : stream.service

async function readLately(pool: Pool, since: Date): Promise<ReadonlyMap<ServiceName, StoredContract>> {
  const unusable = new Set((await readUnusableContracts(pool)).map(({ service }) => service))
  const contracts = await readContracts(pool)
  return new Map(
    contracts
      .filter(({ service, lastReadAt }) => lastReadAt >= since && !unusable.has(service))
      .map((one) => [one.service, one]),
  )
}

/** The description is not used. */
export async function forgetContractBeliefs(pool: Pool): Promise<void> {
  await pool.query('delete from tidemark.belief where name = $1', [name])
}
