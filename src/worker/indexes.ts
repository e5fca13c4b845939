// Makes the indexes that reports ask for, as soon as a first load is over or columns have come. One worker at a time does so.

import { setTimeout as wait } from 'node:timers/promises'
import type { Config } from '../config/load.ts'
import { mirroredStreams } from '../configured.ts'
import type { SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { type IndexChoice, makeIndexes, readLoaded } from '../store/book/indexes.ts'
import { meaningOf } from '../streams/dictionary.ts'

const lookMs = 60_000
const againMs = 600_000
/** What rows did not confirm as a reference, later ones may. */
const confirmMs = 24 * 3_600_000

type Given = {
  readonly config: Config
  readonly isWhole?: boolean
  readonly signal: AbortSignal
  readonly log: Logger
}

/** Goes on by itself until the signal. */
export async function keepIndexes(
  { config, isWhole = false, signal, log }: Given,
  { database: { pool }, catalogue }: Pick<SyncContext, 'database' | 'catalogue'>,
): Promise<void> {
  const mirrored = mirroredStreams(config, catalogue)
  const choose: IndexChoice = (stream, column) => {
    const meaning = meaningOf(config.dictionary.now(), { name: stream }, column)
    return meaning?.index ?? (meaning?.refersTo ? true : null)
  }
  const options = { pool, mirrored, forReports: config.indexes === 'auto', choose, signal, log }
  let [done, doneMs, said] = ['', 0, config.dictionary.now()]
  const look = async (): Promise<number> => {
    const loaded = await readLoaded(pool, mirrored)
    const [nowMs, saying] = [performance.now(), config.dictionary.now()]
    if (loaded === done && saying === said && nowMs - doneMs < confirmMs) return lookMs
    if ((await makeIndexes(options)) === null) return againMs
    ;[done, doneMs, said] = [loaded, nowMs, saying]
    return lookMs
  }
  // Those of many sources that are opened together are not looked at together.
  if (isWhole) await wait(Math.random() * againMs, undefined, { signal, ref: false }).catch(() => null)
  while (!signal.aborted) {
    const nextMs = await look().catch((error) => {
      log.debug({ err: error }, 'could not look which indexes reports need')
      return againMs
    })
    await wait(nextMs, undefined, { signal, ref: false }).catch(() => null)
  }
}
