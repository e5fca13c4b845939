// A database of its own for each test file, or for each test, copied from a template that was migrated once. It stays when
// a test failed, and says its name.

import { createHash, randomBytes } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, inject, type TestContext } from 'vitest'
import { openLog } from '../../src/log.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { type Database, openDatabase } from '../../src/store/server/connect.ts'
import { lockKeys } from '../../src/store/server/session.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'

/** For `describe.skipIf(!hasPostgres)`. */
export const hasPostgres = inject('databaseUrl') !== null

export const quietLog = openLog({ level: 'fatal' })

export type TestDatabase = Omit<Database, 'close' | typeof Symbol.asyncDispose> & {
  readonly name: string
  /** Mostly by a socket, for whatever does not ask how it is connected. */
  readonly quickUrl: string
}

type Opened = Database & Pick<TestDatabase, 'name' | 'quickUrl'>

/** Call it in a file or a `describe`; the database is there once the tests run. `forEach`: each test begins with nothing in it. */
export function createTestDatabase({ isMigrated = true, forEach = false } = {}): TestDatabase {
  let opened: Opened | null = null
  let hasFailed = false
  const there = () => {
    if (!opened) throw new Error('the test database is there only while tests run')
    return opened
  }

  const open = async () => {
    opened = await openOne(isMigrated)
  }
  const drop = async () => {
    if (!opened) return
    const [one, isKept] = [opened, hasFailed]
    opened = null
    hasFailed = false
    await dropOne(one, isKept)
  }
  if (forEach) beforeEach(open)
  else beforeAll(open)
  afterEach(async ({ task }) => {
    hasFailed ||= task.result?.state === 'fail'
    if (forEach) await drop()
  })
  if (!forEach) afterAll(drop)

  return {
    get name() {
      return there().name
    },
    get pool() {
      return there().pool
    },
    get connection() {
      return there().connection
    },
    get address() {
      return there().address
    },
    get cluster() {
      return there().cluster
    },
    get url() {
      return there().url
    },
    get quickUrl() {
      return there().quickUrl
    },
    embedded: null,
  }
}

/** One for a test that runs beside others: `await databaseOf(test)` with what the test is given. */
export async function databaseOf({ task, onTestFinished }: TestContext): Promise<TestDatabase> {
  const opened = await openOne(true)
  onTestFinished(() => dropOne(opened, task.result?.state === 'fail'))
  return opened
}

async function openOne(isMigrated: boolean): Promise<Opened> {
  const name = `tidemark_test_${randomBytes(6).toString('hex')}`
  await asAdmin(async (admin) => {
    const template = isMigrated ? await migratedTemplate(admin) : 'template0'
    // Half the time of writing each page of the template to the log.
    await admin.query(`create database ${name} template ${template} strategy file_copy`)
  })
  const [url, quickUrl] = [urlOf(name), quickUrlOf(name)]
  return { ...(await openDatabase({ url: quickUrl, log: quietLog })), url, quickUrl, name }
}

async function dropOne({ name, close }: Opened, isKept: boolean): Promise<void> {
  const closed = close()
  if (isKept) {
    process.stderr.write(`\nThe database of the failed test stays: ${name}\n`)
    // What failed may hold a connection forever.
    closed.catch(() => {})
    return
  }
  await closed
  await asAdmin((admin) => admin.query(`drop database ${name} with (force)`))
}

async function asAdmin<Result>(work: (admin: pg.Client) => Promise<Result>): Promise<Result> {
  const admin = new pg.Client(quickUrlOf('postgres'))
  await admin.connect()
  try {
    // Copying a template and making it exclude each other.
    await admin.query('select pg_advisory_lock($1)', [lockKeys.testTemplate])
    return await work(admin)
  } finally {
    await admin.end()
  }
}

async function migratedTemplate(admin: pg.Client): Promise<string> {
  const name = `tidemark_template_${schemaDigest()}`
  const { rows } = await admin.query('select 1 from pg_database where datname = $1', [name])
  if (rows.length > 0) return name
  const unfinished = `${name}_unfinished`
  await admin.query(`drop database if exists ${unfinished} with (force)`)
  await admin.query(`create database ${unfinished} template template0`)
  const database = await openDatabase({ url: quickUrlOf(unfinished), log: quietLog })
  try {
    await migrateDatabase({ database, streams, biRole: null, log: quietLog })
  } finally {
    await database.close()
  }
  await admin.query(`alter database ${unfinished} rename to ${name}`)
  return name
}

/** A given Postgres may hold templates of other versions of this program. */
function schemaDigest(): string {
  const digest = createHash('sha256')
  const sources = globSync(['migrations/*.sql', 'src/store/**/*.ts', 'src/streams/*.ts']).sort()
  for (const path of sources) digest.update(readFileSync(path))
  return digest.digest('hex').slice(0, 12)
}

function adminUrl(): string {
  const url = inject('databaseUrl')
  if (url === null)
    throw new Error('there is no Postgres; skip these tests with describe.skipIf(!hasPostgres)')
  return url
}

const urlOf = (database: string): string => renamed(adminUrl(), database)
const quickUrlOf = (database: string): string => renamed(inject('databaseSocketUrl') ?? adminUrl(), database)

/** Not by a URL object: a socket has no host. */
const renamed = (url: string, database: string): string => url.replace(/\/postgres(?=\?|$)/, `/${database}`)
