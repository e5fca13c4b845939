// Writes pages through the mirror as reading does: two pages in hand, so that one is encoded while another is written.

import { openStore } from '../src/store/runs/open-store.ts'
import type { Database } from '../src/store/server/connect.ts'
import { knownStreams as streams } from '../src/streams/catalog.ts'
import type { Records } from '../src/streams/record.ts'
import type { Written } from '../src/sync/ports/store.ts'
import { benchLog } from './postgres.ts'

const pagesInHand = 2

/** Returns the rows per second. */
export async function writeThroughStore(
  database: Pick<Database, 'pool'>,
  writeConnections: 1 | 2,
  pages: Iterable<Records>,
): Promise<number> {
  const store = openStore({ database, streams, sourceTimezone: 'UTC', writeConnections, log: benchLog })
  const run = await store.openRun('incremental', 'assignment')
  if ('busy' in run) throw new Error(run.busy)
  const inHand: Promise<Written>[] = []
  let rowCount = 0
  const start = performance.now()
  for (const page of pages) {
    rowCount += page.rows.length
    inHand.push(run.pages.commit(page, page.rows.at(-1)?.version ?? null))
    if (inHand.length >= pagesInHand) await inHand.shift()
  }
  await Promise.all(inHand)
  const seconds = (performance.now() - start) / 1000
  await run.finish({
    status: 'done',
    error: null,
    errorCode: null,
    note: null,
    requests: 0,
    bytes: 0,
    isComplete: true,
  })
  return rowCount / seconds
}
