// Gives a table the columns that its data needs, inside the transaction of the page that brought them. Nothing is ever dropped. Of
// types, only bigint becomes numeric, a column that never held a value gets the type of the first, and that of a row version becomes a
// number. A history table grows with it.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { mostUnplaced } from '../../streams/field-types.ts'
import { arraysOf, queryRow } from '../server/query.ts'
import { changeTable, hasCode, unlessRefused } from '../server/session.ts'
import { isInt64Sql } from '../types/numeric.ts'
import type { ColumnType } from '../types/table.ts'
import { showColumns, withoutView } from './change-view.ts'
import { columnName, fieldComment, foldName, printable } from './column-names.ts'
import { showHistory, withoutHistory } from './history-views.ts'
import { keepMeaning } from './meaning.ts'
import { qualified } from './places.ts'
import {
  type Column,
  isNumber,
  maxColumns,
  partIndexSql,
  readTableSchema,
  type TableSchema,
  versionFields,
} from './table-schema.ts'
import { viewOf } from './views.ts'

export type Growth = {
  /** New fields and the type that their values ask for. */
  readonly fields: ReadonlyMap<string, ColumnType>
  /** Names of bigint columns that met a number they cannot hold. */
  readonly widen: ReadonlySet<string>
  /** Names of columns that never held a value, and the type that the first ones ask for. */
  readonly retype?: ReadonlyMap<string, ColumnType>
}

/** Returns false, and has changed nothing, when another program changed the columns since the shape was read. */
export async function growTable(
  client: ClientBase,
  tableSchema: TableSchema,
  growth: Growth,
  log: Logger,
): Promise<boolean> {
  // The row's lock keeps others from growing the same table.
  const { rowCount } = await client.query(
    'update tidemark.stream set columns_version = columns_version + 1 where name = $1 and columns_version = $2',
    [tableSchema.stream.name, tableSchema.version],
  )
  if (rowCount === 0) return false
  const added = await addColumns(client, tableSchema, growth.fields)
  await widenColumns(client, tableSchema, growth.widen)
  await retypeColumns(client, tableSchema, growth)
  if (added.length === 0) return true
  await showColumns(client, viewOf(tableSchema.stream), added, log)
  if (tableSchema.stream.meaning) await keepMeaning(client, tableSchema.stream, log)
  if (tableSchema.history) await fitHistory(client, tableSchema.stream, log)
  await showHistory(client, tableSchema.stream, log)
  return true
}

const tablesOf = (tableSchema: TableSchema): readonly string[] =>
  tableSchema.history
    ? [qualified(tableSchema.stream), tableSchema.history.table]
    : [qualified(tableSchema.stream)]

/** Returns the names of the new columns. */
async function addColumns(client: ClientBase, tableSchema: TableSchema, fields: Growth['fields']) {
  const tables = tablesOf(tableSchema)
  const owners = new Map(tableSchema.columns.map((column) => [column.name, column.field]))
  const statements: string[] = []
  const added: string[] = []
  const described: Described[] = []
  let unplacedLeft = mostUnplaced - tableSchema.unplaced.size
  for (const [field, type] of versionsFirst(tableSchema, fields)) {
    const name = columnName(field)
    const reason = placingProblem(tableSchema, owners, added, name)
    if (reason === null) {
      const column = pg.escapeIdentifier(name)
      for (const table of tables)
        statements.push(
          // A history table may have the column already: it stays when somebody drops the stream's table to have it filled anew.
          `alter table ${table} add column ${table === tableSchema.history?.table ? 'if not exists ' : ''}${column} ${type}`,
          `comment on column ${table}.${column} is ${fieldComment(field)}`,
        )
      const partIndex = partIndexSql(tableSchema.stream, tableSchema.key.field, { name, field })
      if (partIndex !== null) statements.push(partIndex)
      owners.set(name, field)
      added.push(name)
    } else if (unplacedLeft-- <= 0) continue
    const place = reason === null ? { name, type } : { name: null, type: null }
    described.push({ ...place, field: printable(field), folded: foldName(field), note: reason })
  }
  await describeFields(client, tableSchema, described)
  statements.push(...versionIndexes(tableSchema, owners, added))
  if (statements.length > 0) await client.query(statements.join(';\n'))
  return added
}

/** Version fields come first, so that no other field takes their name or the last place: without them older rows could win (P3). */
const versionsFirst = (tableSchema: TableSchema, fields: Growth['fields']) => {
  const isVersion = ([field]: readonly [string, ColumnType]) =>
    versionFields(tableSchema.stream).includes(foldName(field))
  return [...fields].toSorted((one, other) => Number(isVersion(other)) - Number(isVersion(one)))
}

/** The row version is the first version field that is not null, so the others are only looked up where that one is. */
function versionIndexes(
  tableSchema: TableSchema,
  owners: ReadonlyMap<string, string>,
  added: readonly string[],
): string[] {
  const columnOf = new Map([...owners].map(([name, field]) => [foldName(field), name]))
  const present = versionFields(tableSchema.stream).flatMap((field) => columnOf.get(field) ?? [])
  const names = present.map(pg.escapeIdentifier)
  return present.flatMap((name, index) => {
    if (!added.includes(name)) return []
    const others = names.slice(0, index).map((earlier) => `${earlier} is null`)
    const condition = others.length > 0 ? ` where ${others.join(' and ')}` : ''
    return [`create index on ${qualified(tableSchema.stream)} (${names[index]})${condition}`]
  })
}

function placingProblem(
  tableSchema: TableSchema,
  owners: ReadonlyMap<string, string>,
  added: readonly string[],
  name: string,
): string | null {
  const owner = owners.get(name)
  if (owner !== undefined) return `its column would be ${name}, which is that of field ${printable(owner)}`
  if (tableSchema.takenNames.has(name))
    return `its column would be ${name}, which somebody else added to the table`
  if (tableSchema.takenNames.size + added.length >= maxColumns)
    return `the table has ${maxColumns} columns already`
  return null
}

type Described = {
  readonly folded: string
  readonly field: string
  /** Of its column; null: it gets none. */
  readonly name: string | null
  readonly type: ColumnType | null
  readonly note: string | null
}

/** In the data dictionary. */
async function describeFields(client: ClientBase, { stream }: TableSchema, fields: readonly Described[]) {
  // Two fields may fold to one name: the last one holds.
  const all = [...new Map(fields.map((one) => [one.folded, one])).values()]
  if (all.length === 0) return
  await client.query(
    `insert into tidemark.field (stream, folded, source_name, column_name, column_type, note)
     select $1, * from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
     on conflict (stream, folded) do update
     set source_name = excluded.source_name, column_name = excluded.column_name, column_type = excluded.column_type, note = excluded.note`,
    [stream.name, ...arraysOf(all, 'folded', 'field', 'name', 'type', 'note')],
  )
}

/**
 * Gives columns of the history the types that those of the table have now: it has others where somebody dropped the table, or a column of
 * it, to have it filled anew. What cannot be of the new type stays in a column beside it.
 */
async function fitHistory(client: ClientBase, stream: TableSchema['stream'], log: Logger): Promise<void> {
  const tableSchema = await readTableSchema(client, stream)
  const kept = tableSchema?.history?.columns ?? []
  const others = tableSchema?.columns.filter(({ name }) => !kept.includes(name)) ?? []
  if (!tableSchema?.history || others.length === 0) return
  const { table } = tableSchema.history
  const fit = () =>
    withoutHistory(client, tableSchema, async () => {
      for (const column of others) await fitColumn(client, table, column)
    })
  if (await unlessRefused(client, 'fitting', fit, isDependedUpon))
    log.warn(
      { table, columns: others.map(({ name }) => name) },
      'These columns have another type in the history than in their table, so no more values of them are kept there: a view or another object depends on them. Drop that object, then the table once more.',
    )
}

async function fitColumn(client: ClientBase, table: string, { name, type, field }: Column): Promise<void> {
  const column = pg.escapeIdentifier(name)
  const { rows: kept } = await client.query<{ name: string; isJson: boolean }>(
    `select attname as name, atttypid = 'jsonb'::regtype as "isJson" from pg_attribute where attrelid = to_regclass($1) and not attisdropped`,
    [table],
  )
  // What is nested in it may have to be found again (P20).
  const isJson = kept.some((one) => one.name === name && one.isJson)
  const convertSql = `alter table ${table} alter column ${column} type ${type} using ${column}::text::${type}`
  const convert = () => client.query(convertSql)
  if (!isJson && !(await unlessRefused(client, 'converting', convert, isOfOtherType))) return
  // Whatever is done to the field by its name is done to this one, too.
  let beside = `${name}_`
  while (kept.some((one) => one.name === beside)) beside += '_'
  await client.query(
    `alter table ${table} rename column ${column} to ${pg.escapeIdentifier(beside)};
     alter table ${table} add column ${column} ${type};
     comment on column ${table}.${column} is ${fieldComment(field)}`,
  )
}

/** A value cannot be of that type. */
const isOfOtherType = (error: unknown): error is pg.DatabaseError => hasCode(error, /^22/)

async function widenColumns(client: ClientBase, tableSchema: TableSchema, names: ReadonlySet<string>) {
  for (const name of names)
    await changeType(client, tableSchema, name, { from: 'bigint', to: 'numeric', using: '', note: null })
}

/** The upstream's description gave a field another type than its values have. The column is still empty, so no value can be lost. */
async function retypeColumns(client: ClientBase, tableSchema: TableSchema, { retype }: Growth) {
  for (const [name, to] of retype ?? []) {
    const column = pg.escapeIdentifier(name)
    const from = tableSchema.columns.find((one) => one.name === name)?.type ?? to
    const filled = tablesOf(tableSchema).map(
      (table) => `exists (select from ${table} where ${column} is not null)`,
    )
    const found = await queryRow<{ has_values: boolean }>(
      client,
      `select ${filled.join(' or ')} as has_values`,
    )
    if (found?.has_values) continue
    const note = `its values are ${to}, although the upstream says otherwise`
    await changeType(client, tableSchema, name, { from, to, using: ` using null::${to}`, note })
  }
}

/**
 * Makes the columns of row versions numbers. A field that became the row version later may have come as text before, perhaps as bytes in
 * base64. What is no row version goes to `_rescued`.
 */
export async function numberVersions(client: ClientBase, before: TableSchema): Promise<TableSchema> {
  const { stream } = before
  const table = qualified(stream)
  if (textVersions(before).length === 0) return before
  return await changeTable(client, table, 'change the columns of', async () => {
    await client.query('update tidemark.stream set columns_version = columns_version + 1 where name = $1', [
      stream.name,
    ])
    const tableSchema = (await readTableSchema(client, stream)) ?? before
    for (const { name, type: from, field } of textVersions(tableSchema)) {
      const column = pg.escapeIdentifier(name)
      const version = versionOfTextSql(`${column}::text`)
      await client.query(
        `update ${table} set _rescued = coalesce(_rescued, '{}') || jsonb_build_object($1::text, ${column})
         where ${column} is not null and ${version} is null`,
        [field],
      )
      const change = { from, to: 'bigint', using: ` using ${version}`, note: null } as const
      if (!(await changeType(client, tableSchema, name, change)))
        throw new Error(
          `Column ${name} of ${table} holds the row version as ${from}, and cannot become a number because a view or another object depends on it. Drop that object; the next run goes on.`,
        )
      await client.query(`create index on ${table} (${column})`)
    }
    return (await readTableSchema(client, stream)) ?? tableSchema
  })
}

const textVersions = ({ stream, columns }: TableSchema) =>
  columns.filter((column) => versionFields(stream).includes(foldName(column.field)) && !isNumber(column))

/** The same as `toVersion` makes of it; null where it is none. */
const versionOfTextSql = (text: string): string =>
  `(case when ${isInt64Sql(text)} and ${text} !~ '^-' then (${text})::bigint
    when ${text} ~ '^[A-Za-f][A-Za-z0-9+/]{10}=$' then ('x' || encode(decode(${text}, 'base64'), 'hex'))::bit(64)::bigint end)`

type TypeChange = {
  readonly from: ColumnType
  readonly to: ColumnType
  readonly using: string
  readonly note: string | null
}

/** Returns false when something depends on the column. */
export async function changeType(
  client: ClientBase,
  tableSchema: TableSchema,
  name: string,
  change: TypeChange,
): Promise<boolean> {
  const { from, to, using, note } = change
  const column = pg.escapeIdentifier(name)
  const alter = () =>
    withoutHistory(client, tableSchema, () =>
      withoutView(client, viewOf(tableSchema.stream), async () => {
        for (const table of tablesOf(tableSchema))
          await client.query(`alter table ${table} alter column ${column} type ${to}${using}`)
      }),
    )
  const isChanged = (await unlessRefused(client, 'widening', alter, isDependedUpon)) === null
  await client.query(
    `update tidemark.field
     set column_type = $3, note = $4,
         widened_at = case when (column_type, note) is distinct from ($3, $4) then now() else widened_at end
     where stream = $1 and column_name = $2`,
    [
      tableSchema.stream.name,
      name,
      isChanged ? to : from,
      isChanged
        ? note
        : `should be ${to}, but a view or another object depends on the column; values that do not fit are in _rescued`,
    ],
  )
  return isChanged
}

/** Somebody's view, rule or generated column depends on the column, or on our view. */
const isDependedUpon = (error: unknown): error is pg.DatabaseError => hasCode(error, /^(?:2BP01|0A000)$/)
