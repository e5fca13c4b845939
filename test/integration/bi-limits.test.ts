// How much of the server the role may use that people query the mirror with: limits that are set once, and told where they cannot be set.

import { PassThrough } from 'node:stream'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { probePostgres } from '../../src/cli/probe-checks.ts'
import { loadConfig } from '../../src/config/load.ts'
import { openLog } from '../../src/log.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { openDatabase } from '../../src/store/server/connect.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'

describe.skipIf(!hasPostgres)('the role of the analysts', () => {
  const database = createTestDatabase({ isMigrated: false, forEach: true })
  const password = 'secret-of-the-role'
  const bi = () => `${database.name}_bi`
  const worker = () => `${database.name}_worker`
  const as = (role: string) => Object.assign(new URL(database.url), { username: role, password }).href
  const run = (sql: string) => database.pool.query(sql)

  beforeEach(async () => {
    await run(
      `create role ${bi()} login password '${password}'; create role ${worker()} login password '${password}'`,
    )
  })
  afterEach(async () => {
    await run(`drop owned by ${bi()}, ${worker()} cascade; drop role ${bi()}, ${worker()}`)
  })

  /** Brings the database up to date as this role, and returns what it warned of. */
  async function migrate(url = database.url, sourceTimezone = 'UTC'): Promise<readonly string[]> {
    const stream = new PassThrough()
    const lines: string[] = []
    stream.on('data', (line) => lines.push(String(line)))
    const opened = await openDatabase({ url, log: quietLog })
    try {
      await migrateDatabase({
        database: opened,
        ...{ streams, sourceTimezone },
        biRole: bi(),
        log: openLog({ level: 'warn', stream }),
      })
    } finally {
      await opened.close()
    }
    return lines.flatMap((line) => JSON.parse(line).statements ?? [])
  }
  async function asBi<Result>(work: (client: pg.Client) => Promise<Result>): Promise<Result> {
    const client = new pg.Client(as(bi()))
    await client.connect()
    try {
      return await work(client)
    } finally {
      await client.end()
    }
  }
  const limits = () =>
    asBi(async (client) => {
      const names = ['statement_timeout', 'idle_in_transaction_session_timeout', 'temp_file_limit']
      const { rows } = await client.query(
        `select array_agg(current_setting(name) order by place) as limits,
           (select rolconnlimit from pg_roles where rolname = current_user) as connections
         from unnest($1::text[]) with ordinality as wanted (name, place)`,
        [names],
      )
      return rows[0]
    })
  const fills = [
    'create temporary table big as select 1',
    `select lo_from_bytea(0, 'x')`,
    'select lo_create(0)',
    'create table public.big as select 1',
  ]

  it('takes days from SOURCE_TIMEZONE, also when that changes, until somebody sets another zone (P20)', async () => {
    const zone = () => asBi(async (client) => (await client.query('show timezone')).rows[0].TimeZone)
    const settled = async (sourceTimezone: string) => {
      expect(await migrate(database.url, sourceTimezone)).toEqual([])
      return await zone()
    }
    const ofServer = await settled('UTC')
    expect(await settled('Europe/Oslo')).toBe('Europe/Oslo')
    expect(await settled('Asia/Tokyo')).toBe('Asia/Tokyo')
    await run(`alter role ${bi()} in database ${database.name} set timezone = 'Europe/Lisbon'`)
    expect(await settled('Europe/Oslo')).toBe('Europe/Lisbon')
    await run(`alter role ${bi()} in database ${database.name} reset timezone`)
    expect(await settled('Asia/Tokyo')).toBe(ofServer)
  })

  it('cannot fill the disk, take all connections or run for ever, where Tidemark may see to that', async () => {
    expect(await migrate()).toEqual([])
    const { rows } = await run(
      `select greatest(10, current_setting('max_connections')::int / 4) as connections`,
    )
    expect(await limits()).toEqual({ limits: ['1h', '1min', '5GB'], connections: rows[0].connections })
    for (const fill of fills)
      await expect(
        asBi((client) => client.query(fill)),
        fill,
      ).rejects.toThrow('permission denied')
    await expect(asBi((client) => client.query('set temp_file_limit = -1'))).rejects.toThrow(
      'permission denied',
    )
    expect((await asBi((client) => client.query('select from bi.assignment'))).rowCount).toBe(0)
  })

  it('keeps the limits that an owner chose, and those that an owner took back stay away', async () => {
    await run(`alter role ${bi()} set statement_timeout = '2h'; alter role ${bi()} connection limit 3`)
    await migrate()
    expect(await limits()).toEqual({ limits: ['2h', '1min', '5GB'], connections: 3 })
    await run(`alter role ${bi()} in database ${database.name} reset temp_file_limit;
      grant temporary on database ${database.name} to public`)
    expect(await migrate()).toEqual([])
    expect(await limits()).toEqual({ limits: ['2h', '1min', '-1'], connections: 3 })
    await asBi((client) => client.query(fills[0] ?? ''))
  })

  it('has them by the statements that Tidemark prints where it may not set them; the worker can work then', async () => {
    await run(`grant create on database ${database.name} to ${worker()}`)
    const statements = await migrate(as(worker()))
    for (const start of [
      ...['idle_in_transaction_session_timeout', 'statement_timeout', 'temp_file_limit'].map(
        (name) => `alter role ${bi()} in database ${database.name} set ${name} = '`,
      ),
      `alter role ${bi()} connection limit `,
      `grant temporary on database ${database.name} to ${worker()}, ${worker()}; revoke temporary on database ${database.name} from public`,
      'revoke execute on function pg_catalog.lo_creat',
    ])
      expect([start, statements.filter((one) => one.startsWith(start)).length]).toEqual([start, 1])
    expect(statements).toHaveLength(6)
    const config = loadConfig({
      ...{ ASSIGNMENT_BASE_URL: 'https://host.example', AUTH_URL: 'https://host.example' },
      ...{
        CLIENT_GUID: '6f1c2a52-0d3b-4c58-9f0e-3a1d2c4b5e6f',
        SUBJECT_ID: 'integration',
        API_KEY: 'a key of tests',
      },
      ...{ DATABASE_URL: as(worker()), BI_ROLE: bi() },
    })
    const probed = async () =>
      (await probePostgres(config, quietLog)).filter(({ name }) => name === 'postgres BI role')
    expect((await probed()).map(({ isWarning }) => isWarning)).toEqual(Array.from({ length: 6 }, () => true))
    expect(JSON.stringify(await probed())).toContain('Have an administrator run: revoke execute on function')
    for (const [databaseUrl, told] of [
      [as(worker()), 'owns the record of who did what'],
      [database.url, 'is a superuser'],
    ] as const)
      expect(
        (await probePostgres({ ...config, databaseUrl }, quietLog)).filter(
          ({ name }) => name === 'postgres role',
        ),
      ).toEqual([expect.objectContaining({ isWarning: true, says: expect.stringContaining(told) })])
    expect(await migrate(as(worker()))).toEqual(statements)
    for (const statement of statements) await run(statement)
    expect(await migrate(as(worker()))).toEqual([])
    expect(await probed()).toEqual([
      { name: 'postgres BI role', isFine: true, says: `${bi()} has limits on time, space and connections` },
    ])
    for (const fill of fills)
      await expect(
        asBi((client) => client.query(fill)),
        fill,
      ).rejects.toThrow('permission denied')
  })
})
