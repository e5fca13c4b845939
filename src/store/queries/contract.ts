// What is known of how the upstream describes itself: the newest description of each service, and what changed. Read-only.

import type { ClientBase } from 'pg'
import type { ServiceName } from '../../streams/catalog.ts'
import type { Contract } from '../../streams/contract.ts'

export type StoredContract = {
  readonly id: string
  readonly service: ServiceName
  readonly location: string
  readonly contract: Contract
  readonly firstReadAt: Date
  readonly lastReadAt: Date
}

/** Of each service the description that was read last, also where none is served any more. */
export async function readContracts(client: Pick<ClientBase, 'query'>): Promise<readonly StoredContract[]> {
  const { rows } = await client.query<StoredContract>(
    `select distinct on (service) id::text, service, location, content as contract,
       first_read_at as "firstReadAt", last_read_at as "lastReadAt"
     from tidemark.contract order by service, last_read_at desc, id desc`,
  )
  return rows
}

/** The whole description, as JSON text; null where none was read. */
export async function readDocument(
  client: Pick<ClientBase, 'query'>,
  service: ServiceName,
): Promise<string | null> {
  const { rows } = await client.query<{ document: string }>(
    'select document from tidemark.contract where service = $1 order by last_read_at desc, id desc limit 1',
    [service],
  )
  return rows[0]?.document ?? null
}

/** Whether the description of a service was looked for so lately. */
export async function wasCheckedWithin(
  client: Pick<ClientBase, 'query'>,
  service: ServiceName,
  ms: number,
): Promise<boolean> {
  const { rowCount } = await client.query(
    `select from tidemark.contract_check
     where service = $1 and checked_at > now() - $2::float8 * interval '1 millisecond'`,
    [service, ms],
  )
  return (rowCount ?? 0) > 0
}

export type ChangeLine = {
  readonly service: string
  readonly stream: string | null
  readonly subject: string
  readonly change: string
  readonly before: string | null
  readonly after: string | null
  readonly foundAt: Date
}

/** The newest first. */
export async function readContractChanges(
  client: Pick<ClientBase, 'query'>,
  { limit, withinMs = null }: { readonly limit: number; readonly withinMs?: number | null },
): Promise<readonly ChangeLine[]> {
  const { rows } = await client.query<ChangeLine>(
    `select service, stream, subject, change, before, after, found_at as "foundAt" from tidemark.contract_change
     where $2::float8 is null or found_at > now() - $2 * interval '1 millisecond'
     order by id desc limit $1`,
    [limit, withinMs],
  )
  return rows
}

/** What is wrong with the description of each service. */
export type UnusableContract = {
  readonly service: string
  readonly problem: string
  readonly since: Date | null
}

export async function readUnusableContracts(
  client: Pick<ClientBase, 'query'>,
): Promise<readonly UnusableContract[]> {
  const { rows } = await client.query<UnusableContract>(
    `select service, problem, problem_since as since from tidemark.contract_check
     where problem is not null order by service`,
  )
  return rows
}
