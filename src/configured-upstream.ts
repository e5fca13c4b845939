// Opens the client of one upstream service as the configuration describes it.

import type { UpstreamConfig } from './config.ts'
import type { Logger } from './log.ts'
import type { ServiceName } from './streams.ts'
import type { UpstreamObserver } from './upstream/observer.ts'
import { openUpstream, type Upstream } from './upstream/upstream.ts'

export type UpstreamNeeds = {
  readonly config: UpstreamConfig
  readonly log: Logger
  readonly observer?: UpstreamObserver
}

/** Null when the service is not configured. */
export function openConfiguredUpstream(needs: UpstreamNeeds, service: 'assignment'): Upstream
export function openConfiguredUpstream(needs: UpstreamNeeds, service: ServiceName): Upstream | null
export function openConfiguredUpstream(needs: UpstreamNeeds, service: ServiceName): Upstream | null {
  const { config, ...rest } = needs
  const { requestsPerSecond, requestTimeoutMs } = config
  const common = { ...rest, requestsPerSecond, requestTimeoutMs }
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
