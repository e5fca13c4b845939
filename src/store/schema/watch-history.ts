// Notices what others do to the table that keeps the past of a stream (P15): triggers on it and on its months note every statement which
// is not Tidemark's own, and OIDs show what was dropped or replaced. The upstream does not show the past, so what is lost cannot be
// mended, only reported.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { besideIn } from '../../streams/names.ts'
import { queryRow } from '../server/query.ts'
import { statementName } from '../server/session.ts'
import { hideHistory } from './history-views.ts'
import { inPast, qualified } from './places.ts'
import { historyOf, type TableSchema } from './table-schema.ts'
import { setAside } from './watch-table.ts'

type Stream = TableSchema['stream']

// A month is a table of its own, so that people can write to it or empty it by its own name. A statement that names the whole history
// fires only the triggers of the whole; but a truncate fires those of each table that it empties.
const triggersOf = (table: string, stream: Stream, isMonth: boolean): string => {
  const isOfOthers = `for each statement when (current_setting('tidemark.writer', true) is distinct from 'on')
    execute function tidemark.note_local_change(${pg.escapeLiteral(historyOf(stream).name)})`
  const named = (what: string) => `create or replace trigger tidemark_history_${what}`
  return [
    `${named('insert')} after insert on ${table} ${isOfOthers}`,
    `${named('update')} after update on ${table} referencing old table as gone ${isOfOthers}`,
    `${named('delete')} after delete on ${table} referencing old table as gone ${isOfOthers}`,
    ...(isMonth ? [`${named('truncate')} before truncate on ${table} ${isOfOthers}`] : []),
    ...['insert', 'update', 'delete', ...(isMonth ? ['truncate'] : [])].map(
      (what) => `alter table ${table} enable always trigger tidemark_history_${what}`,
    ),
  ].join(';\n')
}
const triggersOfTable = 3
const triggersOfMonth = 4

/** As it is kept in `tidemark.stream.history_watch`. */
type Watch = {
  readonly state: string
  readonly table: string
  /** When its earliest row had been seen. */
  readonly since: string | null
  /** OIDs by name, without schema. */
  readonly months: Readonly<Record<string, string>>
}
type Found = {
  readonly known: Watch | null
  readonly now: Watch
  /** Null while there is none. */
  readonly table: string | null
  readonly is_usable: boolean
  readonly unwatched: readonly string[]
  readonly is_noted: boolean
}

type Asked = {
  readonly log: Logger
  readonly inTransaction: (work: () => Promise<void>) => Promise<unknown>
  /** There was one a moment ago. */
  readonly hasTable: boolean
}

/** Whether something was done to it that no run has acted upon. Notes what happened while nobody saw it, and watches what is there now. */
export async function watchHistory(client: ClientBase, stream: Stream, asked: Asked): Promise<boolean> {
  const { log, inTransaction, hasTable } = asked
  const found = await look(client, stream, hasTable)
  if (found === null) return false
  const changes = changesOf(found)
  const isSame = JSON.stringify(found.now) === JSON.stringify(found.known) && found.unwatched.length === 0
  if (changes.length === 0 && (isSame || found.table === null)) return found.is_noted
  await inTransaction(async () => {
    for (const change of changes) await note(client, stream, change)
    const isThere = found.table !== null
    // A table that somebody put in its place and that is no history is kept under another name.
    if (isThere && !found.is_usable) {
      const aside = await setAside(client, historyOf(stream), hideHistory(stream))
      log.warn(aside, 'A table that is no history like those of Tidemark was set aside.')
    }
    await watch(client, stream, isThere && found.is_usable)
  })
  return changes.length > 0 || found.is_noted
}

async function look(client: ClientBase, stream: Stream, hasTable: boolean): Promise<Found | null> {
  const table = qualified(historyOf(stream))
  const earliest = hasTable ? `(select min(_observed_at)::text from ${table})` : 'null'
  const text = `with month as (
       select relname, pg_class.oid, (
         select count(*) from pg_trigger where tgrelid = pg_class.oid and tgenabled = 'A' and tgname like 'tidemark\\_history\\_%'
       ) as triggers
       from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = to_regclass($2)
     )
     select history_watch as known,
       jsonb_build_object(
         'state', 'tidemark.stream'::regclass::oid::text, 'table', to_regclass($2)::oid::text, 'since', ${earliest},
         'months', coalesce((select jsonb_object_agg(relname, oid::text) from month), '{}')
       ) as now,
       to_regclass($2)::oid::text as table,
       coalesce((select true from pg_partitioned_table where partrelid = to_regclass($2) and partstrat = 'r'), false) as is_usable,
       array(
         select relname::text from month where triggers < ${triggersOfMonth}
         union all
         select $3 where to_regclass($2) is not null and (
           select count(*) from pg_trigger where tgrelid = to_regclass($2) and tgenabled = 'A' and tgname like 'tidemark\\_history\\_%'
         ) < ${triggersOfTable}
       ) as unwatched,
       exists (select from tidemark.local_change where stream = $3 and run_id is null) as is_noted
     from tidemark.stream where name = $1`
  return await queryRow<Found>(client, {
    name: hasTable ? statementName(client, 'past', text) : 'tidemark_no_past',
    text,
    values: [stream.name, table, historyOf(stream).name],
  })
}

type Change = {
  readonly operation: 'drop' | 'replace' | 'drop months' | 'unwatch'
  /** Null: not known. */
  readonly from: Date | string | null
  readonly through: Date | null
}

/** In a database that was restored whole all OIDs are new, also that of tidemark.stream: then nothing was lost. */
function changesOf({ known, now, table, unwatched }: Found): readonly Change[] {
  if (known === null || known.state !== now.state) return []
  const { since: from } = known
  if (table === null) return [{ operation: 'drop', from, through: null }]
  if (known.table !== table) return [{ operation: 'replace', from, through: null }]
  const isOther = (month: string) => now.months[month] !== known.months[month]
  const gone = Object.keys(known.months).filter(isOther).toSorted().map(startOfMonth)
  const changes: Change[] = []
  const [first, last] = [gone.at(0), gone.at(-1)]
  if (first && last) changes.push({ operation: 'drop months', from: first, through: monthAfter(last, 1) })
  const isUnwatched = unwatched.some((name) => name in known.months || !(name in now.months))
  if (isUnwatched) changes.push({ operation: 'unwatch', from: null, through: null })
  return changes
}

/** The name of what holds a month ends with it, such as `2026_11`. */
export const startOfMonth = (month: string): Date =>
  new Date(`${month.slice(-7).replace('_', '-')}-01T00:00:00Z`)

export const monthAfter = (time: Date, months: number): Date =>
  new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + months, 1))

const note = (client: ClientBase, stream: Stream, { operation, from, through }: Change) =>
  client.query(
    `insert into tidemark.local_change (stream, operation, transaction, lost_from, lost_through)
     values ($1, $2, pg_current_xact_id()::text::bigint, $3, coalesce($4, case when $3::timestamptz is not null then now() end))
     on conflict (stream, operation, transaction) where run_id is null do nothing`,
    [historyOf(stream).name, operation, from, through],
  )

async function watch(client: ClientBase, stream: Stream, hasTable: boolean): Promise<void> {
  const found = await look(client, stream, hasTable)
  if (!found) return
  const statements = found.unwatched.map((name) =>
    name in found.now.months
      ? triggersOf(inPast({ name: besideIn(stream.name, name) }), stream, true)
      : triggersOf(qualified(historyOf(stream)), stream, false),
  )
  if (statements.length > 0 && found.is_usable) await client.query(statements.join(';\n'))
  await client.query('update tidemark.stream set history_watch = $2 where name = $1', [
    stream.name,
    found.table === null || !found.is_usable ? null : JSON.stringify(found.now),
  ])
}

/** A month that Tidemark drops itself. Within the transaction that does so. */
export const forgetMonth = (client: ClientBase, stream: Stream, month: string) =>
  client.query(
    `update tidemark.stream set history_watch = history_watch #- array['months', $2::text] where name = $1`,
    [stream.name, month],
  )
