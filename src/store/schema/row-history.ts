// The past of a stream's rows: one row for each change that was seen, in a table partitioned by month. The statement that
// writes the rows themselves fills it (P1); its partitions are made and dropped here, by whoever writes.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { baseOf } from '../../streams/names.ts'
import { queryAny, queryRow } from '../server/query.ts'
import {
  inTransaction,
  isLockTimeout,
  limitLockWaits,
  retryOnLockTimeout,
  statementName,
  takeTurn,
} from '../server/session.ts'
import { asOfName, isFormerSql, readAsOf } from './as-of.ts'
import { closeNewSql } from './closed-rights.ts'
import { fieldComment } from './column-names.ts'
import { hasTable } from './create-table.ts'
import { showHistory } from './history-views.ts'
import { commentsOn, definitions, historyColumns } from './own-columns.ts'
import { inPast, qualified, tableSql } from './places.ts'
import { distrustedHash, historyOf, readTableSchema, type TableSchema } from './table-schema.ts'
import { daysTold, showVehicleDays } from './vehicle-days.ts'
import { columnsSql, vehicleDays } from './views.ts'
import { forgetMonth, monthAfter, startOfMonth, watchHistory } from './watch-history.ts'

/**
 * The part of a statement that stores the rows of a CTE, which returns `mine as written`, in the history. Empty where none is kept.
 * `readAgain`: rows may be written although they are as before; the CTE also returns their key and `mine.xmin`.
 */
export const keepingSql = (tableSchema: TableSchema, written: string, { readAgain = false } = {}): string =>
  historyMsOf(tableSchema.stream) === null ? '' : linesSql(tableSchema, written, readAgain)

/** The same for those who do not know the settings: a history is kept that has room for this month, and every row up to now. */
export async function keepingWhereKept(client: ClientBase, tableSchema: TableSchema, written: string) {
  if (!tableSchema.history) return ''
  const { months, now } = await readMonths(client, tableSchema)
  const isKept = !(await queryAny(client, `select ${laterSql(tableSchema)} limit 1`))
  return isKept && months.includes(monthOf(now)) ? linesSql(tableSchema, written) : ''
}

function linesSql(tableSchema: TableSchema, written: string, readAgain = false): string {
  const { key, history } = tableSchema
  if (!history) return ''
  const name = pg.escapeIdentifier(key.name)
  // The time at which the row is locked, not that at which the transaction began: another one may have begun later and written the row
  // first. And always after the line before, also when the clock was put back.
  const observed = `greatest(clock_timestamp(), (
        select max(before._observed_at) + interval '1 microsecond' from ${history.table} as before
        where before.${name} = (written).${name} and before._observed_at >= now()
      ))`
  return `, kept as (
      insert into ${history.table} (${columnsSql(history.columns)}, _observed_at, _deleted_at)
      select ${columnsSql(history.columns, '(written)')}, ${observed}, (written)._deleted_at from ${written}${readAgain ? otherThanLastSql(tableSchema, written) : ''}
    )`
}

/**
 * Leaves out rows that are as their last line. It is looked up only where the row may be so: where its record is the one that it had, or where
 * nothing tells. A row that somebody else wrote while this statement waited for it (`xmin` tells) has a line that cannot be seen here.
 */
function otherThanLastSql({ stream, key, history }: TableSchema, written: string): string {
  const name = pg.escapeIdentifier(key.name)
  const columnsOf = (row: string) => columnsSql(history?.columns ?? [], row)
  return `
      left join ${qualified(stream)} as was on was.${name} = (${written}.written).${name}
      where case
        when was._hash <> (written)._hash and was._hash <> ${distrustedHash} then true
        when was.xmax <> ${written}.xmin then true
        else not exists (
          select from (
            select * from ${history?.table} as before where before.${name} = (written).${name} order by before._observed_at desc limit 1
          ) as last
          where (last._deleted_at is null) = ((written)._deleted_at is null)
            and (${columnsOf('last')}) is not distinct from (${columnsOf('(written)')})
        ) end`
}

const historyMsOf = (stream: TableSchema['stream']): number | null =>
  'historyMs' in stream ? (stream.historyMs ?? null) : null

/** Makes the table and the partitions that the next writes need, and drops what is older than it is kept. */
export async function prepareHistory(
  client: ClientBase,
  tableSchema: TableSchema,
  { runId, timeZone, log }: { readonly runId: string; readonly timeZone: string; readonly log: Logger },
): Promise<TableSchema> {
  const { stream } = tableSchema
  const keptMs = historyMsOf(stream)
  if (keptMs === null) return tableSchema
  const watch = (hasTable: boolean) =>
    watchHistory(client, stream, {
      log,
      hasTable,
      inTransaction: (work) => inOwnTransaction(client, stream, work),
    })
  const hasHistory = tableSchema.history !== null
  // Before anything is made anew, so that damage is noticed (P15).
  const isDamaged = await watch(hasHistory)
  if (!isDamaged && (await isPrepared(client, tableSchema, timeZone))) return tableSchema
  const known = isDamaged ? ((await readTableSchema(client, stream)) ?? tableSchema) : tableSchema
  const made = known.history ? known : await makeTable(client, known)
  const { months, now } = await readMonths(client, made)
  const wanted = nextMonths(now)
  for (const month of wanted) if (!months.includes(month)) await makePartition(client, made, month)
  const all = [...new Set([...months, ...wanted])].sort()
  for (const [index, month] of all.entries()) {
    const next = all[index + 1]
    if (next === undefined || endOf(month).getTime() > now.getTime() - keptMs) break
    await dropPartition(client, made, { month, next, log })
  }
  await inOwnTransaction(client, stream, async () => {
    const isOlder = await catchUp(client, made)
    const isLost = isDamaged && (await actUpon(client, made, runId))
    if (isOlder || !hasHistory) await endOthers(client, stream, runId)
    const isNew = await beginAt(client, stream, isOlder || isLost ? 'now' : null)
    if (isNew || !(await readAsOf(client, stream))) await showHistory(client, stream, log)
    await showVehicleDays(client, made, timeZone, log)
  })
  await watch(true)
  return made
}

/** Runs that began while no history was kept would write no line of it (P2). */
const endOthers = (client: ClientBase, { name }: TableSchema['stream'], runId: string) =>
  client.query(
    `update tidemark.lease set epoch = epoch + 1 where stream = $1 and run ->> 'id' is distinct from $2`,
    [name, runId],
  )

/** Whether there is nothing to prepare, asked at once: every poll of a list asks. */
async function isPrepared(client: ClientBase, tableSchema: TableSchema, timeZone: string): Promise<boolean> {
  const { stream, history } = tableSchema
  if (!history) return false
  const text = `select now() as now, ${monthsSql} as names, obj_description(to_regclass($4)) as days,
       history_from is not null and to_regprocedure($3) is not null and not ${wasWrittenSinceSql(tableSchema)} as "isShown"
     from tidemark.stream where name = $2`
  const found = await queryRow<Months & { isShown: boolean; days: string | null }>(client, {
    name: statementName(client, 'prepared', text),
    text,
    values: [qualified(historyOf(stream)), stream.name, asOfName(stream), vehicleDays(stream)],
  })
  const days = daysTold(tableSchema, timeZone)
  if (!found?.isShown || (days !== null && found.days !== days)) return false
  const { months, now } = monthsOf(found)
  const keptFrom = now.getTime() - (historyMsOf(stream) ?? 0)
  return (
    nextMonths(now).every((month) => months.includes(month)) &&
    months.every((month) => endOf(month).getTime() > keptFrom)
  )
}

/** What was lost cannot be brought back, but the rows as they are now are stored in it again. Returns whether more than lines was lost. */
async function actUpon(client: ClientBase, { stream, key, history }: TableSchema, runId: string) {
  if (!history) return false
  const names = columnsSql(history.columns)
  const name = pg.escapeIdentifier(key.name)
  await client.query(
    `insert into ${history.table} (${names}, _observed_at, _deleted_at)
     select ${names}, now(), _deleted_at from ${qualified(stream)} as mine
     where not exists (
       select from ${history.table} as kept where kept.${name} = mine.${name} and kept._observed_at >= mine._synced_at
     )`,
  )
  const { rows } = await client.query<{ operation: string }>(
    'update tidemark.local_change set run_id = $2 where stream = $1 and run_id is null returning operation',
    [historyOf(stream).name, runId],
  )
  return rows.some(({ operation }) => !['insert', 'update', 'delete'].includes(operation))
}

async function makeTable(client: ClientBase, tableSchema: TableSchema): Promise<TableSchema> {
  const { stream } = tableSchema
  await inOwnTransaction(client, stream, async () => {
    if (!(await hasTable(client, historyOf(stream)))) await createTable(client, tableSchema)
  })
  return (await readTableSchema(client, stream)) ?? tableSchema
}

async function createTable(client: ClientBase, { stream, columns, key }: TableSchema): Promise<void> {
  const table = qualified(historyOf(stream))
  const described = columns.map(({ name, type }) => `${pg.escapeIdentifier(name)} ${type}`)
  await client.query(`
    create table ${table} (
      ${described.join(', ')}, ${definitions(historyColumns)}
    ) partition by range (_observed_at);
    create index on ${table} (${pg.escapeIdentifier(key.name)}, _observed_at);
    create index on ${table} (_observed_at);
    ${closeNewSql(table)};
    comment on table ${table} is ${pg.escapeLiteral(`observed changes of ${stream.name}`)};
    ${columns.map(({ name, field }) => `comment on column ${table}.${pg.escapeIdentifier(name)} is ${fieldComment(field)}`).join(';\n')};
    ${commentsOn(table, historyColumns)}`)
}

/** Shows what earlier versions did not show of the past. */
export async function renewHistories(
  client: ClientBase,
  streams: readonly TableSchema['stream'][],
  log: Logger,
): Promise<void> {
  for (const stream of await formerHistories(client, streams))
    await retryOnLockTimeout(client, qualified(historyOf(stream)), 'show', () =>
      inOwnTransaction(client, stream, async () => {
        await beginAt(client, stream, null)
        await showHistory(client, stream, log)
      }),
    )
}

/** Those whose past is shown as an earlier version did. */
export async function formerHistories<Some extends TableSchema['stream']>(
  client: ClientBase,
  streams: readonly Some[],
): Promise<readonly Some[]> {
  const { rows } = await client.query<{ name: string }>(
    `select name from tidemark.stream
     where name = any ($1) and exists (
       select from pg_class where oid = to_regclass(${tableSql("name || '_history'")}) and relkind in ('r', 'p')
     ) and (history_from is null or ${isFormerSql('name')})`,
    [streams.map(({ name }) => name)],
  )
  const found = new Set(rows.map(({ name }) => name))
  return streams.filter(({ name }) => found.has(name))
}

type Months = { readonly now: Date; readonly names: readonly string[] }

const monthsSql = `array(
       select relname::text from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = to_regclass($1)
     )`

/** The months that have a partition, as `2026_11`. */
const monthsOf = ({ now, names }: Months) => ({
  now,
  months: names.flatMap((name) => /\d{4}_\d{2}$/.exec(name)?.[0] ?? []),
})

/** By the clock that gives rows their time. */
async function readMonths(client: ClientBase, { stream }: TableSchema): Promise<ReturnType<typeof monthsOf>> {
  const sql = `select now() as now, ${monthsSql} as names`
  const found = await queryRow<Months>(client, sql, [qualified(historyOf(stream))])
  if (!found) throw new Error(`Postgres does not say which partitions the history of ${stream.name} has.`)
  return monthsOf(found)
}

/** Apart from the tables: people read the table that the partitions belong to. */
const partitionOf = ({ stream }: TableSchema, month: string): string =>
  inPast({ name: `${historyOf(stream).name}_${month}` })

async function makePartition(client: ClientBase, tableSchema: TableSchema, month: string): Promise<void> {
  const table = qualified(historyOf(tableSchema.stream))
  const partition = partitionOf(tableSchema, month)
  // Attached afterwards, which unlike "partition of" does not wait for those who read the table.
  await retryOnLockTimeout(client, table, 'add a month to', () =>
    inOwnTransaction(client, tableSchema.stream, async () => {
      const { months } = await readMonths(client, tableSchema)
      if (months.includes(month)) return
      await client.query(`
        create table ${partition} (like ${table} including all);
        ${closeNewSql(partition)};
        alter table ${table} attach partition ${partition} for values from (${literal(startOfMonth(month))}) to (${literal(endOf(month))})`)
    }),
  )
}

/** The last state of each living row moves to the start of the next month: a row that never changed since must still show as of then. */
async function dropPartition(
  client: ClientBase,
  tableSchema: TableSchema,
  { month, next, log }: { readonly month: string; readonly next: string; readonly log: Logger },
): Promise<void> {
  const table = qualified(historyOf(tableSchema.stream))
  const partition = partitionOf(tableSchema, month)
  const key = pg.escapeIdentifier(tableSchema.key.name)
  const names = columnsSql(tableSchema.history?.columns ?? [])
  try {
    await inOwnTransaction(client, tableSchema.stream, async () => {
      const { months } = await readMonths(client, tableSchema)
      if (!months.includes(month)) return
      await forgetMonth(client, tableSchema.stream, baseOf(`${historyOf(tableSchema.stream).name}_${month}`))
      await client.query(`
        insert into ${table} (${names}, _observed_at)
        select ${names}, ${literal(startOfMonth(next))} from (
          select distinct on (${key}) * from ${partition} order by ${key}, _observed_at desc
        ) as newest where _deleted_at is null;
        drop table ${partition}`)
      await beginAt(client, tableSchema.stream, startOfMonth(next))
      await showHistory(client, tableSchema.stream, log)
    })
  } catch (error) {
    if (!isLockTimeout(error)) throw error
    log.debug({ partition }, 'somebody reads a month that is to be dropped; the next run tries again')
  }
}

/** In SQL: all rows that were written up to then are as their last line in the history. In an empty one, which may be another, none has a line. */
function comparedSql({ stream }: TableSchema): string {
  const past = qualified(historyOf(stream))
  const noted = `(select history_compared_at from tidemark.stream as its where its.name = ${pg.escapeLiteral(stream.name)})`
  return `coalesce(greatest((select max(_observed_at) from ${past}), case when exists (select from ${past}) then ${noted} end), '-infinity')`
}

/** Found by index. */
const wasWrittenSinceSql = (tableSchema: TableSchema): string =>
  `coalesce((select max(_synced_at) from ${qualified(tableSchema.stream)}) > ${comparedSql(tableSchema)}, false)`

/**
 * In SQL: the rows that were written while no history was kept. One that was only read again is as its last line, and one that is known to be
 * wrong waits for its record.
 */
function laterSql(tableSchema: TableSchema): string {
  const { stream, key, history } = tableSchema
  const past = qualified(historyOf(stream))
  const name = pg.escapeIdentifier(key.name)
  const of = (row: string) => columnsSql(history?.columns ?? [], row)
  return `from ${qualified(stream)} as mine
    left join lateral (
      select * from ${past} as before where before.${name} = mine.${name} order by before._observed_at desc limit 1
    ) as last on true
    where ${wasWrittenSinceSql(tableSchema)} and mine._synced_at > ${comparedSql(tableSchema)}
      and mine._hash <> ${distrustedHash} and (
      last.${name} is null or (last._deleted_at is null) <> (mine._deleted_at is null)
      or (${of('last')}) is distinct from (${of('mine')})
    )`
}

/** Stores rows that were written while no history was kept: the history sees them for the first time now. Returns whether there were any. */
async function catchUp(client: ClientBase, tableSchema: TableSchema): Promise<boolean> {
  const { history } = tableSchema
  if (!history) return false
  const found = await queryRow<{ added: number }>(
    client,
    `with added as (
       insert into ${history.table} (${columnsSql(history.columns)}, _observed_at, _deleted_at)
       select ${columnsSql(history.columns, 'mine')}, now(), mine._deleted_at ${laterSql(tableSchema)}
       returning 1
     ), noted as (
       update tidemark.stream set history_compared_at = (select max(_synced_at) from ${qualified(tableSchema.stream)}) where name = $1
     )
     select count(*)::int as added from added`,
    [tableSchema.stream.name],
  )
  return (found?.added ?? 0) > 0
}

/** Notes from when on the history shows everything; null: from its first line on, if nothing was noted yet. Returns whether that is new. */
async function beginAt(client: ClientBase, stream: TableSchema['stream'], at: Date | 'now' | null) {
  const { rowCount } = await client.query(
    `update tidemark.stream as known set history_from = began.at
     from (
       select case when $2::timestamptz is not null then greatest($2, history_from)
         else coalesce(history_from, (select min(_observed_at) from ${qualified(historyOf(stream))}), now()) end as at
       from tidemark.stream where name = $1
     ) as began
     where name = $1 and history_from is distinct from began.at`,
    [stream.name, at],
  )
  return rowCount === 1
}

/** Runs of several kinds prepare the history of one stream at the same moment: not one after the other, all but one would fail. */
const inOwnTransaction = (
  client: ClientBase,
  { name }: TableSchema['stream'],
  work: () => Promise<unknown>,
): Promise<unknown> =>
  inTransaction(client, async () => {
    await takeTurn(client, `history ${name}`)
    await limitLockWaits(client)
    await work()
  })

const monthOf = (time: Date): string => time.toISOString().slice(0, 7).replace('-', '_')

/** This month and the next one. */
const nextMonths = (now: Date): readonly string[] => [monthOf(now), monthOf(monthAfter(now, 1))]

const endOf = (month: string): Date => monthAfter(startOfMonth(month), 1)

const literal = (time: Date): string => pg.escapeLiteral(time.toISOString())
