// Tells in words what requests to a service wait for at the moment. It learns that by observing the client.

import type { ServiceName } from '../streams/catalog.ts'
import type { RequestDone, RetryPlanned, UpstreamObserver } from './http/transport.ts'

export function openWaits(observer: UpstreamObserver = {}, now: () => number = Date.now) {
  const waits = new Map<ServiceName, { readonly what: string; readonly until: Date }>()
  return {
    /** Null: it works, or nobody asked. */
    of: (service: ServiceName) => waits.get(service) ?? null,
    /** For the client. Passes everything on to the observer that was given. */
    observer: {
      ...observer,
      requestDone(request: RequestDone) {
        if (request.isAnswered) waits.delete(request.service)
        observer.requestDone?.(request)
      },
      retryPlanned(retry: RetryPlanned) {
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
