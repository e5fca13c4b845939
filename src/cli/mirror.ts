// The mirror alone, for the verbs that need no upstream: opened, looked at or changed, and left again.

import type { Pool } from 'pg'
import { type Config, loadConfig, loadMirrorConfig } from '../config/load.ts'
import type { Document, Facts } from '../documents/document.ts'
import { hasCluster } from '../embedded-postgres/location.ts'
import type { Logger } from '../log.ts'
import { expectMigrated } from '../store/schema/migrate.ts'
import { type Database, openDatabase } from '../store/server/connect.ts'
import { DatabaseError, UsageError } from '../util/errors.ts'
import { untilAborted, withTimeout } from '../util/waiting.ts'
import type { Call } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { fittedTable } from './output.ts'
import { openRemote } from './remote.ts'

/** Says with which code the verb ends, if that is not always the same. */
type Work = (pool: Pool) => Promise<void> | Promise<ExitCode>

/** Nothing is written, and the schema stays as it is. */
export const readMirror = (call: Call, work: Work): Promise<ExitCode> => withMirror(call, work, true)

type Needed = Pick<Facts, 'pool' | 'catalogue'>

/** Prints the document, or shows it in words. */
export async function showFromMirror<Asked, Answer>(
  call: Call,
  document: Document<Needed, Asked, Answer>,
  asked: Asked,
  show: (found: Answer) => void,
  codeOf: (found: Answer) => ExitCode = () => exitCodes.done,
): Promise<ExitCode> {
  const tell = (found: Answer): ExitCode => {
    if (call.values.json) call.stdout.json(found)
    else show(found)
    return codeOf(found)
  }
  const remote = openRemote(call)
  if (remote !== null) return tell(await remote.read(document, asked))
  const { catalogue } = call
  return await readMirror(call, async (pool) => tell(await document.read({ pool, catalogue }, asked)))
}

/** How a list is shown: `none` says that nothing is in it. */
type Shown<Asked, Line> = {
  readonly asked: Asked
  readonly none: string
  readonly columns: readonly (readonly [title: string, cell: (line: Line) => string])[]
}

export const listFromMirror = <Asked, Line>(
  call: Call,
  document: Document<Needed, Asked, readonly Line[]>,
  { asked, none, columns }: Shown<Asked, Line>,
): Promise<ExitCode> =>
  showFromMirror(call, document, asked, (lines) => {
    const { stdout } = call
    if (lines.length === 0) return stdout.say(none)
    const rows = lines.map((line) => columns.map(([, cell]) => cell(line)))
    const titles = columns.map(([title]) => title)
    stdout.say(fittedTable(titles, rows, stdout))
  })

/** For what an operator decides. The schema stays as it is here too: workers of another version may be using it. */
export const changeMirror = (call: Call, work: Work): Promise<ExitCode> => withMirror(call, work, false)

/** The settings of verbs that the API does not have. */
export function loadConfigHere(environment: Call['environment']): Config {
  expectDatabase(environment)
  return loadConfig(environment)
}

/** Null: the embedded Postgres is meant. */
function expectDatabase(environment: Call['environment']): string | null {
  const { databaseUrl, tidemarkUrl } = loadMirrorConfig(environment)
  if (databaseUrl === null && tidemarkUrl !== null)
    throw new UsageError(
      'This needs Postgres itself, and cannot be asked over TIDEMARK_URL: set DATABASE_URL, or use the page of the console.',
    )
  return databaseUrl
}

async function withMirror(
  { environment, log, signal }: Call,
  work: Work,
  isReadOnly: boolean,
): Promise<ExitCode> {
  const databaseUrl = expectDatabase(environment)
  if (databaseUrl === null && !(await hasCluster('.tidemark')))
    throw new UsageError(
      'There is no mirror in this directory. `tidemark sync` makes one; to use another, set DATABASE_URL.',
    )
  const opening = openDatabase({ url: databaseUrl, log: quietly(log), isReadOnly })
  const database = await untilAborted(opening, signal).catch((error) => {
    if (signal.aborted) opening.then((opened) => opened.close()).catch(() => {})
    throw error
  })
  try {
    await expectMigrated(database)
    const working = async () => (await work(database.pool)) ?? exitCodes.done
    return await untilAborted(working(), signal)
  } catch (error) {
    throw isWithoutRight(error) ? await withoutRight(error, database, isReadOnly) : error
  } finally {
    await leave(database, signal)
  }
}

/** Short verbs do not log that an embedded Postgres is started, and where: that matters only to programs that run for a while. */
export const quietly = (log: Logger): Logger =>
  log.isLevelEnabled('debug') ? log : log.child({}, { level: 'warn' })

const isWithoutRight = (error: unknown): error is Error =>
  error instanceof Error && 'code' in error && error.code === '42501'

async function withoutRight(cause: Error, database: Database, isReadOnly: boolean): Promise<DatabaseError> {
  const { rows } = await database.pool.query<{ role: string; quoted: string }>(
    'select current_user::text as role, quote_ident(current_user) as quoted',
  )
  const { role = '', quoted = '' } = rows[0] ?? {}
  const schemas = 'schema tidemark, mirror, bi'
  const grants = `grant usage on ${schemas} to ${quoted}; grant select on all tables in ${schemas} to ${quoted}; grant execute on function tidemark.action_hash to ${quoted}`
  const advice = isReadOnly
    ? `Set DATABASE_URL to the role that the worker connects with. Or let this role read everything that Tidemark keeps, as the owner of the tables: ${grants}`
    : 'Set DATABASE_URL to the role that the worker connects with: only that one may change what Tidemark keeps.'
  return new DatabaseError(
    `The role ${role} lacks a right in Postgres at ${database.address} (${cause.message}). ${advice}`,
    { cause },
  )
}

const leaveMs = 2_000

/** Closes the database, but does not wait for a query if a person pressed Ctrl-C. */
const leave = (database: Database, signal: AbortSignal): Promise<void> =>
  signal.aborted ? withTimeout(leaveMs, database.close()).catch(() => {}) : database.close()
