// Deletions that are blocked: what speaks for and against them, and what an operator answers.

import pg, { type ClientBase, type Pool } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import type { MissingLook } from '../../sync/ports/audits.ts'
import { touchedSql } from '../schema/own-columns.ts'
import { qualified, tableSql } from '../schema/places.ts'
import { keepingWhereKept } from '../schema/row-history.ts'
import { readTableSchema } from '../schema/table-schema.ts'
import { queryAny, queryCount, queryRow, queryRows, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { inOneTransaction } from './ask.ts'
import { type BlockedDeletions, blockedDeletionsOf } from './symptoms.ts'

/** As it is kept in `blocked_deletions` of the stream. */
export type MissingEvidence = {
  /** When the looks were made, perhaps by an earlier run. */
  readonly at: string
  /** The run that found the spread. */
  readonly runId: string
  readonly looks: readonly MissingLook[]
  /** Null where the rows have no time. */
  readonly spread: MissingSpread | null
}
/** Each bucket begins at a day and says how many of its rows are missing, and how many there are. */
export type MissingSpread = {
  readonly column: string
  readonly unit: 'year' | 'month' | 'day'
  readonly buckets: readonly (readonly [from: string, missing: number, rows: number])[]
  /** The first bucket holds all older rows as well. Left out by older programs, as `after`. */
  readonly before?: boolean
  /** The last bucket holds all newer rows as well. */
  readonly after?: boolean
}

const digits = { year: 4, month: 7, day: 10 } as const

/** The buckets as people name them, in their order. */
export const bucketNames = ({ unit, buckets, before, after }: MissingSpread): readonly string[] =>
  buckets.map(([from], index) => {
    const words = [
      ...(before && index === 0 ? ['before'] : []),
      ...(after && index === buckets.length - 1 ? ['after'] : []),
    ]
    return [from.slice(0, digits[unit]), ...words].join(' or ')
  })

/** The blocked deletions of those streams that have any, in the order of the streams. */
export async function readBlockedDeletions(client: Queryable, streams: readonly string[]) {
  const rows = await queryRows<{ stream: string; blocked: unknown }>(
    client,
    `select name as stream, blocked_deletions as blocked from tidemark.stream
     where name = any ($1) and blocked_deletions is not null order by array_position($1, name)`,
    [streams],
  )
  return rows.flatMap(({ stream, blocked }) => {
    const deletions = blockedDeletionsOf(blocked)
    return deletions === null ? [] : [{ stream, ...deletions }]
  })
}

export type BlockedStream = BlockedDeletions & { readonly stream: string }

export type DeletionEvidence = {
  /** Some of the rows that are missing, with what a look at the record said; null: there was no look. */
  readonly samples: readonly { readonly key: string; readonly evidence: string | null }[]
  /** What became of those that were asked for by key. */
  readonly looked: { readonly gone: number; readonly there: number; readonly unclear: number }
  readonly lookedAt: Date | null
  readonly spread: MissingSpread | null
  /** The run that found the spread out. */
  readonly runId: string | null
  /** The most rows that one run ever marked deleted, in what the ledger still knows. */
  readonly mostInARun: number
  /** Other rows that were found gone and marked: those that a restoring rejection lets live again. Those with the upstream's own flag are not among them. */
  readonly marked: number
  /** Since when: a person decided about deletions within the last day. False: within the last day. */
  readonly isSinceDecision: boolean
}

const mostSamples = 20

const markedBy = (kinds: string) => `(
  select coalesce(sum(marked_deleted), 0)::float8 from tidemark.run
  where run.stream = name and run.kind in (${kinds}) and run.started_at > now() - interval '1 day'
    and run.started_at > coalesce(deletions_approved_at, '-infinity'))`

/** Of a line of tidemark.stream: what runs marked within the last day, since a person last approved deletions. For `markedOf`. */
export const markedSql = `${markedBy(`'deletions', 'reconcile', 'list'`)} as marked, ${markedBy(`'related'`)} as related`
export type Marked = { readonly marked: number; readonly related: number }

/** How many rows of the stream these are. Too many are too many bit by bit as well (P7). */
export async function markedOf(client: Queryable, stream: string, found: Marked | null): Promise<number> {
  const { marked = 0, related = 0 } = found ?? {}
  if (related === 0) return marked
  // Runs of related records count what they marked in other tables, too.
  return Math.max(marked, Math.min(marked + related, await countFoundGone(client, stream)))
}

export const markedWithinDay = async (client: Queryable, stream: string): Promise<number> =>
  markedOf(
    client,
    stream,
    await queryRow<Marked>(client, `select ${markedSql} from tidemark.stream where name = $1`, [stream]),
  )

/** Of rows `mine` of the line `known`: found gone within the last day, since a person last decided about deletions. */
const foundGoneSql = `mine._deleted_reason = 'absent' and mine._deleted_at > greatest(now() - interval '1 day', known.deletions_approved_at)`

type Found = Pick<DeletionEvidence, 'samples' | 'mostInARun' | 'isSinceDecision'> & {
  readonly kept: MissingEvidence | null
  readonly hasTable: boolean
}

export async function readDeletionEvidence(client: Queryable, stream: string): Promise<DeletionEvidence> {
  const found = await queryRow<Found>(
    client,
    `select
       coalesce((
         select jsonb_agg(jsonb_build_object('key', key, 'evidence', evidence) order by key) from (
           -- With evidence it is marked already.
           select key, evidence from tidemark.suspect where stream = $1 and evidence is null order by key limit ${mostSamples}
         ) as shown
       ), '[]') as samples,
       to_regclass(${tableSql('$1::text')}) is not null as "hasTable",
       exists (
         select from tidemark.stream where name = $1 and deletions_approved_at > now() - interval '1 day'
       ) as "isSinceDecision",
       (select coalesce(max(marked_deleted), 0)::float8 from tidemark.run where stream = $1) as "mostInARun",
       (select blocked_deletions -> 'evidence' from tidemark.stream where name = $1) as kept`,
    [stream],
  )
  const marked = found?.hasTable ? await countFoundGone(client, stream) : 0
  const kept = found?.kept ?? null
  const looks = kept?.looks ?? []
  const of = (wanted: string) => looks.filter(({ answer }) => answer === wanted).length
  return {
    samples:
      looks.length > 0
        ? looks.map(({ key, answer }) => ({ key, evidence: words[answer] }))
        : (found?.samples ?? []),
    looked: { gone: of('gone'), there: of('there'), unclear: of('unclear') },
    lookedAt: looks.length > 0 && kept ? new Date(kept.at) : null,
    spread: kept?.spread ?? null,
    runId: kept?.runId ?? null,
    mostInARun: found?.mostInARun ?? 0,
    marked,
    isSinceDecision: found?.isSinceDecision ?? false,
  }
}

const countFoundGone = async (client: Queryable, stream: string) =>
  (await queryValue<number>(
    client,
    `select count(*)::int as marked from ${qualified({ name: stream })} as mine, tidemark.stream as known
     where known.name = $1 and ${foundGoneSql}`,
    [stream],
  )) ?? 0

const words = { gone: 'gone', there: 'still there', unclear: 'the answer was unclear' } as const

export type Rejecting = {
  readonly stream: Stream
  readonly by: string
  readonly reason: string | null
  /** The other rows that were found gone lately live again, as the evidence counts them. */
  readonly restores: boolean
}

/** The rows of blocked deletions are kept. Returns how many others live again; null: no deletions are blocked. */
export async function rejectDeletions(pool: Pool, rejecting: Rejecting): Promise<number | null> {
  for (let triesLeft = 3; ; triesLeft--)
    try {
      return await inOneTransaction(pool, (client) => reject(client, rejecting))
    } catch (error) {
      // A run that writes one of these rows wants the lease that this has taken.
      if (!(error instanceof pg.DatabaseError && error.code === '40P01') || triesLeft === 0) throw error
    }
}

async function reject(client: ClientBase, { stream, by, reason, restores }: Rejecting) {
  const blocked = `select from tidemark.stream where name = $1 and jsonb_typeof(blocked_deletions) = 'object'`
  if ((await queryCount(client, blocked, [stream.name])) === 0) return null
  // A run under way compares with the rows as they were before, and would say so at its end.
  if (restores)
    await client.query('update tidemark.lease set epoch = epoch + 1 where stream = $1', [stream.name])
  // Rows before the stream, as runs lock them.
  const { rows, fingerprint } = restores ? await restore(client, stream) : nothing
  await client.query(
    `update tidemark.stream
     set blocked_deletions = blocked_deletions
       || jsonb_build_object('rejected', jsonb_build_object('at', now(), 'by', $2::text, 'reason', $3::text))
       -- The list lacks these rows too: the rejection holds while it lacks all of them.
       || jsonb_strip_nulls(jsonb_build_object(
         'missing', case jsonb_typeof(blocked_deletions -> 'missing') when 'number' then (blocked_deletions ->> 'missing')::numeric + $4 end,
         'living', case jsonb_typeof(blocked_deletions -> 'living') when 'number' then (blocked_deletions ->> 'living')::numeric + $4 end,
         'fingerprint', ((blocked_deletions ->> 'fingerprint')::bigint # $5::bigint)::text
       ))
     where name = $1 and jsonb_typeof(blocked_deletions) = 'object'`,
    [stream.name, by, reason, rows, fingerprint],
  )
  // Rows live again that were gone before the time through which deletions were known: when the first of them went, nobody knows. And of
  // what was marked within the last day, nothing is left.
  if (rows > 0)
    await client.query(
      `update tidemark.stream
       set deletions_known_at = null, ranks_agreed_at = null, swept_key = null, sweep_began_at = null, deletions_approved_at = now()
       where name = $1`,
      [stream.name],
    )
  return rows
}

type Restored = { readonly rows: number; readonly fingerprint: string | null }
const nothing: Restored = { rows: 0, fingerprint: null }

async function restore(client: ClientBase, stream: Stream): Promise<Restored> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return nothing
  const table = qualified(stream)
  const key = `mine.${pg.escapeIdentifier(tableSchema.key.name)}`
  const restored = await queryRow<Restored>(
    client,
    `with gone as materialized (
       select mine.ctid from ${table} as mine, tidemark.stream as known
       where known.name = $1 and ${foundGoneSql}
       -- All writers take their row locks in the same order.
       order by ${key} for update of mine
     ), restored as (
       update ${table} as mine set _deleted_at = null, _deleted_reason = null, ${touchedSql}
       from gone where mine.ctid = gone.ctid
       returning ${key}::text as key, mine as written
     )${await keepingWhereKept(client, tableSchema, 'restored')}, forgotten as (
       delete from tidemark.suspect using restored where suspect.stream = $1 and suspect.key = restored.key
     )
     select count(*)::int as rows, bit_xor(hashtextextended(key, 0))::text as fingerprint from restored`,
    [stream.name],
  )
  return restored ?? nothing
}

/** An operator takes the rejection back: a reconcile lists again, and lifts the block or asks anew. False: none was rejected. */
export const lookAgain = (client: Queryable, stream: string) =>
  queryAny(
    client,
    `update tidemark.stream set blocked_deletions = blocked_deletions - 'rejected', reconcile_wanted_at = now()
     where name = $1 and blocked_deletions ? 'rejected'`,
    [stream],
  )
