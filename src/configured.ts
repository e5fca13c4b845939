// What the settings ask for: the services of the upstream with a source for each stream, which streams have tables, and how they are read.

import type { Config, MirrorConfig, UpstreamConfig } from './config/load.ts'
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
  relatedStreams,
  type ServiceName,
  type Stream,
} from './streams/catalog.ts'
import type { Source } from './sync/ports/source.ts'
import { openUpstream, type Upstream } from './upstream/client.ts'
import type { UpstreamObserver } from './upstream/http/transport.ts'
import { maskSource, openSource } from './upstream/stream-source.ts'
import { proxyOf } from './util/proxies.ts'

export type UpstreamNeeds = {
  readonly config: UpstreamConfig
  readonly log: Logger
  readonly observer?: UpstreamObserver
  /** As in UpstreamOptions. */
  readonly freeChunks?: () => void
}

/** Null when the service is not configured. */
export function openConfiguredUpstream(needs: UpstreamNeeds, service: 'assignment'): Upstream
export function openConfiguredUpstream(needs: UpstreamNeeds, service: ServiceName): Upstream | null
export function openConfiguredUpstream(needs: UpstreamNeeds, service: ServiceName): Upstream | null {
  const { config, ...rest } = needs
  const { requestsPerSecond, requestTimeoutMs, proxies } = config
  const common = { ...rest, requestsPerSecond, requestTimeoutMs, proxies }
  if (service === 'assignment') {
    const { assignmentBaseUrl: baseUrl, authUrl, subjectId, apiKey, clientGuid } = config
    return openUpstream({ ...common, service, baseUrl, authUrl, subjectId, apiKey, clientGuid })
  }
  if (config.trackingBaseUrl === null) return null
  return openUpstream({
    ...common,
    service,
    baseUrl: config.trackingBaseUrl,
    authUrl: config.trackingAuthUrl,
    subjectId: config.trackingSubjectId,
    apiKey: config.trackingApiKey,
    clientGuid: null,
  })
}

export function openUpstreams(options: UpstreamNeeds & { readonly config: Pick<Config, 'webhookSecret'> }) {
  const { webhookSecret } = options.config
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
    const holdsSecret = stream.list === 'listWebhookSubscriptions' && webhookSecret
    return holdsSecret ? maskSource(source, holdsSecret) : source
  }
  return {
    ...upstreams,
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
    'added' | 'assignmentBaseUrl' | 'clientGuid' | 'trackingBaseUrl' | 'trackingSubjectId'
  >,
): readonly WantedSource[] {
  const catalogue = catalogueOf(config.added)
  const streamsOf = (service: ServiceName) => catalogue.filter((stream) => stream.service === service)
  const { assignmentBaseUrl, clientGuid, trackingBaseUrl, trackingSubjectId } = config
  const assignment = { service: 'assignment', baseUrl: assignmentBaseUrl, account: clientGuid } as const
  const tracking = { service: 'tracking', baseUrl: trackingBaseUrl, account: trackingSubjectId } as const
  return [assignment, tracking].flatMap(({ baseUrl, ...rest }) =>
    baseUrl === null ? [] : [{ ...rest, baseUrl, streams: streamsOf(rest.service) }],
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
export const streamsIn = (config: Pick<Config, 'added' | 'streams' | 'trackingBaseUrl'>): readonly Stream[] =>
  configuredStreams(config, catalogueOf(config.added))

/** Those that have tables, by the settings. */
export const mirroredStreams = (
  config: Pick<Config, 'streams' | 'trackingBaseUrl' | 'related' | 'attachmentData' | 'keyFields'>,
  catalogue: Catalogue,
): readonly MirroredStream[] => [...configuredStreams(config, catalogue), ...wantedRelated(config, null)]

/** The bytes of attachments share the key of attachments. */
export function wantedRelated(
  config: Pick<Config, 'related' | 'attachmentData' | 'keyFields'>,
  descriptions: Pick<Descriptions, 'kindsOf'> | null,
): readonly RelatedStream[] {
  const wanted: readonly RelatedStream[] = relatedStreams
  return wanted
    .filter(({ name, bulkField }) => (bulkField ? config.attachmentData : config.related.includes(name)))
    .map((stream) => {
      const key = config.keyFields[keyOwner(stream).name] ?? null
      return {
        ...stream,
        ...(key !== null && { keyFields: [key], isKeyChosen: true as const }),
        // Looked up each time, because the description may be read again meanwhile.
        get fieldKinds() {
          return descriptions?.kindsOf(stream.name) ?? {}
        },
      }
    })
}

export const howToRead = ({ name }: Stream, config: UpstreamConfig) => ({
  pageSize: config.pageSize,
  load: { readers: config.loadConnections },
  lookbackFloorMs: config.lookbackMs,
  lookupsPerMinute: config.lookupsPerMinute,
  keyField: config.keyFields[name] ?? null,
  versionField: config.versionFields[name] ?? null,
})

export const asChosen = (
  stream: Stream,
  config: MirrorConfig & UpstreamConfig,
  { kindsOf }: Descriptions,
): Stream => ({
  ...stream,
  fieldKinds: kindsOf(stream.name) ?? {},
  fieldZones: config.fieldTimezones[stream.name] ?? {},
  volatileFields: config.volatileFields[stream.name] ?? null,
})
