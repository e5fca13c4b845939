// `POST /api/v1/…`: what a person may do, by the same actions and with the same confirmations as in the console. Each is described here.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { blockedStream } from '../../documents/deletions.ts'
import { amount, digits, heldText, id, time } from '../../documents/document.ts'
import { backfill } from '../../documents/positions.ts'
import { record } from '../../documents/records.ts'
import { type ActionName, NotNow } from '../../operator/actions.ts'
import { outcomeJson } from '../../operator/mirror-actions.ts'
import { neededRole, type Role, roles } from '../../operator/roles.ts'
import { pickStream } from '../../streams/catalog.ts'
import { NotThere } from '../../util/errors.ts'
import {
  type ActionOptions,
  actionPaths,
  bearerOf,
  onlyTargets,
  orderBy,
  performLogged,
  refuse,
  refuseStrangers,
} from '../actions.ts'
import type { Console } from '../readers.ts'
import { readerOf } from '../reading-places.ts'
import type { Routes } from '../server.ts'
import { parsed, refuseOtherMethods, sendDocument } from './scope.ts'

const text = heldText.min(1).max(500)
const reason = text.describe('it is recorded')
const version = z
  .string()
  .regex(/^\d{1,19}$/)
  .describe('a row version')
const moment = heldText.max(40).describe('such as 2025-01-31T14:30:00Z')
const stream = z.string()
/** What may take longer than the answer waits. */
const worked = z.object({ done: z.boolean().describe('false: it goes on'), result: z.string().optional() })
const settingName = text.describe(
  'the name of the setting, such as PAGE_SIZE; of a named source, acme.PAGE_SIZE',
)
const value = { value: z.string(), source: z.string() }
const settingNow = z.object({ name: z.string(), ...value, before: z.object(value).optional() }).partial()
const secretText = heldText.min(1).max(2000)
const alertingKey = text.describe('`receiver:` or `rule:` and its name')
const alertingNow = z.object({ key: z.string(), removed: z.boolean() })
const silence = { target: z.string(), reason: z.string() }

type Described = { readonly title: string; readonly fields: z.ZodObject; readonly answer: z.ZodObject }
const action = (title: string, fields: z.ZodRawShape, answered: z.ZodObject): Described => ({
  title,
  fields: z.strictObject(fields),
  answer: answered.extend({
    outcome: z.enum(['done', 'begun', 'failed']),
    told: z.string().describe('what came of it, in one line'),
  }),
})

/** The fields are those of the order, with `_` for `-`. */
export const apiActions: Readonly<Record<ActionName, Described>> = {
  sync: action(
    'Read a stream now',
    { kind: z.enum(['incremental', 'lookback', 'reconcile']).optional() },
    z.object({ stream, kind: z.string(), status: z.string() }),
  ),
  pause: action(
    'Stop reading a stream',
    { reason: reason.optional() },
    z.object({ stream, paused: z.boolean() }),
  ),
  resume: action('Read a paused stream again', {}, z.object({ stream, paused: z.boolean() })),
  acknowledge: action('Close the problem of missed rows', {}, z.object({ stream, acknowledged: amount })),
  probe: action('Test what is believed of the upstream', {}, worked),
  approve: action(
    'Approve blocked deletions',
    {
      rows: z.int().min(1).describe('how many are blocked; if it is another number now, nothing is done'),
      reason,
    },
    worked,
  ),
  reject: action(
    'Keep the rows of blocked deletions',
    { reason, restore: z.boolean().optional().describe('rows marked within the last day live again, too') },
    blockedStream.extend({ restored: amount }),
  ),
  lookAgain: action('Take a rejection back', {}, z.object({ stream, frozen: z.boolean() })),
  backfill: action(
    'Read a part of the past again',
    {
      from_version: version.optional(),
      from_checkpoint: id.optional(),
      at: moment.optional(),
      to_version: version.optional(),
      dry_run: z.boolean().optional().describe('only says what it would take'),
    },
    z.object({
      stream,
      from: digits,
      to: digits,
      id: id.optional().describe('none for a dry run'),
      rows: amount.optional(),
      requests: amount.optional(),
      expected_ms: amount.nullable().optional(),
    }),
  ),
  rewind: action(
    'Move the position of a stream back',
    {
      to_version: version.optional(),
      to_checkpoint: id.optional(),
      to_time: moment.optional(),
      reason,
      confirm: heldText.max(63).describe('the name of the stream'),
      seen: version.optional().describe('the position that you saw; if it fell since, nothing is done'),
    },
    z.object({ stream, from: digits, to: digits }),
  ),
  cancelBackfill: action('Cancel a backfill', {}, backfill.extend({ cancelled: id })),
  retryQuarantine: action('Try records in quarantine again', {}, worked),
  dropQuarantine: action(
    'Take records out of quarantine for good',
    {
      reason,
      through: id.optional().describe('the last entry to drop'),
      records: z
        .int()
        .min(0)
        .optional()
        .describe('how many you saw; if it is another number now, nothing is done'),
    },
    z.object({ dropped: amount }),
  ),
  testAlert: action('Send a test message to receivers of alerts', {}, z.object({ sent: z.boolean() })),
  muteAlerts: action(
    'Send no alerts for a while',
    {
      target: text.describe('the key of a problem, `kind:stale`, `stream:assignment` or `all`'),
      for: heldText.max(20).optional().describe('such as 2h'),
      until: moment.optional(),
      reason,
    },
    z.object({ ...silence, until: time }),
  ),
  unmuteAlerts: action(
    'Send alerts again',
    { target: text },
    z.object({ target: z.string(), muted: z.boolean() }),
  ),
  acknowledgeProblem: action(
    'Acknowledge a problem',
    { target: text.describe('its key'), reason },
    z.object({ ...silence, acknowledged: z.boolean() }),
  ),
  setSetting: action(
    'Change a setting while workers run',
    { target: settingName, value: heldText.max(4000), reason: reason.optional() },
    settingNow,
  ),
  unsetSetting: action('Undo such a change', { target: settingName, reason: reason.optional() }, settingNow),
  setReceiver: action(
    'Set up a receiver of alerts',
    {
      target: text.describe('its name'),
      webhook: secretText.optional().describe('the address of an incoming webhook'),
      format: z.enum(['slack', 'teams', 'pagerduty', 'json']).optional(),
      key: secretText.optional().describe('of PagerDuty: the integration key'),
      smtp: text.optional().describe('the mail server, such as smtp://tidemark@mail.example'),
      password: secretText.optional().describe('of the mail server; left out: the one that is kept'),
      from: text.optional(),
      to: heldText.max(4000).optional().describe('addresses of mail, comma-separated'),
      reason: reason.optional(),
    },
    alertingNow,
  ),
  setRule: action(
    'Set up a rule of alerts',
    {
      target: text.describe('its name'),
      to: text.describe('names of receivers, comma-separated, as all lists here'),
      kinds: text.optional().describe('kinds of problems, `needs_you` or `news`; left out: all'),
      streams: text.optional(),
      sources: text.optional().describe('`environment` is the one without a name'),
      after: heldText.max(20).optional().describe('how long a problem lasts before it is told, such as 15m'),
      quiet: heldText.max(80).optional().describe('such as 22:00-06:30 Europe/Oslo'),
      reason: reason.optional(),
    },
    alertingNow,
  ),
  removeAlerting: action(
    'Remove a receiver or a rule that was set up while workers run',
    { target: alertingKey, reason: reason.optional() },
    alertingNow,
  ),
  undoAlerting: action(
    'Undo the last change of a receiver or a rule',
    { target: alertingKey, reason: reason.optional() },
    alertingNow,
  ),
  endSessions: action('End a session of the console, or all', {}, z.object({ ended: amount })),
  createToken: action(
    'Make a token for a person or a program',
    {
      target: text.describe('its name'),
      role: z.enum(roles),
      for: heldText.max(20).optional().describe('for how long it is taken, such as 90d'),
      until: moment.optional(),
    },
    z.object({
      name: z.string(),
      role: z.enum(roles),
      until: time.nullable(),
      token: z.string().describe('it is told only here'),
    }),
  ),
  revokeToken: action('Revoke a token', {}, z.object({ name: z.string(), revoked: z.boolean() })),
}

/** Of `{stream}` and others: what an address names. */
const named: Readonly<Record<string, string>> = {
  streams: 'stream',
  backfills: 'id',
  quarantine: 'target',
  alerts: 'receiver',
  sessions: 'id',
  tokens: 'name',
}
/** Each address, as the description writes it: `/streams/{stream}/pause`. */
export const apiActionPaths = actionPaths.map(
  ([name, path]) =>
    [name, path.replace(/^\/(\w+)\/:target/, (_all, what: string) => `/${what}/{${named[what]}}`)] as const,
)

type Options = ActionOptions & Pick<Console, 'statusQueries' | 'compare'>

export const apiActionRoutes =
  (options: Options): Routes =>
  (scope) => {
    const forRole = (needed: Role) => ({
      onRequest: (request: FastifyRequest, reply: FastifyReply) =>
        refusePrograms({ authentication: options.authentication, needed }, request, reply),
    })
    scope.register(async (acting) => {
      for (const [name, path] of apiActionPaths)
        acting.post<{ Params: Record<string, string> }>(
          asRoute(path),
          forRole(neededRole[name]),
          async (request, reply) => {
            const { target: said, ...given } = bodyOf(apiActions[name].fields, request)
            const [inPath] = Object.values(request.params)
            const target = parsed(heldText, inPath ?? said ?? onlyTargets[name] ?? '')
            if (path.startsWith('/streams/'))
              pickStream(
                target,
                options.streams().map((stream) => ({ name: stream })),
              )
            const order = orderBy(options.authentication, request, { target, fields: fieldsFrom(given) })
            const outcome = await performLogged(options, name, order)
            return sendDocument(reply.code(outcome.isUnderWay ? 202 : 200), outcomeJson(outcome))
          },
        )
      acting.post<{ Params: { stream: string; key: string } }>(
        asRoute(comparePath),
        forRole(compareRole),
        (request, reply) => compareRecord(options, request, reply),
      )
    })
    for (const path of [...apiActionPaths.map(([, path]) => path), comparePath])
      refuseOtherMethods(scope, asRoute(path), 'POST')
  }

export const compareRole: Role = 'operator'
export const comparePath = '/records/{stream}/{key}/compare'
const asRoute = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ':$1')

/** Programs that leave a body out send none, or `null`. */
const bodyOf = <Fields>(schema: z.ZodType<Fields>, { body }: FastifyRequest): Fields =>
  parsed(schema, body ?? {})

/** As forms send them: `{ "dry_run": true, "rows": 3 }` is `dry-run=yes&rows=3`. */
const fieldsFrom = (given: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(given).flatMap(([name, value]) =>
      value === undefined || value === false
        ? []
        : [[name.replaceAll('_', '-'), value === true ? 'yes' : String(value)]],
    ),
  )

/** A session does not count here: its forms carry a token of their own. */
const refusePrograms: typeof refuseStrangers = async (guard, request, reply) =>
  bearerOf(request) === null
    ? refuse(reply, { status: 401, problem: 'Send a token as `Authorization: Bearer …`.' })
    : await refuseStrangers(guard, request, reply)

/** The same document as without the comparison, with what the upstream says. */
async function compareRecord(
  { statusQueries, compare }: Options,
  request: FastifyRequest<{ Params: { stream: string; key: string } }>,
  reply: FastifyReply,
) {
  bodyOf(z.strictObject({}), request)
  const asked = parsed(record.asked, request.params) as { stream: string; key: string }
  const queries = statusQueries(readerOf(request))
  if (queries === null) throw new NotNow('The worker still waits for its database.')
  const says = await compare(asked.stream, asked.key)
  if (says === null)
    throw new NotThere('The upstream can only be asked for records of a stream that is mirrored.')
  return sendDocument(reply, await queries.recordStory(asked.stream, asked.key, says))
}
