// Does what a person asks for, and records it: who asked, from where, why, and how things stood before and afterwards. The console, HTTP
// and the verbs of the terminal all do it here.

import type { Pool } from '../context.ts'
import type { Logger } from '../log.ts'
import {
  type NotedAction,
  noteAction,
  noteResult,
  readStanding,
  type Standing,
} from '../store/book/actions.ts'
import { readBackfill } from '../store/book/backfills.ts'
import { streamOfEntry } from '../store/book/quarantine.ts'
import type { Stream } from '../streams/catalog.ts'
import { parseInt64 } from '../streams/record.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { type ActionName, NotNow } from './actions.ts'
import { aboutAlerting, alertSettingActions } from './alert-settings.ts'
import { type MirrorContext, type Order, type Outcome, resultOf } from './mirror-actions.ts'
import { aboutSetting, settingActions } from './settings.ts'

type Ended = {
  readonly result: ReturnType<typeof resultOf>
  readonly told: string
  /** What came of it is recorded when it is over, and nothing until then. */
  readonly whenOver?: Outcome['whenOver']
}
/** What a person does, without how things stood before. */
export type Deed = Omit<NotedAction, 'before' | 'door'> &
  Pick<Order, 'door'> & {
    /** How that stands which is changed; left out: the stream. */
    readonly standing?: () => Promise<Standing | null>
  }
/** Something that changes nothing here, such as a sign-in or a download, and what came of it. */
export type Event = Pick<Deed, 'who' | 'door' | 'address' | 'action' | 'target'> & {
  readonly stream?: string | null
  readonly told: string
}

/** One line, for what is over at once. */
export async function noteEvent(
  client: Parameters<typeof noteAction>[0],
  { told, stream = null, ...event }: Event,
): Promise<void> {
  const result = event.action === 'lockedOut' ? 'refused' : 'done'
  const noted = { ...event, stream, reason: null, confirmed: null, before: null }
  await noteAction(client, noted, { result, told })
}

/** Noted before it is done, so that nothing is done unrecorded. */
export async function recorded<Result>(
  { pool, log }: { readonly pool: Pool; readonly log: Logger },
  deed: Deed,
  work: () => Promise<Result>,
  ended: (result: Result) => Ended,
): Promise<Result> {
  const { stream } = deed
  const standing = deed.standing ?? (async () => (stream === null ? null : await readStanding(pool, stream)))
  const id = await noteAction(pool, { ...deed, before: await standing() })
  const end = async ({ result, told }: { readonly result: string; readonly told: string }) => {
    // The action is done. If its end cannot be recorded, the person must not be told that it failed.
    await standing()
      .then((after) => noteResult(pool, id, { result, told, after }))
      .catch((error) =>
        log.warn({ err: error, action: deed.action }, 'what came of an action could not be recorded'),
      )
  }
  try {
    const result = await work()
    const { whenOver, ...over } = ended(result)
    if (whenOver)
      whenOver(({ text, isFailed }) => end({ result: isFailed === true ? 'failed' : 'done', told: text }))
    else await end(over)
    return result
  } catch (error) {
    const isRefused = error instanceof UsageError || error instanceof NotNow
    // P9: what went wrong inside is for the log.
    const elsewhere = deed.door === 'terminal' ? 'The terminal said why.' : 'The log of the worker says why.'
    const told = isRefused ? messageOf(error) : elsewhere
    await end({ result: isRefused ? 'refused' : 'failed', told })
    throw error
  }
}

export async function performRecorded<Context extends MirrorContext, Done extends Outcome>(
  context: Context,
  [name, action]: readonly [ActionName, (context: Context, order: Order) => Promise<Done>],
  order: Order,
): Promise<Done> {
  const { pool, streams, log } = context
  const { who, door, address, target, fields } = order
  const deed: Deed = {
    who,
    door,
    address,
    target,
    action: name,
    stream: await streamOf(pool, streams, name, target),
    reason: fields.reason ?? null,
    confirmed: fields.rows ?? fields.records ?? null,
    ...(name in settingActions && (await aboutSetting(context, target))),
    ...(name in alertSettingActions && aboutAlerting(context, name, target)),
  }
  const endOf = (outcome: Outcome): Ended => ({
    result: resultOf(outcome),
    told: outcome.text,
    whenOver: outcome.whenOver,
  })
  return await recorded({ pool, log }, deed, () => action(context, order), endOf)
}

/** The stream that an action is about; null when that cannot be said. */
async function streamOf(
  pool: Pool,
  streams: readonly Stream[],
  name: string,
  target: string,
): Promise<string | null> {
  const known = streams.find((one) => target.split(':').includes(one.name))
  if (known) return known.name
  const id = parseInt64(target)
  if (id === null) return null
  if (name === 'cancelBackfill') return (await readBackfill(pool, id.toString()))?.stream ?? null
  return await streamOfEntry(pool, id)
}
