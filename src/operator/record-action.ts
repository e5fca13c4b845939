// Does what a person asks for, and records it: who, from where, what, why, and how it stood before and afterwards.

import { noteAction, noteResult } from '../store/admin/actions.ts'
import { readStanding } from '../store/queries/actions.ts'
import { readBackfill } from '../store/queries/backfills.ts'
import { streamOfEntry } from '../store/queries/quarantine.ts'
import { parseInt64 } from '../streams/record.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { type ActionContext, type ActionName, actions, NotNow, type Order, type Outcome } from './actions.ts'

export async function performRecorded(
  context: ActionContext,
  name: ActionName,
  order: Order,
): Promise<Outcome> {
  const { pool } = context.sync.database
  const stream = await streamOf(context, name, order.target)
  const standing = async () => (stream === null ? null : await readStanding(pool, stream))
  const { who, door, address, target, fields } = order
  const id = await noteAction(pool, {
    ...{ who, door, address, target, stream },
    action: name,
    reason: fields.reason ?? null,
    confirmed: fields.rows ?? fields.records ?? null,
    before: await standing(),
  })
  const end = async (result: string, told: string) => {
    // It is done; that its end could not be recorded must not say that it is not.
    await standing()
      .then((after) => noteResult(pool, id, { result, told, after }))
      .catch((error) =>
        context.log.warn({ err: error, action: name }, 'what came of an action could not be recorded'),
      )
  }
  try {
    const outcome = await actions[name](context, order)
    await end(outcome.isUnderWay ? 'begun' : 'done', outcome.text)
    return outcome
  } catch (error) {
    const isRefused = error instanceof UsageError || error instanceof NotNow
    // P9: what went wrong inside is for the log.
    await end(
      isRefused ? 'refused' : 'failed',
      isRefused ? messageOf(error) : 'The log of the worker says why.',
    )
    throw error
  }
}

/** The stream that an order is about; null when that cannot be said. */
async function streamOf({ sync }: ActionContext, name: ActionName, target: string): Promise<string | null> {
  const known = sync.streams.find((one) => one.name === target)
  if (known) return known.name
  const id = parseInt64(target)
  if (id === null) return null
  if (name === 'cancelBackfill')
    return (await readBackfill(sync.database.pool, id.toString()))?.stream ?? null
  return await streamOfEntry(sync.database.pool, id)
}
