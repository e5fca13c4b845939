// Which keys the pages of a listing showed. The first of them stay in memory: most lists have no more, and making a table costs Postgres,
// and all of its sessions, more than to read them. Further ones go into a temporary table of the run's own connection, so that memory
// does not grow with the listing (P10).

import type { ClientBase } from 'pg'
import type { SeenContents, SeenKeys, SeenTwice } from '../../sync/ports/store.ts'
import { arraysOf, queryColumn, queryValue } from '../server/query.ts'
import { emptyTableSql } from '../server/session.ts'
import type { RunSession } from './lease.ts'

export const seenKeysTable = 'pg_temp.tidemark_seen_key'

/** The keys that were seen from a page on. `sql` is a subquery with a column `key`, for the number of a parameter with that value. */
export type SeenSince = { sql(parameter: number): string; readonly value: number | readonly string[] }

export type SeenKeysTable = ReturnType<typeof openSeenKeysTable>

/** Of a key: the pages that showed it, what the last of them showed, and whether two of one pass showed different contents. */
type Seen = {
  readonly first: number
  readonly last: number
  readonly content: string | null
  readonly isTwice: boolean
}
type SeenPage = {
  readonly number: number
  readonly contents: ReadonlyMap<string, string | null>
  readonly passBegan: number
}

/** So many keys of twenty letters take about a megabyte. */
const mostInMemory = 5_000

export function openSeenKeysTable(client: ClientBase, most = mostInMemory) {
  /** Null: they are in the table. */
  let inMemory: Map<string, Seen> | null = new Map()
  /** As many as the pages had; some perhaps twice. */
  let added = 0

  async function prepare(): Promise<void> {
    const seen = inMemory
    if (seen === null) return
    await makeTable(client)
    await insertSeen(client, seen)
    inMemory = null
  }
  /** Before the table is joined: makes it, and lets Postgres know what is in it. */
  async function analyze(): Promise<void> {
    await prepare()
    // Of few keys any plan is good, and an ANALYZE makes all sessions of Postgres look through theirs.
    if (added > most) await client.query(`analyze ${seenKeysTable}`)
  }

  return {
    analyze,
    /** To be joined, without a table where there is none. */
    async since(firstPage: number): Promise<SeenSince> {
      if (inMemory === null) {
        await analyze()
        return {
          sql: (parameter) => `(select key from ${seenKeysTable} where last_page >= $${parameter})`,
          value: firstPage,
        }
      }
      const value = [...inMemory].flatMap(([key, { last }]) => (last >= firstPage ? [key] : []))
      return { sql: (parameter) => `(select unnest($${parameter}::text[]) as key)`, value }
    },
    async add(number: number, keys: readonly string[], told?: SeenContents) {
      const contents = new Map(keys.map((key, index) => [key, told?.fingerprints[index] ?? null]))
      const page = { number, contents, passBegan: told?.passBegan ?? 0 }
      if (number === 1) {
        if (inMemory === null) await client.query(`truncate ${seenKeysTable}`)
        else inMemory.clear()
        added = 0
      }
      added += contents.size
      if (inMemory !== null && inMemory.size + contents.size > most) await prepare()
      if (inMemory === null) await insertPage(client, page)
      else keepPage(inMemory, page)
    },
    async twice(limit: number): Promise<readonly string[]> {
      if (inMemory !== null)
        return [...inMemory]
          .flatMap(([key, { isTwice }]) => (isTwice ? [key] : []))
          .sort()
          .slice(0, limit)
      return await queryColumn<string>(
        client,
        `select key from ${seenKeysTable} where is_twice order by key limit $1`,
        [limit],
      )
    },
    async countAround(pageNumber: number) {
      if (inMemory !== null)
        return [...inMemory.values()].filter(({ first, last }) => first <= pageNumber && last > pageNumber)
          .length
      const around = `select count(*)::float8 from ${seenKeysTable} where first_page <= $1 and last_page > $1`
      return (await queryValue<number>(client, around, [pageNumber])) ?? 0
    },
    async empty() {
      if (inMemory === null) await client.query(`truncate ${seenKeysTable}`)
    },
  }
}

/** What `insertPage` does in the table. */
function keepPage(seen: Map<string, Seen>, { number, contents, passBegan }: SeenPage): void {
  for (const [key, content] of contents) {
    const known = seen.get(key)
    const isOther =
      known?.content != null &&
      content !== null &&
      known.content !== content &&
      known.last >= passBegan &&
      known.last < number
    seen.set(key, {
      first: Math.min(known?.first ?? number, number),
      last: Math.max(known?.last ?? number, number),
      content,
      isTwice: known?.isTwice === true || isOther,
    })
  }
}

const makeTable = (client: ClientBase): Promise<unknown> =>
  client.query(
    emptyTableSql(
      seenKeysTable,
      'key text primary key, first_page int not null, last_page int not null, content text, is_twice boolean not null default false',
    ),
  )

const insertSeen = (client: ClientBase, seen: ReadonlyMap<string, Seen>): Promise<unknown> => {
  const all = [...seen.values()]
  return client.query(
    `insert into ${seenKeysTable} (key, first_page, last_page, content, is_twice)
     select * from unnest($1::text[], $2::int[], $3::int[], $4::text[], $5::boolean[])`,
    [[...seen.keys()], ...arraysOf(all, 'first', 'last', 'content', 'isTwice')],
  )
}

const insertPage = (client: ClientBase, { number, contents, passBegan }: SeenPage): Promise<unknown> =>
  client.query({
    name: 'tidemark_see',
    text: `insert into ${seenKeysTable} as known (key, first_page, last_page, content)
           select key, $1::int, $1::int, content from unnest($2::text[], $3::text[]) as seen (key, content) order by key
           on conflict (key) do update set
             first_page = least(known.first_page, excluded.first_page),
             last_page = greatest(known.last_page, excluded.last_page),
             content = excluded.content,
             is_twice = known.is_twice or coalesce(known.content <> excluded.content and known.last_page >= $4 and known.last_page < $1, false)`,
    values: [number, [...contents.keys()], [...contents.values()], passBegan],
  })

export const seenKeysOf = ({ alone }: RunSession, table: SeenKeysTable): SeenKeys & SeenTwice => ({
  add: (pageNumber, keys, contents) => alone(() => table.add(pageNumber, keys, contents)),
  twice: (limit) => alone(() => table.twice(limit)),
  countAround: (pageNumber) => alone(() => table.countAround(pageNumber)),
})
