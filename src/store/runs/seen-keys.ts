// Which keys the pages of a listing showed: in a temporary table of the run's own connection, so that memory does not grow
// with the listing (P10).

import type { ClientBase } from 'pg'
import type { SeenKeys } from '../../sync/ports/store.ts'
import type { RunSession } from './lease.ts'

export const seenKeysTable = 'pg_temp.tidemark_seen_key'

export type SeenKeysTable = {
  add(pageNumber: number, keys: readonly string[]): Promise<void>
  countAround(pageNumber: number): Promise<number>
  /** Before the table is joined: makes it when nothing was seen, and counts what is in it. */
  analyze(): Promise<void>
  drop(): Promise<void>
}

export function openSeenKeysTable(client: ClientBase): SeenKeysTable {
  let isThere = false

  async function prepare(): Promise<void> {
    if (isThere) return
    await client.query(
      `drop table if exists ${seenKeysTable};
       create temporary table tidemark_seen_key (
         key text primary key, first_page int not null, last_page int not null
       )`,
    )
    isThere = true
  }

  return {
    async analyze() {
      await prepare()
      await client.query(`analyze ${seenKeysTable}`)
    },
    async add(pageNumber, keys) {
      await prepare()
      if (pageNumber === 1) await client.query(`truncate ${seenKeysTable}`)
      await client.query({
        name: 'tidemark_see',
        text: `insert into ${seenKeysTable} as known (key, first_page, last_page)
               select distinct key, $1::int, $1::int from unnest($2::text[]) as seen (key)
               on conflict (key) do update set
                 first_page = least(known.first_page, excluded.first_page),
                 last_page = greatest(known.last_page, excluded.last_page)`,
        values: [pageNumber, keys],
      })
    },
    async countAround(pageNumber) {
      await prepare()
      const { rows } = await client.query<{ seen: string }>(
        `select count(*) as seen from ${seenKeysTable} where first_page <= $1 and last_page > $1`,
        [pageNumber],
      )
      return Number(rows[0]?.seen ?? 0)
    },
    async drop() {
      if (isThere) await client.query(`drop table if exists ${seenKeysTable}`)
    },
  }
}

export const seenKeysOf = ({ alone }: RunSession, table: SeenKeysTable): SeenKeys => ({
  add: (pageNumber, keys) => alone(() => table.add(pageNumber, keys)),
  countAround: (pageNumber) => alone(() => table.countAround(pageNumber)),
})
