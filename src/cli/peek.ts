// What verbs look up in the mirror where they could do without: what was found out about streams that the settings add, and which settings
// were changed while workers run.

import type { Pool } from 'pg'
import { sourceOfEnvironment } from '../config/environment.ts'
import { type Environment, loadMirrorConfig } from '../config/load.ts'
import { readAddedStreams } from '../config/stream-variables.ts'
import { hasCluster } from '../embedded-postgres/location.ts'
import { type Logger, redact } from '../log.ts'
import { readOverrides, readOverridesAndAsked } from '../store/book/overrides.ts'
import { learnAddedStreams } from '../store/book/streams.ts'
import { openDatabase } from '../store/server/connect.ts'
import { type Catalogue, catalogueOf } from '../streams/catalog.ts'
import { keyIn } from '../streams/names.ts'
import type { StoredOverride } from '../streams/settings.ts'
import { messageOf } from '../util/errors.ts'

/** Null where there is no mirror yet. */
async function peek<Found>(
  environment: Environment,
  log: Logger,
  look: (pool: Pool) => Promise<Found>,
): Promise<Found | null> {
  const { databaseUrl: url } = loadMirrorConfig(environment)
  if (url === null && !(await hasCluster('.tidemark'))) return null
  const quiet = log.child({}, { level: 'error' })
  await using database = await openDatabase({ url, log: quiet, isReadOnly: true })
  return await look(database.pool)
}

/** Ignores failures: the verb itself will meet and report them. */
export async function learnStreams(environment: Environment, log: Logger): Promise<Catalogue> {
  const source = sourceOfEnvironment(environment)
  const added = readAddedStreams(environment).map((one) => ({ ...one, name: keyIn(source, one.name) }))
  try {
    const learnt = await peek(environment, log, (pool) => learnAddedStreams(pool, added))
    return catalogueOf(added, learnt ?? undefined, source)
  } catch (error) {
    log.debug({ err: error }, 'could not look up what streams are like that the settings add')
    return catalogueOf(added, undefined, source)
  }
}

/** With why they are not known. */
export async function peekAtOverrides(
  environment: Environment,
  log: Logger,
): Promise<{ readonly overrides: readonly StoredOverride[]; readonly unknownBecause: string | null }> {
  try {
    const source = sourceOfEnvironment(environment)
    const overrides = await peek(environment, log, (pool) => readOverrides(pool, source))
    return { overrides: overrides ?? [], unknownBecause: null }
  } catch (error) {
    return { overrides: [], unknownBecause: redact(messageOf(error)) }
  }
}

/** What holds beside the environment. It is as if there were nothing where Postgres cannot be asked: what is left can be used without it. */
export async function peekAtKept(
  environment: Environment,
  log: Logger,
): Promise<Pick<Awaited<ReturnType<typeof readOverridesAndAsked>>, 'overrides' | 'alerts'>> {
  const none = { overrides: [], alerts: [] }
  return await peek(environment, log, readOverridesAndAsked).then(
    (found) => found ?? none,
    () => none,
  )
}
