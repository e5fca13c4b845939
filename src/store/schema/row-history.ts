// The past of a stream's rows: one row for each change that was seen, in a table partitioned by month. The statement that
// writes the rows themselves fills it (P1); its partitions are made and dropped here, by whoever writes.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { inTransaction, limitLockWaits, retryOnLockTimeout, takeTurn } from '../server/session.ts'
import { isShownAsOf, showAsOf } from './as-of.ts'
import { closeNewSql } from './closed-rights.ts'
import { fieldComment } from './column-names.ts'
import { hasTable } from './create-table.ts'
import { commentsOn, definitions, historyColumns } from './own-columns.ts'
import { historyOf, qualified, readTableSchema, type TableSchema } from './table-schema.ts'
import { showVehicleDays } from './vehicle-days.ts'
import { historyViewOf, showColumns } from './views.ts'
import { forgetMonth, watchHistory } from './watch-history.ts'

/** The part of a statement that stores the rows of a CTE, which returns `mine as written`, in the history. Empty where none is kept. */
export const keepingSql = (tableSchema: TableSchema, written: string): string =>
  historyMsOf(tableSchema.stream) === null ? '' : linesSql(tableSchema, written)

/** The same for those who do not know the settings: a history that has room for this month is kept. */
export async function keepingWhereKept(
  client: ClientBase,
  tableSchema: TableSchema,
  written: string,
): Promise<string> {
  if (!tableSchema.history) return ''
  const { months, now } = await readMonths(client, tableSchema)
  return months.includes(monthAfter(now, 0)) ? linesSql(tableSchema, written) : ''
}

function linesSql({ key, history }: TableSchema, written: string): string {
  if (!history) return ''
  const names = history.columns.map(pg.escapeIdentifier)
  const name = pg.escapeIdentifier(key.name)
  // The time at which the row is locked, not that at which the transaction began: another one may have begun later and written the row
  // first. And always after the line before, also when the clock was put back.
  const observed = `greatest(clock_timestamp(), (
        select max(before._observed_at) + interval '1 microsecond' from ${history.table} as before
        where before.${name} = (written).${name} and before._observed_at >= now()
      ))`
  return `, kept as (
      insert into ${history.table} (${[...names, '_observed_at', '_deleted_at'].join(', ')})
      select ${names.map((column) => `(written).${column}, `).join('')}${observed}, (written)._deleted_at from ${written}
    )`
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
  const watching = {
    log,
    inTransaction: (work: () => Promise<void>) => inOwnTransaction(client, stream, work),
  }
  // Before anything is made anew, so that damage is noticed (P15).
  const isDamaged = await watchHistory(client, stream, watching)
  const known = isDamaged ? ((await readTableSchema(client, stream)) ?? tableSchema) : tableSchema
  const made = known.history ? known : await makeTable(client, known, log)
  const { months, now } = await readMonths(client, made)
  const wanted = [0, 1].map((ahead) => monthAfter(now, ahead))
  for (const month of wanted) if (!months.includes(month)) await makePartition(client, made, month)
  const all = [...new Set([...months, ...wanted])].sort()
  for (const [index, month] of all.entries()) {
    const next = all[index + 1]
    if (next === undefined || endOf(month) > now.getTime() - keptMs) break
    await dropPartition(client, made, { month, next, log })
  }
  await inOwnTransaction(client, stream, async () => {
    if (!(await isShownAsOf(client, stream))) await showAsOf(client, stream, made.key.name, log)
    await showVehicleDays(client, made, timeZone, log)
    await catchUp(client, made)
    if (isDamaged) await actUpon(client, made, runId)
  })
  await watchHistory(client, stream, watching)
  return made
}

/** What was lost cannot be brought back, but the rows as they are now are stored in it again. */
async function actUpon(
  client: ClientBase,
  { stream, key, history }: TableSchema,
  runId: string,
): Promise<void> {
  if (!history) return
  const names = history.columns.map(pg.escapeIdentifier).join(', ')
  const name = pg.escapeIdentifier(key.name)
  await client.query(
    `insert into ${history.table} (${names}, _observed_at, _deleted_at)
     select ${names}, now(), _deleted_at from ${qualified(stream)} as mine
     where not exists (
       select from ${history.table} as kept where kept.${name} = mine.${name} and kept._observed_at >= mine._synced_at
     )`,
  )
  await client.query('update tidemark.local_change set run_id = $2 where stream = $1 and run_id is null', [
    historyOf(stream).name,
    runId,
  ])
}

async function makeTable(client: ClientBase, tableSchema: TableSchema, log: Logger): Promise<TableSchema> {
  const { stream } = tableSchema
  await inOwnTransaction(client, stream, async () => {
    if (!(await hasTable(client, historyOf(stream)))) await createTable(client, tableSchema, log)
  })
  return (await readTableSchema(client, stream)) ?? tableSchema
}

async function createTable(
  client: ClientBase,
  { stream, columns, key }: TableSchema,
  log: Logger,
): Promise<void> {
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
  await showColumns(
    client,
    historyViewOf(stream),
    columns.map(({ name }) => name),
    log,
  )
}

type Months = { readonly months: readonly string[]; readonly now: Date }

/** The months that have a partition, as `2026_11`, by the clock that gives rows their time. */
async function readMonths(client: ClientBase, { stream }: TableSchema): Promise<Months> {
  const { rows } = await client.query<{ now: Date; names: readonly string[] }>(
    `select now() as now, array(
       select relname::text from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = to_regclass($1)
     ) as names`,
    [qualified(historyOf(stream))],
  )
  const [found] = rows
  if (!found) throw new Error(`Postgres does not say which partitions the history of ${stream.name} has.`)
  return { now: found.now, months: found.names.flatMap((name) => /\d{4}_\d{2}$/.exec(name)?.[0] ?? []) }
}

/** In schema `tidemark`: people read the table that the partitions belong to. */
const partitionOf = ({ stream }: TableSchema, month: string): string =>
  `tidemark.${pg.escapeIdentifier(`${historyOf(stream).name}_${month}`)}`

async function makePartition(client: ClientBase, tableSchema: TableSchema, month: string): Promise<void> {
  const table = qualified(historyOf(tableSchema.stream))
  const partition = partitionOf(tableSchema, month)
  const [from, to] = [startOf(month), endOf(month)]
  // Attached afterwards, which unlike "partition of" does not wait for those who read the table.
  await retryOnLockTimeout(client, table, 'add a month to', () =>
    inOwnTransaction(client, tableSchema.stream, async () => {
      const { months } = await readMonths(client, tableSchema)
      if (months.includes(month)) return
      await client.query(`
        create table ${partition} (like ${table} including all);
        ${closeNewSql(partition)};
        alter table ${table} attach partition ${partition} for values from (${literal(from)}) to (${literal(to)})`)
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
  const names = (tableSchema.history?.columns ?? []).map(pg.escapeIdentifier).join(', ')
  try {
    await inOwnTransaction(client, tableSchema.stream, async () => {
      const { months } = await readMonths(client, tableSchema)
      if (!months.includes(month)) return
      await forgetMonth(client, tableSchema.stream, `${historyOf(tableSchema.stream).name}_${month}`)
      await client.query(`
        insert into ${table} (${names}, _observed_at)
        select ${names}, ${literal(startOf(next))} from (
          select distinct on (${key}) * from ${partition} order by ${key}, _observed_at desc
        ) as newest where _deleted_at is null;
        drop table ${partition}`)
    })
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && error.code === '55P03')) throw error
    log.debug({ partition }, 'somebody reads a month that is to be dropped; the next run tries again')
  }
}

/** Stores rows that were written while no history was kept: the history sees them for the first time now. */
async function catchUp(client: ClientBase, { stream, history }: TableSchema): Promise<void> {
  if (!history) return
  const names = history.columns.map(pg.escapeIdentifier).join(', ')
  await client.query(
    `insert into ${history.table} (${names}, _observed_at, _deleted_at)
     select ${names}, now(), _deleted_at from ${qualified(stream)}
     where _synced_at > coalesce((select max(_observed_at) from ${history.table}), '-infinity')`,
  )
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

function monthAfter(time: Date, months: number): string {
  const start = new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + months, 1))
  return start.toISOString().slice(0, 7).replace('-', '_')
}

const startOf = (month: string): number => Date.parse(`${month.replace('_', '-')}-01T00:00:00Z`)

const endOf = (month: string): number => startOf(monthAfter(new Date(startOf(month)), 1))

const literal = (timeMs: number): string => pg.escapeLiteral(new Date(timeMs).toISOString())
