// Records what a person does at the terminal, just like actions on the console: who, from where, why, before and after.

import { hostname } from 'node:os'
import type { Pool } from 'pg'
import type { Logger } from '../log.ts'
import type { ActionName } from '../operator/actions.ts'
import { noteEvent, recorded, streamOf } from '../operator/record-action.ts'
import { withConnection } from '../store/server/session.ts'
import { streams } from '../streams/catalog.ts'
import { messageOf } from '../util/errors.ts'
import { osUser } from './command.ts'

type Given = {
  /** Named as on the console; `adopt`, `repair` and `api` are there at the terminal only. */
  readonly action: ActionName | 'adopt' | 'repair' | 'api'
  /** A stream, or the id of what is meant. */
  readonly target: string
  readonly reason?: string | null
  /** The number that was typed. */
  readonly confirmed?: number | null
}
type Told = { readonly isFailed?: boolean; readonly told: string }

/** Does it, and records what `say` makes of its result. */
export async function recordedHere<Result>(
  { pool, log }: { readonly pool: Pool; readonly log: Logger },
  { action, target, reason = null, confirmed = null }: Given,
  work: () => Promise<Result>,
  say: (result: Result) => string | Told,
): Promise<Result> {
  const deed = {
    ...{ who: osUser(), door: 'terminal' as const, address: hostname(), action, target, reason },
    stream: action === 'adopt' || action === 'api' ? null : await streamOf(pool, streams, action, target),
    confirmed: confirmed === null ? null : String(confirmed),
  }
  return await recorded({ pool, log }, deed, work, (result) => {
    const said = say(result)
    if (typeof said === 'string') return { result: 'done', told: said }
    return { result: said.isFailed ? 'failed' : 'done', told: said.told }
  })
}

/**
 * Records that somebody looks into the mirror with SQL, and not what they ask: it may hold somebody's name. The connection only reads unless
 * it is told otherwise; a role or a Postgres that can only read has no way to record anything, and may look all the same.
 */
export async function noteLookHere(
  { pool, log }: { readonly pool: Pool; readonly log: Logger },
  told: string,
): Promise<void> {
  const event = {
    who: osUser(),
    door: 'terminal' as const,
    address: hostname(),
    action: 'sql',
    target: 'tidemark sql',
  }
  await withConnection(pool, async (client) => {
    // No transaction stays open, in which somebody who stops this program would hold up all others that record something.
    await client.query('set default_transaction_read_only = off')
    await noteEvent(client, { ...event, told })
    await client.query('set default_transaction_read_only = on')
  }).catch((error) => log.debug({ why: messageOf(error) }, 'this look into the mirror could not be recorded'))
}
