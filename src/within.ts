// Waiting for what may hang, no longer than is told. The work itself goes on; only nobody waits for it any more.

import { setTimeout as wait } from 'node:timers/promises'

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
