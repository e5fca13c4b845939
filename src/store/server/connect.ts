// The connection to Postgres: the one that DATABASE_URL names or the embedded one, checked before anybody relies on it.
// Knows nothing of what is stored there.

import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import pg, { type PoolConfig } from 'pg'
import { startEmbedded } from '../../embedded-postgres/server.ts'
import type { Logger } from '../../log.ts'
import { DatabaseError, messageOf, UsageError } from '../../util/errors.ts'
import { addressIn, type PostgresUrl, readPostgresUrl } from '../../util/postgres-url.ts'
import { nearest } from '../../util/text.ts'
import { withTimeout } from '../../util/waiting.ts'
import { clientOfHosts } from './hosts.ts'
import { giveOwnership, ownershipStatements } from './ownership.ts'
import { countSessions, expectEnough, type Sessions } from './pooler.ts'
import { queryRow } from './query.ts'
import { hasCode } from './session.ts'
import { settleSession } from './settings.ts'

// From a libpq-style URL to what the driver wants, above all its TLS options, which libpq and the driver read
// differently. Opens nothing.
const modes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
type Mode = (typeof modes)[number]

const tlsNames = ['sslmode', 'ssl', 'sslrootcert', 'sslcert', 'sslkey', 'sslpassword', 'sslnegotiation']

type Way = PoolConfig & { readonly Client?: typeof pg.Client }

/** The ways to connect, the preferred one first: `prefer` and `allow` have two, one with TLS and one without. */
function connectionWays(target: PostgresUrl, isReadOnly: boolean): readonly Way[] {
  const { hosts, wish } = target
  const [first] = hosts
  refuseUnknownTls(first.searchParams)
  const mode = readMode(target)
  const tls = mode === 'disable' ? false : tlsOptions(mode, first.searchParams)
  for (const { searchParams } of hosts) for (const name of tlsNames) searchParams.delete(name)
  const way = (encryption: Pick<PoolConfig, 'ssl'>): Way => {
    const plain = { connectionString: first.href, ...encryption }
    return hosts.length === 1 && wish === null
      ? plain
      : { ...plain, Client: clientOfHosts({ ...target, isReadOnly, encryption }) }
  }
  const [plain, encrypted] = [way({}), way({ ssl: tls })]
  if (mode === 'prefer') return hosts.every(isSocket) ? [plain] : [encrypted, plain]
  if (mode === 'allow') return [plain, encrypted]
  return [tls ? encrypted : plain]
}

function parseUrl(url: string): PostgresUrl {
  try {
    return readPostgresUrl(url)
  } catch (error) {
    throw new UsageError(`DATABASE_URL ${messageOf(error)}`)
  }
}

const isSocket = (url: URL): boolean => url.hostname === '' || url.searchParams.has('host')

/** Whether it is on this machine: then nobody can listen on the way. */
const isHere = (url: URL): boolean =>
  isSocket(url) || /^(?:localhost|\[::1\]|127(?:\.\d+){3})$/i.test(url.hostname)

/** Refuses TLS options that would be ignored: their owner believes the connection to be safe, and it would not be. */
function refuseUnknownTls(options: URLSearchParams): void {
  for (const name of options.keys()) {
    if (tlsNames.includes(name) && options.getAll(name).length > 1)
      throw new DatabaseError(`DATABASE_URL has ${name} more than once. Leave one of them.`)
    if (tlsNames.includes(name) || !/ssl|tls|cert|verify|^.{0,3}mode$/i.test(name)) continue
    const [meant] = nearest(name, tlsNames)
    throw new DatabaseError(
      `DATABASE_URL has the option ${name}, which Tidemark does not know${meant ? `: did you mean ${meant}?` : `. Those for TLS are ${tlsNames.join(', ')}.`}`,
    )
  }
}

/** What libpq calls `sslmode`, also where the URL does not say. */
export function readMode({ hosts }: PostgresUrl): Mode {
  const options = hosts[0].searchParams
  const ssl = options.get('ssl')
  if (ssl !== null && ssl !== 'true' && ssl !== 'false')
    throw new DatabaseError(`DATABASE_URL says ssl=${ssl}; it must be true or false`)
  const given = options.get('sslmode') ?? (ssl === null ? null : ssl === 'true' ? 'require' : 'disable')
  // libpq would also connect to another host without TLS, or accept anybody's certificate: whoever listens would get the password.
  if (given === null)
    return hosts.every(isHere) && options.get('sslrootcert') !== 'system' ? 'prefer' : 'verify-full'
  const mode = modes.find((known) => known === given)
  if (!mode)
    throw new DatabaseError(`DATABASE_URL says sslmode=${given}; it must be one of ${modes.join(', ')}`)
  return mode
}

function tlsOptions(mode: Mode, options: URLSearchParams): ConnectionOptions {
  const root = options.get('sslrootcert')
  const certificate = options.get('sslcert')
  const key = options.get('sslkey')
  const passphrase = options.get('sslpassword')
  // As libpq has it: `require` verifies the chain only when it was given something to verify it with.
  const verifiesChain = mode.startsWith('verify') || (mode === 'require' && root !== null)
  const ssl = {
    rejectUnauthorized: verifiesChain,
    ...(passphrase ? { passphrase } : {}),
    ...(mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  }
  if (root && root !== 'system') keepFromFile(ssl, 'ca', root)
  if (certificate) keepFromFile(ssl, 'cert', certificate)
  if (key) keepFromFile(ssl, 'key', key)
  return ssl
}

const fileOptions = { ca: 'sslrootcert', cert: 'sslcert', key: 'sslkey' } as const

/** Each connection takes what the file holds by then; while it cannot be read, what it held before. */
function keepFromFile(ssl: ConnectionOptions, name: keyof typeof fileOptions, path: string): void {
  let held = readFile(fileOptions[name], path)
  const get = () => {
    try {
      held = readFileSync(path)
    } catch {}
    return held
  }
  Object.defineProperty(ssl, name, { get, enumerable: true, configurable: true })
}

function readFile(option: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new DatabaseError(`DATABASE_URL names ${path} as ${option}, which cannot be read (${code})`, {
      cause,
    })
  }
}

export type Database = AsyncDisposable & {
  readonly pool: pg.Pool
  /** What the pool connects with; it holds the password, so it is for drivers only (P9). */
  readonly connection: PoolConfig
  readonly url: string
  /** Host, port and database: all that may be said of the URL. */
  readonly address: string
  /** Tells this Postgres from every other one at the same address; null where it does not say. */
  readonly cluster: string | null
  /** Where people find the embedded Postgres; null when DATABASE_URL named one. */
  readonly embedded: { readonly address: string; readonly urlFile: string } | null
  close(): Promise<void>
}

type Options = {
  /** DATABASE_URL; null for an embedded Postgres. */
  readonly url: string | null
  /** Where the embedded Postgres is kept. */
  readonly directory?: string
  readonly log: Logger
  /** Nothing can be written through it, and a role that may only read will do. */
  readonly isReadOnly?: boolean
  /** As whom it works, if not as the one who signs in. */
  readonly role?: string | null
  /** Of a worker: how many sessions it has beside those of this pool. A pooler has to have them all. */
  readonly sessionsBeside?: number
}

/**
 * The most sessions that are held at once. Each of a worker's nine runs holds one and writes with another; the rest is for what ends by
 * itself, and for polls that hang, which hold one and write nothing. Pages write side by side only while enough are left.
 */
const maxConnections = 20
/** Of a program that reads one thing after the other. */
const fewSessions = 2
const connectTimeoutMs = 15_000
/** Longer than most streams rest between two polls: a new connection costs more than a poll. */
const idleMs = 90_000
/** What Postgres remembers of tables and statements for a connection goes with it. */
const longestLifeSeconds = 1_800
const closable = (parts: Omit<Database, 'close' | typeof Symbol.asyncDispose>, close: Database['close']) => ({
  ...parts,
  close,
  [Symbol.asyncDispose]: close,
})

export async function openDatabase({
  url,
  directory = '.tidemark',
  log,
  isReadOnly = false,
  role = null,
  sessionsBeside,
}: Options): Promise<Database> {
  const sessions = sessionsBeside === undefined ? fewSessions : maxConnections + sessionsBeside
  const wanted = { isReadOnly, role, sessions }
  if (url !== null) return await connect(url, log, wanted)
  const server = await startEmbedded({ directory, log })
  try {
    const database = await connect(server.url, log, wanted)
    await takeOver(database, server.adminUrl)
    const embedded = { address: server.address, urlFile: server.urlFile }
    return closable({ ...database, embedded }, async () => {
      await database.close()
      await server.leave()
    })
  } catch (error) {
    await server.leave()
    throw error
  }
}

/** What the embedded Postgres holds may have been made as its superuser, by an earlier version. */
async function takeOver({ pool, url }: Pick<Database, 'pool' | 'url'>, adminUrl: string): Promise<void> {
  const roleOf = (one: string) => decodeURIComponent(new URL(one).username)
  const given = { schemas: ['mirror', 'bi', 'tidemark', 'bullmq'], from: [roleOf(adminUrl)], to: roleOf(url) }
  if ((await ownershipStatements(pool, given)).length === 0) return
  const admin = clientFor({ connectionString: adminUrl })
  await admin.connect()
  try {
    await giveOwnership(admin, given)
  } finally {
    await admin.end()
  }
}

/** So soon after the last word it is checked whether the machine of Postgres is still there; otherwise it would take two hours. */
const keepAliveMs = 10_000

type PoolOptions = PoolConfig & {
  readonly connectionTimeoutMillis: number
  /** Makes each connection ready. It has as long as connecting has. */
  readonly settle: (client: pg.ClientBase) => Promise<void>
  /** A connection broke while nobody used it: whoever needs one next gets a new one. */
  readonly onBroken: (error: Error) => void
}

export function openPool({ settle, onBroken, ...options }: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    ...options,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveMs,
    onConnect: (client) => withTimeout(options.connectionTimeoutMillis, settle(client)),
  })
  // If a connection breaks while somebody holds it, the next query fails. The error has to be listened to, or it would end the program.
  pool.on('connect', (client) => void client.on('error', () => {}))
  pool.on('error', onBroken)
  return pool
}

type Wanted = { readonly isReadOnly: boolean; readonly role: string | null; readonly sessions: number }

async function connect(url: string, log: Logger, wanted: Wanted): Promise<Database> {
  const target = parseUrl(url)
  const where = describe(target)
  const connection = await firstWayThatWorks(connectionWays(target, wanted.isReadOnly), where, wanted)
  const pool = openPool({
    ...connection,
    max: maxConnections,
    connectionTimeoutMillis: connectTimeoutMs,
    idleTimeoutMillis: idleMs,
    maxLifetimeSeconds: longestLifeSeconds,
    application_name: 'tidemark',
    settle: (client) => settle(client, wanted),
    onBroken: (error) => log.debug({ err: error }, 'an idle connection to Postgres broke'),
  })
  const cluster = await clusterOf(pool, where)
  return closable({ pool, connection, url, address: where, cluster, embedded: null }, () => pool.end())
}

async function settle(client: pg.ClientBase, { isReadOnly, role }: Wanted): Promise<void> {
  if (role !== null) await client.query(`set role ${pg.escapeIdentifier(role)}`)
  await settleSession(client)
  if (isReadOnly) await client.query('set default_transaction_read_only = on')
}

/** By default every role may ask for it. A role may have lost that right, and databases that only speak like Postgres do not know it. */
const keepsItToItself = /^42(?:501|883)$/

/** The identifier of the cluster. A standby that becomes the primary has the same one. */
async function clusterOf(pool: pg.Pool, where: string): Promise<string | null> {
  const idSql = 'select system_identifier::text as id from pg_control_system()'
  try {
    const found = await queryRow<{ id: string }>(pool, idSql)
    return found?.id ?? null
  } catch (cause) {
    if (hasCode(cause, keepsItToItself)) return null
    await pool.end()
    throw new DatabaseError(`Postgres at ${where} cannot be reached: ${messageOf(cause)}`, { cause })
  }
}

async function firstWayThatWorks(ways: readonly Way[], where: string, { isReadOnly, sessions }: Wanted) {
  let failure: unknown
  for (const way of ways) {
    const client = clientFor(way)
    try {
      await client.connect()
      const needed = sessions + sessionsToLook(way)
      expectEnough(await countSessions({ client, another: () => clientFor(way), needed, where }), where)
      await check(client, where, isReadOnly)
      return way
    } catch (error) {
      if (error instanceof DatabaseError) throw error
      failure = error
    } finally {
      await client.end().catch(() => {})
    }
  }
  const what = `Postgres at ${where} cannot be reached: ${messageOf(failure)}. ${adviceFor(failure)}`
  throw new DatabaseError(what, { cause: failure })
}

/** Where there are several hosts, one more looks every few seconds which of them takes writes. */
const sessionsToLook = ({ Client }: PoolConfig): number => (Client === undefined ? 0 : 1)

/** How many sessions a worker needs, and how many of them it would get now. */
export async function sessionsForWorker(
  { connection, address: where }: Pick<Database, 'connection' | 'address'>,
  sessionsBeside: number,
): Promise<Sessions> {
  const client = clientFor(connection)
  await client.connect()
  try {
    const needed = maxConnections + sessionsBeside + sessionsToLook(connection)
    return await countSessions({ client, another: () => clientFor(connection), needed, where })
  } finally {
    await client.end()
  }
}

function adviceFor(failure: unknown): string {
  if (/does not support SSL/.test(messageOf(failure)))
    return 'On another host Tidemark speaks TLS only. If nobody else can listen on the network between, add sslmode=disable to DATABASE_URL.'
  const { code = '' } = failure as NodeJS.ErrnoException
  if (code === '53300')
    return 'End sessions that nobody needs, or allow more (max_connections, or the limit of the role).'
  return /CERT|VERIFY|ISSUER|ALTNAME/.test(code)
    ? 'Set EXTRA_CA_FILE to a file with the certificate of the authority that signed it, and use the name that it was made for. With sslmode=require in DATABASE_URL it is not verified.'
    : 'Check DATABASE_URL.'
}

function clientFor({ Client, ...config }: PoolConfig): pg.Client {
  const client = new ((Client ?? pg.Client) as typeof pg.Client)({
    ...config,
    connectionTimeoutMillis: connectTimeoutMs,
  })
  client.on('error', () => {})
  return client
}

type Properties = {
  readonly version: number
  readonly version_text: string
  readonly encoding: string
  readonly is_read_only: boolean
  readonly role: string
  readonly may_create: boolean
  readonly may_make_temporary: boolean
}

/** Fails early and in plain words where Postgres would fail late and in its own. */
async function check(client: pg.Client, where: string, isReadOnly: boolean): Promise<void> {
  const found = await queryRow<Properties>(
    client,
    `select
      current_setting('server_version_num')::int as version,
      current_setting('server_version') as version_text,
      current_setting('server_encoding') as encoding,
      current_setting('transaction_read_only')::bool as is_read_only,
      current_user::text as role,
      has_database_privilege(current_database(), 'TEMP') as may_make_temporary,
      has_database_privilege(current_database(), 'CREATE') or (
        select count(*) = 3 and bool_and(has_schema_privilege(oid, 'CREATE'))
        from pg_namespace where nspname in ('mirror', 'bi', 'tidemark')
      ) as may_create`,
  )
  if (!found)
    throw new DatabaseError(`Postgres at ${where} accepts connections, but does not answer queries.`)
  if (found.version < 140_000)
    throw new DatabaseError(
      `Postgres at ${where} is version ${found.version_text}. Tidemark needs 14 or newer.`,
    )
  if (found.encoding !== 'UTF8')
    throw new DatabaseError(
      `The database at ${where} has the encoding ${found.encoding}. Tidemark needs UTF8: create database tidemark encoding 'UTF8' template template0`,
    )
  if (isReadOnly) return
  if (found.is_read_only)
    throw new DatabaseError(
      `Postgres at ${where} is read-only. If it is a standby, set DATABASE_URL to the primary; otherwise default_transaction_read_only is set for the role, the database or the server.`,
    )
  if (!found.may_create || !found.may_make_temporary)
    throw new DatabaseError(
      `The role ${found.role} may not create schemas or temporary tables at ${where}. Run as the owner of the database: grant create, temporary on database ${pg.escapeIdentifier(databaseOf(client))} to ${pg.escapeIdentifier(found.role)}`,
    )
}

const databaseOf = (client: pg.Client): string => client.database ?? 'postgres'

const describe = ({ hosts }: PostgresUrl): string => `${hosts.map(addressIn).join(',')}${hosts[0].pathname}`
