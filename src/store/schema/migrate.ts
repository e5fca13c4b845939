// Brings a database to the schema of this program: the fixed tables, the tables of the changes streams, and what BI may
// read. Any number of programs may do it at once; a failure must stop the program.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import type { ClientBase, PoolClient } from 'pg'
import type { Logger } from '../../log.ts'
import { type MirroredStream, relatedIn, type Stream } from '../../streams/catalog.ts'
import { sourceIn, tableName } from '../../streams/names.ts'
import { DatabaseError, messageOf, SourceGone } from '../../util/errors.ts'
import type { Database } from '../server/connect.ts'
import { queryAny, queryRow } from '../server/query.ts'
import { changeTable, hasCode, takeTurn, withConnection } from '../server/session.ts'
import { type BiRole, grantReading, lackingGrants } from './bi-role.ts'
import { closeToEverybody } from './closed-rights.ts'
import { createTable } from './create-table.ts'
import { indexDeletedRows } from './deleted-index.ts'
import { lackingDictionaries, showDictionary } from './dictionary-view.ts'
import { formerHistories, renewHistories } from './row-history.ts'
import { lackingSchemas, makeSchemas, turnOfSchemas } from './source-schemas.ts'
import { isLocallyChangedSql, watchTable } from './watch-table.ts'

type Options = BiRole & {
  readonly database: Pick<Database, 'pool'>
  /** Whose tables are made. Left out or empty: those of the source that the environment describes. */
  readonly source?: string
  readonly streams: readonly Stream[]
  readonly log: Logger
}

const migrationsFolder = fileURLToPath(new URL('../../../migrations', import.meta.url))
const history = { migrationsSchema: 'tidemark', migrationsTable: 'migration' }
const migrationsTable = `${history.migrationsSchema}.${history.migrationsTable}`

/** Returns how many migrations were new to the database. */
export async function migrateDatabase(options: Options): Promise<number> {
  const { database, log } = options
  const [client, guard] = [await database.pool.connect(), await database.pool.connect()]
  try {
    await keepOthersFromMigrating(guard)
    const applied = await applyMigrations(client)
    await closeToEverybody(client)
    await prepare(client, options)
    await indexDeletedRows(client, log)
    if (applied > 0) log.info({ applied }, 'The database was migrated to the tables of this version.')
    return applied
  } finally {
    // Closing the connection gives the lock back, whatever state it is in.
    guard.release(true)
    client.release(true)
  }
}

/**
 * What a named source needs, in a database that this program has migrated already: only what is its own is looked at, so that a source costs
 * the same whether there are ten or a thousand. Nobody else prepares it or migrates meanwhile; others may prepare other sources. Rejects with
 * `SourceGone` if it is gone since somebody asked for it, or else it would be back after it was dropped.
 */
export async function prepareSource(options: Options & { readonly source: string }): Promise<void> {
  const { pool } = options.database
  const [client, guard] = [await pool.connect(), await pool.connect()]
  let [isWell, isFree] = [false, false]
  try {
    await guard.query(
      `begin; set local idle_in_transaction_session_timeout = 0; lock table ${migrationsTable} in share mode`,
    )
    await takeTurn(guard, turnOfSchemas(options.source))
    const namedSql = 'select from tidemark.source_config where name = $1 and gone_at is null'
    if (!(await queryAny(client, namedSql, [options.source]))) throw new SourceGone(options.source)
    await prepare(client, options)
    isWell = true
    await guard.query('commit')
    isFree = true
  } finally {
    guard.release(!isFree)
    client.release(!isWell)
  }
}

async function prepare(client: ClientBase, { source = '', streams, log, ...bi }: Options): Promise<void> {
  if (source !== '') await makeSchemas(client, source)
  await client.query('insert into tidemark.stream (name) select unnest($1::text[]) on conflict do nothing', [
    streams.map((stream) => stream.name),
  ])
  await makeAndWatchTables(client, [...streams, ...relatedIn(source)], log)
  await renewHistories(client, [...streams, ...relatedIn(source)], log)
  await showDictionary(client, source, log)
  await grantReading(client, { ...bi, source }, log)
}

const isThere = (client: ClientBase, relation: string): Promise<boolean> =>
  queryAny(client, 'select where to_regclass($1) is not null', [relation])

// What Postgres says when another program makes the same schema or table at the same moment.
const madeByAnother = /^(?:42P06|42P07|23505)$/

/**
 * Lets no other program migrate until the connection is closed, by a lock on the table of applied migrations: its rows can be read and
 * written meanwhile, and nobody else may lock it.
 */
async function keepOthersFromMigrating(guard: ClientBase): Promise<void> {
  while (!(await isThere(guard, migrationsTable)))
    // Makes the table just as the migrator would.
    await guard
      .query(
        `create schema if not exists ${history.migrationsSchema};
         create table if not exists ${migrationsTable} (id serial primary key, hash text not null, created_at bigint)`,
      )
      .catch((error) => {
        if (!hasCode(error, madeByAnother)) throw error
      })
  await guard.query(
    `begin; set local idle_in_transaction_session_timeout = 0;
     lock table ${migrationsTable} in share update exclusive mode`,
  )
}

/**
 * Makes the tables of changes streams, and begins to watch tables that are not watched yet: an earlier version may have made them, or a run
 * when the first records came. Mostly there is nothing to do, which one question shows: every worker comes here for every source.
 */
async function makeAndWatchTables(client: ClientBase, streams: readonly MirroredStream[], log: Logger) {
  for (const stream of await lackingTables(client, streams)) {
    if (stream.kind === 'changes')
      await createTable(client, stream, { field: stream.keyFields[0] ?? '', type: 'bigint' }, log)
    else await changeTable(client, tableName(stream.name), 'watch', () => watchTable(client, stream))
  }
}

/** Those that nobody knows yet, or whose table is to be made or watched. Related records are not known before they are wanted. */
async function lackingTables(client: ClientBase, streams: readonly MirroredStream[]) {
  const { rows } = await client.query<{ name: string; is_new: boolean; is_changed: boolean }>(
    `select wanted.name, known.name is null as is_new, is_changed
     from unnest($1::text[]) as wanted (name) left join tidemark.stream as known on known.name = wanted.name,
       lateral (select ${isLocallyChangedSql} as is_changed) as looked
     where known.table_oid is null or is_changed`,
    [streams.map(({ name }) => name)],
  )
  const found = new Map(rows.map((row) => [row.name, row]))
  return streams.filter(({ name, kind }) => {
    const row = found.get(name)
    return row && (row.is_new ? kind !== 'related' : kind === 'changes' || row.is_changed)
  })
}

/**
 * Those of these named sources for which `prepareSource` would do something, asked of all at once. Nobody need be kept from anything: what
 * changes from now on, runs notice as well.
 */
export async function unprepared(
  client: ClientBase,
  sources: readonly Omit<Options & { readonly source: string }, 'database'>[],
  log: Logger,
): Promise<readonly string[]> {
  const names = sources.map(({ source }) => source)
  const streams = sources.flatMap((one): readonly MirroredStream[] => [
    ...one.streams,
    ...relatedIn(one.source),
  ])
  const lacking = [...(await lackingTables(client, streams)), ...(await formerHistories(client, streams))]
  return [
    ...lacking.map(({ name }) => sourceIn(name)),
    ...(await lackingSchemas(client, names)),
    ...(await lackingDictionaries(client, names)).map(({ source }) => source),
    ...(await lackingGrants(client, sources, log)),
  ]
}

/** Changes nothing; rejects unless the database has the schema of this program. A role that only reads the mirror, such as BI_ROLE, may not see that. */
export async function expectMigrated({ pool, address }: Pick<Database, 'pool' | 'address'>): Promise<void> {
  const client = await pool.connect()
  try {
    const hiddenSql = `select where not has_table_privilege(to_regclass('${migrationsTable}'), 'select')`
    if (await queryAny(client, hiddenSql)) return
    const { before, due: some } = await compareMigrations(client)
    const due = some.length
    if (before.length === 0)
      throw new DatabaseError(
        `The database ${address} holds no mirror yet. \`tidemark sync\` makes one; \`tidemark migrate\` makes its empty tables.`,
      )
    if (due > 0)
      throw new DatabaseError(
        `The tables in ${address} were made by an older version of Tidemark: ${due === 1 ? 'one migration is' : `${due} migrations are`} due. Run \`tidemark migrate\`; workers that start do so too.`,
      )
  } finally {
    client.release()
  }
}

/** Changes nothing; rejects if a newer program has migrated the database, and this one cannot work with its tables. */
export const expectNotNewer = async ({ pool }: Pick<Database, 'pool'>): Promise<void> =>
  void (await withConnection(pool, compareMigrations))

/** The newest migration that programs which do not know it cannot live with. Later ones only added something that those leave alone. */
const neededMigration = '0057_one-set-of-state-for-many-sources'

/** Its comment says which. The table itself is locked while somebody migrates. */
const noteBearer = `${migrationsTable}_id_seq`

async function compareMigrations(client: ClientBase) {
  const known = readMigrationFiles({ migrationsFolder })
  const before = await appliedMigrations(client)
  const newest = Math.max(...known.map((migration) => migration.folderMillis))
  if (before.some((at) => at > newest) && newest < (await neededBy(client)))
    throw new DatabaseError(
      'A newer Tidemark than this one has migrated the database, and this one cannot work with its tables. Run that version, or a newer one.',
    )
  return { before, due: known.filter(({ folderMillis }) => !before.includes(folderMillis)) }
}

/** The time of the migration that a program has to know, as the newest program that migrated the database has noted. */
async function neededBy(client: ClientBase): Promise<number> {
  const noteSql = `select obj_description(to_regclass($1), 'pg_class') as note`
  const found = await queryRow<{ note: string | null }>(client, noteSql, [noteBearer])
  return Number(/^needs (\d+)$/.exec(found?.note ?? '')?.[1] ?? Number.POSITIVE_INFINITY)
}

const timesByName = (): ReadonlyMap<string, number> => {
  const file = readFileSync(`${migrationsFolder}/meta/_journal.json`, 'utf8')
  const journal: { entries: { when: number; tag: string }[] } = JSON.parse(file)
  return new Map(journal.entries.map(({ when, tag }) => [tag, when]))
}

export type DueMigration = { readonly name: string; readonly statements: readonly string[] }

/** In the order in which they would run. Changes nothing. */
export async function dueMigrations(client: ClientBase): Promise<readonly DueMigration[]> {
  const { due } = await compareMigrations(client)
  const names = new Map([...timesByName()].map(([tag, when]) => [when, tag]))
  return due.map(({ folderMillis, sql }) => ({ name: names.get(folderMillis) ?? '', statements: sql }))
}

async function applyMigrations(client: PoolClient): Promise<number> {
  const { due } = await compareMigrations(client)
  // The role of a worker may not be allowed to try.
  if (due.length === 0) return 0
  try {
    await migrateFrom(client, migrationsFolder)
    await client.query(`comment on sequence ${noteBearer} is 'needs ${timesByName().get(neededMigration)}'`)
  } catch (cause) {
    // The cause inside says what Postgres said.
    const reason = messageOf(cause instanceof Error ? (cause.cause ?? cause) : cause)
    const advice = /permission denied|must be owner/.test(reason)
      ? ' Run `tidemark migrate` as the role that owns the schema tidemark.'
      : ''
    throw new DatabaseError(`The database cannot be migrated: ${reason}. Nothing was changed.${advice}`, {
      cause,
    })
  }
  return due.length
}

const mostAttempts = 5

/**
 * In one transaction. Whoever reads the view of freshness locks it first, and then the tables below it: so does this, or each would wait for
 * the other. Others may read tables in another order; Postgres then ends one of the two, nothing was changed, and it is tried again.
 */
export async function migrateFrom(client: ClientBase, folder: string): Promise<void> {
  for (let attempt = 1; ; attempt++)
    try {
      await client.query('begin')
      if (await isThere(client, 'tidemark.freshness'))
        await client.query('lock table tidemark.freshness in access exclusive mode')
      // Goes on in this transaction, and ends it.
      return await migrate(drizzle({ client: client as PoolClient }), {
        migrationsFolder: folder,
        ...history,
      })
    } catch (error) {
      await client.query('rollback')
      const { code } = ((error as Error).cause ?? error) as { code?: string }
      if (code !== '40P01' || attempt === mostAttempts) throw error
    }
}

async function appliedMigrations(client: ClientBase): Promise<readonly number[]> {
  if (!(await isThere(client, migrationsTable))) return []
  const { rows } = await client.query<{ created_at: string }>(`select created_at from ${migrationsTable}`)
  return rows.map((row) => Number(row.created_at))
}
