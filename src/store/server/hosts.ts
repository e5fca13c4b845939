// Several hosts in DATABASE_URL. Each new session goes to the first host that is as it should be, and keeps to it as long as it is. When
// another host takes its place, sessions at the old one are broken off: what they do there could not be written, or would be old.

import pg, { type PoolConfig } from 'pg'
import { messageOf, UsageError } from '../../util/errors.ts'
import { addressIn, type PostgresUrl, type SessionWish } from '../../util/postgres-url.ts'

type Options = PostgresUrl & {
  /** Nothing is written: a standby will do where there is nothing else. */
  readonly isReadOnly: boolean
  readonly encryption: Pick<PoolConfig, 'ssl'>
}
type Role = { readonly isReadOnly: boolean; readonly isStandby: boolean }
type IsWanted = (role: Role) => boolean

const lookTimeoutMs = 4_000
/** A host that was as it should be is not looked at again for so long. */
const goodForMs = 1_000
/** A machine that is gone says nothing: its sessions would wait for a quarter of an hour, and nobody would ask for a new one. */
const lookEveryMs = 3_000

const takesWrites: IsWanted = ({ isReadOnly }) => !isReadOnly
const isAny: IsWanted = () => true

/** As libpq has it: hosts are gone through once for each of these. */
const readingWishes: Readonly<Record<SessionWish, readonly IsWanted[]>> = {
  any: [isAny],
  'read-write': [takesWrites],
  'read-only': [({ isReadOnly }) => isReadOnly],
  primary: [({ isStandby }) => !isStandby],
  standby: [({ isStandby }) => isStandby],
  'prefer-standby': [({ isStandby }) => isStandby, isAny],
}

function wantedOf({ wish, isReadOnly }: Options): readonly IsWanted[] {
  if (isReadOnly) return wish === null ? [takesWrites, isAny] : readingWishes[wish]
  if (wish === 'standby' || wish === 'read-only')
    throw new UsageError(
      `DATABASE_URL says target_session_attrs=${wish}, but Tidemark writes: set it to read-write, or leave it out.`,
    )
  return [takesWrites]
}

/** The class of the clients that go to one of these hosts, for pools. */
export function clientOfHosts(options: Options): typeof pg.Client {
  const hosts = openHosts(options)
  return class ClientOfHosts extends pg.Client {
    // Pools give a callback.
    override connect(): Promise<pg.Client>
    override connect(callback: (error: Error | null, client?: pg.Client) => void): void
    override connect(callback?: (error: Error | null, client?: pg.Client) => void): unknown {
      const connected = hosts.find().then((url) => {
        // A pool that has waited for too long has given it up.
        if (this.connection.stream.destroyed) throw new Error('timeout exceeded when trying to connect')
        Object.assign(this, placeOf(url))
        hosts.add(this)
        return super.connect()
      })
      return callback ? void connected.then((client) => callback(null, client), callback) : connected
    }
  }
}

function placeOf(url: URL): Pick<pg.Client, 'host' | 'port'> {
  const { host, port } = new pg.Client(url.href)
  return { host, port }
}

function openHosts(options: Options) {
  const { hosts } = options
  const wanted = wantedOf(options)
  const sessions = new Map<pg.Client, URL>()
  let current: URL | null = null
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let looking: Promise<URL> | null = null
  let regularly: NodeJS.Timeout | undefined

  async function look(): Promise<URL> {
    const found = await firstWanted(current === null ? hosts : [current, ...hosts], wanted, options)
    current = found
    lookedAtMs = performance.now()
    for (const [client, url] of sessions) if (url !== found) client.connection.stream.destroy()
    return found
  }

  async function find(): Promise<URL> {
    if (current !== null && performance.now() - lookedAtMs < goodForMs) return current
    looking ??= look().finally(() => {
      looking = null
    })
    return await looking
  }

  return {
    find,
    add(client: pg.Client) {
      if (current === null) return
      sessions.set(client, current)
      regularly ??= setInterval(() => void find().catch(() => {}), lookEveryMs).unref()
      client.once('end', () => {
        sessions.delete(client)
        if (sessions.size > 0) return
        clearInterval(regularly)
        regularly = undefined
      })
    },
  }
}

async function firstWanted(hosts: readonly URL[], wanted: readonly IsWanted[], options: Options) {
  const roles = new Map<URL, Role | Error>()
  for (const isWanted of wanted)
    for (const url of hosts) {
      const role = roles.get(url) ?? (await roleOf(url, options))
      roles.set(url, role)
      if (!(role instanceof Error) && isWanted(role)) return url
    }
  const said = [...roles].map(([url, role]) => `${addressIn(url)}: ${whyNot(role)}`)
  const cause = [...roles.values()].find((role) => role instanceof Error)
  throw new Error(`no host of DATABASE_URL can be used (${said.join('; ')})`, {
    cause: cause ?? Object.assign(new Error('there is no primary'), { code: '25006' }),
  })
}

const whyNot = (role: Role | Error): string =>
  role instanceof Error
    ? messageOf(role)
    : `it is ${role.isStandby ? 'a standby' : role.isReadOnly ? 'read-only' : 'no standby'}`

/** Of the network, or because Postgres starts or stops there: another host may do. All else would be the same on each. */
const passesBy = /^(?:E[A-Z_]+|57P0.|53300|08...)$/

async function roleOf(url: URL, { encryption }: Options): Promise<Role | Error> {
  const client = new pg.Client({
    connectionString: url.href,
    ...encryption,
    connectionTimeoutMillis: lookTimeoutMs,
    query_timeout: lookTimeoutMs,
    application_name: 'tidemark',
  })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<Role>(
      `select pg_catalog.current_setting('transaction_read_only')::bool as "isReadOnly", pg_catalog.pg_is_in_recovery() as "isStandby"`,
    )
    return rows[0] ?? new Error('it does not answer queries')
  } catch (error) {
    if (!(error instanceof Error)) throw error
    const { code } = error as NodeJS.ErrnoException
    if (code !== undefined && !passesBy.test(code)) throw error
    return error
  } finally {
    await client.end().catch(() => {})
  }
}
