// What a person may do, a function for each action, for the console and the HTTP API. The terminal shares those that need the mirror
// alone (mirror-actions.ts); it waits for the others, where a worker lets them go on in the background.

import type { SyncContext } from '../context.ts'
import { requestBackfill } from '../store/book/backfills.ts'
import { isProbeDue } from '../store/book/due.ts'
import { pausedStreams } from '../store/book/streams.ts'
import { pickStream, type RunKind, type Stream } from '../streams/catalog.ts'
import { probeStream } from '../sync/beliefs/test-beliefs.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import type { RetryOutcome } from '../sync/reconcile/quarantine-retry.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { sentence } from '../util/text.ts'
import { askedSpan, planBackfill } from './backfill.ts'
import type { BackgroundTasks } from './background-tasks.ts'
import { expectApproved } from './deletions.ts'
import {
  type MirrorContext,
  mirrorActions,
  type Order,
  type Outcome,
  requestIfPossible,
} from './mirror-actions.ts'
import { asChangesStream } from './positions.ts'
import { expectEntry, nothingTried, retrySelected, retrySentence, selectionOf } from './quarantine.ts'
import { type ReconcileOnce, reconcileOnce, reconcileSentence } from './reconcile.ts'
import type { neededRole } from './roles.ts'

export type { Order, Outcome } from './mirror-actions.ts'
export type ActionContext = MirrorContext & {
  readonly sync: SyncContext
  readonly tasks: BackgroundTasks
  /** To one receiver, or to all; says in one line what was sent. Null: nobody is told of problems. */
  readonly sendTestAlert: ((receiver: string | null) => Promise<string>) | null
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

export const noReceiver =
  'No receiver of alerts is configured. Set ALERT_WEBHOOK_URL to an incoming webhook, or ALERTS to a file with receivers, or set one up on the page Alerts.'
export const allReceivers = 'alerts'

/** The target of an action that is about all streams. */
export const everything = 'all'

/** A person can probe a stream only so often, because it takes a few dozen requests. */
const probeRestMs = 60_000

async function probe(context: ActionContext, { target }: Order): Promise<Outcome> {
  const stream = changesStreamIn(context, target)
  const tooSoon = `${stream.name} was checked less than a minute ago. The page Upstream shows what was seen.`
  if (!(await isProbeDue(context.pool, stream.name, probeRestMs))) throw new NotNow(tooSoon)
  return await inBackground(context, `The check of ${stream.name}`, async (signal) => {
    const { status, note, error } = await probeStream({ ...context.sync.contextOf(stream), signal })
    if (status === 'failed')
      return { text: `${stream.name} could not be checked: ${sentence(messageOf(error))}`, isFailed: true }
    if (status !== 'done') return { text: `${stream.name} was not checked: ${note}` }
    return { text: `${stream.name} was checked: ${note ?? 'nothing that is believed of it has changed.'}` }
  })
}

/** A reconcile, and how long it took. */
export type TimedReconcile = ReconcileOnce & { readonly durationMs: number }

async function approve(context: ActionContext, { target, fields }: Order): Promise<Ended<TimedReconcile>> {
  const { sync, log } = context
  const stream = streamIn(context, target)
  const approved = await expectApproved(context.pool, stream.name, fields.rows ?? null)
  const name = `The reconcile of ${stream.name} with approved deletions`
  return await inBackground(context, name, async (signal) => {
    const startedAt = performance.now()
    const outcome = await reconcileOnce(sync, stream, { approved, signal, log })
    const detail = { ...outcome, durationMs: Math.round(performance.now() - startedAt) }
    return { text: reconcileSentence(detail), isFailed: isUndone(outcome), detail }
  })
}

type Asked = Ended<{ readonly id: string }>

async function backfill(context: ActionContext, { target, fields, by }: Order): Promise<Asked> {
  const { pool } = context
  const { stream, span } = await askedSpan(context.sync, target, fields)
  if (fields['dry-run'] !== undefined) return await planBackfill(context.sync, stream, span)
  const { id } = await requestBackfill(pool, { stream: stream.name, ...span, by })
  const isPaused = (await pausedStreams(pool)).has(stream.name)
  if (!isPaused) await requestIfPossible(context, { stream: stream.name, kind: 'backfill' })
  const [from, to] = [span.from.toString(), span.to.toString()]
  const begins = isPaused ? 'It begins when the stream is resumed.' : 'It begins in a moment.'
  return {
    text: `${stream.name}: backfill ${id} from ${from} to ${to} was requested. ${begins}`,
    json: { id, stream: stream.name, from, to },
    isUnderWay: true,
    detail: { id },
  }
}

type Retried = Ended<readonly RetryOutcome[]>

async function retryQuarantine(context: ActionContext, { target }: Order): Promise<Retried> {
  const { pool } = context
  const selection = selectionOf(target === everything ? undefined : target, context.streams)
  await expectEntry(pool, selection)
  const what = selection.id === null ? `the records of ${target}` : `record ${target}`
  return await inBackground(context, `The retry of ${what} in quarantine`, async (signal) => {
    const detail: RetryOutcome[] = []
    for await (const outcome of retrySelected(context.sync, selection, signal)) detail.push(outcome)
    const text = detail.map(retrySentence).join(' ') || (await nothingTried(pool, selection, context.streams))
    return { text, isFailed: detail.some(isUndone), detail }
  })
}

async function testAlert({ sendTestAlert }: ActionContext, { target }: Order): Promise<Outcome> {
  if (sendTestAlert === null) throw new UsageError(noReceiver)
  // The message does not name the address, which is a secret (P9).
  const text = await sendTestAlert(target === allReceivers ? null : target).catch((cause) => {
    throw cause instanceof UsageError ? cause : new NotNow(messageOf(cause), { cause })
  })
  return { text, json: { sent: true } }
}

/** Hard to undo, so the name of the stream is typed. */
async function rewind(context: ActionContext, order: Order): Promise<Outcome> {
  const stream = changesStreamIn(context, order.target).name
  if (order.fields.confirm !== stream)
    throw new UsageError(
      `Nothing was moved: to confirm it, type the name of the stream, ${stream} (confirm=${stream}).`,
      { field: 'confirm' },
    )
  return await mirrorActions.rewind(context, order)
}

export const actions = {
  ...mirrorActions,
  testAlert,
  sync,
  probe,
  approve,
  backfill,
  rewind,
  retryQuarantine,
} satisfies Readonly<Record<keyof typeof neededRole, Action>>
export type ActionName = keyof typeof actions

const streamIn = ({ streams }: ActionContext, target: string): Stream => pickStream(target, streams)
const changesStreamIn = (context: ActionContext, target: string) =>
  asChangesStream(streamIn(context, target), context.streams)

type Worked<Detail> = Pick<Ended<Detail>, 'text' | 'isFailed' | 'detail'>
/** Also one that found another run of its kind did nothing of what was asked for. */
const isUndone = ({ status }: Pick<RunOutcome, 'status'>): boolean =>
  status === 'failed' || status === 'skipped'

/** `detail`: what came of it, when it was waited for. */
type Ended<Detail> = Outcome & { readonly detail?: Detail }

async function inBackground<Detail>(
  { tasks }: ActionContext,
  name: string,
  work: (signal: AbortSignal) => Promise<Worked<Detail>>,
): Promise<Ended<Detail>> {
  const ended: Worked<Detail>[] = []
  const noting = Promise.withResolvers<Parameters<NonNullable<Outcome['whenOver']>>[0]>()
  let goesOn = false
  const text = await tasks.run(name, async (signal) => {
    const worked = await work(signal).catch(async (error) => {
      if (goesOn) await (await noting.promise)({ text: 'The log of the worker says why.', isFailed: true })
      throw error
    })
    ended.push(worked)
    if (goesOn) await (await noting.promise)(worked)
    return worked.text
  })
  const [soon] = ended
  if (soon) return { json: { done: true, result: soon.text }, ...soon }
  if (text !== null) return { json: { done: true, result: text }, text }
  goesOn = true
  const begun = `${name} has begun. The page Runs shows it.`
  return { text: begun, json: { done: false }, isUnderWay: true, whenOver: noting.resolve }
}

function requestedKind(text = 'incremental'): Extract<RunKind, 'incremental' | 'lookback' | 'reconcile'> {
  if (text === 'incremental' || text === 'lookback' || text === 'reconcile') return text
  throw new UsageError(
    `There is no kind of run "${text}" to ask for: write incremental, lookback or reconcile.`,
  )
}
