// Decides how the worker is subscribed to the upstream's webhooks, from what the upstream serves. Nothing is known of the fields of
// definitions and subscriptions beforehand, so they are found by their names and values. Pure.

import { setTimeout as wait } from 'node:timers/promises'
import { type Config, signingSecretOf } from '../config/load.ts'
import type { DescriptionPlace } from '../config/parsers.ts'
import type { Pool, SyncContext } from '../context.ts'
import type { Json, JsonObject } from '../json/json.ts'
import type { Logger } from '../log.ts'
import type { Description } from '../openapi/description.ts'
import { findDescription } from '../openapi/find-description.ts'
import { forgetProblem, noteProblem } from '../store/book/problems.ts'
import { takeTurn } from '../store/server/session.ts'
import { knownStreams } from '../streams/catalog.ts'
import { keyIn } from '../streams/names.ts'
import { isObject } from '../streams/record.ts'
import { chooseKeyField } from '../streams/twins.ts'
import type { Source } from '../sync/ports/source.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/http/errors.ts'
import { openSource } from '../upstream/stream-source.ts'
import { messageOf } from '../util/errors.ts'
import { plural, sentence } from '../util/text.ts'
import type { Alone } from '../util/turns.ts'
import { parsedRecords } from '../wire/record-page.ts'
import { correctedNames, describedNames, type FieldNames, seenNames } from './subscription-fields.ts'

export type Served = { readonly definitions: readonly Json[]; readonly subscriptions: readonly Json[] }
type Addresses = { readonly hookUrl: string; readonly hooksUrl: string }
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
  { hookUrl, hooksUrl }: Addresses,
): SubscriptionPlan | Unusable {
  const events = definitions.filter(isObject)
  const keyField = chooseKeyField(events, definitionKeys)
  if (keyField === null) return { unusable: whatIsThere('webhook definitions', definitions, definitionKeys) }
  const about = events.filter((event) => Object.values(event).some(isAboutAssignments))
  const keys = (about.length > 0 ? about : events).map((event) => event[keyField] ?? null)

  const known = subscriptions.filter(isObject)
  const ours = known.filter((one) => isOwn(one, hooksUrl))
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

/** At an address of this source, whatever its secret is. Other sources have theirs below: they may see the same subscriptions. */
const isOwn = (record: JsonObject, hooksUrl: string): boolean =>
  Object.values(record).some(
    (value) =>
      typeof value === 'string' && value.startsWith(hooksUrl) && !value.slice(hooksUrl.length).includes('/'),
  )

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
  /** Its name; empty: the one that the environment describes. */
  readonly source: string
  readonly upstream: Upstream
  readonly pool: Pool
  /** PUBLIC_URL. */
  readonly publicUrl: string
  readonly secret: string
  /** What deliveries are to be signed with. */
  readonly signingSecret: string
  /** Where the upstream describes itself; null: that is not looked for. */
  readonly contract: DescriptionPlace | null
  /** One after the other, so that they take no more than one connection; left out: at once. */
  readonly alone?: Alone
  readonly signal: AbortSignal
  readonly log: Logger
}

const everyMs = 3_600_000
const afterFailureMs = 60_000
/** A source that hangs does not keep others from being subscribed for longer. */
const longestMs = 60_000
const webhookNotice = (source: string): string => `webhooks:${keyIn(source, 'subscription')}`

/** Where deliveries for a source arrive. */
function addressesOf(given: Pick<Options, 'source' | 'publicUrl' | 'secret'>): Addresses {
  const hooksUrl = `${given.publicUrl}/hooks/${given.source === '' ? '' : `${given.source}/`}`
  return { hooksUrl, hookUrl: `${hooksUrl}${given.secret}` }
}

/** Goes on by itself until the signal. `publicUrl`: of the deployment. */
export function beSubscribed(
  given: Pick<Options, 'alone' | 'signal' | 'log'> & {
    readonly config: Config
    readonly publicUrl?: string | null
  },
  { assignmentService: upstream, database: { pool } }: Pick<SyncContext, 'assignmentService' | 'database'>,
): void {
  const { config, publicUrl = config.publicUrl, ...how } = given
  const { source, webhookSecret: secret, contract } = config
  const signingSecret = signingSecretOf(config)
  if (publicUrl !== null && secret !== null && signingSecret !== null)
    void keepSubscribed({ ...how, source, upstream, pool, contract, publicUrl, secret, signingSecret })
  else void forgetProblem(pool, webhookNotice(source)).catch(() => {})
}

/** Ends with the signal. */
export async function keepSubscribed(options: Options): Promise<void> {
  const { source, pool, signal, log } = options
  const [notice, whose] = [webhookNotice(source), source === '' ? {} : { source }]
  let lastSaid = ''
  while (!signal.aborted) {
    const {
      said,
      isFine,
      pauseMs = everyMs,
    } = await inTurnOf(options).catch(
      (error: unknown): Outcome => ({
        isFine: false,
        said: `The worker could not subscribe to webhooks${ofIt(source)}: ${sentence(messageOf(error))} It tries again in a minute; until then streams are read on their schedules.`,
        pauseMs: afterFailureMs,
      }),
    )
    if (signal.aborted) return
    if (said !== lastSaid) log[isFine ? 'info' : 'warn'](whose, said)
    lastSaid = said
    const noted = isFine ? forgetProblem(pool, notice) : noteProblem(pool, { key: notice, what: said })
    await noted.catch((error) => log.debug({ err: error }, 'could not note how the subscription is'))
    await wait(pauseMs, undefined, { signal, ref: false }).catch(() => {})
  }
}

type Outcome = { readonly said: string; readonly isFine: boolean; readonly pauseMs?: number }

async function inTurnOf({ alone, ...options }: Options): Promise<Outcome> {
  if (alone === undefined) return await subscribeOnce(options)
  let outcome: Outcome | null = null
  await alone(async () => {
    options.signal.throwIfAborted()
    const signal = AbortSignal.any([options.signal, AbortSignal.timeout(longestMs)])
    outcome = await subscribeOnce({ ...options, signal })
  })
  return outcome ?? { said: '', isFine: true }
}

async function subscribeOnce(options: Options): Promise<Outcome> {
  const client = await options.pool.connect()
  try {
    // The transaction waits for the upstream, but not for ever: other workers want to check the subscription, too.
    await client.query(`begin; set local idle_in_transaction_session_timeout = '15min'`)
    // Two workers that subscribe at once would subscribe twice.
    await takeTurn(client, `subscribe to webhooks${ofIt(options.source)}`)
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
  const { source, upstream, signal } = options
  const addresses = addressesOf(options)
  const { hookUrl } = addresses
  const definitions = await listOf(options, 'webhook_definition').catch((error) => {
    // PUBLIC_URL is for all sources, and one that offers no webhooks needs nobody.
    if (source === '' || !isNotFound(error)) throw error
    return null
  })
  if (definitions === null) return { said: `${source} offers no webhooks.`, isFine: true }
  const served = { definitions, subscriptions: await listOf(options, 'webhook_subscription') }
  const first = planSubscriptions(served, addresses)
  if ('unusable' in first) return { said: notSubscribed(source, first.unusable), isFine: false }
  const described = first.create.length > 0 ? describedNames(await descriptionAt(options)) : null
  const plan = described === null ? first : { ...first, names: described }
  const remove = remover({ upstream, signal })
  for (const key of plan.remove) await remove(key)
  let { names } = plan
  for (const definition of plan.create) {
    const created = await create(options, hookUrl, definition, names)
    names = created.names
    const wrong = checkCreated(created.record, hookUrl)
    if (!wrong) continue
    const key = subscriptionKeyOf(created.record)
    if (key !== null) await remove(key)
    return { said: notSubscribed(source, wrong.unusable), isFine: false }
  }
  const count = plan.kept + plan.create.length
  return { said: `subscribed to ${plural(count, 'kind')} of webhooks`, isFine: true }
}

type Asking = Pick<Options, 'upstream' | 'signal'>

const listOf = async ({ upstream, signal }: Asking, name: string): Promise<readonly Json[]> =>
  parsedRecords((await sourceOf(upstream, name).list({ page: 1, pageSize: 1_000 }, signal)).records)

const remover =
  ({ upstream, signal }: Asking) =>
  (webhookSubscriptionId: string) =>
    upstream.call('deleteWebhookSubscription', { path: { webhookSubscriptionId } }, signal)

/** Of a source that is read no more. Returns how many subscriptions of its own this has ended. */
export async function unsubscribe(options: Asking & Parameters<typeof addressesOf>[0]): Promise<number> {
  const { hooksUrl } = addressesOf(options)
  const known = (await listOf(options, 'webhook_subscription')).filter(isObject)
  const keys = known.filter((one) => isOwn(one, hooksUrl)).flatMap((one) => subscriptionKeyOf(one) ?? [])
  const remove = remover(options)
  let ended = 0
  for (const key of keys)
    try {
      await remove(key)
      ended += 1
    } catch (error) {
      // Each worker ends them: another one was first.
      if (!isNotFound(error)) throw error
    }
  return ended
}

const isNotFound = (error: unknown): boolean => error instanceof UpstreamError && error.status === 404

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

const notSubscribed = (source: string, why: string): string =>
  `The worker is not subscribed to webhooks${ofIt(source)}: ${sentence(why)} Streams are read on their schedules.`

const ofIt = (source: string): string => (source === '' ? '' : ` of ${source}`)

function sourceOf(upstream: Upstream, name: string): Source {
  const stream = knownStreams.find((one) => one.name === name)
  if (!stream) throw new Error(`there is no stream ${name}`)
  return openSource(upstream, stream)
}
