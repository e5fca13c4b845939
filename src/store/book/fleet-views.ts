// Keeps the views over several sources as the sources are: in schema `fleet` one for each stream that any of them has, and for each group
// of the file of sources the same in a schema of its own.

import pg, { type ClientBase, type Pool } from 'pg'
import type { Logger } from '../../log.ts'
import { baseOf, environmentSource, keyIn, mostInUnion, sourceIn } from '../../streams/names.ts'
import { messageOf } from '../../util/errors.ts'
import { count, sentence } from '../../util/text.ts'
import { grantUnions } from '../schema/bi-role.ts'
import { closeNewSql } from '../schema/closed-rights.ts'
import { tableSql, viewSql } from '../schema/places.ts'
import { makeSchema } from '../schema/source-schemas.ts'
import {
  fleetSchema,
  isCurrent,
  isUnionSchemaSql,
  readUnions,
  schemaOfUnion,
  showUnion,
  type Union,
} from '../schema/union-views.ts'
import { queryColumn, queryRow, queryRows, queryValue } from '../server/query.ts'
import {
  inTransaction,
  inTurn,
  limitLockWaits,
  type Queryable,
  retryOnLockTimeout,
  withConnection,
} from '../server/session.ts'

export type Wanted = {
  /** The sources of each group by its name; that of the environment is called so. */
  readonly groups: ReadonlyMap<string, readonly string[]>
  /** Who may read the views. */
  readonly fleetBiRole: string | null
  readonly sourceTimezone: string
}

type Renewed = { readonly remarks: readonly string[]; readonly isWhole: boolean }

/** Another one as soon as a source, a stream or a column has come or gone. */
export const unionsStamp = async (client: Queryable) =>
  (await queryValue<string>(
    client,
    `select md5(string_agg(format('%s %s %s', name, oid, relnatts), ',' order by name)) as stamp from (
       select known.name, shown.oid, relnatts from tidemark.stream as known join pg_class as shown on shown.oid = to_regclass(${viewSql('known.name')})
       union all
       select nspname || '.' || relname, shown.oid, relnatts from pg_namespace
       join pg_class as shown on relnamespace = pg_namespace.oid and relkind = 'v' where ${isUnionSchemaSql}
     ) as there`,
  )) ?? ''

/** One program at a time. Returns what somebody should know of the views, and whether all are as they are to be. */
export async function renewUnions(pool: Pool, wanted: Wanted, log: Logger): Promise<Renewed> {
  let renewed: Renewed = { remarks: [], isWhole: false }
  await inTurn(pool, 'views over sources', async () => {
    await withConnection(pool, async (client) => {
      const schemas = new Map([
        [fleetSchema, null],
        ...[...wanted.groups].map(([name, members]) => [schemaOfUnion(name), members] as const),
      ])
      for (const [schema, members] of schemas) await makeUnionSchema(client, schema, members)
      await dropOthers(client, [...schemas.keys()], log)
      renewed = await renewAll(client, schemas, log)
      await grantUnions(client, wanted, [...schemas.keys()], log)
    })
  })
  return renewed
}

const isOf = (members: readonly string[] | null, source: string): boolean =>
  members === null || members.includes(source || environmentSource)

async function renewAll(
  client: ClientBase,
  schemas: ReadonlyMap<string, readonly string[] | null>,
  log: Logger,
): Promise<Renewed> {
  const streams = await queryColumn<string>(
    client,
    `select name from tidemark.stream as known
     join pg_class on pg_class.oid = to_regclass(${viewSql('known.name')}) and relkind = 'v' order by name`,
  )
  const byBase = Map.groupBy(streams, baseOf)
  const there = new Map((await readUnions(client)).map((union) => [union.name, union]))
  const remarks: string[] = []
  let isWhole = true
  for (const [schema, members] of schemas)
    for (const [base, all] of byBase) {
      const name = keyIn(schema, base)
      const keys = all.filter((key) => isOf(members, sourceIn(key)))
      if (keys.length > mostInUnion)
        remarks.push(
          `There is no view ${name}: ${keys.length} sources have that stream, and a view over sources has at most ${mostInUnion}. Make groups of them: unions in the file of sources.`,
        )
      const isShown = keys.length > 0 && keys.length <= mostInUnion
      const failed = await renewOne(client, name, isShown ? keys : null, there.get(name), log)
      if (failed !== null) remarks.push(failed)
      isWhole = isWhole && failed === null
      if (isShown) remarks.push(...(await lockRemark(client, name, keys)))
    }
  return { remarks, isWhole }
}

/** `keys`: null: it is not to be. Returns why it could not be renewed, which keeps no other from it. */
async function renewOne(
  client: ClientBase,
  name: string,
  keys: readonly string[] | null,
  before: Union | undefined,
  log: Logger,
): Promise<string | null> {
  if (keys === null && !before) return null
  if (keys !== null && before && `${keys}` === `${before.keys}` && (await isCurrent(client, before)))
    return null
  try {
    await retryOnLockTimeout(client, name, 'renew', () =>
      inTransaction(client, async () => {
        await limitLockWaits(client)
        if (keys === null) await dropView(client, name)
        else await showUnion(client, name, keys)
      }),
    )
    log.info({ view: name, sources: keys?.length ?? 0 }, 'A view over sources was renewed.')
    return null
  } catch (error) {
    return `${name} could not be renewed, and shows what it showed before: ${sentence(messageOf(error))}`
  }
}

/** Its readers have their rights anew with the next view of that name. */
async function dropView(client: ClientBase, name: string): Promise<void> {
  const [schema = '', base = ''] = [sourceIn(name), baseOf(name)].map((one) => pg.escapeIdentifier(one))
  await client.query(`drop view ${schema}.${base} restrict`)
  await client.query(`delete from tidemark.granted where object in ($1, $2)`, [name, `${schema}.${base}`])
}

/** Schemas of groups that the file does not name any more. What somebody built on their views keeps them here. */
async function dropOthers(client: ClientBase, wanted: readonly string[], log: Logger): Promise<void> {
  const others = await queryRows<{ schema: string; views: string | null }>(
    client,
    `select nspname as schema, string_agg(shown.oid::regclass::text, ', ') as views
     from pg_namespace left join pg_class as shown on relnamespace = pg_namespace.oid and relkind = 'v'
     where ${isUnionSchemaSql} and nspname <> all ($1) group by 1`,
    [wanted],
  )
  for (const { schema, views } of others)
    await inTransaction(client, async () => {
      await limitLockWaits(client)
      await client.query(
        `${views === null ? '' : `drop view ${views} restrict; `}drop schema ${pg.escapeIdentifier(schema)} restrict`,
      )
      await client.query(
        `delete from tidemark.granted where trim('"' from split_part(object, '.', 1)) = $1`,
        [schema],
      )
    }).catch((error) =>
      log.warn({ err: error, schema }, 'The views of a group that the file does not name any more stay.'),
    )
}

/** With how fresh its streams are, which readers of a union see nowhere else. */
async function makeUnionSchema(client: ClientBase, schema: string, members: readonly string[] | null) {
  await inTransaction(client, async () => {
    await limitLockWaits(client)
    await makeSchema(client, { schema, source: schema, what: 'The view over several sources' })
    const view = `${pg.escapeIdentifier(schema)}.freshness`
    const isThere = await queryValue<boolean>(client, 'select to_regclass($1) is not null', [view])
    const source = `case when source = '' then '${environmentSource}' else source end`
    const among =
      members === null
        ? ''
        : ` where ${source} in (${members.map((one) => pg.escapeLiteral(one)).join(', ')})`
    await client.query(
      `create or replace view ${view} as select ${source} as source, base as stream, state, reason, read_through_time,
         settled_through_time, deletions_known_through, loaded_share, last_success_at, last_reconcile_at, history_from
       from tidemark.freshness${among}`,
    )
    if (!isThere) await client.query(closeNewSql(view))
  })
}

/** A query locks each view, table and index that it reads, whatever it shows in the end. */
async function lockRemark(client: Queryable, name: string, keys: readonly string[]) {
  const found = await queryRow<{ locks: number; room: number; sessions: number }>(
    client,
    `select 1 + (2 * count(distinct key) + count(indexrelid))::int as locks, sessions,
       current_setting('max_locks_per_transaction')::int * sessions as room
     from unnest($1::text[]) as key left join pg_index on indrelid = to_regclass(${tableSql('key')})
     cross join (select current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) as server (sessions)
     group by sessions`,
    [keys],
  )
  const { locks = 0, room = 0, sessions = 1 } = found ?? {}
  if (locks * fewQueries <= room) return []
  return [
    `A query of ${name} takes ${count(locks)} locks, and this Postgres has ${count(room)} for all queries together: ${fewQueries} such queries at once may end with “out of shared memory”. Set max_locks_per_transaction to ${Math.ceil((2 * fewQueries * locks) / sessions)} or more, and restart Postgres.`,
  ]
}
const fewQueries = 10
