// Keeps what the upstream says about itself: each description once, when it was looked for, and what changed from the one before.

import { createHash } from 'node:crypto'
import type { Pool } from 'pg'
import type { ServiceName } from '../../streams/catalog.ts'
import { type Contract, type ContractChange, contractChanges } from '../../streams/contract.ts'
import { inTransaction, takeTurn, withConnection } from '../server/session.ts'

/** What a look at the upstream showed; null for the contract: nothing is served, or it cannot be used, and why. */
export type Look = {
  readonly service: ServiceName
  readonly contract: {
    readonly location: string
    readonly document: string
    readonly contract: Contract
  } | null
  readonly problem: string | null
}

/** The stream that a type belongs to, for the history. */
export type StreamOfType = (type: string) => string | null

/** Returns what changed since the description before; nothing for the first. */
export async function keepContract(
  pool: Pool,
  look: Look,
  streamOf: StreamOfType,
): Promise<readonly ContractChange[]> {
  return await withConnection(pool, (client) =>
    inTransaction(client, async () => {
      // Two workers that look at the same time would tell a change twice.
      await takeTurn(client, `contract ${look.service}`)
      const { rows } = await client.query<{ id: string; fingerprint: string; content: Contract }>(
        `select id, fingerprint, content from tidemark.contract
         where service = $1 order by last_read_at desc, id desc limit 1`,
        [look.service],
      )
      const [known] = rows
      const { contract } = look
      const problem = look.problem ?? (contract === null && known ? gone : null)
      const id = contract && (await keep(client, look.service, contract))
      await client.query(
        `insert into tidemark.contract_check as known (service, contract_id, problem, problem_since)
         values ($1, $2, $3, case when $3::text is not null then now() end)
         on conflict (service) do update
         set checked_at = now(), contract_id = excluded.contract_id, problem = excluded.problem,
             problem_since = case when known.problem = excluded.problem then known.problem_since else excluded.problem_since end`,
        [look.service, id, problem],
      )
      if (!contract || !known || id === known.id) return []
      const changes = contractChanges(known.content, contract.contract)
      await noteChanges(client, { service: look.service, id: id ?? '', changes }, streamOf)
      return changes
    }),
  )
}

/** For a service whose description is not looked for any more. */
export async function forgetContractProblem(pool: Pool, service: ServiceName): Promise<void> {
  await pool.query(
    `update tidemark.contract_check set problem = null, problem_since = null
     where service = $1 and problem is not null`,
    [service],
  )
}

const gone = 'The service does not describe itself any more. What it said last holds on.'

type Client = Parameters<Parameters<typeof withConnection>[1]>[0]

/** Returns its id. If the document is stored already, what was understood of it is updated: a newer program may understand more. */
async function keep(
  client: Client,
  service: ServiceName,
  { location, document, contract }: NonNullable<Look['contract']>,
): Promise<string> {
  const fingerprint = createHash('sha256').update(document).digest('hex')
  const { rows } = await client.query<{ id: string }>(
    `insert into tidemark.contract (service, location, openapi, title, version, fingerprint, content, document)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     on conflict (service, fingerprint) do update
     set location = excluded.location, content = excluded.content, last_read_at = clock_timestamp() returning id`,
    [
      ...[service, location, contract.openApi, holdable(contract.title), holdable(contract.version)],
      ...[fingerprint, JSON.stringify(contract), document],
    ],
  )
  return rows[0]?.id ?? ''
}

/** No text of Postgres holds NUL. */
const holdable = (text: string): string => text.replaceAll('\0', '').slice(0, 500)

async function noteChanges(
  client: Client,
  {
    service,
    id,
    changes,
  }: { readonly service: ServiceName; readonly id: string; readonly changes: readonly ContractChange[] },
  streamOf: StreamOfType,
): Promise<void> {
  const texts = (pick: (change: ContractChange) => string | null) =>
    changes.map((change) => {
      const text = pick(change)
      return text === null ? null : text.replaceAll('\0', '')
    })
  await client.query(
    `insert into tidemark.contract_change (service, contract_id, stream, subject, change, before, after)
     select $1, $2, * from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[])`,
    [
      ...[service, id],
      texts(({ type }) => (type === null ? null : streamOf(type))),
      texts(({ subject }) => subject),
      texts(({ change }) => change),
      texts(({ before }) => before),
      texts(({ after }) => after),
    ],
  )
}
