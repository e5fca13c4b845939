// Finds out whether jobs get through the queue, from the one who adds them to the one who takes them, and repairs what can be repaired.
// While a consumer takes jobs of its own, that is proof enough. When it has had none for a while, a job that does nothing (a canary) is
// added to its queue: some worker has to take it. A consumer that takes nothing for long while others do is found out by many canaries at once.

import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../../log.ts'
import { errorOf, messageOf } from '../../util/errors.ts'
import { formatDuration, sentence } from '../../util/text.ts'
import { withTimeout } from '../../util/waiting.ts'

/** What BullMQ's queue offers for it. */
export type CanaryQueue = {
  add(name: string, data: never, options: object): Promise<unknown>
  getJob(id: string): Promise<unknown>
  isPaused(): Promise<boolean>
  resume(): Promise<void>
}
export const canaryName = 'canary'
/** So long that another consumer has to take the next one. */
export const takeCanary = (): Promise<void> => wait(100)

export type Consumer = {
  readonly name: string
  /** When it last took a job of any kind, by a clock that nobody can set; null: never. */
  tookMs(): number | null
  /** It works on as many jobs as it may, and takes no other meanwhile. */
  isFull(): boolean
  readonly queue: CanaryQueue
  /** Gives up the connection that it waits on. */
  leave(): void
  /** Begins anew, after it was left. */
  begin(): void
}

export type WatchOptions = {
  readonly consumers: readonly Consumer[]
  /** Asked when none of them has taken a job lately. */
  readonly ping: () => Promise<void>
  /** False: what should have come through has not. */
  readonly keep: () => Promise<boolean>
  /** Makes tables where they are missing, and what has to be in them. */
  readonly prepare: () => Promise<void>
  /** All consumers took something, the last of them so long ago. */
  readonly onWork: (agoMs: number) => void
  readonly onFailure: (error: unknown) => void
  readonly everyMs?: number
  readonly rhythmMs?: number
  readonly log: Logger
}
export type QueueWatch = {
  /** A consumer met this, or what should have come through did not: the next look does not rely on what was taken before. */
  doubt(error: Error | null): void
  close(): void
}

/** A consumer that takes nothing is noticed within twice the rhythm. */
export const queueRhythmMs = 40_000
const defaultEveryMs = 5_000
/** How often it is looked whether somebody paused a queue, and tried again when another worker took what was added for a consumer. */
const oftenMs = 15_000
/** So many times in a row others may do so. */
const mostTimes = 20
/** More than the consumer of one worker takes at once. */
const many = 16
const timeoutMs = 5_000
/** The tables of a queue in Postgres are not there, or not all of them. */
const missingTables = /^(?:42P01|42883|3F000|42704)$/

type Sent = { readonly id: string; readonly atMs: number; readonly isAdded: boolean }

type Doubt = { readonly isDoubted: boolean; readonly met: Met | null }
type Met = { readonly error: Error; readonly atMs: number }

/** Whether each consumer takes jobs, by what it was seen to take and by canaries. */
function openChecks(rhythmMs: number, log: Logger) {
  const sent = new Map<Consumer, Sent>()
  const openedMs = performance.now()
  const seenMs = new Map<Consumer, number>()
  const fullMs = new Map<Consumer, number>()
  const pausedLookMs = new Map<Consumer, number>()
  /** How many times in a row other workers took what was added for this consumer. */
  const passedOver = new Map<Consumer, number>()
  const ownMs = (consumer: Consumer) => Math.max(consumer.tookMs() ?? never, fullMs.get(consumer) ?? never)
  const workedMs = (consumer: Consumer) => Math.max(ownMs(consumer), seenMs.get(consumer) ?? never)
  const silentMs = (lastMs: number) => performance.now() - Math.max(lastMs, openedMs)

  async function check(consumer: Consumer, { isDoubted, met }: Doubt): Promise<void> {
    const nowMs = performance.now()
    const last = sent.get(consumer)?.isAdded ? sent.get(consumer) : undefined
    if (consumer.isFull()) fullMs.set(consumer, nowMs)
    if (ownMs(consumer) > (seenMs.get(consumer) ?? never)) passedOver.delete(consumer)
    if (last && ownMs(consumer) > last.atMs) sent.delete(consumer)
    else if (last && (await consumer.queue.getJob(last.id)) === undefined) {
      passedOver.set(consumer, (passedOver.get(consumer) ?? 0) + 1)
      seenMs.set(consumer, nowMs)
      sent.delete(consumer)
    } else if (last && nowMs - last.atMs >= rhythmMs) {
      const cause = met && met.atMs > last.atMs ? met.error : null
      throw notTaken(consumer, nowMs - last.atMs, silentMs(workedMs(consumer)), cause)
    }
    const times = passedOver.get(consumer) ?? 0
    // One that takes jobs is not paused.
    const lastMs = Math.max(pausedLookMs.get(consumer) ?? openedMs, ownMs(consumer))
    if (nowMs - lastMs >= Math.min(rhythmMs, oftenMs)) {
      pausedLookMs.set(consumer, nowMs)
      await goOnIfPaused(consumer, log)
    }
    const restMs = times > 0 ? Math.min(rhythmMs, oftenMs) : rhythmMs
    if (!sent.get(consumer)?.isAdded && (isDoubted || nowMs - workedMs(consumer) >= restMs)) {
      await addCanaries(consumer, sent, times >= mostTimes / 2 ? many : 1)
    }
    if (times >= mostTimes) throw othersTake(consumer, silentMs(ownMs(consumer)))
  }
  return { check, workedMs, sent }
}

export function watchQueue(options: WatchOptions): QueueWatch {
  const { consumers, rhythmMs = queueRhythmMs, everyMs = defaultEveryMs, onWork, onFailure } = options
  const closing = new AbortController()
  const { check, workedMs, sent } = openChecks(rhythmMs, options.log)
  const anewMs = new Map<Consumer, number>()
  let isDoubted = false
  let met: Met | null = null

  async function look(): Promise<void> {
    const tookMs = Math.max(...consumers.map((consumer) => consumer.tookMs() ?? never))
    if (isDoubted || performance.now() - tookMs >= Math.min(rhythmMs, oftenMs))
      await withTimeout(timeoutMs, options.ping())
    if (!(await withTimeout(timeoutMs, options.keep()))) isDoubted = true
    for (const consumer of consumers) await withTimeout(timeoutMs, check(consumer, { isDoubted, met }))
    isDoubted = false
    const oldestMs = Math.min(...consumers.map(workedMs))
    if (oldestMs > never) onWork(performance.now() - oldestMs)
  }

  async function keepLooking(): Promise<void> {
    while (!closing.signal.aborted) {
      await look().catch(async (error) => {
        if (closing.signal.aborted) return
        onFailure(error)
        isDoubted = true
        await repair(options, error, rhythmMs, anewMs, closing.signal).then(
          (isAnew) => isAnew && sent.clear(),
          (cause) => options.log.debug({ err: cause }, 'the queue could not be repaired yet'),
        )
      })
      const isSoon = [...sent.values()].some(({ atMs }) => performance.now() - atMs < everyMs)
      const pauseMs = isSoon ? Math.min(everyMs, soonMs) : everyMs
      await wait(pauseMs, undefined, { signal: closing.signal, ref: false }).catch(() => null)
    }
  }
  void keepLooking()
  return {
    doubt(error) {
      isDoubted = true
      if (error) met = { error, atMs: performance.now() }
    },
    close: () => closing.abort(),
  }
}

/** Whether consumers were made anew. */
async function repair(
  { consumers, prepare, log }: WatchOptions,
  error: unknown,
  rhythmMs: number,
  anewMs: Map<Consumer, number>,
  signal: AbortSignal,
): Promise<boolean> {
  if (error instanceof NotTaken) {
    // A machine that has too much to do is slow, and this gives it more to do.
    const lastMs = anewMs.get(error.consumer) ?? never
    if (error.waitsMs < 2 * rhythmMs || performance.now() - lastMs < 8 * rhythmMs) return false
    anewMs.set(error.consumer, performance.now())
    error.consumer.leave()
    error.consumer.begin()
    log.warn(`${error.message} Tidemark has made the consumer of this queue anew.`)
    return true
  }
  if (!missingTables.test(codeOf(error))) return false
  // Before there are tables again: what one of them takes while it is left waits until its lock has run out.
  for (const consumer of consumers) consumer.leave()
  await withTimeout(timeoutMs, prepare())
  if (signal.aborted) return false
  for (const consumer of consumers) consumer.begin()
  log.warn({ err: error }, 'tables of the queue were missing; Tidemark has made them anew')
  return true
}

/** A canary is mostly taken at once. */
const soonMs = 50
const never = Number.NEGATIVE_INFINITY

class NotTaken extends Error {
  override readonly name = 'NotTaken'
  readonly consumer: Consumer
  /** How long the canary has waited. */
  readonly waitsMs: number

  constructor(consumer: Consumer, waitsMs: number, message: string, cause: Error | null = null) {
    super(message, { cause })
    this.consumer = consumer
    this.waitsMs = waitsMs
  }
}

function notTaken(consumer: Consumer, waitsMs: number, forMs: number, cause: Error | null): NotTaken {
  const why = cause === null ? '' : ` The consumer met: ${sentence(messageOf(cause))}`
  const message = `Jobs can be added to the queue of ${consumer.name}, but no worker has taken one for ${formatDuration(forMs)}.${why}`
  return new NotTaken(consumer, waitsMs, message, cause)
}

function othersTake(consumer: Consumer, forMs: number): NotTaken {
  const message = `Other workers take jobs from the queue of ${consumer.name}, but this worker has taken none for ${formatDuration(forMs)}.`
  return new NotTaken(consumer, forMs, message)
}

const newId = (): string => `${canaryName}-${randomBytes(6).toString('hex')}`

function codeOf(error: unknown): string {
  const found = errorOf(error)
  return 'code' in found ? String(found.code) : ''
}

async function addCanaries(consumer: Consumer, sent: Map<Consumer, Sent>, amount: number): Promise<void> {
  for (let nth = 1; nth < amount; nth++) await addTo(consumer, newId())
  const canary = { id: newId(), atMs: performance.now() }
  // Before it is added: it may be taken before BullMQ says that it was.
  sent.set(consumer, { ...canary, isAdded: false })
  await addTo(consumer, canary.id)
  sent.set(consumer, { ...canary, isAdded: true })
}

async function addTo({ queue }: Consumer, jobId: string): Promise<void> {
  // Before all others; and it leaves nothing behind.
  const options = { jobId, lifo: true, attempts: 1, removeOnComplete: true, removeOnFail: true }
  await queue.add(canaryName, {} as never, options)
}

async function goOnIfPaused({ name, queue }: Consumer, log: Logger): Promise<void> {
  if (!(await queue.isPaused())) return
  await queue.resume()
  log.warn(
    `The queue of ${name} was paused, by another program than Tidemark. Tidemark has resumed it. To stop the reading of a stream: tidemark pause <stream>`,
  )
}
