// Work that an operator asks for and that may take long: whoever asks waits a moment for it, and it goes on by itself. Each is done
// once at a time; stopping ends them all between two pages.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import { UsageError } from '../usage-error.ts'

export type Errands = {
  /** What came of it in one line; null when it goes on. */
  run(name: string, work: (signal: AbortSignal) => Promise<string>): Promise<string | null>
  stop(): Promise<void>
}

const defaultPatienceMs = 3_000

export function openErrands({
  patienceMs = defaultPatienceMs,
  log,
}: {
  readonly patienceMs?: number
  readonly log: Logger
}): Errands {
  const stopping = new AbortController()
  const underWay = new Map<string, Promise<string>>()
  return {
    async run(name, work) {
      if (underWay.has(name)) throw new UsageError(`${name} is under way already`)
      const errand = work(stopping.signal).finally(() => underWay.delete(name))
      underWay.set(name, errand)
      const patience = new AbortController()
      const tooLong = wait(patienceMs, null, { signal: patience.signal, ref: false }).catch(() => null)
      const told = await Promise.race([errand, tooLong]).finally(() => patience.abort())
      if (told === null)
        errand.then(
          (text) => log.info(text),
          (error) => log.warn({ err: error }, `${name} failed`),
        )
      return told
    },
    async stop() {
      stopping.abort(new Error('the worker is stopping'))
      await Promise.allSettled(underWay.values())
    },
  }
}
