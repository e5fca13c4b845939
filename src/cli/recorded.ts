// Records what a person does at the terminal, just like actions on the console: who, from where, why, before and after.

import { hostname } from 'node:os'
import type { Pool } from 'pg'
import type { Logger } from '../log.ts'
import type { ActionName } from '../operator/actions.ts'
import { recorded, streamOf } from '../operator/record-action.ts'
import { streams } from '../streams/catalog.ts'
import { osUser } from './command.ts'

type Given = {
  /** Named as on the console; `adopt` and `repair` are there at the terminal only. */
  readonly action: ActionName | 'adopt' | 'repair'
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
    stream: action === 'adopt' ? null : await streamOf(pool, streams, action, target),
    confirmed: confirmed === null ? null : String(confirmed),
  }
  return await recorded({ pool, log }, deed, work, (result) => {
    const said = say(result)
    if (typeof said === 'string') return { result: 'done', told: said }
    return { result: said.isFailed ? 'failed' : 'done', told: said.told }
  })
}
