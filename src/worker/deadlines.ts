// Waiting for what may hang, no longer than is told. The work itself goes on; only nobody waits for it any more.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'

export async function within<Result>(ms: number, work: PromiseLike<Result>): Promise<Result> {
  const late = new AbortController()
  const timeout = wait(ms, undefined, { signal: late.signal, ref: false }).then(() => {
    throw new Error(`no answer within ${ms} ms`)
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    late.abort()
    timeout.catch(() => {})
  }
}

/** For what is ended together with the program: a failure is told and goes no further. */
export async function ended(what: string, ms: number, work: PromiseLike<void>, log: Logger): Promise<void> {
  await within(ms, work).catch((error) => log.warn({ err: error }, `${what} did not end in time`))
}
