// For verbs that need the mirror alone: its database, migrated, for as long as the verb takes.

import type { Pool } from 'pg'
import { type Call, type ExitCode, exitCodes } from '../cli/command.ts'
import { loadMirrorConfig } from '../config.ts'
import { openMigratedDatabase } from '../workplace.ts'

export async function withMirror(
  { environment, log }: Call,
  work: (pool: Pool) => Promise<void>,
): Promise<ExitCode> {
  const database = await openMigratedDatabase(loadMirrorConfig(environment), log)
  try {
    await work(database.pool)
    return exitCodes.done
  } finally {
    await database.close()
  }
}
