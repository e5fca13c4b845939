// Makes the table of a stream by the upstream's description, before the first record comes: all columns with their types, the view, and
// comments. What the data has made of a table already stays as it is.

import type { ClientBase } from 'pg'
import type { Logger } from '../log.ts'
import type { Reference } from '../store/book/references.ts'
import { foldName, printable } from '../store/schema/column-names.ts'
import { describeTable } from '../store/schema/comments.ts'
import { createTable, type WantedKey } from '../store/schema/create-table.ts'
import { documentedTypes } from '../store/schema/documented-types.ts'
import { growTable } from '../store/schema/grow-table.ts'
import { keepMeaning } from '../store/schema/meaning.ts'
import { getsNoColumn, readTableSchema, type TableSchema } from '../store/schema/table-schema.ts'
import { inTransaction, limitLockWaits, type Queryable, retryOnLockTimeout } from '../store/server/session.ts'
import { type ColumnType, keyType } from '../store/types/table.ts'
import type { MirroredStream } from '../streams/catalog.ts'
import { nothingSaid, wordsOf } from '../streams/dictionary.ts'
import { tableName } from '../streams/names.ts'
import { isComposite } from '../streams/record.ts'
import type { DescribedField, RecordType } from './description.ts'

export type Described = {
  readonly stream: MirroredStream
  readonly type: RecordType
  /** The operator's choice of the key. */
  readonly keyField: string | null
}

export async function makeTable(client: ClientBase, one: Described, log: Logger): Promise<void> {
  await createTable(client, one.stream, await wantedKey(client, one), log)
  // Another attempt is needed if another program has changed the table in between.
  for (let attempt = 0; attempt < mostAttempts; attempt++) if (await addColumns(client, one, log)) break
  await withoutWaiting(client, one.stream, 'describe', async () => {
    await noteFields(client, one)
    await keepMeaning(client, one.stream, log)
    await describeTable(client, one.stream, wordsOf(one.stream.meaning ?? nothingSaid) ?? one.type.describe)
  })
}

/** In a transaction that gives way to whoever reads the table. */
const withoutWaiting = <Result>(
  client: ClientBase,
  { name }: MirroredStream,
  what: string,
  work: () => Promise<Result>,
): Promise<Result> =>
  retryOnLockTimeout(client, tableName(name), what, () =>
    inTransaction(client, async () => {
      await limitLockWaits(client)
      return await work()
    }),
  )

const mostAttempts = 5

/** The key that the data chose, or else the first candidate that is described. A changes stream always has the same. */
async function wantedKey(
  client: ClientBase,
  { stream, type, keyField }: Described,
): Promise<WantedKey | null> {
  if (stream.kind === 'changes') return { field: stream.keyFields[0] ?? '', type: 'bigint' }
  const { rows } = await client.query<{ key_field: string | null }>(
    'select key_field from tidemark.stream where name = $1',
    [stream.name],
  )
  const chosen = rows[0]?.key_field ?? keyField
  const candidates = chosen === null ? stream.keyFields : [chosen]
  for (const candidate of candidates) {
    if (isComposite(candidate)) return { field: candidate, type: 'text' }
    const field = type.fields.find(({ name }) => foldName(name) === foldName(candidate))
    if (field) return { field: field.name, type: keyType(columnTypeOf(field) ?? 'text') }
  }
  return null
}

export const columnTypeOf = ({ name, kind }: Pick<DescribedField, 'name' | 'kind'>): ColumnType | null =>
  kind === null ? null : (documentedTypes({ fieldKinds: { [name]: { kind } } }).get(foldName(name)) ?? null)

/** False: somebody else changed the table meanwhile. */
async function addColumns(client: ClientBase, { stream, type }: Described, log: Logger): Promise<boolean> {
  const tableSchema = await readTableSchema(client, stream)
  if (tableSchema === null) return true
  const fields = missingFields(tableSchema, type)
  if (fields.size === 0) return true
  return await withoutWaiting(client, stream, 'add columns to', () =>
    growTable(client, tableSchema, { fields, widen: new Set() }, log),
  )
}

/** Fewer than a table can have: fields that are not described, but have values, need columns as well. */
const mostDescribedColumns = 250

function missingFields(tableSchema: TableSchema, { fields }: RecordType): Map<string, ColumnType> {
  const known = new Set(tableSchema.columns.map(({ field }) => foldName(field)))
  const missing = fields.flatMap((field) => {
    const type = columnTypeOf(field)
    const isKnown = known.has(foldName(field.name)) || getsNoColumn(tableSchema, field.name)
    return type === null || isKnown ? [] : [[field.name, type] as const]
  })
  return new Map(missing.slice(0, Math.max(0, mostDescribedColumns - tableSchema.takenNames.size)))
}

/** Notes in the dictionary what the description says of each field. A field that is not described any more loses that note. */
async function noteFields(client: ClientBase, { stream, type }: Described): Promise<void> {
  const { fields } = type
  await client.query(
    `with said as (
       select folded, described_as, description, is_required, is_nullable,
         case when allowed is not null then array(select jsonb_array_elements_text(allowed::jsonb)) end as allowed_values
       from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::boolean[])
         as said (folded, described_as, description, allowed, is_required, is_nullable)
     )
     update tidemark.field as known
     set described_as = said.described_as, description = said.description, allowed_values = said.allowed_values,
         is_required = said.is_required, is_nullable = said.is_nullable
     from tidemark.field as mine left join said using (folded)
     where mine.stream = $1 and known.stream = mine.stream and known.folded = mine.folded
       and (known.described_as, known.description, known.allowed_values, known.is_required, known.is_nullable) is distinct from
         (said.described_as, said.description, said.allowed_values, said.is_required, said.is_nullable)`,
    [
      stream.name,
      fields.map(({ name }) => foldName(name)),
      fields.map(({ says }) => printable(says)),
      fields.map(({ describe }) => (describe === null ? null : printable(describe))),
      fields.map(({ values }) => (values === null ? null : JSON.stringify(values.map(printable)))),
      fields.map(({ isRequired }) => isRequired),
      fields.map(({ isNullable }) => isNullable),
    ],
  )
}

/** Which columns of these streams refer to which views; all others refer to none. */
export async function noteReferences(
  client: Queryable,
  streams: readonly string[],
  references: readonly Reference[],
): Promise<void> {
  await client.query(
    `update tidemark.field as known set refers_to = found.to_view, reference_share = found.share
     from tidemark.field as mine
     left join unnest($2::text[], $3::text[], $4::text[], $5::numeric[]) as found (from_stream, column_name, to_view, share)
       on found.from_stream = mine.stream and found.column_name = mine.column_name
     where mine.stream = any ($1) and known.stream = mine.stream and known.folded = mine.folded
       and (known.refers_to, known.reference_share) is distinct from (found.to_view, trunc(found.share, 4))`,
    [
      streams,
      references.map(({ from }) => from),
      references.map(({ column }) => column),
      references.map(({ to }) => to),
      references.map(({ share }) => share),
    ],
  )
}
