// How rows differ from the records they came from, value by value: the records are encoded and copied as if they were to be
// written, and Postgres compares. Writes nothing that stays.

import pg, { type ClientBase, type Pool } from 'pg'
import type { Logger } from '../../log.ts'
import type { Stream } from '../../streams/catalog.ts'
import type { Records } from '../../streams/record.ts'
import type { Difference } from '../../sync/ports/store.ts'
import { createPageEncoder, type EncodePage } from '../encoding/page.ts'
import { qualified, readTableSchema, type TableSchema, versionSql } from '../schema/table-schema.ts'
import { withConnection } from '../server/session.ts'
import { stagingTable } from '../writing/merge-sql.ts'
import { stagePage } from '../writing/stage-page.ts'

export type Comparison = { compare(page: Records): Promise<readonly Difference[]> }

/** Without a run: how one stream's rows differ from these records now. */
export const compareOnce = (
  pool: Pool,
  place: Omit<Place, 'client'>,
  page: Records,
): Promise<readonly Difference[]> =>
  withConnection(pool, (client) => startComparison({ ...place, client }).compare(page))

type Place = {
  readonly client: ClientBase
  readonly stream: Stream
  /** Of date-times without an offset. */
  readonly timeZone: string
  readonly log: Logger
}

export function startComparison({ client, stream, timeZone }: Place): Comparison {
  let known: { readonly tableSchema: TableSchema; readonly encode: EncodePage } | null = null

  return {
    async compare(page) {
      if (page.rows.length === 0) return []
      const tableSchema = await readTableSchema(client, stream)
      if (!tableSchema) return page.rows.map(({ key, version }) => missing(key, version, null))
      if (known?.tableSchema.version !== tableSchema.version)
        // Where the table lacks a column, the value counts as one that no column takes.
        known = { tableSchema, encode: createPageEncoder(tableSchema, new Set()) }
      const encoded = await known.encode(page.rows)
      await stagePage(client, tableSchema, encoded, timeZone)
      try {
        const { rows } = await client.query<Found>(compareSql(tableSchema))
        return rows.map(toDifference)
      } finally {
        await client.query('rollback')
      }
    },
  }
}

const missing = (key: string, version: bigint | null, record: string | null): Difference => ({
  key,
  kind: 'missing',
  columns: [],
  version,
  mirrored: null,
  record,
})

type Found = {
  readonly key: string
  readonly version: string | null
  readonly mirrored: string | null
  readonly record: string
  readonly is_same_record: boolean
  readonly is_missing: boolean
  readonly is_deletion: boolean
  readonly columns: readonly string[]
  readonly rescued: readonly string[]
}

function toDifference(found: Found): Difference {
  const version = found.version === null ? null : BigInt(found.version)
  const mirrored = found.mirrored === null ? null : BigInt(found.mirrored)
  if (found.is_missing) return missing(found.key, version, found.record)
  const isStale = version === null ? !found.is_same_record : mirrored !== null && version > mirrored
  const columns = [
    ...found.columns,
    ...found.rescued.map((field) => `_rescued.${field}`),
    ...(found.is_deletion ? ['_deleted_at'] : []),
  ]
  const kind = isStale ? 'stale' : 'content'
  return { key: found.key, kind, columns, version, mirrored, record: found.record }
}

function compareSql(tableSchema: TableSchema): string {
  const key = pg.escapeIdentifier(tableSchema.key.name)
  const compared = tableSchema.columns.filter((column) => column !== tableSchema.key)
  const isOther = compared.map(({ name }) => {
    const column = pg.escapeIdentifier(name)
    return { name, sql: `page.${column} is distinct from mine.${column}` }
  })
  const names = isOther.map(({ name, sql }) => `case when ${sql} then ${pg.escapeLiteral(name)} end`)
  const isDeletion = '(page._deleted_at is null) <> (mine._deleted_at is null)'
  const isOtherRescued = 'page._rescued is distinct from mine._rescued'
  return `
    select page.${key}::text as key, (${versionSql(tableSchema, 'page') ?? 'null'})::text as version,
      (${versionSql(tableSchema, 'mine') ?? 'null'})::text as mirrored,
      encode(page._hash, 'hex') as record, page._hash = mine._hash as is_same_record,
      mine.${key} is null as is_missing, ${isDeletion} as is_deletion,
      array_remove(array[${names.join(', ')}]::text[], null) as columns,
      array(
        select key from jsonb_each(coalesce(page._rescued, '{}')) as theirs (key, value)
        full join jsonb_each(coalesce(mine._rescued, '{}')) as ours (key, value) using (key)
        where theirs.value is distinct from ours.value order by key
      ) as rescued
    from ${stagingTable} as page
    left join ${qualified(tableSchema.stream)} as mine on mine.${key} = page.${key}
    where mine.${key} is null or ${[isDeletion, isOtherRescued, ...isOther.map(({ sql }) => sql)].join(' or ')}`
}
