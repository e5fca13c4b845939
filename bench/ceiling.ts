// What one connection can do at best: pages that were encoded beforehand, copied into the temporary table and merged by the
// statements of the mirror, and nothing else.

import { createPageEncoder, type EncodedPage } from '../src/store/encoding/page.ts'
import { readTableSchema, type TableSchema } from '../src/store/schema/table-schema.ts'
import type { Database } from '../src/store/server/connect.ts'
import { mergePage, stagePage } from '../src/store/writing/stage-page.ts'
import { knownStreams as streams } from '../src/streams/catalog.ts'
import { writeThroughStore } from './mirror-writes.ts'
import { type Pages, pageSize } from './records.ts'

export type Ceiling = { readonly tableSchema: TableSchema; readonly encoded: readonly EncodedPage[] }

/** Leaves the table of the bench in the database, empty. */
export async function prepareCeiling(database: Database, pages: Pages, rowCount: number): Promise<Ceiling> {
  await writeThroughStore(database, 1, pages(0, pageSize, 1))
  const tableSchema = await readTableSchema(database.pool, streams[0])
  if (!tableSchema) throw new Error('the table of the bench was not made')
  const encode = createPageEncoder(tableSchema, new Set())
  const encoded: EncodedPage[] = []
  for (const page of pages(0, rowCount, 1)) encoded.push(await encode(page.rows))
  return { tableSchema, encoded }
}

/** Returns the rows per second. */
export async function runCeiling(database: Database, { tableSchema, encoded }: Ceiling): Promise<number> {
  const client = await database.pool.connect()
  const start = performance.now()
  for (const page of encoded) {
    await stagePage(client, tableSchema, page.encoded.all, 'UTC')
    await mergePage(client, tableSchema, {
      returns: 'counts',
      readAtMs: performance.now(),
      staged: page.encoded.rows.length,
    })
    await client.query('commit')
  }
  const seconds = (performance.now() - start) / 1000
  client.release()
  return encoded.reduce((rows, page) => rows + page.encoded.rows.length, 0) / seconds
}
