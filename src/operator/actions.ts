// The actions of the status page, put together: each is done by what the verb of the same name uses.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { cancelBackfill, requestBackfill } from '../store/admin/requests.ts'
import { acknowledgeMissedRows, pausedStreams, pauseStream, resumeStream } from '../store/admin/streams.ts'
import { readOverview } from '../store/queries/overview.ts'
import { blockedDeletionsOf } from '../store/queries/symptoms.ts'
import { pickStream, type RunKind } from '../streams/catalog.ts'
import { parseInt64 } from '../streams/record.ts'
import { UsageError } from '../util/errors.ts'
import { formatDuration } from '../util/text.ts'
import { type Actions, NotNow, type Order, type Outcome } from '../web/actions.ts'
import type { RunRequest } from '../worker/queue/requests.ts'
import { askedSpan, planBackfill } from './backfill.ts'
import { asChangesStream } from './positions.ts'
import {
  droppedSentence,
  dropRecords,
  entryIn,
  expectEntry,
  nothingTried,
  retrySelected,
  retrySentence,
  selectionOf,
} from './quarantine.ts'
import { acknowledgedSentence, reconcileOnce, reconcileSentence } from './reconcile.ts'

// Work that an operator asks for and that may take long: whoever asks waits a moment for it, and it goes on by itself. Each is done
// once at a time; stopping ends them all between two pages.
export type BackgroundTasks = {
  /** What came of it in one line; null when it goes on. */
  run(name: string, work: (signal: AbortSignal) => Promise<string>): Promise<string | null>
  stop(): Promise<void>
}

const defaultTimeoutMs = 3_000

export function openBackgroundTasks({
  timeoutMs = defaultTimeoutMs,
  log,
}: {
  readonly timeoutMs?: number
  readonly log: Logger
}): BackgroundTasks {
  const stopping = new AbortController()
  const underWay = new Map<string, Promise<string>>()
  return {
    async run(name, work) {
      if (underWay.has(name)) throw new UsageError(`${name} is under way already`)
      const task = work(stopping.signal).finally(() => underWay.delete(name))
      underWay.set(name, task)
      const patience = new AbortController()
      const tooLong = wait(timeoutMs, null, { signal: patience.signal, ref: false }).catch(() => null)
      const told = await Promise.race([task, tooLong]).finally(() => patience.abort())
      if (told === null)
        task.then(
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

// Pausing and resuming a stream, and what is said of it.
type Wanted = { readonly stream: string; readonly by: string; readonly reason: string | null }

export async function pauseInWords(pool: Pool, wanted: Wanted): Promise<string> {
  return (await pauseStream(pool, wanted))
    ? `${wanted.stream} is paused: the workers leave it alone until it is resumed`
    : `${wanted.stream} was paused already`
}

export async function resumeInWords(pool: Pool, stream: string): Promise<string> {
  const ended = await resumeStream(pool, stream)
  return ended === null
    ? `${stream} was not paused`
    : `${stream} is read again; it was paused for ${formatDuration(Date.now() - ended.at.getTime())}`
}

type Context = {
  readonly context: SyncContext
  readonly requestRun: (request: RunRequest) => Promise<void>
  readonly tasks: BackgroundTasks
  readonly pageSize: number
  readonly log: Logger
}

export function openActions({ context, requestRun, tasks, pageSize, log }: Context): Actions {
  const { pool } = context.database
  const streamOf = ({ target }: Order) => pickStream(target, context.streams)
  const changesStreamOf = (order: Order) => asChangesStream(streamOf(order), context.streams)

  async function task(name: string, work: (signal: AbortSignal) => Promise<string>): Promise<Outcome> {
    const text = await tasks.run(name, work)
    if (text !== null) return { text, json: { done: true, told: text } }
    return { text: `${name} has begun, and shows among the runs`, json: { done: false }, isUnderWay: true }
  }

  return {
    async sync(order) {
      const kind = kindOf(order.fields.kind)
      const stream = kind === 'incremental' ? streamOf(order) : changesStreamOf(order)
      await requestRun({ stream: stream.name, kind, cause: 'operator' }).catch((cause) => {
        throw new NotNow('the queue does not answer; the stream is read at its next tick', { cause })
      })
      return {
        text: `${stream.name}: a run of kind ${kind} is asked for`,
        json: { stream: stream.name, kind, status: 'asked for' },
        isUnderWay: true,
      }
    },

    async pause(order) {
      const stream = streamOf(order).name
      const text = await pauseInWords(pool, { stream, by: order.by, reason: order.fields.reason ?? null })
      return { text, json: { stream, paused: true } }
    },

    async resume(order) {
      const stream = streamOf(order).name
      const text = await resumeInWords(pool, stream)
      // Its next tick would come as well.
      await requestRun({ stream, kind: 'incremental', cause: 'operator' }).catch(() => {})
      return { text, json: { stream, paused: false } }
    },

    async acknowledge(order) {
      const stream = streamOf(order).name
      const rows = await acknowledgeMissedRows(pool, stream, order.by)
      return { text: acknowledgedSentence(stream, rows), json: { stream, acknowledged: rows } }
    },

    async approve(order) {
      const stream = streamOf(order)
      const [overview] = await readOverview(pool, [stream.name])
      const blocked = blockedDeletionsOf(overview?.blockedDeletions)
      if (!blocked) throw new UsageError(`No deletions of ${stream.name} are blocked`)
      const { missing } = blocked
      if (missing === null)
        throw new UsageError(
          `${stream.name} holds rows back, and how many was not noted: have all of it read first, which notes it`,
        )
      if (order.fields.rows !== String(missing))
        throw new UsageError(
          `${stream.name} holds back ${missing} rows: say so with rows=${missing}, so that no other number is released`,
        )
      return await task(`the reconcile of ${stream.name} that releases`, async (signal) => {
        const startedAt = performance.now()
        const outcome = await reconcileOnce(context, stream, { approved: missing, signal, log })
        return reconcileSentence({ ...outcome, durationMs: Math.round(performance.now() - startedAt) })
      })
    },

    async backfill(order) {
      const { stream, span } = await askedSpan(context, order.target, order.fields)
      if (order.fields['dry-run'] !== undefined) return await planBackfill(pool, stream, span, pageSize)
      const { id } = await requestBackfill(pool, { stream: stream.name, ...span, by: order.by })
      const isPaused = (await pausedStreams(pool)).has(stream.name)
      // It is looked for every few seconds anyway.
      if (!isPaused)
        await requestRun({ stream: stream.name, kind: 'backfill', cause: 'operator' }).catch(() => {})
      const [fromText, toText] = [span.from.toString(), span.to.toString()]
      return {
        text: `${stream.name}: backfill ${id} from ${fromText} to ${toText} ${isPaused ? 'waits until the stream is resumed' : 'is asked for'}`,
        json: { id, stream: stream.name, from: fromText, to: toText },
        isUnderWay: true,
      }
    },

    async cancelBackfill({ target, by }) {
      const id = parseInt64(target)
      if (id === null || !(await cancelBackfill(pool, id.toString(), by)))
        throw new UsageError(`There is no unfinished backfill ${target}`)
      return { text: `backfill ${id} is cancelled; what it has written stays`, json: { cancelled: target } }
    },

    async retryQuarantine({ target }) {
      const selection = selectionOf(target)
      await expectEntry(pool, selection)
      return await task(`trying ${target} of the quarantine again`, async (signal) => {
        const told: string[] = []
        for await (const outcome of retrySelected(context, selection, signal))
          told.push(retrySentence(outcome))
        return told.join('; ') || (await nothingTried(pool, selection))
      })
    },

    async dropQuarantine({ target, fields, by }) {
      const selection = selectionOf(target)
      const through = fields.through === undefined ? {} : { through: entryIn(fields.through) }
      const dropped = await dropRecords(pool, { selection, ...through, reason: fields.reason ?? '', by })
      return { text: droppedSentence(dropped), json: { dropped } }
    },
  }
}

function kindOf(text = 'incremental'): Extract<RunKind, 'incremental' | 'lookback' | 'reconcile'> {
  if (text === 'incremental' || text === 'lookback' || text === 'reconcile') return text
  throw new UsageError(
    `There is no run of kind "${text}" to ask for: write incremental, lookback or reconcile`,
  )
}
