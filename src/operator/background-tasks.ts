// Work that an operator asks for and that may take long. Whoever asks waits a moment for it; then it goes on by itself. Each work is
// done once at a time, and stopping ends all of them between two pages.

import type { Logger } from '../log.ts'
import { UsageError } from '../util/errors.ts'
import { unlessTimedOut, withTimeout } from '../util/waiting.ts'

export type BackgroundTasks = {
  /** Returns the result in one line; null: the work goes on. `name` begins a sentence, e.g. `A reconcile of assignment`. */
  run(name: string, work: (signal: AbortSignal) => Promise<string>): Promise<string | null>
  stop(): Promise<void>
}

type Task = { readonly startedAt: Date; readonly result: Promise<string> }

const defaultTimeoutMs = 3_000

type Options = { readonly timeoutMs?: number; readonly log: Logger }

export function openBackgroundTasks({ timeoutMs = defaultTimeoutMs, log }: Options): BackgroundTasks {
  const stopping = new AbortController()
  const running = new Map<string, Task>()
  return {
    async run(name, work) {
      const known = running.get(name)
      if (known)
        throw new UsageError(
          `${name} is already running (started ${known.startedAt.toISOString().slice(11, 19)} UTC). The page Runs shows it.`,
        )
      const result = work(stopping.signal).finally(() => running.delete(name))
      running.set(name, { startedAt: new Date(), result })
      const text = await withTimeout(timeoutMs, result).catch(unlessTimedOut)
      if (text === null)
        result.then(
          (late) => log.info(late),
          (error) => log.warn({ err: error }, `${name} failed`),
        )
      return text
    },
    async stop() {
      stopping.abort(new Error('the worker is stopping'))
      await Promise.allSettled([...running.values()].map(({ result }) => result))
    },
  }
}
