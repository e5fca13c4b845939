// What a person may do to the mirror alone: no upstream is asked, and no queue is needed. The buttons of the console, the HTTP API and
// the verbs of the terminal all call these.

import type { Pool } from '../context.ts'
import type { Logger } from '../log.ts'
import type { AlertKeeping } from '../problems/receivers.ts'
import { cancelBackfill, readBackfill } from '../store/book/backfills.ts'
import {
  lookAgain,
  readBlockedDeletions,
  readDeletionEvidence,
  rejectDeletions,
} from '../store/book/deletions.ts'
import { countQuarantine, dropFromQuarantine } from '../store/book/quarantine.ts'
import { acknowledgeMissedRows, pausedStreams, pauseStream, resumeStream } from '../store/book/streams.ts'
import { pickStream, type RunRequest, type Stream } from '../streams/catalog.ts'
import { parseInt64 } from '../streams/record.ts'
import { NotThere, UsageError } from '../util/errors.ts'
import { formatDuration, plural, snakeCased } from '../util/text.ts'
import { alertSettingActions } from './alert-settings.ts'
import { backfillJson, backfillSentence } from './backfill.ts'
import { blockedJson, othersFoundGone, shareMissing } from './deletions.ts'
import { peopleActions } from './people.ts'
import { asChangesStream, rowVersionIn } from './positions.ts'
import { entryIn, expectEntry, selectionOf } from './quarantine.ts'
import { moveBack, rewindTargetIn } from './rewind.ts'
import { type RulesOf, settingActions } from './settings.ts'
import { silenceActions } from './silences.ts'

export type MirrorContext = {
  readonly pool: Pool
  readonly streams: readonly Stream[]
  readonly settings: RulesOf
  /** What may be set up of receivers and rules. A program that is not configured whole throws a ConfigError. */
  readonly alerting: () => AlertKeeping
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
  /** Hands over what came of it when it is over. Left out: a run of its own does the work. */
  readonly whenOver?: (note: (ended: Pick<Outcome, 'text' | 'isFailed'>) => Promise<void>) => void
  readonly isFailed?: boolean
}

async function pause({ pool, streams }: MirrorContext, { target, fields, by }: Order): Promise<Outcome> {
  const stream = pickStream(target, streams).name
  const before = await pauseStream(pool, { stream, by, reason: fields.reason ?? null })
  const json = { stream, paused: true }
  if (before === null)
    return { text: `${stream} is paused. No worker reads it by itself until it is resumed.`, json }
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
  const text =
    acknowledged === 0
      ? `${stream}: there are no missed rows to acknowledge.`
      : `${stream}: ${plural(acknowledged, 'missed row')} acknowledged.`
  return { text, json: { stream, acknowledged } }
}

/** The rows stay, and nobody is asked about them again until another listing lacks other rows. */
async function reject({ pool, streams }: MirrorContext, { target, fields, by }: Order): Promise<Outcome> {
  const stream = pickStream(target, streams)
  const { name } = stream
  const restores = fields.restore !== undefined
  const restored = await rejectDeletions(pool, { stream, by, reason: fields.reason ?? null, restores })
  const [blocked] = restored === null ? [] : await readBlockedDeletions(pool, [name])
  if (restored === null || !blocked) throw new UsageError(`No deletions of ${name} are blocked.`)
  const evidence = await readDeletionEvidence(pool, name)
  const others =
    restored > 0
      ? ` ${plural(restored, 'other row')} that had been found gone and marked deleted ${restored === 1 ? 'lives' : 'live'} again.`
      : evidence.marked > 0
        ? ` ${othersFoundGone(evidence)}, and ${evidence.marked === 1 ? 'stays' : 'stay'} so: \`tidemark deletions reject ${name} --restore\` brings them back.`
        : ''
  const text = `${name}: the rows stay (${shareMissing(blocked)}), and its deletions are frozen until a list lacks other rows than these, or somebody looks again.${others}`
  return { text, json: { ...blockedJson(blocked), restored } }
}

/** A rejection ends: what it kept is looked at again. */
async function endRejection(context: MirrorContext, { target }: Order): Promise<Outcome> {
  const { name: stream, kind } = pickStream(target, context.streams)
  if (!(await lookAgain(context.pool, stream))) throw new UsageError(`No deletions of ${stream} are frozen.`)
  const run = kind === 'list' ? 'incremental' : 'reconcile'
  const isAsked = await requestIfPossible(context, { stream, kind: run })
  const isPaused = (await pausedStreams(context.pool)).has(stream)
  const next = isPaused
    ? 'It is listed again when it is resumed'
    : isAsked
      ? 'A worker lists it again as soon as it is free'
      : kind === 'list'
        ? 'The queue does not answer. The next reading lists it again'
        : 'The queue does not answer. A worker lists it again within a quarter of an hour after it is back'
  const text = `${stream}: its deletions are frozen no more. ${next}, and asks anew if rows are still missing.`
  return { text, json: { stream, frozen: false } }
}

/** The position that a person saw may have risen since, not fallen. Only the terminal may skip versions. */
async function rewind(context: MirrorContext, { target, fields, by, door }: Order): Promise<Outcome> {
  const { pool, streams } = context
  const stream = asChangesStream(pickStream(target, streams), streams)
  const { reason, seen, force } = fields
  const noReason = 'Say why the position is moved back: the reason is kept with the checkpoint.'
  if (reason === undefined) throw new UsageError(noReason, { field: 'reason' })
  const moved = await moveBack(pool, {
    stream,
    reason,
    by,
    target: rewindTargetIn(fields),
    isForced: door === 'terminal' && force !== undefined,
    seen: seen === undefined ? null : rowVersionIn(seen),
  })
  if (!(await pausedStreams(pool)).has(stream.name))
    await requestIfPossible(context, { stream: stream.name, kind: 'incremental' })
  const { name } = stream
  const text = `${name}: the position moved from ${moved.from} to ${moved.to}.
The next run reads on from there. If the upstream was restored from a backup, run \`tidemark verify ${name} --repair\` after it.`
  return { text, json: { stream: name, ...snakeCased(moved) } }
}

async function stopBackfill({ pool }: MirrorContext, { target, by }: Order): Promise<Outcome> {
  const id = parseInt64(target)
  const isCancelled = id !== null && (await cancelBackfill(pool, id.toString(), by))
  const found = id === null ? null : await readBackfill(pool, id.toString())
  if (!found) throw new NotThere(`There is no backfill ${target.slice(0, 20)}.`)
  if (!isCancelled) throw new UsageError(`Backfill ${id} has ended already: ${found.status}.`)
  return { text: backfillSentence(found), json: { cancelled: found.id, ...backfillJson(found) } }
}

/** For good, with a reason that is kept with the records. No later entry than `through`: what nobody has seen yet stays (P5). */
async function dropQuarantine(
  { pool, streams }: MirrorContext,
  { target, fields, by }: Order,
): Promise<Outcome> {
  const selection = selectionOf(target, streams)
  const { reason, records } = fields
  const through = fields.through === undefined ? null : entryIn(fields.through)
  const there = records === undefined ? null : await countQuarantine(pool, selection, through)
  if (there !== null && records !== String(there))
    throw new UsageError(
      `Nothing was dropped: ${plural(there, 'record')} would go, and ${records} was typed. Look again, and type that number.`,
      { field: 'records' },
    )
  const noReason = 'Say why the records are dropped: the reason is kept with them.'
  if (!reason) throw new UsageError(noReason, { field: 'reason' })
  await expectEntry(pool, selection)
  const dropped = await dropFromQuarantine(pool, selection, `${reason} (${by})`, through)
  return { text: `${plural(dropped, 'record')} dropped.`, json: { dropped } }
}

/** What came of it, as the terminal prints it with `--json` and the API answers it. */
export const outcomeJson = (outcome: Outcome) => ({
  ...outcome.json,
  outcome: resultOf(outcome),
  told: outcome.text,
})

export const resultOf = ({ isUnderWay, isFailed }: Outcome) =>
  isUnderWay ? 'begun' : isFailed ? 'failed' : 'done'

export const mirrorActions = {
  ...silenceActions,
  ...settingActions,
  ...alertSettingActions,
  ...peopleActions,
  pause,
  resume,
  acknowledge,
  reject,
  lookAgain: endRejection,
  rewind,
  cancelBackfill: stopBackfill,
  dropQuarantine,
} satisfies Readonly<Record<string, (context: MirrorContext, order: Order) => Promise<Outcome>>>
export type MirrorActionName = keyof typeof mirrorActions

export const requestIfPossible = (
  { requestRun }: MirrorContext,
  request: Omit<RunRequest, 'cause'>,
): Promise<boolean> =>
  requestRun({ ...request, cause: 'operator' }).then(
    () => true,
    () => false,
  )
