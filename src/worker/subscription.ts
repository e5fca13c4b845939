// Decides how the worker is subscribed to the upstream's webhooks, from what the upstream serves. Nothing is known of the fields of
// definitions and subscriptions beforehand, so they are found by their names and values. Pure.

import { setTimeout as wait } from 'node:timers/promises'
import type { DescriptionPlace } from '../config/parsers.ts'
import type { Pool } from '../context.ts'
import type { Json, JsonObject } from '../json/json.ts'
import type { Logger } from '../log.ts'
import type { Description } from '../openapi/description.ts'
import { findDescription } from '../openapi/find-description.ts'
import { forgetProblem, noteProblem } from '../store/book/problems.ts'
import { takeTurn } from '../store/server/session.ts'
import { knownStreams } from '../streams/catalog.ts'
import { isObject } from '../streams/record.ts'
import { chooseKeyField } from '../streams/twins.ts'
import type { Source } from '../sync/ports/source.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/http/errors.ts'
import { openSource } from '../upstream/stream-source.ts'
import { messageOf } from '../util/errors.ts'
import { plural, sentence } from '../util/text.ts'
import { parsedRecords } from '../wire/record-page.ts'
import { correctedNames, describedNames, type FieldNames, seenNames } from './subscription-fields.ts'

export type Served = { readonly definitions: readonly Json[]; readonly subscriptions: readonly Json[] }
export type SubscriptionPlan = {
  /** Keys of subscriptions that are ours and not wanted: earlier addresses, duplicates, switched off. */
  readonly remove: readonly string[]
  /** The definitions that lack one, by their keys. */
  readonly create: readonly Json[]
  readonly names: FieldNames
  readonly kept: number
}
/** The definitions are not what can be used; the sentence says what was seen. */
export type Unusable = { readonly unusable: string }

const definitionKeys = ['WebhookDefinitionId', 'DefinitionId', 'Id', 'UID']
const subscriptionKeys = ['WebhookSubscriptionId', 'SubscriptionId', 'Id', 'UID']
const aboutBeingOn = /^is_?(?:active|enabled)$|^(?:active|enabled)$/i

/** One subscription for each definition that is about assignments, and never two. */
export function planSubscriptions(
  { definitions, subscriptions }: Served,
  { hookUrl, hooksUrl }: { readonly hookUrl: string; readonly hooksUrl: string },
): SubscriptionPlan | Unusable {
  const events = definitions.filter(isObject)
  const keyField = chooseKeyField(events, definitionKeys)
  if (keyField === null) return { unusable: whatIsThere('webhook definitions', definitions, definitionKeys) }
  const about = events.filter((event) => Object.values(event).some(isAboutAssignments))
  const keys = (about.length > 0 ? about : events).map((event) => event[keyField] ?? null)

  const known = subscriptions.filter(isObject)
  const ours = known.filter((one) => Object.values(one).some((value) => isTextWith(value, hooksUrl)))
  const idField = chooseKeyField(known, subscriptionKeys)
  if (ours.length > 0 && idField === null)
    return { unusable: whatIsThere('webhook subscriptions', subscriptions, subscriptionKeys) }
  const seen = seenNames(known, keyField)

  const wanted = new Map(keys.map((key) => [textOf(key), key]))
  const remove: string[] = []
  let kept = 0
  for (const one of ours) {
    const definition = textOf(one[seen.definition] ?? '')
    const isRight = Object.values(one).includes(hookUrl) && isOn(one) && wanted.delete(definition)
    if (isRight) kept++
    else if (idField !== null) remove.push(textOf(one[idField] ?? null))
  }
  return { remove, create: [...wanted.values()], names: seen, kept }
}

/** Whether a subscription that was just made will work; the sentence says why not. */
export function checkCreated(record: Json, hookUrl: string): Unusable | null {
  if (isObject(record) && Object.values(record).includes(hookUrl) && isOn(record)) return null
  return {
    unusable: `the new subscription does not hold the address that Tidemark gave it; ${fieldsOf(record)}`,
  }
}

export function subscriptionKeyOf(record: Json): string | null {
  const idField = chooseKeyField([record], subscriptionKeys)
  const fields: JsonObject = isObject(record) ? record : {}
  return idField === null ? null : textOf(fields[idField] ?? null)
}

/** A number beyond 2^53 is kept as its text (P4). */
const textOf = (value: Json): string => (JSON.isRawJSON(value) ? value.rawJSON : String(value))

const isTextWith = (value: Json, beginning: string): boolean =>
  typeof value === 'string' && value.startsWith(beginning)

const isAboutAssignments = (value: Json): boolean => typeof value === 'string' && /assignment/i.test(value)

const isOn = (record: JsonObject): boolean =>
  !Object.entries(record).some(([name, value]) => aboutBeingOn.test(name) && value === false)

const whatIsThere = (what: string, records: readonly Json[], candidates: readonly string[]): string =>
  records.length === 0
    ? `the upstream lists no ${what}`
    : `the ${what} have none of the keys ${candidates.join(', ')}; ${fieldsOf(records[0] ?? null)}`

function fieldsOf(record: Json): string {
  return isObject(record)
    ? `its fields: ${Object.keys(record).slice(0, 30).join(', ')}`
    : 'it is not an object'
}

// Keeps the worker subscribed to the upstream's webhooks: checked at the start and every hour, by one worker at a time. If it cannot
// subscribe, a problem says why, and the schedules go on without webhooks.
type Options = {
  readonly upstream: Upstream
  readonly pool: Pool
  /** PUBLIC_URL. */
  readonly publicUrl: string
  readonly secret: string
  /** What deliveries are to be signed with. */
  readonly signingSecret: string
  /** Where the upstream describes itself; null: that is not looked for. */
  readonly contract: DescriptionPlace | null
  readonly signal: AbortSignal
  readonly log: Logger
}

const everyMs = 3_600_000
const afterFailureMs = 60_000
export const webhookNotice = 'webhooks:subscription'

/** Ends with the signal. */
export async function keepSubscribed(options: Options): Promise<void> {
  const { pool, signal, log } = options
  let lastSaid = ''
  while (!signal.aborted) {
    const outcome = await subscribeOnce(options).catch((error: unknown) => ({
      isFine: false,
      said: `The worker could not subscribe to webhooks: ${sentence(messageOf(error))} It tries again in a minute; until then streams are read on their schedules.`,
      pauseMs: afterFailureMs,
    }))
    if (signal.aborted) return
    const { said, isFine } = outcome
    if (said !== lastSaid) log[isFine ? 'info' : 'warn'](said)
    lastSaid = said
    const noted = isFine
      ? forgetProblem(pool, webhookNotice)
      : noteProblem(pool, { key: webhookNotice, what: said })
    await noted.catch((error) => log.debug({ err: error }, 'could not note how the subscription is'))
    await wait('pauseMs' in outcome ? outcome.pauseMs : everyMs, undefined, { signal, ref: false }).catch(
      () => {},
    )
  }
}

type Outcome = { readonly said: string; readonly isFine: boolean }

async function subscribeOnce(options: Options): Promise<Outcome> {
  const client = await options.pool.connect()
  try {
    // The transaction waits for the upstream, but not for ever: other workers want to check the subscription, too.
    await client.query(`begin; set local idle_in_transaction_session_timeout = '15min'`)
    // Two workers that subscribe at once would subscribe twice.
    await takeTurn(client, 'subscribe to webhooks')
    return await subscribe(options)
  } finally {
    // The lock goes with the transaction, or with the connection.
    await client.query('rollback').then(
      () => client.release(),
      () => client.release(true),
    )
  }
}

async function subscribe(options: Options): Promise<Outcome> {
  const { upstream, publicUrl, secret, signal } = options
  const hooksUrl = `${publicUrl}/hooks/`
  const hookUrl = `${hooksUrl}${secret}`
  const list = async (name: string) =>
    parsedRecords((await sourceOf(upstream, name).list({ page: 1, pageSize: 1_000 }, signal)).records)
  const served = {
    definitions: await list('webhook_definition'),
    subscriptions: await list('webhook_subscription'),
  }
  const first = planSubscriptions(served, { hookUrl, hooksUrl })
  if ('unusable' in first) return { said: notSubscribed(first.unusable), isFine: false }
  const described = first.create.length > 0 ? describedNames(await descriptionAt(options)) : null
  const plan = described === null ? first : { ...first, names: described }
  const remove = (webhookSubscriptionId: string) =>
    upstream.call('deleteWebhookSubscription', { path: { webhookSubscriptionId } }, signal)
  for (const key of plan.remove) await remove(key)
  let { names } = plan
  for (const definition of plan.create) {
    const created = await create(options, hookUrl, definition, names)
    names = created.names
    const wrong = checkCreated(created.record, hookUrl)
    if (!wrong) continue
    const key = subscriptionKeyOf(created.record)
    if (key !== null) await remove(key)
    return { said: notSubscribed(wrong.unusable), isFine: false }
  }
  const count = plan.kept + plan.create.length
  return { said: `subscribed to ${plural(count, 'kind')} of webhooks`, isFine: true }
}

async function descriptionAt({ contract: place, upstream, signal }: Options): Promise<Description | null> {
  if (place === null) return null
  const found = await findDescription(place, upstream, signal)
  return found.found === 'description' ? found.description : null
}

const mostCorrections = 3

/** Creates a subscription. If the upstream says that a field is missing, it is tried again with the name that the upstream used. */
async function create(
  { upstream, signingSecret, signal }: Options,
  hookUrl: string,
  definition: Json,
  tried: FieldNames,
): Promise<{ readonly record: Json; readonly names: FieldNames }> {
  for (let names = tried, attempt = 1; ; attempt++) {
    const body: JsonObject = {
      [names.definition]: definition,
      [names.address]: hookUrl,
      ...(names.secret !== null && { [names.secret]: signingSecret }),
    }
    try {
      return { record: (await upstream.call('createWebhookSubscription', { body }, signal)).body, names }
    } catch (error) {
      const isRefused = error instanceof UpstreamError && error.status === 400 && attempt <= mostCorrections
      const corrected = isRefused ? correctedNames(names, error.said) : null
      if (corrected === null) throw error
      names = corrected
    }
  }
}

const notSubscribed = (why: string): string =>
  `The worker is not subscribed to webhooks: ${sentence(why)} Streams are read on their schedules.`

function sourceOf(upstream: Upstream, name: string): Source {
  const stream = knownStreams.find((one) => one.name === name)
  if (!stream) throw new Error(`there is no stream ${name}`)
  return openSource(upstream, stream)
}
