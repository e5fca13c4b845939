// What changed in rows, from the history of their streams: of one row, or of all rows of all streams, the newest first. Read-only.

import pg from 'pg'
import type { MirroredStream } from '../../streams/catalog.ts'
import { changesViewOf } from '../schema/history-views.ts'
import { qualified } from '../schema/places.ts'
import { historyOf, readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { arraysOf, queryColumn, queryRow, queryRows, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { keyCheck } from '../types/table.ts'
import type { Within } from './ask.ts'

/** Between one state that was seen and the next. */
export type RowChange = {
  readonly at: string
  readonly isDeleted: boolean
  readonly isBack: boolean
  /** Values as text, cut to a length; null where there was none. The first of them. */
  readonly fields: readonly {
    readonly column: string
    readonly before: string | null
    readonly after: string | null
  }[]
  readonly fieldCount: number
}

const mostFields = 6
const mostCharacters = 80

/**
 * By the query of `bi.<stream>_changes`, which somebody may have replaced. `lines`: which of the history, as SQL yields them; `where`: a
 * condition on the columns of the view.
 */
function changesSql(tableSchema: TableSchema, lines: string, where = 'true'): string {
  const { over, keyColumn } = changesViewOf(tableSchema)
  const key = pg.escapeIdentifier(keyColumn)
  return `
    with changes as (
      select *, row_number() over (partition by ${key}, changed_at order by field = '_deleted_at', field) as place
      from (${over(lines)}) as shown where ${where}
    )
    select ${key}::text as key, changed_at::text as at, (extract(epoch from changed_at) * 1000000)::bigint::text as micros,
      coalesce(bool_or(field = '_deleted_at' and before is null), false) as "isDeleted",
      coalesce(bool_or(field = '_deleted_at' and after is null), false) as "isBack",
      coalesce(jsonb_agg(jsonb_build_object(
        'column', field, 'before', left(before, ${mostCharacters}), 'after', left(after, ${mostCharacters})
      ) order by field) filter (where place <= ${mostFields} and field <> '_deleted_at'), '[]') as fields,
      (count(*) filter (where field <> '_deleted_at'))::float8 as "fieldCount", min(modified_by) as "modifiedBy"
    from changes group by ${key}, changed_at order by changes.changed_at desc, changes.${key} desc`
}

/** The newest first. None where no past is kept, and none of the state that was seen first. */
export async function readRowChanges(
  client: Queryable,
  { tableSchema }: { readonly tableSchema: TableSchema },
  key: string,
  limit: number,
): Promise<readonly (RowChange & Pick<StreamChange, 'runId'>)[]> {
  const { history } = tableSchema
  if (!history) return []
  const lines = `(
    select * from ${history.table} where ${pg.escapeIdentifier(tableSchema.key.name)} = $1
    order by _observed_at desc limit $2::int
  )`
  const rows = await queryRows<Found>(client, changesSql(tableSchema, lines), [key, limit])
  const { name: stream } = tableSchema.stream
  return await withRuns(
    client,
    [tableSchema],
    rows.map((one) => ({ ...one, stream })),
  )
}

// ── of all rows ──────────────────────────────────────────────────────────────────────────────────────────────

/** Where a page ends. The order is: the newest first, then by stream, then the highest key. */
export type ChangeCursor = {
  /** Microseconds since 1970. */
  readonly micros: string
  readonly stream: string
  readonly key: string
}
export type StreamChange = RowChange &
  ChangeCursor & {
    /** Who changed the record, if a field of it says so. */
    readonly modifiedBy: string | null
    /** The run that wrote it; null: that was not noted. */
    readonly runId: string | null
  }
export type ChangePage = {
  readonly changes: readonly StreamChange[]
  /** Where to go on; null: that was all. */
  readonly next: ChangeCursor | null
  /** The time was up before the page was full: so far it was looked. */
  readonly isCut: boolean
  /** The streams of which there is a past. */
  readonly kept: readonly string[]
  /** Of those that were asked for: streams whose past lacks what was written later, and when it ends. */
  readonly ended: readonly { readonly stream: string; readonly at: Date }[]
}
export type ChangesAsked = Within & {
  /** Null: all that are given. */
  readonly stream: string | null
  /** What the name of the column contains; empty: any. */
  readonly column: string
  readonly after: ChangeCursor | null
  readonly limit: number
  /** No further lines are looked at after this long, for all streams together. */
  readonly enoughMs?: number
}

const firstWindow = 200
const largestWindow = 10_000
const usualEnoughMs = 1_200

export async function readChanges(
  client: Queryable,
  streams: readonly MirroredStream[],
  asked: ChangesAsked,
): Promise<ChangePage> {
  const pasts = await queryColumn<string>(
    client,
    'select name from unnest($1::text[], $2::text[]) as past (name, history) where to_regclass(history) is not null',
    [streams.map(({ name }) => name), streams.map((one) => qualified(historyOf(one)))],
  )
  const kept = streams.filter(({ name }) => pasts.includes(name))
  const asTold = kept.filter(({ name }) => asked.stream === null || name === asked.stream)
  const known = await Promise.all(asTold.map((one) => readTableSchema(client, one)))
  const wanted = known.flatMap((one) => (one?.history ? [one] : []))
  const ended = await Promise.all(wanted.map((one) => readEnd(client, one)))
  const parts = []
  for (const one of wanted)
    parts.push(await readPart(client, one, asked, (asked.enoughMs ?? usualEnoughMs) / wanted.length))
  // What lies behind the place to which a stream was looked through may not be all.
  const [through = null] = parts.flatMap(({ through }) => through ?? []).toSorted(inOrder)
  const all = parts.flatMap(({ found }) => found).toSorted(inOrder)
  const certain = all.filter((one) => through === null || inOrder(one, through) <= 0)
  const shown = certain.slice(0, asked.limit)
  const isFull = certain.length > asked.limit
  return {
    changes: await withRuns(client, wanted, shown),
    next: isFull ? (shown.at(-1) ?? null) : through,
    isCut: !isFull && through !== null,
    kept: kept.map(({ name }) => name),
    ended: ended.flatMap((one) => one ?? []),
  }
}

/** Where no past is kept any more, or not yet again, rows are written that it lacks. */
async function readEnd(client: Queryable, { stream, history }: TableSchema) {
  const at = await queryValue<Date>(
    client,
    `select at from (select max(_observed_at) as at from ${history?.table}) as last
     where exists (select from ${qualified(stream)} where _synced_at > last.at)`,
  )
  return at && { stream: stream.name, at }
}

/** Changes of one stream have the order of Postgres, by its keys, and keep it. */
function inOrder(one: ChangeCursor, other: ChangeCursor): number {
  const later = BigInt(other.micros) - BigInt(one.micros)
  if (later !== 0n) return later > 0n ? 1 : -1
  return one.stream < other.stream ? -1 : one.stream > other.stream ? 1 : 0
}

type Found = Omit<StreamChange, 'runId'>

/** `through`: the last line that was looked at; null: all were. */
async function readPart(
  client: Queryable,
  tableSchema: TableSchema,
  { from, to, column, after, limit }: ChangesAsked,
  mostMs: number,
): Promise<{ readonly found: readonly Found[]; readonly through: ChangeCursor | null }> {
  const { stream, key, history } = tableSchema
  const name = pg.escapeIdentifier(key.name)
  const found: Found[] = []
  const beganMs = performance.now()
  let through = beginIn(tableSchema, after)
  for (let size = firstWindow; ; size = Math.min(largestWindow, 4 * size)) {
    const at = `'epoch'::timestamptz + $3::bigint * interval '1 microsecond'`
    const behind =
      through.key === null
        ? `_observed_at < ${at} and $4::text is null`
        : `_observed_at <= ${at} and (_observed_at, ${name}) < (${at}, $4::${key.type})`
    const lines = `(
      select * from ${history?.table}
      where _observed_at >= coalesce($1::timestamptz, '-infinity') and _observed_at < coalesce($2::timestamptz, 'infinity') and ${behind}
      order by _observed_at desc, ${name} desc limit ${size}
    )`
    const values = [from ?? null, to ?? null, through.micros, through.key]
    const rows = await queryRows<Found>(client, changesSql(tableSchema, lines, 'strpos(field, $5) > 0'), [
      ...values,
      column.toLowerCase(),
    ])
    found.push(...rows.map((row) => ({ ...row, stream: stream.name })))
    const end = await queryRow<{ key: string; micros: string }>(
      client,
      `select ${name}::text as key, (extract(epoch from _observed_at) * 1000000)::bigint::text as micros
       from ${lines} as line order by _observed_at desc, line.${name} desc offset ${size - 1}`,
      values,
    )
    if (!end) return { found, through: null }
    through = end
    if (found.length > limit || performance.now() - beganMs > mostMs)
      return { found, through: { ...end, stream: stream.name } }
  }
}

const latest = `${Date.parse('9999-01-01')}000`

/** From where on lines of a stream were not shown yet. A key that the stream cannot have is none. */
function beginIn(
  { stream, key }: TableSchema,
  after: ChangeCursor | null,
): { readonly micros: string; readonly key: string | null } {
  if (after === null) return { micros: latest, key: null }
  if (after.stream === stream.name && keyCheck(key.type)(after.key)) return after
  // Of streams that come later in the order, nothing of that moment was shown.
  return { micros: String(BigInt(after.micros) + (stream.name > after.stream ? 1n : 0n)), key: null }
}

/** A page is noted by the transaction that writes its rows and their lines. After a restore from a dump nothing tells any more. */
async function withRuns(client: Queryable, tables: readonly TableSchema[], changes: readonly Found[]) {
  const runs = new Map<Found, string | null>()
  for (const [name, own] of Map.groupBy(changes, ({ stream }) => stream)) {
    const tableSchema = tables.find(({ stream }) => stream.name === name)
    if (!tableSchema?.history) continue
    const key = pg.escapeIdentifier(tableSchema.key.name)
    const rows = await queryRows<{ place: number; run: string }>(
      client,
      `select place::int, noted.run
       from unnest($2::text[], $3::timestamptz[]) with ordinality as wanted (key, at, place)
       join ${tableSchema.history.table} as line on line.${key} = wanted.key::${tableSchema.key.type} and line._observed_at = wanted.at
       cross join lateral (
         select run_id::text as run from tidemark.page
         where page."table" = $1 and written_at between wanted.at - interval '1 hour' and wanted.at + interval '1 second'
           and page.xmin = line.xmin
         limit 1
       ) as noted`,
      [name, ...arraysOf(own, 'key', 'at')],
    )
    for (const { place, run } of rows) {
      const change = own[place - 1]
      if (change) runs.set(change, run)
    }
  }
  return changes.map((one) => ({ ...one, runId: runs.get(one) ?? null }))
}
