// Before a verb asks which kind of stream one is that the settings add: what was found out about it, from the mirror.

import { type Environment, loadMirrorConfig } from '../config/load.ts'
import { hasCluster } from '../embedded-postgres/location.ts'
import type { Logger } from '../log.ts'
import { learnAddedStreams } from '../store/queries/found-out.ts'
import { openDatabase } from '../store/server/connect.ts'

/** Whatever is in the way is told by the verb itself. */
export async function learnStreams(environment: Environment, log: Logger): Promise<void> {
  try {
    const { databaseUrl: url } = loadMirrorConfig(environment)
    if (url === null && !(await hasCluster('.tidemark'))) return
    const database = await openDatabase({ url, log: log.child({}, { level: 'error' }), isReadOnly: true })
    try {
      await learnAddedStreams(database.pool)
    } finally {
      await database.close()
    }
  } catch (error) {
    log.debug({ err: error }, 'could not look up what streams are like that the settings add')
  }
}
