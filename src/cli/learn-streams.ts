// Reads from the mirror what was found out about streams that the settings add, before a verb asks which kind of stream one is.

import { type Environment, loadMirrorConfig } from '../config/load.ts'
import { readAddedStreams } from '../config/stream-variables.ts'
import { hasCluster } from '../embedded-postgres/location.ts'
import type { Logger } from '../log.ts'
import { learnAddedStreams } from '../store/book/streams.ts'
import { openDatabase } from '../store/server/connect.ts'
import { type Catalogue, catalogueOf } from '../streams/catalog.ts'

/** Ignores failures: the verb itself will meet and report them. */
export async function learnStreams(environment: Environment, log: Logger): Promise<Catalogue> {
  const added = readAddedStreams(environment)
  try {
    const { databaseUrl: url } = loadMirrorConfig(environment)
    if (url === null && !(await hasCluster('.tidemark'))) return catalogueOf(added)
    const quiet = log.child({}, { level: 'error' })
    await using database = await openDatabase({ url, log: quiet, isReadOnly: true })
    return catalogueOf(added, await learnAddedStreams(database.pool, added))
  } catch (error) {
    log.debug({ err: error }, 'could not look up what streams are like that the settings add')
    return catalogueOf(added)
  }
}
