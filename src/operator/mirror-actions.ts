// What a person may do to the mirror alone: no upstream is asked, and no queue is needed. The buttons of the console, the HTTP API and
// the verbs of the terminal all call these.

import type { Pool } from '../context.ts'
import type { Logger } from '../log.ts'
import { cancelBackfill, readBackfill } from '../store/book/backfills.ts'
import { acknowledgeMissedRows, pausedStreams, pauseStream, resumeStream } from '../store/book/streams.ts'
import { pickStream, type RunRequest, type Stream } from '../streams/catalog.ts'
import { parseInt64 } from '../streams/record.ts'
import { UsageError } from '../util/errors.ts'
import { formatDuration } from '../util/text.ts'
import { backfillJson, backfillSentence } from './backfill.ts'
import { blockedJson, rejectBlockedDeletions, rejectedSentence, undoRejection } from './deletions.ts'
import { asChangesStream, rowVersionIn } from './positions.ts'
import { droppedSentence, dropRecords, entryIn, expectRecords, selectionOf } from './quarantine.ts'
import { acknowledgedSentence } from './reconcile.ts'
import { moveBack, rewindTargetIn, rewoundSentence } from './rewind.ts'

export type MirrorContext = {
  readonly pool: Pool
  readonly streams: readonly Stream[]
  /** Asks a worker to read at once. It may fail: the next scheduled run does the same. */
  readonly requestRun: (request: RunRequest) => Promise<void>
  readonly log: Logger
}
export type Order = {
  /** A stream, or the id of what is meant. */
  readonly target: string
  readonly fields: Readonly<Record<string, string>>
  /** Who gives the order, in one line. */
  readonly by: string
  /** The name that they gave; empty when they gave none. */
  readonly who: string
  readonly door: 'console' | 'HTTP' | 'terminal'
  readonly address: string
}
export type Outcome = {
  /** In one line. */
  readonly text: string
  readonly json: object
  /** The work goes on after this answer. */
  readonly isUnderWay?: boolean
}

async function pause({ pool, streams }: MirrorContext, { target, fields, by }: Order): Promise<Outcome> {
  const stream = pickStream(target, streams).name
  const before = await pauseStream(pool, { stream, by, reason: fields.reason ?? null })
  const json = { stream, paused: true }
  if (before === null) return { text: `${stream} is paused. No worker reads it until it is resumed.`, json }
  const why = before.reason === null ? '' : `: “${before.reason}”`
  const since = formatDuration(Date.now() - before.at.getTime())
  const text = `${stream} was paused already, ${since} ago by ${before.by}${why}. Nothing was changed.`
  return { text, json }
}

async function resume(context: MirrorContext, { target }: Order): Promise<Outcome> {
  const stream = pickStream(target, context.streams).name
  const ended = await resumeStream(context.pool, stream)
  await requestIfPossible(context, { stream, kind: 'incremental' })
  const text =
    ended === null
      ? `${stream} was not paused.`
      : `${stream} is read again. It was paused for ${formatDuration(Date.now() - ended.at.getTime())}.`
  return { text, json: { stream, paused: false } }
}

async function acknowledge({ pool, streams }: MirrorContext, { target, by }: Order): Promise<Outcome> {
  const stream = pickStream(target, streams).name
  const acknowledged = await acknowledgeMissedRows(pool, stream, by)
  return { text: acknowledgedSentence(stream, acknowledged), json: { stream, acknowledged } }
}

async function reject({ pool, streams }: MirrorContext, { target, fields, by }: Order): Promise<Outcome> {
  const stream = pickStream(target, streams)
  const { reason = null, restore } = fields
  const rejected = await rejectBlockedDeletions(pool, { stream, by, reason, restores: restore !== undefined })
  return {
    text: rejectedSentence(rejected),
    json: { ...blockedJson(rejected), restored: rejected.restored },
  }
}

async function lookAgain(context: MirrorContext, { target }: Order): Promise<Outcome> {
  const stream = pickStream(target, context.streams)
  const text = await undoRejection(context.pool, stream)
  const kind = stream.kind === 'list' ? 'incremental' : 'reconcile'
  await requestIfPossible(context, { stream: stream.name, kind })
  return { text, json: { stream: stream.name, frozen: false } }
}

/** The position that a person saw may have risen since, not fallen. Only the terminal may skip versions. */
async function rewind(context: MirrorContext, { target, fields, by, door }: Order): Promise<Outcome> {
  const { pool, streams } = context
  const stream = asChangesStream(pickStream(target, streams), streams)
  const { reason, seen, force } = fields
  if (reason === undefined)
    throw new UsageError('Say why the position is moved back: the reason is kept with the checkpoint.')
  const moved = await moveBack(pool, {
    ...{ stream, reason, by, target: rewindTargetIn(fields) },
    isForced: door === 'terminal' && force !== undefined,
    seen: seen === undefined ? null : rowVersionIn(seen),
  })
  if (!(await pausedStreams(pool)).has(stream.name))
    await requestIfPossible(context, { stream: stream.name, kind: 'incremental' })
  const { from, to } = moved
  return {
    text: rewoundSentence(stream.name, moved),
    json: { stream: stream.name, from: from.toString(), to: to.toString() },
  }
}

async function stopBackfill({ pool }: MirrorContext, { target, by }: Order): Promise<Outcome> {
  const id = parseInt64(target)
  const isCancelled = id !== null && (await cancelBackfill(pool, id.toString(), by))
  const found = id === null ? null : await readBackfill(pool, id.toString())
  if (!found) throw new UsageError(`There is no backfill ${target.slice(0, 20)}.`)
  if (!isCancelled) throw new UsageError(`Backfill ${id} has ended already: ${found.status}.`)
  return { text: backfillSentence(found), json: { cancelled: found.id, ...backfillJson(found) } }
}

async function dropQuarantine({ pool }: MirrorContext, { target, fields, by }: Order): Promise<Outcome> {
  const selection = selectionOf(target)
  const through = fields.through === undefined ? null : entryIn(fields.through)
  if (fields.records !== undefined) await expectRecords(pool, { selection, through, records: fields.records })
  const dropped = await dropRecords(pool, { selection, through, reason: fields.reason ?? '', by })
  return { text: droppedSentence(dropped), json: { dropped } }
}

export const mirrorActions = {
  pause,
  resume,
  acknowledge,
  reject,
  lookAgain,
  rewind,
  cancelBackfill: stopBackfill,
  dropQuarantine,
} satisfies Readonly<Record<string, (context: MirrorContext, order: Order) => Promise<Outcome>>>
export type MirrorActionName = keyof typeof mirrorActions

export const requestIfPossible = (
  { requestRun }: MirrorContext,
  request: Omit<RunRequest, 'cause'>,
): Promise<void> => requestRun({ ...request, cause: 'operator' }).catch(() => {})
