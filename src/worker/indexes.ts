// Makes the indexes that reports ask for, as soon as a first load is over or columns have come. One worker at a time does so.

import { setTimeout as wait } from 'node:timers/promises'
import type { Config } from '../config/load.ts'
import { mirroredStreams } from '../configured.ts'
import type { SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { makeIndexes, readLoaded } from '../store/book/indexes.ts'

const lookMs = 60_000
const againMs = 600_000
/** What rows did not confirm as a reference, later ones may. */
const confirmMs = 24 * 3_600_000

/** Goes on by itself until the signal. */
export async function keepIndexes(
  { config, signal, log }: { readonly config: Config; readonly signal: AbortSignal; readonly log: Logger },
  { database: { pool }, catalogue }: Pick<SyncContext, 'database' | 'catalogue'>,
): Promise<void> {
  const mirrored = mirroredStreams(config, catalogue)
  const options = { pool, mirrored, forReports: config.indexes === 'auto', choose: () => null, signal, log }
  let [done, doneMs] = ['', 0]
  const look = async (): Promise<number> => {
    const loaded = await readLoaded(pool, mirrored)
    const nowMs = performance.now()
    if (loaded === done && nowMs - doneMs < confirmMs) return lookMs
    if ((await makeIndexes(options)) === null) return againMs
    ;[done, doneMs] = [loaded, nowMs]
    return lookMs
  }
  while (!signal.aborted) {
    const nextMs = await look().catch((error) => {
      log.debug({ err: error }, 'could not look which indexes reports need')
      return againMs
    })
    await wait(nextMs, undefined, { signal, ref: false }).catch(() => null)
  }
}
