// Tells in words what requests to a service wait for at the moment. It learns that by observing the client.

import type { ServiceName } from '../streams/catalog.ts'
import type { RetryPlanned, UpstreamObserver } from './http/transport.ts'

export type Wait = { readonly what: string; readonly until: Date }
export type Waits = {
  /** For the client. Passes everything on to the observer that was given. */
  readonly observer: UpstreamObserver
  /** Null: it works, or nobody asked. */
  of(service: ServiceName): Wait | null
}

export function openWaits(observer: UpstreamObserver = {}, now: () => number = Date.now): Waits {
  const waits = new Map<ServiceName, Wait>()
  return {
    of: (service) => waits.get(service) ?? null,
    observer: {
      ...observer,
      requestDone(request) {
        if (request.isAnswered) waits.delete(request.service)
        observer.requestDone?.(request)
      },
      retryPlanned(retry) {
        waits.set(retry.service, { what: inWords(retry), until: new Date(now() + retry.delayMs) })
        observer.retryPlanned?.(retry)
      },
    },
  }
}

function inWords({ service, status, reason }: RetryPlanned): string {
  if (status !== null) return `the ${service} service answers ${status}`
  if (reason === 'UPSTREAM_TIMEOUT') return `the ${service} service does not answer in time`
  if (reason === 'UPSTREAM_UNREACHABLE') return `the ${service} service cannot be reached`
  return `the ${service} service fails (${reason})`
}
