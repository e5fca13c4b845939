// The descriptions that were read: each kept once, when they were looked for, and what changed from one to the next.

import { createHash } from 'node:crypto'
import type { Pool } from 'pg'
import { baseSql, sourceSql } from '../store/schema/places.ts'
import { inTransaction, type Queryable, takeTurn, withConnection } from '../store/server/session.ts'
import type { ServiceName } from '../streams/catalog.ts'
import { baseOf, keyIn, sourceIn } from '../streams/names.ts'
import { holdableJson, holdableText } from '../util/text.ts'
import { type DescriptionChange, descriptionChanges } from './changes.ts'
import type { Description } from './description.ts'
import type { Finding } from './find-description.ts'

export type StoredDescription = {
  readonly id: string
  readonly service: ServiceName
  readonly location: string
  readonly description: Description
  /** The whole of it, as JSON text, if it was asked for. */
  readonly document: string | null
  readonly firstReadAt: Date
  readonly lastReadAt: Date
}

/** Of each service of a source the description that was read last, also where none is served any more. */
export async function storedDescriptions(
  client: Queryable,
  {
    source = '',
    service = null,
    isWhole = false,
  }: {
    readonly source?: string
    readonly service?: ServiceName | null
    readonly isWhole?: boolean
  } = {},
): Promise<readonly StoredDescription[]> {
  const { rows } = await client.query<StoredDescription>(
    `select distinct on (contract.service) id::text, ${baseSql('service')} as service, location, content as description,
       case when $2 then document end as document, first_read_at as "firstReadAt", last_read_at as "lastReadAt"
     from tidemark.contract where ${sourceSql('service')} = $3 and ($1::text is null or service = $1) order by contract.service, last_read_at desc, id desc`,
    [service && keyIn(source, service), isWhole, source],
  )
  return rows
}

/** Whether the description of a service was looked for so lately. Here and below, a service is named with its source before it. */
export async function wasCheckedWithin(client: Queryable, service: string, ms: number): Promise<boolean> {
  const { rowCount } = await client.query(
    `select from tidemark.contract_check
     where service = $1 and checked_at > now() - $2::float8 * interval '1 millisecond'`,
    [service, ms],
  )
  return (rowCount ?? 0) > 0
}

export type ChangeLine = Pick<DescriptionChange, 'subject' | 'before' | 'after'> & {
  readonly service: string
  readonly stream: string | null
  readonly change: string
  readonly foundAt: Date
}

/** The newest first. */
export async function readDescriptionChanges(
  client: Queryable,
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

/** What is wrong with the description of a service. */
export type UnusableDescription = {
  readonly service: string
  readonly problem: string
  readonly since: Date | null
}

export async function readUnusableDescriptions(client: Queryable): Promise<readonly UnusableDescription[]> {
  const { rows } = await client.query<UnusableDescription>(
    `select service, problem, problem_since as since from tidemark.contract_check
     where problem is not null order by service`,
  )
  return rows
}

/** For a service whose description is not looked for any more. */
export async function forgetDescriptionProblem(client: Queryable, service: string): Promise<void> {
  await client.query(
    `update tidemark.contract_check set problem = null, problem_since = null
     where service = $1 and problem is not null`,
    [service],
  )
}

export type Found = Extract<Finding, { readonly found: 'description' }>

const gone = 'The service does not describe itself any more. What it said last holds on.'

/** Notes what a look showed; null: nothing that can be used. Returns what changed since the description before; nothing for the first. */
export async function keepDescription(
  pool: Pool,
  service: string,
  { found, problem }: { readonly found: Found | null; readonly problem: string | null },
  streamOf: (type: string) => string | null,
): Promise<readonly DescriptionChange[]> {
  return await withConnection(pool, (client) =>
    inTransaction(client, async () => {
      // Two workers that look at the same time would tell a change twice.
      await takeTurn(client, `contract ${service}`)
      const [known] = await storedDescriptions(client, {
        source: sourceIn(service),
        service: baseOf(service) as ServiceName,
      })
      const id = found && (await keep(client, service, found))
      await client.query(
        `insert into tidemark.contract_check as known (service, contract_id, problem, problem_since)
         values ($1, $2, $3, case when $3::text is not null then now() end)
         on conflict (service) do update
         set checked_at = now(), contract_id = excluded.contract_id, problem = excluded.problem,
             problem_since = case when known.problem = excluded.problem then known.problem_since else excluded.problem_since end`,
        [service, id, problem ?? (found === null && known ? gone : null)],
      )
      if (!found || !known || id === known.id) return []
      const changes = descriptionChanges(known.description, found.description)
      await noteChanges(client, [service, id], changes, streamOf)
      return changes
    }),
  )
}

/** Returns its id. If the document is stored already, what was understood of it is updated: a newer program may understand more. */
async function keep(
  client: Queryable,
  service: string,
  { at, document, description }: Found,
): Promise<string | null> {
  const { openApi, title, version } = description
  const { rows } = await client.query<{ id: string }>(
    `insert into tidemark.contract (service, location, openapi, title, version, fingerprint, content, document)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     on conflict (service, fingerprint) do update
     set location = excluded.location, content = excluded.content, last_read_at = clock_timestamp() returning id`,
    [
      ...[service, at, openApi, holdableText(title).slice(0, 500), holdableText(version).slice(0, 500)],
      ...[createHash('sha256').update(document).digest('hex'), holdableJson(description), document],
    ],
  )
  return rows[0]?.id ?? null
}

async function noteChanges(
  client: Queryable,
  description: readonly [string, string | null],
  changes: readonly DescriptionChange[],
  streamOf: (type: string) => string | null,
): Promise<void> {
  const texts = (pick: (change: DescriptionChange) => string | null) =>
    changes.map((change) => {
      const text = pick(change)
      return text && holdableText(text)
    })
  await client.query(
    `insert into tidemark.contract_change (service, contract_id, stream, subject, change, before, after)
     select $1, $2, * from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[])`,
    [
      ...description,
      texts(({ type }) => type && streamOf(type)),
      texts(({ subject }) => subject),
      texts(({ change }) => change),
      texts(({ before }) => before),
      texts(({ after }) => after),
    ],
  )
}
