// After a write to the upstream: asks the worker to read what it changed, so that the mirror shows it at once. The write is
// done whatever happens here.

import { readFile } from 'node:fs/promises'
import type { Config } from './config.ts'
import { openDriver } from './jobs/queue-driver.ts'
import { openRunQueue } from './jobs/run-queue.ts'
import type { Logger } from './log.ts'
import { openDatabase } from './mirror/database.ts'
import type { OperationName } from './upstream/operations.ts'
import { configuredStreams } from './workplace.ts'

const embeddedUrlFile = '.tidemark/url'

/** The stream that shows what a write changed. */
function affectedStream(operation: OperationName): string {
  if (operation.includes('Webhook')) return 'webhook_subscription'
  return operation.includes('Note') ? 'assignment_note' : 'assignment'
}

export async function nudgeAfterWrite(
  { config, log }: { readonly config: Config; readonly log: Logger },
  operation: OperationName,
): Promise<void> {
  const stream = affectedStream(operation)
  if (!configuredStreams(config).some(({ name }) => name === stream)) return
  const url = config.databaseUrl ?? (await embeddedUrl())
  if (url === null) return log.debug({ stream }, 'there is no mirror here to bring up to date')
  try {
    await nudge({ url, redisUrl: config.redisUrl, log }, stream)
    log.debug({ stream }, 'the worker was asked to read what changed')
  } catch (error) {
    log.warn({ err: error, stream }, 'the write is done; the mirror shows it after the next scheduled run')
  }
}

async function nudge(
  { url, redisUrl, log }: { readonly url: string; readonly redisUrl: string | null; readonly log: Logger },
  stream: string,
): Promise<void> {
  const database = await openDatabase({ url, log })
  try {
    const queue = await openDriver({ redisUrl, database, log })
    try {
      const runs = openRunQueue(queue.driver, (error) => log.debug({ err: error }, 'the queue has trouble'))
      try {
        await runs.nudge({ stream, lane: 'head', cause: 'operator' })
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

/** Only of a server that is there already: none is started for this. */
async function embeddedUrl(): Promise<string | null> {
  try {
    return (await readFile(embeddedUrlFile, 'utf8')).trim() || null
  } catch {
    return null
  }
}
