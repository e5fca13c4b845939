// Decides how the worker is subscribed to the upstream's webhooks, from what the upstream serves. Nothing is known of the fields of
// definitions and subscriptions beforehand, so they are found by their names and values. Pure.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from '../context.ts'
import type { Json, JsonObject } from '../json/json.ts'
import type { Logger } from '../log.ts'
import { takeTurn } from '../store/server/session.ts'
import { type Stream, streams } from '../streams/catalog.ts'
import { chooseKeyField, isObject } from '../streams/record.ts'
import type { Source } from '../sync/ports/source.ts'
import type { Upstream } from '../upstream/client.ts'
import { openSource } from '../upstream/contract/source.ts'
import { UpstreamError } from '../upstream/http/errors.ts'
import { messageOf } from '../util/errors.ts'
import { plural, sentence } from '../util/text.ts'
import { parsedRecords } from '../wire/record-page.ts'

export type Served = { readonly definitions: readonly Json[]; readonly subscriptions: readonly Json[] }
export type SubscriptionPlan = {
  /** Keys of subscriptions that are ours and not wanted: earlier addresses, duplicates, switched off. */
  readonly remove: readonly string[]
  readonly create: readonly JsonObject[]
  readonly kept: number
}
/** The definitions are not what can be used; the sentence says what was seen. */
export type Unusable = { readonly unusable: string }

const definitionKeys = ['WebhookDefinitionId', 'DefinitionId', 'Id', 'UID']
const subscriptionKeys = ['WebhookSubscriptionId', 'SubscriptionId', 'Id', 'UID']
const aboutAddress = /url|uri|callback|endpoint|address/i
const aboutDefinition = /definition/i
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
  const names = subscriptionFields(known, keyField)

  const wanted = new Map(keys.map((key) => [textOf(key), key]))
  const remove: string[] = []
  let kept = 0
  for (const one of ours) {
    const definition = textOf(one[names.definition] ?? '')
    const isRight = Object.values(one).includes(hookUrl) && isOn(one) && wanted.delete(definition)
    if (isRight) kept++
    else if (idField !== null) remove.push(textOf(one[idField] ?? null))
  }
  const create = [...wanted.values()].map((key) => ({ [names.definition]: key, [names.address]: hookUrl }))
  return { remove, create, kept }
}

/** Whether a subscription that was just made will work; the sentence says why not. */
export function checkCreated(record: Json, hookUrl: string): Unusable | null {
  if (isObject(record) && Object.values(record).includes(hookUrl) && isOn(record)) return null
  return {
    unusable: `the new subscription does not hold the address that Tidemark gave it; ${fieldsOf(record)}`,
  }
}

/** A service that does not know the name under which it was given the address says which field it misses. */
function missedAddress(error: unknown): string | null {
  const excerpt = error instanceof UpstreamError && error.status === 400 ? error.excerpt : null
  const required = [...(excerpt ?? '').matchAll(/"(\w+)":\["The \1 field is required/g)]
  return required.map(([, name = '']) => name).find((name) => aboutAddress.test(name)) ?? null
}

export function subscriptionKeyOf(record: Json): string | null {
  const idField = chooseKeyField([record], subscriptionKeys)
  const fields: JsonObject = isObject(record) ? record : {}
  return idField === null ? null : textOf(fields[idField] ?? null)
}

/** As other subscriptions spell them; with none to learn from, as the definitions spell theirs. */
function subscriptionFields(
  known: readonly JsonObject[],
  definitionKey: string,
): { definition: string; address: string } {
  const names = [...new Set(known.flatMap((one) => Object.keys(one)))]
  const isCamel = /^[a-z]/.test(definitionKey)
  const definition =
    names.find((name) => name.toLowerCase() === definitionKey.toLowerCase() && aboutDefinition.test(name)) ??
    names.find((name) => aboutDefinition.test(name)) ??
    (aboutDefinition.test(definitionKey)
      ? definitionKey
      : isCamel
        ? 'webhookDefinitionId'
        : 'WebhookDefinitionId')
  const address = names.find((name) => aboutAddress.test(name)) ?? (isCamel ? 'callbackUrl' : 'CallbackUrl')
  return { definition, address }
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

// Keeps the worker subscribed to the upstream's webhooks: looked at when it starts and every hour, by one worker at a time. When
// that cannot be, it says why, once, and the schedules go on without.
type Options = {
  readonly upstream: Upstream
  readonly pool: Pool
  /** PUBLIC_URL. */
  readonly publicUrl: string
  readonly secret: string
  readonly signal: AbortSignal
  readonly log: Logger
}

const everyMs = 3_600_000
const afterFailureMs = 60_000

/** Ends with the signal. */
export async function keepSubscribed(options: Options): Promise<void> {
  const { signal, log } = options
  let lastSaid = ''
  while (!signal.aborted) {
    let pauseMs = everyMs
    let said: string
    let isFine = false
    try {
      ;({ said, isFine } = await subscribeOnce(options))
    } catch (error) {
      if (signal.aborted) return
      pauseMs = afterFailureMs
      said = `The worker could not subscribe to webhooks: ${sentence(messageOf(error))} It tries again in a minute; until then streams are read on their schedules.`
    }
    if (said !== lastSaid) log[isFine ? 'info' : 'warn'](said)
    lastSaid = said
    await wait(pauseMs, undefined, { signal, ref: false }).catch(() => {})
  }
}

async function subscribeOnce(options: Options): Promise<{ said: string; isFine: boolean }> {
  const client = await options.pool.connect()
  try {
    // It waits for the upstream, but not for ever: the others want to look after their subscription, too.
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

async function subscribe({
  upstream,
  publicUrl,
  secret,
  signal,
}: Options): Promise<{ said: string; isFine: boolean }> {
  const hooksUrl = `${publicUrl}/hooks/`
  const hookUrl = `${hooksUrl}${secret}`
  const list = async (name: Stream['name']) =>
    parsedRecords((await sourceOf(upstream, name).list({ page: 1, pageSize: 1_000 }, signal)).records)
  const served = {
    definitions: await list('webhook_definition'),
    subscriptions: await list('webhook_subscription'),
  }
  const plan = planSubscriptions(served, { hookUrl, hooksUrl })
  if ('unusable' in plan) return { said: notSubscribed(plan.unusable), isFine: false }
  const remove = (webhookSubscriptionId: string) =>
    upstream.call('deleteWebhookSubscription', { path: { webhookSubscriptionId } }, signal)
  const post = async (body: JsonObject) =>
    (await upstream.call('createWebhookSubscription', { body }, signal)).body
  const create = (body: JsonObject) =>
    post(body).catch((error: unknown) => {
      const name = missedAddress(error)
      if (name === null || Object.hasOwn(body, name)) throw error
      const renamed = Object.entries(body).map(([known, value]) => [value === hookUrl ? name : known, value])
      return post(Object.fromEntries(renamed))
    })
  for (const key of plan.remove) await remove(key)
  for (const body of plan.create) {
    const created = await create(body)
    const wrong = checkCreated(created, hookUrl)
    if (!wrong) continue
    const key = subscriptionKeyOf(created)
    if (key !== null) await remove(key)
    return { said: notSubscribed(wrong.unusable), isFine: false }
  }
  const count = plan.kept + plan.create.length
  return { said: `subscribed to ${plural(count, 'kind')} of webhooks`, isFine: true }
}

const notSubscribed = (why: string): string =>
  `The worker is not subscribed to webhooks: ${sentence(why)} Streams are read on their schedules.`

function sourceOf(upstream: Upstream, name: string): Source {
  const stream = streams.find((one) => one.name === name)
  if (!stream) throw new Error(`there is no stream ${name}`)
  return openSource(upstream, stream)
}
