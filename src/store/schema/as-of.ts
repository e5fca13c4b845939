// The functions `bi.<stream>_at(moment)`, which show the rows of a stream as they were. Postgres puts such a function in place, so that what
// a query asks for (one key, some columns) reaches the index on key and time.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { inTransaction } from '../server/session.ts'
import { historyOf, qualified } from './table-schema.ts'
import { unlessOthers } from './views.ts'

type Shown = Pick<MirroredStream, 'name' | 'kind'>

export const asOfName = ({ name }: Pick<Shown, 'name'>): string =>
  `bi.${pg.escapeIdentifier(`${name}_at`)}(timestamptz)`

export async function isShownAsOf(client: ClientBase, stream: Pick<Shown, 'name'>): Promise<boolean> {
  const { rows } = await client.query<{ is_shown: boolean }>(
    'select to_regprocedure($1) is not null as is_shown',
    [asOfName(stream)],
  )
  return rows[0]?.is_shown ?? false
}

/** Makes the function, or makes it anew for another key. A function that somebody put in its place must not stop the mirror. */
export async function showAsOf(
  client: ClientBase,
  stream: Shown,
  keyName: string,
  log: Logger,
): Promise<void> {
  const table = qualified(historyOf(stream))
  const told = `the living rows of ${stream.name} as they were at a moment, by ${table}`
  const isNew = !(await isShownAsOf(client, stream))
  const body = bodySql(stream, table, pg.escapeIdentifier(keyName))
  await unlessOthers(client, { log, what: asOfName(stream), lack: 'does not show the past' }, () =>
    client.query(
      `create or replace function ${asOfName(stream)} returns setof ${table} language sql stable as $as_of$${body}$as_of$;
       ${isNew ? `grant execute on function ${asOfName(stream)} to public;` : ''}
       comment on function ${asOfName(stream)} is ${pg.escapeLiteral(told)}`,
    ),
  )
}

/** A list has few records and many lines of each, most often: then looking up each key beats reading all lines. */
const bodySql = ({ kind }: Shown, table: string, key: string): string =>
  kind === 'changes' ? `\n${newestSql(table, key, '')}` : byKeySql(table, key)

/** With a condition on the key, that key alone is read. Without one, all lines are. */
const newestSql = (table: string, key: string, condition: string): string => `
  select * from (
    select distinct on (${key}) * from ${table} where _observed_at <= $1 order by ${key} desc, _observed_at desc
  ) as latest where _deleted_at is null${condition}
`

const mostKeys = 1_000

// The keys are found one after the other in the index, up to a limit. Of each the newest line is looked up. Two values are compared at
// once, because with `=` Postgres may prefer the index on the time alone, and read all lines for a key that changed long ago.
const byKeySql = (table: string, key: string): string => `
  with recursive known (key, place) as (
    (select ${key}, 1 from ${table} order by ${key} limit 1)
    union all
    select following.key, place + 1 from known, lateral (
      select ${key} as key from ${table} where ${key} > known.key order by ${key} limit 1
    ) as following where place <= ${mostKeys}
  )
  select latest.* from known, lateral (
    select * from ${table} as kept
    where (kept.${key}, kept._observed_at) <= (known.key, $1) and kept.${key} >= known.key and kept._observed_at <= $1
    order by kept.${key} desc, kept._observed_at desc limit 1
  ) as latest
  where latest._deleted_at is null and latest.${key} = known.key and (select max(place) from known) <= ${mostKeys}
  union all${newestSql(table, key, ` and (select max(place) from known) > ${mostKeys}`)}`

/** What earlier versions made, which sorted all lines even for one key. Its group is the name of the key. */
const formerBody =
  '^\\s*select \\(latest\\.kept\\)\\.\\* from \\(\\s*select distinct on \\(kept\\."((?:[^"]|"")+)"\\) kept from .* as kept' +
  '\\s*where kept\\._observed_at <= \\$1 order by kept\\."(?:[^"]|"")+", kept\\._observed_at desc' +
  '\\s*\\) as latest where \\(latest\\.kept\\)\\._deleted_at is null\\s*$'

/** Replaces the functions that earlier versions made. Those that somebody changed stay. */
export async function renewAsOf(client: ClientBase, streams: readonly Shown[], log: Logger): Promise<void> {
  const { rows } = await client.query<{ name: string; key: string }>(
    `select proname as name, replace(substring(prosrc from $1), '""', '"') as key
     from pg_proc where pronamespace = 'bi'::regnamespace and prosrc ~ $1`,
    [formerBody],
  )
  for (const { name, key } of rows) {
    const stream = streams.find((one) => `${one.name}_at` === name)
    if (stream) await inTransaction(client, () => showAsOf(client, stream, key, log))
  }
}
