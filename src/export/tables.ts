// Writes tables of the mirror into files of one directory, all as of one moment: whole, or what changed since a position of the feed.

import { open, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import pg, { type ClientBase, type Pool } from 'pg'
import { baseSql, qualified, schemaSql } from '../store/schema/places.ts'
import { readTableSchema, type TableSchema } from '../store/schema/table-schema.ts'
import { withConnection } from '../store/server/session.ts'
import type { ColumnType } from '../store/types/table.ts'
import type { MirroredStream } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { asUnwritable, makeFolder } from '../util/files.ts'
import { copyOut, rowsIn } from './copy-out.ts'
import { mostDigits, openParquet, type ParquetColumn } from './parquet.ts'

export const exportFormats = ['csv', 'parquet'] as const
export type ExportFormat = (typeof exportFormats)[number]

type Column = ParquetColumn & { readonly field: string | null; readonly description: string | null }
/** What `manifest.json` holds. */
export type Manifest = Awaited<ReturnType<typeof exportTables>>

type Options = {
  readonly pool: Pool
  readonly directory: string
  readonly streams: readonly MirroredStream[]
  readonly format: ExportFormat
  readonly since: string | null
  readonly signal: AbortSignal
}

/** The directory is there when everything is in it, and not before. Streams without a table are left out. */
export async function exportTables(options: Options) {
  const directory = resolve(options.directory)
  const partial = join(dirname(directory), `.${basename(directory)}.tidemark-export`)
  try {
    // Known before the work, and not only after it.
    const there = await readdir(directory).catch((error) => {
      if (error.code !== 'ENOENT') throw error
      return []
    })
    if (there.length > 0) throw new UsageError(isNotEmpty(options.directory))
    await rm(partial, { recursive: true, force: true })
    await makeFolder(partial)
    const manifest = await withConnection(options.pool, (client) => exportInto(client, partial, options))
    await writeFile(join(partial, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
    await rename(partial, directory)
    return manifest
  } catch (error) {
    // What the operating system says of the directory.
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (['ENOTEMPTY', 'EEXIST'].includes(code)) throw new UsageError(isNotEmpty(options.directory))
    throw asUnwritable(error, options.directory)
  } finally {
    await rm(partial, { recursive: true, force: true }).catch(() => {})
  }
}

const isNotEmpty = (directory: string) => `${directory} is there already and not empty: name a new directory.`

async function exportInto(client: ClientBase, partial: string, options: Options) {
  const { streams, format, since, signal } = options
  // The first question within the transaction takes its snapshot.
  const there = await tablesOf(client, streams)
  await client.query(
    `begin transaction isolation level repeatable read read only; set local timezone = 'UTC'`,
  )
  // Before the snapshot: a table whose columns are changed behind it would look empty in it.
  if (there.length > 0)
    await client.query(`lock table ${there.map((one) => qualified(one)).join(', ')} in access share mode`)
  const { rows } = await client.query<{ position: string; at: Date; is_known: boolean }>(
    `select tidemark.feed_position()::text as position, now() as at, coalesce($1::xid8 <= tidemark.feed_position(), true) as is_known`,
    [since],
  )
  const { position = '', at = new Date(), is_known: isKnown = true } = rows[0] ?? {}
  if (!isKnown)
    throw new UsageError(
      `--since ${since} is above the position of the feed, which is ${position}: the database was restored, or is another one. Export it whole, without --since.`,
    )
  const tables = []
  for (const stream of there) {
    signal.throwIfAborted()
    const tableSchema = await readTableSchema(client, stream)
    if (!tableSchema) continue
    const columns = await columnsOf(client, tableSchema, format)
    const file = `${stream.name}.${format}`
    const count = await writeTable(client, join(partial, file), { tableSchema, columns, options })
    tables.push({
      stream: stream.name,
      file,
      rows: count,
      key: tableSchema.key.name,
      // The type as Postgres calls it; the field as the upstream does: Tidemark's own columns have none.
      columns: columns.map(({ name, type, field, description }) => ({ name, type, field, description })),
    })
  }
  await client.query('commit')
  // The next export goes on at the position: it is what `--since` takes. Without `since` the tables are whole.
  return { format, position, since, exported_at: at.toISOString(), tables }
}

async function tablesOf(
  client: ClientBase,
  streams: readonly MirroredStream[],
): Promise<readonly MirroredStream[]> {
  const names = streams.map(({ name }) => name)
  const { rows } = await client.query<{ name: string }>(
    `select name from unnest($1::text[]) as wanted (name)
     join pg_tables on schemaname = ${schemaSql('name')} and tablename = ${baseSql('name')}`,
    [names],
  )
  // A related record that also has a list of its own is one table.
  return streams.filter(
    ({ name }, index) => rows.some((row) => row.name === name) && names.indexOf(name) === index,
  )
}

const own: readonly (readonly [string, ColumnType])[] = [
  ['_first_seen_at', 'timestamptz'],
  ['_synced_at', 'timestamptz'],
  ['_deleted_at', 'timestamptz'],
  ['_deleted_reason', 'text'],
  ['_rescued', 'jsonb'],
]

async function columnsOf(
  client: ClientBase,
  { stream, key, columns }: TableSchema,
  format: ExportFormat,
): Promise<readonly Column[]> {
  const { rows } = await client.query<{ name: string; words: string | null }>(
    'select attname as name, col_description(attrelid, attnum) as words from pg_attribute where attrelid = to_regclass($1) and attnum > 0',
    [qualified(stream)],
  )
  const described = new Map(rows.map(({ name, words }) => [name, words]))
  const decimals = columns.filter(({ type }) => type === 'numeric').map(({ name }) => name)
  const scales = format === 'parquet' ? await scalesOf(client, qualified(stream), decimals) : new Map()
  return [
    ...columns.map(({ name, type, field }) => ({ name, type, field })),
    ...own.map(([name, type]) => ({ name, type, field: null })),
  ].map((column) => ({
    ...column,
    description: described.get(column.name) ?? null,
    isRequired: column.name === key.name,
    scale: scales.get(column.name) ?? null,
  }))
}

/** Of the whole table, so that exports of what changed mostly have the same types. */
async function scalesOf(
  client: ClientBase,
  table: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, number | null>> {
  if (names.length === 0) return new Map()
  const scale = (name: string) =>
    `(select case when bool_or(value in ('NaN', 'Infinity', '-Infinity')) then null
       when coalesce(max(length(trunc(abs(value))::text)), 0) + coalesce(max(scale(trim_scale(value))), 0) <= ${mostDigits}
       then coalesce(max(scale(trim_scale(value))), 0) end
     from (select ${pg.escapeIdentifier(name)} as value from ${table}) as them)`
  const { rows } = await client.query<(number | null)[]>({
    text: `select ${names.map(scale).join(', ')}`,
    rowMode: 'array',
  })
  return new Map(names.map((name, index) => [name, rows[0]?.[index] ?? null]))
}

type Writing = {
  readonly tableSchema: TableSchema
  readonly columns: readonly Column[]
  readonly options: Options
}

/** Returns how many rows. */
async function writeTable(
  client: ClientBase,
  path: string,
  { tableSchema, columns, options: { format, since, signal } }: Writing,
): Promise<number> {
  const isText = ({ type, scale }: Column) => format === 'parquet' && type === 'numeric' && scale === null
  const selected = columns.map((column) => {
    const name = pg.escapeIdentifier(column.name)
    return isText(column) ? `${name}::text` : name
  })
  const rowsSql = `select ${selected.join(', ')} from ${qualified(tableSchema.stream)}
    where ${since === null ? '_deleted_at is null' : `_xid >= ${pg.escapeLiteral(since)}::xid8`}`
  await using file = await open(path, 'wx')
  const write = (bytes: Buffer) => file.writeFile(bytes)
  let count = 0
  if (format === 'csv') {
    for await (const messages of copyOut(client, `copy (${rowsSql}) to stdout (format csv, header)`)) {
      signal.throwIfAborted()
      count += messages.length
      await write(Buffer.concat(messages))
    }
    // The header is no row.
    count--
  } else {
    const parquet = await openParquet(columns, write)
    let isFirst = true
    for await (const messages of copyOut(client, `copy (${rowsSql}) to stdout (format binary)`)) {
      signal.throwIfAborted()
      for (const cells of rowsIn(messages, isFirst)) {
        await parquet.add(cells)
        count++
      }
      isFirst = false
    }
    await parquet.end()
  }
  await file.sync()
  return count
}
