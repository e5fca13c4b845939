// What the settings ask for: the services of the upstream with a source for each stream, which streams have tables, and how they are read.

import { hash } from 'node:crypto'
import { lookbackOf, pageSizeOf } from './config/dynamic-settings.ts'
import { type Config, signingSecretOf, type UpstreamConfig } from './config/load.ts'
import { addressesOf } from './config/plaintext.ts'
import type { Logger } from './log.ts'
import type { Descriptions } from './openapi/descriptions.ts'
import type { WantedSource } from './store/runs/claim-sources.ts'
import {
  type Catalogue,
  catalogueOf,
  keyOwner,
  type MirroredStream,
  type RelatedStream,
  relatedIn,
  type ServiceName,
  type Stream,
} from './streams/catalog.ts'
import { asMeant, nothingSaid } from './streams/dictionary.ts'
import { keyIn } from './streams/names.ts'
import { openPrivateFields, type PrivateFields, type Resource } from './streams/private-fields.ts'
import type { Source } from './sync/ports/source.ts'
import type { SharedTokens } from './upstream/auth/shared-tokens.ts'
import { openUpstream, type Upstream, type UpstreamOptions } from './upstream/client.ts'
import { type Budgets, openBudgets } from './upstream/http/budget.ts'
import type { UpstreamObserver } from './upstream/http/transport.ts'
import { operationNamed } from './upstream/operations/table.ts'
import { maskSource, openSource } from './upstream/stream-source.ts'
import { proxyOf } from './util/proxies.ts'

export type UpstreamNeeds = {
  readonly config: UpstreamConfig
  readonly log: Logger
  readonly observer?: UpstreamObserver
  /** Left out: as the dictionary says. */
  readonly privateFields?: PrivateFields
  /** Those that others share; left out: its own. */
  readonly budgets?: Budgets
  /** As in UpstreamOptions. */
  readonly tokens?: SharedTokens | null
  readonly freeChunks?: () => void
}

/** Null when the service is not configured. */
export function openConfiguredUpstream(needs: UpstreamNeeds, service: 'assignment'): Upstream
export function openConfiguredUpstream(needs: UpstreamNeeds, service: ServiceName): Upstream | null
export function openConfiguredUpstream(needs: UpstreamNeeds, service: ServiceName): Upstream | null {
  const { config, privateFields = privateFieldsIn(config), budgets = openBudgets(), ...rest } = needs
  const { source } = config
  const log = source === '' ? needs.log : needs.log.child({ source })
  const { requestTimeoutMs, proxies, secretFiles } = config
  const requestsPerSecond = () => config.dynamic.now().requestsPerSecond
  const privateAnswers = privateFields.answers
  const apiKey = () => secretFiles.keyOf(service)
  const place = placeOf(config, service)
  if (place === null) return null
  const limits = limitsOf(needs, service, place, budgets)
  const clientGuid = service === 'assignment' ? config.clientGuid : null
  return openUpstream({
    ...rest,
    log,
    apiKey,
    requestsPerSecond,
    requestTimeoutMs,
    proxies,
    privateAnswers,
    ...limits,
    ...place,
    service,
    clientGuid,
    name: keyIn(source, service),
  })
}

/** Null when the service is not configured. */
function placeOf(config: UpstreamConfig, service: ServiceName): SignedIn | null {
  const { assignmentBaseUrl, authUrl, subjectId } = config
  if (service === 'assignment') return { baseUrl: assignmentBaseUrl, authUrl, subjectId }
  const { trackingBaseUrl, trackingAuthUrl, trackingSubjectId } = config
  if (trackingBaseUrl === null) return null
  return { baseUrl: trackingBaseUrl, authUrl: trackingAuthUrl, subjectId: trackingSubjectId }
}

/** What goes to one address with one sign-in has one budget, and what goes to a host that the settings name has another one. */
function limitsOf(
  { config, budgets: shared }: UpstreamNeeds,
  service: ServiceName,
  place: SignedIn,
  budgets: Budgets,
): Required<Pick<UpstreamOptions, 'budget' | 'hostLimit' | 'circuits'>> {
  const { hostRequestsPerSecond: rates } = config
  const { baseUrl } = place
  const { origin, host, hostname } = new URL(baseUrl)
  const named = [host, hostname].find((one) => rates.has(one))
  return {
    budget: budgets.of(`${origin} ${signInOf(place)}`, origin),
    // A command that shares nothing asks once and says what comes of it.
    circuits: shared ? circuitsFor(config, service, place, shared) : null,
    hostLimit: named
      ? { budget: budgets.of(named), requestsPerSecond: () => rates.get(named) ?? null }
      : null,
  }
}

type SignedIn = Pick<UpstreamOptions, 'baseUrl' | 'authUrl' | 'subjectId'>
const signInOf = ({ authUrl, subjectId }: SignedIn): string =>
  hash('sha256', `${authUrl} ${subjectId}`).slice(0, 12)

/** What a source asks of a service fails and works by itself, and so does a sign-in. */
function circuitsFor(
  { source, requestTimeoutMs }: Pick<UpstreamConfig, 'source' | 'requestTimeoutMs'>,
  service: ServiceName,
  place: SignedIn,
  { circuits }: Budgets,
) {
  const of = (host: string, name: string) => circuits.of(host, { name, source }, requestTimeoutMs)
  const name = `sign-in ${signInOf(place)}`
  // That a host signs people in does not mean that it answers what they ask.
  return {
    api: of(new URL(place.baseUrl).origin, keyIn(source, service)),
    signIn: of(`sign-in:${new URL(place.authUrl).origin}`, name),
  }
}

/** Until when neither a service is asked for records nor its sign-in for a token, as all programs know it; null: both may be. */
export async function leftAloneUntil(
  config: UpstreamConfig,
  service: ServiceName,
  budgets: Budgets,
): Promise<Date | null> {
  const place = placeOf(config, service)
  if (place === null) return null
  const { api, signIn } = circuitsFor(config, service, place, budgets)
  const found = await Promise.all([api.heldUntil(), signIn.heldUntil()])
  return found.reduce((one, other) => (one === null || (other !== null && other > one) ? other : one))
}

/** Which fields are left out or masked, and where they may stand (P20). */
export function privateFieldsIn(config: UpstreamConfig): PrivateFields {
  const { dictionary, maskKey, apiKey } = config
  const lastOf = (path: string) => path.split('/').at(-1) ?? ''
  const resources: readonly Resource[] = [
    ...configuredCatalogue(config).map(({ name, list }) => {
      return { stream: name, resource: lastOf(operationNamed(list).path) }
    }),
    ...relatedIn(config.source).map(({ name, group }) => ({ stream: name, resource: group })),
  ]
  return openPrivateFields({ dictionary: dictionary.now, resources, maskKey, secret: apiKey })
}

export function openUpstreams(
  given: UpstreamNeeds & { readonly config: Pick<Config, 'webhookSecret' | 'webhookSigningSecret'> },
) {
  const secrets = [given.config.webhookSecret, signingSecretOf(given.config)].filter((one) => one !== null)
  const { privateFields = privateFieldsIn(given.config) } = given
  const options = { ...given, privateFields }
  const upstreams = {
    assignment: openConfiguredUpstream(options, 'assignment'),
    tracking: openConfiguredUpstream(options, 'tracking'),
  }
  // One source for all runs of a stream, because it learns how long records are.
  const sources = new Map<string, Source>()
  const open = (stream: Stream): Source => {
    const upstream = upstreams[stream.service]
    if (!upstream) throw new Error(`${stream.name} belongs to the tracking service: set TRACKING_BASE_URL.`)
    const source = openSource(upstream, stream)
    return stream.list === 'listWebhookSubscriptions' ? maskSource(source, secrets) : source
  }
  return {
    ...upstreams,
    privateFields,
    sourceOf(stream: Stream): Source {
      const source = sources.get(stream.name) ?? open(stream)
      sources.set(stream.name, source)
      return source
    },
    close() {
      upstreams.assignment.close()
      upstreams.tracking?.close()
    },
  }
}

/** Which of the configured addresses are asked through a proxy, in words; null: none. */
export function proxyNotice(config: Config): string | null {
  const ways = addressesOf(config).flatMap(({ name, url }) => {
    const proxy = proxyOf(url, config.proxies)
    // The address of the receiver is a secret (P9).
    const host = name === 'ALERT_WEBHOOK_URL' ? 'the receiver of alerts' : url.host
    return proxy ? [`${host} through ${proxy.host}`] : []
  })
  return ways.length === 0 ? null : `Asked through a proxy: ${[...new Set(ways)].join(', ')}.`
}

/** Which source (address and account) the settings name for each service. */
export function sourcesOf(
  config: Pick<
    UpstreamConfig,
    'source' | 'added' | 'assignmentBaseUrl' | 'clientGuid' | 'trackingBaseUrl' | 'trackingSubjectId'
  >,
): readonly WantedSource[] {
  const catalogue = configuredCatalogue(config)
  const streamsOf = (service: ServiceName) => catalogue.filter((stream) => stream.service === service)
  const { assignmentBaseUrl, clientGuid, trackingBaseUrl, trackingSubjectId } = config
  const assignment = { service: 'assignment', baseUrl: assignmentBaseUrl, account: clientGuid } as const
  const tracking = { service: 'tracking', baseUrl: trackingBaseUrl, account: trackingSubjectId } as const
  return [assignment, tracking].flatMap(({ baseUrl, ...rest }) =>
    baseUrl === null ? [] : [{ ...rest, name: config.source, baseUrl, streams: streamsOf(rest.service) }],
  )
}

export const configuredStreams = (
  config: Pick<Config, 'streams' | 'trackingBaseUrl'>,
  catalogue: Catalogue,
): readonly Stream[] =>
  catalogue.filter(
    (stream) =>
      (config.streams === null || config.streams.includes(stream.name)) &&
      (stream.service !== 'tracking' || config.trackingBaseUrl !== null),
  )

/** Those that are configured, before it is found out what added ones are like. */
export const streamsIn = (
  config: Pick<Config, 'source' | 'added' | 'streams' | 'trackingBaseUrl'>,
): readonly Stream[] => configuredStreams(config, configuredCatalogue(config))

/** All that the settings let be mirrored, as far as it is known from them what that is like. */
export const configuredCatalogue = ({ source, added }: Pick<UpstreamConfig, 'source' | 'added'>): Catalogue =>
  catalogueOf(added, undefined, source)

/** Those that have tables, by the settings. */
export const mirroredStreams = (
  config: Pick<
    Config,
    'source' | 'streams' | 'trackingBaseUrl' | 'related' | 'attachmentData' | 'dictionary'
  >,
  catalogue: Catalogue,
): readonly MirroredStream[] => [...configuredStreams(config, catalogue), ...wantedRelated(config, null)]

/** The bytes of attachments share the key of attachments. */
export function wantedRelated(
  config: Pick<Config, 'source' | 'related' | 'attachmentData' | 'dictionary'>,
  descriptions: Pick<Descriptions, 'kindsOf'> | null,
): readonly RelatedStream[] {
  const wanted: readonly RelatedStream[] = relatedIn(config.source)
  return wanted
    .filter(({ name, bulkField }) => (bulkField ? config.attachmentData : config.related.includes(name)))
    .map((stream) => {
      const keyNow = () => config.dictionary.now().get(keyOwner(stream).name)?.key ?? null
      // Looked up each time, because the description and the dictionary may be read again meanwhile.
      return {
        ...stream,
        get keyFields() {
          const key = keyNow()
          return key === null ? stream.keyFields : [key]
        },
        get isKeyChosen() {
          return keyNow() !== null
        },
        get meaning() {
          return config.dictionary.now().get(stream.name) ?? nothingSaid
        },
        get historyMs() {
          return config.dictionary.now().get(stream.name)?.historyMs || null
        },
        get fieldKinds() {
          return descriptions?.kindsOf(stream.name) ?? {}
        },
      }
    })
}

/** As the settings are when the run begins. */
export function howToRead(stream: Stream, { dynamic, dictionary }: UpstreamConfig) {
  const settings = dynamic.now()
  const { key = null, version = null } = dictionary.now().get(stream.name) ?? {}
  return {
    pageSize: pageSizeOf(settings, stream),
    load: { readers: settings.loadConnections },
    lookbackFloorMs: lookbackOf(settings, stream),
    lookupsPerMinute: settings.lookupsPerMinute,
    keyField: key,
    versionField: version,
  }
}

export const asChosen = (
  stream: Stream,
  { dictionary }: Pick<UpstreamConfig, 'dictionary'>,
  { kindsOf }: Descriptions,
): Stream => asMeant({ ...stream, fieldKinds: kindsOf(stream.name) ?? {} }, dictionary.now())
