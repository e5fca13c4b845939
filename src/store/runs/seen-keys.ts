// Which keys the pages of a listing showed: in a temporary table of the run's own connection, so that memory does not grow
// with the listing (P10).

import type { ClientBase } from 'pg'
import type { SeenContents, SeenKeys, SeenTwice } from '../../sync/ports/store.ts'
import type { RunSession } from './lease.ts'

export const seenKeysTable = 'pg_temp.tidemark_seen_key'

export type SeenKeysTable = {
  add(pageNumber: number, keys: readonly string[], contents?: SeenContents): Promise<void>
  twice(limit: number): Promise<readonly string[]>
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
         key text primary key, first_page int not null, last_page int not null, content text, is_twice boolean not null default false
       )`,
    )
    isThere = true
  }

  return {
    async analyze() {
      await prepare()
      await client.query(`analyze ${seenKeysTable}`)
    },
    async add(pageNumber, keys, contents) {
      await prepare()
      if (pageNumber === 1) await client.query(`truncate ${seenKeysTable}`)
      await client.query({
        name: 'tidemark_see',
        text: `insert into ${seenKeysTable} as known (key, first_page, last_page, content)
               select distinct on (key) key, $1::int, $1::int, content
               from unnest($2::text[], $3::text[]) with ordinality as seen (key, content, place) order by key, place desc
               on conflict (key) do update set
                 first_page = least(known.first_page, excluded.first_page),
                 last_page = greatest(known.last_page, excluded.last_page),
                 content = excluded.content,
                 is_twice = known.is_twice or coalesce(known.content <> excluded.content and known.last_page >= $4 and known.last_page < $1, false)`,
        values: [pageNumber, keys, contents?.fingerprints ?? [], contents?.passBegan ?? 0],
      })
    },
    async twice(limit) {
      await prepare()
      const { rows } = await client.query<{ key: string }>(
        `select key from ${seenKeysTable} where is_twice order by key limit $1`,
        [limit],
      )
      return rows.map(({ key }) => key)
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

export const seenKeysOf = ({ alone }: RunSession, table: SeenKeysTable): SeenKeys & SeenTwice => ({
  add: (pageNumber, keys, contents) => alone(() => table.add(pageNumber, keys, contents)),
  twice: (limit) => alone(() => table.twice(limit)),
  countAround: (pageNumber) => alone(() => table.countAround(pageNumber)),
})
