// Which keys the pages of a listing showed: in a temporary table of the run's own connection, so that memory does not grow
// with the listing (P10). A single page stays in memory: most lists have no more, and making a table costs more than to read them.

import type { ClientBase } from 'pg'
import type { SeenContents, SeenKeys, SeenTwice } from '../../sync/ports/store.ts'
import type { RunSession } from './lease.ts'

export const seenKeysTable = 'pg_temp.tidemark_seen_key'

/** The keys that were seen from a page on. `sql` is a subquery with a column `key`, for the number of a parameter with that value. */
export type SeenSince = { sql(parameter: number): string; readonly value: number | readonly string[] }

export type SeenKeysTable = {
  add(pageNumber: number, keys: readonly string[], contents?: SeenContents): Promise<void>
  twice(limit: number): Promise<readonly string[]>
  countAround(pageNumber: number): Promise<number>
  /** Before the table is joined: makes it when nothing was seen, and counts what is in it. */
  analyze(): Promise<void>
  /** To be joined, without a table where one page was all. */
  since(firstPage: number): Promise<SeenSince>
  drop(): Promise<void>
}

type SeenPage = {
  readonly number: number
  readonly keys: readonly string[]
  readonly contents?: SeenContents | undefined
}

export function openSeenKeysTable(client: ClientBase): SeenKeysTable {
  let isThere = false
  /** Page 1, as long as no other came. */
  let only: SeenPage | null = null

  /** With everything that was seen in it. */
  async function prepare(): Promise<void> {
    if (!isThere) await makeTable(client)
    isThere = true
    const page = only
    only = null
    if (page) await insertPage(client, page)
  }
  async function analyze(): Promise<void> {
    await prepare()
    await client.query(`analyze ${seenKeysTable}`)
  }

  return {
    analyze,
    async since(firstPage) {
      const page = only
      if (page)
        return {
          sql: (parameter) => `(select distinct unnest($${parameter}::text[]) as key)`,
          value: page.keys,
        }
      await analyze()
      return {
        sql: (parameter) => `(select key from ${seenKeysTable} where last_page >= $${parameter})`,
        value: firstPage,
      }
    },
    async add(number, keys, contents) {
      const page = { number, keys, contents }
      if (number === 1 && !isThere) {
        only = page
        return
      }
      await prepare()
      if (number === 1) await client.query(`truncate ${seenKeysTable}`)
      await insertPage(client, page)
    },
    async twice(limit) {
      if (only) return []
      await prepare()
      const { rows } = await client.query<{ key: string }>(
        `select key from ${seenKeysTable} where is_twice order by key limit $1`,
        [limit],
      )
      return rows.map(({ key }) => key)
    },
    async countAround(pageNumber) {
      if (only) return 0
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

const makeTable = (client: ClientBase): Promise<unknown> =>
  client.query(
    `drop table if exists ${seenKeysTable};
     create temporary table tidemark_seen_key (
       key text primary key, first_page int not null, last_page int not null, content text, is_twice boolean not null default false
     )`,
  )

const insertPage = (client: ClientBase, { number, keys, contents }: SeenPage): Promise<unknown> =>
  client.query({
    name: 'tidemark_see',
    text: `insert into ${seenKeysTable} as known (key, first_page, last_page, content)
           select distinct on (key) key, $1::int, $1::int, content
           from unnest($2::text[], $3::text[]) with ordinality as seen (key, content, place) order by key, place desc
           on conflict (key) do update set
             first_page = least(known.first_page, excluded.first_page),
             last_page = greatest(known.last_page, excluded.last_page),
             content = excluded.content,
             is_twice = known.is_twice or coalesce(known.content <> excluded.content and known.last_page >= $4 and known.last_page < $1, false)`,
    values: [number, keys, contents?.fingerprints ?? [], contents?.passBegan ?? 0],
  })

export const seenKeysOf = ({ alone }: RunSession, table: SeenKeysTable): SeenKeys & SeenTwice => ({
  add: (pageNumber, keys, contents) => alone(() => table.add(pageNumber, keys, contents)),
  twice: (limit) => alone(() => table.twice(limit)),
  countAround: (pageNumber) => alone(() => table.countAround(pageNumber)),
})
