// After a write to the upstream: asks the worker to read what it changed, so that the mirror shows it at once. The write is
// done whatever happens here.

import { readFile } from 'node:fs/promises'
import type { Config } from '../config.ts'
import { openDriver } from '../jobs/queue-driver.ts'
import { openRunQueue } from '../jobs/run-queue.ts'
import type { Logger } from '../log.ts'
import { openDatabase } from '../mirror/database.ts'
import { type NamedAssignment, readRelatedAgain } from '../mirror/related-due.ts'
import type { OperationName } from '../upstream/operations.ts'
import { configuredStreams } from '../workplace.ts'

const embeddedUrlFile = '.tidemark/url'

/** The stream that shows what a write changed. */
function affectedStream(operation: OperationName): string {
  if (operation.includes('Webhook')) return 'webhook_subscription'
  return operation.includes('Note') ? 'assignment_note' : 'assignment'
}

export async function nudgeAfterWrite(
  { config, log }: { readonly config: Config; readonly log: Logger },
  operation: OperationName,
  assignment: NamedAssignment | null,
): Promise<void> {
  const stream = affectedStream(operation)
  if (!configuredStreams(config).some(({ name }) => name === stream)) return
  const url = config.databaseUrl ?? (await embeddedUrl())
  if (url === null) return log.debug({ stream }, 'there is no mirror here to bring up to date')
  try {
    const wantsRelated = stream === 'assignment' && config.related.length > 0
    const { redisUrl } = config
    await nudge({ url, redisUrl, log }, stream, wantsRelated ? assignment : null)
    log.debug({ stream }, 'the worker was asked to read what changed')
  } catch (error) {
    log.warn(
      { why: messageOf(error), stream },
      'the write is done; the mirror shows it after the next scheduled run',
    )
  }
}

async function nudge(
  { url, redisUrl, log }: { readonly url: string; readonly redisUrl: string | null; readonly log: Logger },
  stream: string,
  relatedOf: NamedAssignment | null,
): Promise<void> {
  const database = await openDatabase({ url, log })
  try {
    // A write to what an assignment carries may leave its row version as it was.
    if (relatedOf !== null) await readRelatedAgain(database.pool, relatedOf)
    const queue = await openDriver({ redisUrl, database, log })
    try {
      const runs = openRunQueue(queue.driver, (error) => log.debug({ err: error }, 'the queue has trouble'))
      try {
        await runs.nudge({ stream, lane: 'head', cause: 'operator' })
        if (relatedOf !== null) await runs.nudge({ stream, lane: 'related', cause: 'operator' })
      } finally {
        await runs.close()
      }
    } finally {
      await queue.close()
    }
  } finally {
    await database.close()
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Only of a server that is there already: none is started for this. */
async function embeddedUrl(): Promise<string | null> {
  try {
    return (await readFile(embeddedUrlFile, 'utf8')).trim() || null
  } catch {
    return null
  }
}
