// A Redis that becomes the primary may not know what was written last. Then jobs that this worker has ended are at work there, and nobody would
// take up the streams that they are of until their locks have run out. So whenever the connection was lost and is there again, each worker
// looks for jobs that it holds and does not work on, and ends them once more (P8). What a run has done is in Postgres.

import { setTimeout as wait } from 'node:timers/promises'
import type { Cluster, Redis } from 'ioredis'
import type { Logger } from '../../log.ts'
import type { Driver } from './driver.ts'
import { planName } from './planner.ts'

type Job = {
  readonly name: string
  moveToCompleted(result: null, token: string, fetchesNext: boolean): Promise<unknown>
  moveToDelayed(timestampMs: number, token: string): Promise<unknown>
}

/** What BullMQ's queue offers for it. */
export type HeldQueue = {
  getJob(id: string): Promise<unknown>
  /** The key of one of its parts, or of a job. */
  toKey(part: string): string
}
type Options = {
  readonly driver: Driver
  readonly queue: HeldQueue
  readonly log: Logger
}

/** A job that was taken just now, or whose end is on its way, is not lost: that is over by the second look. */
const betweenLooksMs = 1_000
const mostLooks = 60

export function openHeldJobs({ driver, queue, log }: Options) {
  const ours = new Set<string>()
  const inHand = new Set<string>()
  const closing = new AbortController()
  const isLost = (token: string) => ours.has(token.replace(/:\d+$/, '')) && !inHand.has(token)
  let isLooking = false

  async function lostIn(redis: Redis | Cluster): Promise<ReadonlyMap<string, string>> {
    const lost = new Map<string, string>()
    for (const id of await redis.lrange(queue.toKey('active'), 0, -1)) {
      const token = await redis.get(`${queue.toKey(id)}:lock`)
      if (token !== null && isLost(token)) lost.set(token, id)
    }
    return lost
  }

  async function end(id: string, token: string): Promise<void> {
    const job = (await queue.getJob(id)) as Job | undefined
    if (!job || !isLost(token)) return
    // The plan comes again at once: it does not know what it has found out.
    if (job.name === planName) await job.moveToDelayed(Date.now(), token)
    else await job.moveToCompleted(null, token, false)
    log.info(
      `Redis had forgotten that job ${id} of ${queue.toKey('')} has ended. Tidemark has ended it again.`,
    )
  }

  async function look(redis: Redis | Cluster): Promise<void> {
    let before: ReadonlyMap<string, string> | null = null
    for (let nth = 0; nth < mostLooks; nth++) {
      await wait(betweenLooksMs, undefined, { signal: closing.signal, ref: false })
      const lost = await lostIn(redis).catch(() => null)
      if (lost !== null && before !== null) {
        for (const [token, id] of lost) if (before.has(token)) await end(id, token)
        return
      }
      before = lost
    }
  }

  function lookSoon(): void {
    if (driver.kind !== 'redis' || isLooking || closing.signal.aborted) return
    isLooking = true
    void look(driver.redis)
      .catch((error) => log.debug({ err: error }, 'it could not be found out whether jobs were lost'))
      .finally(() => {
        isLooking = false
      })
  }
  // A cluster stays ready when one of its nodes is lost.
  const events = ['ready', '-node']
  if (driver.kind === 'redis') for (const event of events) driver.redis.on(event, lookSoon)
  return {
    /** The identity of a consumer, with which the tokens of its jobs begin. */
    began: (consumerId: string) => void ours.add(consumerId),
    async while<Result>(token: string | undefined, work: () => Promise<Result>): Promise<Result> {
      if (token === undefined) return await work()
      inHand.add(token)
      try {
        return await work()
      } finally {
        inHand.delete(token)
      }
    },
    close() {
      closing.abort()
      if (driver.kind === 'redis') for (const event of events) driver.redis.off(event, lookSoon)
    },
  }
}
