// Records what a person does at the terminal, just like actions on the console: who, from where, why, before and after.

import { hostname } from 'node:os'
import type { Pool } from 'pg'
import { loadConfig } from '../config/load.ts'
import { settingRules } from '../config/settings.ts'
import { environmentOfSource } from '../config/sources-file.ts'
import type { SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import type { ActionContext, ActionName } from '../operator/actions.ts'
import {
  type MirrorActionName,
  type MirrorContext,
  mirrorActions,
  type Order,
  type Outcome,
  outcomeJson,
} from '../operator/mirror-actions.ts'
import { noteEvent, performRecorded, recorded } from '../operator/record-action.ts'
import { alertKeepingOf } from '../problems/receivers.ts'
import { makeDue } from '../store/book/due.ts'
import { withConnection } from '../store/server/session.ts'
import { sourceIn } from '../streams/names.ts'
import { messageOf } from '../util/errors.ts'
import { type Call, operator, osUser } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { changeMirror } from './mirror.ts'
import { openRemote } from './remote.ts'

/** What can be done at the terminal only, and what each is about. */
const targets = {
  repair: 'stream',
  privacy: 'stream',
  erase: 'stream',
  adopt: 'service',
  api: 'operation',
  sources: 'file',
  pauseSource: 'source',
  resumeSource: 'source',
  dropSource: 'source',
} as const
type Given = {
  readonly action: keyof typeof targets
  readonly target: string
  readonly reason?: string | null
}
type Told = { readonly isFailed?: boolean; readonly told: string }
type Fields = Readonly<Record<string, string | null>>

/** Does on the mirror what a button of the console does too, records it, and shows what came of it. */
export async function act(
  call: Call,
  name: MirrorActionName,
  target: string,
  fields: Fields = {},
  say: (done: Outcome) => void = ({ text }) => call.stdout.tell(text),
): Promise<ExitCode> {
  const { values, stdout } = call
  const there = await actThere(call, name, target, fields, say)
  if (there !== null) return there
  return await changeMirror(call, async (pool) => {
    const action = [name, mirrorActions[name]] as const
    const done = await performRecorded(contextOf(call, pool), action, orderOf(target, fields))
    if (values.json) stdout.json(outcomeJson(done))
    else say(done)
  })
}

/** Over the API of a worker, which goes on with what takes long; null: there is no TIDEMARK_URL. */
export async function actThere(
  call: Call,
  name: ActionName,
  target: string,
  fields: Fields = {},
  say: (done: Outcome) => void = ({ text }) => call.stdout.tell(text),
): Promise<ExitCode | null> {
  const { values, stdout } = call
  const remote = openRemote(call)
  if (remote === null) return null
  const done = await remote.act(name, target, fields)
  if (values.json) stdout.json(done)
  else say({ text: done.told, json: done })
  return done.outcome === 'failed' ? exitCodes.failed : exitCodes.done
}

/** The same for what needs the upstream. It is waited for to its end, and what came of it is handed back. */
export async function actUpstream<Done extends Outcome>(
  call: Call,
  sync: SyncContext,
  [name, action]: readonly [ActionName, (context: ActionContext, order: Order) => Promise<Done>],
  target: string,
  fields: Fields = {},
): Promise<Done> {
  const context: ActionContext = {
    ...contextOf(call, sync.database.pool),
    streams: sync.streams,
    sync,
    tasks: { run: (_name, work) => work(call.signal), stop: async () => {} },
    sendTestAlert: null,
  }
  return await performRecorded(context, [name, action], orderOf(target, fields))
}

const contextOf = ({ environment, catalogue, log }: Call, pool: Pool): MirrorContext => ({
  pool,
  log,
  streams: catalogue,
  settings(source, said) {
    const own = catalogue.filter(({ name }) => sourceIn(name) === source)
    const ofSource = source === '' ? environment : environmentOfSource(environment, source, said)
    return settingRules(ofSource, own.length === 0 ? undefined : own)
  },
  alerting: () => alertKeepingOf(loadConfig(environment)),
  // The queue belongs to the workers: they see in Postgres within seconds what is wanted.
  async requestRun(request) {
    await makeDue(pool, request)
  },
})
const person = () => ({ who: osUser(), door: 'terminal' as const, address: hostname() })

function orderOf(target: string, fields: Fields): Order {
  const given = Object.entries(fields).filter((field): field is [string, string] => field[1] !== null)
  return { target, fields: Object.fromEntries(given), by: operator(), ...person() }
}

/** Does it, and records what `say` makes of its result. */
export async function recordedHere<Result>(
  { pool, log }: { readonly pool: Pool; readonly log: Logger },
  { action, target, reason = null }: Given,
  work: () => Promise<Result>,
  say: (result: Result) => string | Told,
): Promise<Result> {
  const deed = {
    ...person(),
    action,
    target,
    reason,
    stream: targets[action] === 'stream' ? target : null,
    confirmed: null,
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
  const event = { ...person(), action: 'sql', target: 'tidemark sql' }
  await withConnection(pool, async (client) => {
    // No transaction stays open, in which somebody who stops this program would hold up all others that record something.
    await client.query('set default_transaction_read_only = off')
    await noteEvent(client, { ...event, told })
    await client.query('set default_transaction_read_only = on')
  }).catch((error) => log.debug({ why: messageOf(error) }, 'this look into the mirror could not be recorded'))
}
