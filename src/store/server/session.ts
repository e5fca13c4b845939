// Connections that are held for longer than one query. One that breaks meanwhile fails its next query instead of ending
// the program, and is never given back to the pool.

import { hash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import pg, { type ClientBase, type Pool, type PoolClient } from 'pg'
import { type BackoffPolicy, backoff, delayAfter, retry } from '../../util/backoff.ts'
import { queryRow } from './query.ts'

/** A connection, or a pool of them. */
export type Queryable = Pick<ClientBase, 'query'>

/** Runs the statements that a query finds, one after the other. */
export async function runFound(client: Queryable, query: string, values?: unknown[]): Promise<void> {
  const { rows } = await client.query<{ statement: string | null }>(query, values)
  for (const { statement } of rows) if (statement !== null) await client.query(statement)
}

/** Whether Postgres refused something with one of these codes. */
export const hasCode = (error: unknown, codes: RegExp): error is pg.DatabaseError =>
  error instanceof pg.DatabaseError && codes.test(error.code ?? '')

export type Connection = Awaited<ReturnType<typeof takeConnection>>

export async function takeConnection(pool: Pool) {
  const client = await pool.connect()
  let failure: unknown
  const onError = (error: Error) => {
    failure = error
  }
  client.on('error', onError)
  return {
    client,
    /** It broke while nobody asked it anything. */
    isBroken: () => failure !== undefined,
    /** With an error, or after one, the connection is closed instead of being reused. */
    release(error?: unknown): void {
      client.off('error', onError)
      client.release(Boolean(error ?? failure))
    },
  }
}

/** The share of a pool that may be in use before those who hold a connection only to be quicker do without it. */
const crowdedShare = 0.6

/** Whether others may soon need the connections that are left. */
export const isCrowded = ({ options, totalCount, idleCount, waitingCount }: Pool): boolean =>
  waitingCount > 0 || totalCount - idleCount > options.max * crowdedShare

/** Holds a connection for as long as the work takes. After an error it is closed, because nobody knows what state it is in. */
export async function withConnection<Result>(
  pool: Pool,
  work: (client: PoolClient) => Promise<Result>,
): Promise<Result> {
  const connection = await takeConnection(pool)
  try {
    const result = await work(connection.client)
    connection.release()
    return result
  } catch (error) {
    connection.release(error)
    throw error
  }
}

/** Each transaction of Tidemark that writes rows of the mirror says this. Triggers note all other transactions (P15). */
export const writerSql = `set local tidemark.writer = 'on'`

// A transaction on a connection that is held: all of the work, or nothing of it.
export async function inTransaction<Result>(
  client: ClientBase,
  work: () => Promise<Result>,
): Promise<Result> {
  await client.query(`begin; ${writerSql}`)
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    // When the connection is gone, so is the transaction; the first error is the one to tell.
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/**
 * Within a transaction: nothing is left of work that fails as expected, and its error is returned. Null: it did not fail. `name` is that of
 * the savepoint: after another error inside of it, it must not be taken for the one around it.
 */
export async function unlessRefused<Refusal>(
  client: ClientBase,
  name: string,
  work: () => Promise<unknown>,
  isExpected: (error: unknown) => error is Refusal,
): Promise<Refusal | null> {
  await client.query(`savepoint ${name}`)
  try {
    await work()
    await client.query(`release savepoint ${name}`)
    return null
  } catch (error) {
    if (!isExpected(error)) throw error
    await client.query(`rollback to savepoint ${name}; release savepoint ${name}`)
    return error
  }
}

// Changing a table waits for whoever reads it, and everybody who comes later waits behind the change. So a change waits
// only briefly, steps back to let the others pass, and tries again.
const lockTimeoutMs = 400

/** Puts a limit on how long the rest of the transaction waits for locks. */
export async function limitLockWaits(client: ClientBase): Promise<void> {
  await client.query(`set local lock_timeout = '${lockTimeoutMs}ms'`)
}

export const isLockTimeout = (error: unknown): boolean => hasCode(error, /^55P03$/)

/**
 * Repeats a transaction of this connection that met a lock of the table in its way. It must have rolled back before it throws. `what`
 * stands between "could not" and the name of the table.
 */
export async function retryOnLockTimeout<Result>(
  client: ClientBase,
  table: string,
  what: string,
  attempt: () => Promise<Result>,
): Promise<Result> {
  const { deadlineMs } = backoff.lockTimeout
  const untilDeadline = () => {
    const endsAtMs = Date.now() + deadlineMs
    return retry(attempt, {
      delayMs(cause, failures) {
        if (!isLockTimeout(cause)) return null
        const delayMs = delayAfter(backoff.lockTimeout, failures)
        return Date.now() + delayMs <= endsAtMs ? delayMs : null
      },
      wait,
    })
  }
  try {
    return await untilDeadline().catch(async (cause) => {
      if (!isLockTimeout(cause) || !(await endLongReaders(client, table))) throw cause
      return await untilDeadline()
    })
  } catch (cause) {
    if (!isLockTimeout(cause)) throw cause
    const holder = await holderOf(client, table)
    throw new Error(
      `Could not ${what} ${table}: a query held the table for ${deadlineMs / 1000} s.${holder} The next run tries again.`,
      { cause },
    )
  }
}

/** Changes a table in a transaction that waits for locks only briefly. As `retryOnLockTimeout`. */
export const changeTable = <Result>(
  client: ClientBase,
  table: string,
  what: string,
  change: () => Promise<Result>,
): Promise<Result> =>
  retryOnLockTimeout(client, table, what, () =>
    inTransaction(client, async () => {
      await limitLockWaits(client)
      return await change()
    }),
  )

/** Unless an administrator chose another time: `alter database … set tidemark.longest_reading = '30 min'`. */
const longestReadingSql = `coalesce(nullif(current_setting('tidemark.longest_reading', true), ''), '5 min')::interval`

/** Ends transactions that block the table for too long, of roles that can read and not write it. False: none was ended, or none may be. */
async function endLongReaders(client: ClientBase, table: string): Promise<boolean> {
  try {
    const { rows } = await client.query<{ ended: boolean }>(
      `select pg_terminate_backend(pid) as ended from pg_stat_activity
       where pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'
         and xact_start < clock_timestamp() - ${longestReadingSql}
         and not has_table_privilege(usesysid, to_regclass($1), 'insert')
         and pid in (select pid from pg_locks where granted and relation = to_regclass($1))`,
      [table],
    )
    return rows.some(({ ended }) => ended)
  } catch {
    // This role may not end them; an administrator can.
    return false
  }
}

/** Tells, for an error message, whose transaction is the oldest that uses the table, and how to end it, as far as Postgres shows that. */
async function holderOf(client: ClientBase, table: string): Promise<string> {
  type Holder = { pid: number; role: string; state: string | null; since: Date | null }
  const holder = await queryRow<Holder>(
    client,
    `select pid, usename as role, state, xact_start as since from pg_stat_activity
     where pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'
       and pid in (select pid from pg_locks where granted and relation = to_regclass($1))
     order by xact_start limit 1`,
    [table],
  )
  if (!holder) return ''
  const { pid, role, state, since } = holder
  const doing = state === 'active' ? '' : `, ${state ?? 'in a transaction'}`
  const when = since ? ` since ${since.toISOString()}` : ''
  return ` It is that of ${role} (process ${pid}${doing}${when}); this ends it: select pg_terminate_backend(${pid}).`
}

/** What `delayAfter` of src/util/backoff.ts says, as an interval; `failures` is an expression. */
export const delaySql = ({ firstMs, longestMs }: BackoffPolicy, failures: string): string =>
  `least(interval '${firstMs} ms' * 2 ^ least(${failures} - 1, 30), interval '${longestMs} ms')`

// Turns: what only one program does at a time. They are locks of lines in a table that nobody else may read. Advisory locks would not
// do: everybody who can connect can take any of them, and would hold up all workers.
// A query with parameters would keep its snapshot for as long as the turn lasts, and indexes that are made meanwhile would wait for it.
const turnSql = (name: string) =>
  `select from tidemark.turn where name = ${pg.escapeLiteral(name)} for update`

/** Waits for the turn, which ends with the transaction. */
export async function takeTurn(client: ClientBase, name: string): Promise<void> {
  await client.query('insert into tidemark.turn (name) values ($1) on conflict do nothing', [name])
  await client.query(turnSql(name))
}

/** A program that is frozen, or whose machine is gone, loses its turn after this (P8). */
const longestTurnMs = 5 * 60_000

/** Does nothing while another program is at it. What the work writes on other connections is not part of this transaction. */
export async function inTurn(pool: Pool, name: string, work: () => Promise<void>, longestMs = longestTurnMs) {
  await withConnection(pool, async (client) => {
    await client.query('insert into tidemark.turn (name) values ($1) on conflict do nothing', [name])
    await client.query(`begin; set local idle_in_transaction_session_timeout = ${longestMs}`)
    try {
      const { rowCount } = await client.query(`${turnSql(name)} skip locked`)
      if (rowCount) await work()
    } finally {
      await client.query('rollback')
    }
  })
}

// Advisory locks that have a number, in one place: two with the same number in one database would wait for each other. Only tests and the
// demo use these; the embedded Postgres has one of its own, in the database `postgres`.
export const lockKeys = {
  /** Of the tests, in the database that they are given. */
  testTemplate: 7_405_615,
  demo: 7_405_616,
} as const

/**
 * In SQL: makes a temporary table, or empties the one that a run before left to this session. It stays, because with each table that is made or
 * dropped all sessions of Postgres look through their plans. Never within a transaction: rolled back, it would hold what it held before.
 */
export const emptyTableSql = (table: string, columns: string): string =>
  `create temporary table if not exists ${table} (${columns}); truncate ${table}`

/**
 * How many statements of single streams a session keeps planned: each takes memory, and Postgres asks each of them whether a change of any
 * table concerns it.
 */
const mostKept = 200
const keptOf = new WeakMap<ClientBase, Set<string>>()

/** Of a statement that is made for one stream. Left out where the session keeps enough others until it ends: then it is planned each time. */
export function statementName(client: ClientBase, what: string, text: string): string | undefined {
  const kept = keptOf.get(client) ?? new Set()
  keptOf.set(client, kept)
  // Another text has another name: a session takes no second text for one.
  const name = `tidemark_${what}_${hash('sha256', text).slice(0, 16)}`
  if (kept.size < mostKept) kept.add(name)
  return kept.has(name) ? name : undefined
}

/**
 * A named statement that Postgres plans once for a session. Otherwise it plans one anew each time where the values seem to make a cheaper
 * plan, which takes longer than to find a few rows by index. Here it does not see them. `types` are those of its parameters.
 */
export function plannedOnce(sql: string, types: readonly string[]): string {
  const given = types.map((type, index) => `$${index + 1}::${type} as p${index + 1}`)
  const hidden = sql.replaceAll(
    /\$(\d+)/g,
    (_, place) => `((select p${place} from given)::${types[place - 1]})`,
  )
  return `with given as materialized (select ${given.join(', ')})${hidden.replace(/^\s*(with\b)?/, (_, more) => (more ? ', ' : ' '))}`
}
