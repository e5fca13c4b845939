// What a person may do, a function for each action. The console, the HTTP API and the verbs of the same names all call these; how an
// action is asked for, and how its result is shown, is their business.

import type { Pool, SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { cancelBackfill, requestBackfill } from '../store/admin/requests.ts'
import { acknowledgeMissedRows, pausedStreams, pauseStream, resumeStream } from '../store/admin/streams.ts'
import { isProbeDue } from '../store/queries/due.ts'
import { readOverview } from '../store/queries/overview.ts'
import { pickStream, type RunKind, type RunRequest, type Stream } from '../streams/catalog.ts'
import { parseInt64 } from '../streams/record.ts'
import { probeStream } from '../sync/beliefs/probe-run.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { count, formatDuration, plural, sentence } from '../util/text.ts'
import { askedSpan, planBackfill } from './backfill.ts'
import type { BackgroundTasks } from './background-tasks.ts'
import { rejectBlockedDeletions, rejectedSentence, undoRejection } from './deletions.ts'
import { asChangesStream, rowVersionIn } from './positions.ts'
import {
  droppedSentence,
  dropRecords,
  entryIn,
  expectEntry,
  expectRecords,
  nothingTried,
  retrySelected,
  retrySentence,
  selectionOf,
} from './quarantine.ts'
import { acknowledgedSentence, reconcileOnce, reconcileSentence } from './reconcile.ts'
import { moveBack, rewindTargetIn, rewoundSentence } from './rewind.ts'

export type ActionContext = {
  readonly sync: SyncContext
  readonly requestRun: (request: RunRequest) => Promise<void>
  readonly tasks: BackgroundTasks
  readonly pageSize: number
  /** Says in one line what was sent; null: nobody is told of problems. */
  readonly sendTestAlert: (() => Promise<string>) | null
  /** Ends the sessions of the console, and returns how many there were. */
  readonly endSessions: () => number
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
type Action = (context: ActionContext, order: Order) => Promise<Outcome>

/** The request was right, but it cannot be done at the moment. */
export class NotNow extends Error {
  override readonly name = 'NotNow'
}

async function sync(context: ActionContext, { target, fields }: Order): Promise<Outcome> {
  const kind = requestedKind(fields.kind)
  const { name } = kind === 'incremental' ? streamIn(context, target) : changesStreamIn(context, target)
  await context.requestRun({ stream: name, kind, cause: 'operator' }).catch((cause) => {
    throw new NotNow(`The queue does not answer. ${name} is read at its next scheduled time.`, { cause })
  })
  return {
    text: `${name}: the ${kind} run was requested and begins in a moment.`,
    json: { stream: name, kind, status: 'requested' },
    isUnderWay: true,
  }
}

async function pause({ sync: { database, streams } }: ActionContext, order: Order): Promise<Outcome> {
  const stream = pickStream(order.target, streams).name
  const reason = order.fields.reason ?? null
  const text = await pauseInWords(database.pool, { stream, by: order.by, reason })
  return { text, json: { stream, paused: true } }
}

async function resume(context: ActionContext, { target }: Order): Promise<Outcome> {
  const stream = streamIn(context, target).name
  const text = await resumeInWords(context.sync.database.pool, stream)
  // A failure does not matter: the stream's next tick reads it anyway.
  await context.requestRun({ stream, kind: 'incremental', cause: 'operator' }).catch(() => {})
  return { text, json: { stream, paused: false } }
}

async function acknowledge(context: ActionContext, { target, by }: Order): Promise<Outcome> {
  const stream = streamIn(context, target).name
  const rows = await acknowledgeMissedRows(context.sync.database.pool, stream, by)
  return { text: acknowledgedSentence(stream, rows), json: { stream, acknowledged: rows } }
}

/** A person can probe a stream only so often, because it takes a few dozen requests. */
const probeRestMs = 60_000

async function probe(context: ActionContext, { target }: Order): Promise<Outcome> {
  const stream = changesStreamIn(context, target)
  if (!(await isProbeDue(context.sync.database.pool, stream.name, probeRestMs)))
    throw new NotNow(
      `${stream.name} was checked less than a minute ago. The page Upstream shows what was seen.`,
    )
  return await inBackground(context, `The check of ${stream.name}`, async (signal) => {
    const { status, note, error } = await probeStream({ ...context.sync.contextOf(stream), signal })
    if (status === 'failed') return `${stream.name} could not be checked: ${sentence(messageOf(error))}`
    if (status !== 'done') return `${stream.name} was not checked: ${note}`
    return `${stream.name} was checked: ${note ?? 'nothing that is believed of it has changed.'}`
  })
}

async function approve(context: ActionContext, { target, fields }: Order): Promise<Outcome> {
  const stream = streamIn(context, target)
  const approved = await expectBlocked(context.sync.database.pool, stream, fields.rows ?? null)
  return await inBackground(
    context,
    `The reconcile of ${stream.name} with approved deletions`,
    async (signal) => {
      const startedAt = performance.now()
      const outcome = await reconcileOnce(context.sync, stream, { approved, signal, log: context.log })
      return reconcileSentence({ ...outcome, durationMs: Math.round(performance.now() - startedAt) })
    },
  )
}

async function reject({ sync: { database, streams } }: ActionContext, order: Order): Promise<Outcome> {
  const stream = pickStream(order.target, streams)
  const { reason, restore } = order.fields
  if (reason === undefined) throw new UsageError('Say why the rows are kept: the reason is recorded.')
  const restores = restore !== undefined
  const rejected = await rejectBlockedDeletions(database.pool, { stream, by: order.by, reason, restores })
  const { missing, restored } = rejected
  return { text: rejectedSentence(rejected), json: { stream: stream.name, rejected: missing, restored } }
}

async function lookAgain(context: ActionContext, { target }: Order): Promise<Outcome> {
  const stream = streamIn(context, target)
  const text = await undoRejection(context.sync.database.pool, stream)
  const kind = stream.kind === 'list' ? 'incremental' : 'reconcile'
  // A failure does not matter: workers see that a reconcile is wanted.
  await context.requestRun({ stream: stream.name, kind, cause: 'operator' }).catch(() => {})
  return { text, json: { stream: stream.name, frozen: false } }
}

async function backfill(context: ActionContext, { target, fields, by }: Order): Promise<Outcome> {
  const { pool } = context.sync.database
  const { stream, span } = await askedSpan(context.sync, target, fields)
  if (fields['dry-run'] !== undefined) return await planBackfill(pool, stream, span, context.pageSize)
  const { id } = await requestBackfill(pool, { stream: stream.name, ...span, by })
  const isPaused = (await pausedStreams(pool)).has(stream.name)
  // A failure does not matter: workers look for backfills every few seconds anyway.
  if (!isPaused)
    await context.requestRun({ stream: stream.name, kind: 'backfill', cause: 'operator' }).catch(() => {})
  const [from, to] = [span.from.toString(), span.to.toString()]
  const begins = isPaused ? 'It begins when the stream is resumed.' : 'It begins in a moment.'
  return {
    text: `${stream.name}: backfill ${id} from ${from} to ${to} was requested. ${begins}`,
    json: { id, stream: stream.name, from, to },
    isUnderWay: true,
  }
}

/** Hard to undo, so the name of the stream is typed; the position that was shown may have risen since, not fallen. */
async function rewind(context: ActionContext, { target, fields, by }: Order): Promise<Outcome> {
  const stream = changesStreamIn(context, target)
  const { reason, confirm, seen } = fields
  if (confirm !== stream.name)
    throw new UsageError(
      `Nothing was moved: to confirm it, type the name of the stream, ${stream.name} (confirm=${stream.name}).`,
    )
  if (reason === undefined)
    throw new UsageError('Say why the position is moved back: the reason is kept with the checkpoint.')
  const { pool } = context.sync.database
  const moved = await moveBack(pool, {
    ...{ stream, reason, by, target: rewindTargetIn(fields) },
    seen: seen === undefined ? null : rowVersionIn(seen),
  })
  if (!(await pausedStreams(pool)).has(stream.name))
    await context.requestRun({ stream: stream.name, kind: 'incremental', cause: 'operator' }).catch(() => {})
  const { from, to } = moved
  return {
    text: rewoundSentence(stream.name, moved),
    json: { stream: stream.name, from: from.toString(), to: to.toString() },
  }
}

async function stopBackfill({ sync: { database } }: ActionContext, { target, by }: Order): Promise<Outcome> {
  const id = parseInt64(target)
  if (id === null || !(await cancelBackfill(database.pool, id.toString(), by)))
    throw new UsageError(`There is no unfinished backfill ${target}.`)
  return { text: `Backfill ${id} is cancelled. The rows it has written stay.`, json: { cancelled: target } }
}

async function retryQuarantine(context: ActionContext, { target }: Order): Promise<Outcome> {
  const { pool } = context.sync.database
  const selection = selectionOf(target)
  await expectEntry(pool, selection)
  const what = selection.id === null ? `the records of ${target}` : `record ${target}`
  return await inBackground(context, `The retry of ${what} in quarantine`, async (signal) => {
    const results: string[] = []
    for await (const outcome of retrySelected(context.sync, selection, signal))
      results.push(retrySentence(outcome))
    return results.join(' ') || (await nothingTried(pool, selection))
  })
}

async function dropQuarantine({ sync: { database } }: ActionContext, order: Order): Promise<Outcome> {
  const { target, fields, by } = order
  const selection = selectionOf(target)
  const through = fields.through === undefined ? null : entryIn(fields.through)
  if (fields.records !== undefined)
    await expectRecords(database.pool, { selection, through, records: fields.records })
  const dropped = await dropRecords(database.pool, { selection, through, reason: fields.reason ?? '', by })
  return { text: droppedSentence(dropped), json: { dropped } }
}

async function testAlert({ sendTestAlert }: ActionContext): Promise<Outcome> {
  if (sendTestAlert === null)
    throw new UsageError('No receiver of alerts is configured. Set ALERT_WEBHOOK_URL to an incoming webhook.')
  // The message does not name the address, which is a secret (P9).
  const text = await sendTestAlert().catch((cause) => {
    throw new NotNow(messageOf(cause), { cause })
  })
  return { text, json: { sent: true } }
}

const endSessions = async (context: ActionContext): Promise<Outcome> => sessionsEnded(context.endSessions())

export const sessionsEnded = (ended: number): Outcome => ({
  text: `${plural(ended, 'session')} of this worker ended. Everybody has to sign in again.`,
  json: { ended },
})

export const actions = {
  testAlert,
  endSessions,
  sync,
  pause,
  resume,
  acknowledge,
  probe,
  approve,
  reject,
  lookAgain,
  backfill,
  rewind,
  cancelBackfill: stopBackfill,
  retryQuarantine,
  dropQuarantine,
} satisfies Readonly<Record<string, Action>>
export type ActionName = keyof typeof actions

const streamIn = ({ sync: { streams } }: ActionContext, target: string): Stream => pickStream(target, streams)
const changesStreamIn = (context: ActionContext, target: string) =>
  asChangesStream(streamIn(context, target), context.sync.streams)

async function inBackground(
  { tasks }: ActionContext,
  name: string,
  work: (signal: AbortSignal) => Promise<string>,
): Promise<Outcome> {
  const text = await tasks.run(name, work)
  if (text !== null) return { text, json: { done: true, result: text } }
  return { text: `${name} has begun. The page Runs shows it.`, json: { done: false }, isUnderWay: true }
}

function requestedKind(text = 'incremental'): Extract<RunKind, 'incremental' | 'lookback' | 'reconcile'> {
  if (text === 'incremental' || text === 'lookback' || text === 'reconcile') return text
  throw new UsageError(
    `There is no kind of run "${text}" to ask for: write incremental, lookback or reconcile.`,
  )
}

/** How many deletions of the stream are blocked, when `rows` names that very number: no other is approved (P7). */
async function expectBlocked(pool: Pool, { name }: Stream, rows: string | null): Promise<number> {
  const [overview] = await readOverview(pool, [name])
  const blocked = overview?.blockedDeletions
  if (!blocked) throw new UsageError(`No deletions of ${name} are blocked.`)
  const { missing } = blocked
  if (missing === null)
    throw new UsageError(
      `Deletions of ${name} are blocked, but their number is not known. Run \`tidemark reconcile ${name}\` first: it counts them.`,
    )
  if (rows?.replaceAll(/[,\s]/g, '') !== String(missing))
    throw new UsageError(
      `Nothing was marked: ${count(missing)} deletions of ${name} are blocked now, ${rows === null ? 'and no number was given' : `not ${rows.slice(0, 20)}`}. Look at them again, then confirm ${missing}.`,
    )
  return missing
}

// Pausing and resuming a stream, and what is said of it.
type Pausing = { readonly stream: string; readonly by: string; readonly reason: string | null }

export async function pauseInWords(pool: Pool, wanted: Pausing): Promise<string> {
  const { stream } = wanted
  const before = await pauseStream(pool, wanted)
  if (before === null) return `${stream} is paused. No worker reads it until it is resumed.`
  const why = before.reason === null ? '' : `: “${before.reason}”`
  const since = formatDuration(Date.now() - before.at.getTime())
  return `${stream} was paused already, ${since} ago by ${before.by}${why}. Nothing was changed.`
}

export async function resumeInWords(pool: Pool, stream: string): Promise<string> {
  const ended = await resumeStream(pool, stream)
  return ended === null
    ? `${stream} was not paused.`
    : `${stream} is read again. It was paused for ${formatDuration(Date.now() - ended.at.getTime())}.`
}
