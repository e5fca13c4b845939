// How rows differ from the records they came from, value by value: the records are encoded and copied as if they were to be
// written, and Postgres compares. Writes nothing that stays.

import pg, { type ClientBase, type Pool } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import type { Records } from '../../streams/record.ts'
import type { Difference } from '../../sync/ports/audits.ts'
import { createPageEncoder, type EncodePage } from '../encoding/page.ts'
import { qualified } from '../schema/places.ts'
import { readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { queryRows } from '../server/query.ts'
import { withConnection } from '../server/session.ts'
import { differenceSql, type FoundDifference, isOtherSql, toDifference } from '../writing/difference-sql.ts'
import { stagingTable } from '../writing/merge-sql.ts'
import { stagePage } from '../writing/stage-page.ts'

export type Comparison = { compare(page: Records): Promise<readonly Difference[]> }

/** Without a run: how one stream's rows differ from these records now. */
export const compareOnce = (pool: Pool, place: Omit<Place, 'client'>, page: Records) =>
  withConnection(pool, (client) => startComparison({ ...place, client }).compare(page))

type Place = {
  readonly client: ClientBase
  readonly stream: Stream
  /** In which date-times without an offset are read. */
  readonly timeZone: string
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
      const { encoded } = await known.encode(page.rows)
      await stagePage(client, tableSchema, encoded.all, timeZone)
      encoded.release()
      try {
        return (await queryRows<FoundDifference>(client, compareSql(tableSchema))).map(toDifference)
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
  isLocal: false,
  isBack: false,
  isRewound: false,
})

function compareSql(tableSchema: TableSchema): string {
  const key = pg.escapeIdentifier(tableSchema.key.name)
  return `
    select ${differenceSql(tableSchema)}
    from ${stagingTable(tableSchema)} as page
    left join ${qualified(tableSchema.stream)} as mine on mine.${key} = page.${key}
    where mine.${key} is null or ${isOtherSql(tableSchema, 'page')}`
}
