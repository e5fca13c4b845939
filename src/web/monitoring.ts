// `/healthz`: the program runs. `/readyz`: it can do its work, and if not, which part is missing.

import type { Registry } from 'prom-client'
import type { Routes } from './server.ts'
import { isSecret } from './sessions.ts'

export type PartState = { readonly isUp: boolean; readonly since: Date }
export type Readiness = {
  readonly isReady: boolean
  readonly parts: Readonly<Record<string, PartState>>
  /** Upstream services that do not work at the moment. The mirror is served and runs go on being tried, so they are no reason. */
  readonly servicesDown: readonly string[]
}

export const healthRoutes =
  (readiness: () => Readiness): Routes =>
  (server) => {
    server.get('/healthz', async () => ({ status: 'alive' }))
    server.get('/readyz', async (_request, reply) => {
      const { isReady, parts, servicesDown } = readiness()
      reply.code(isReady ? 200 : 503).header('cache-control', 'no-store')
      return {
        status: isReady ? 'ready' : 'not ready',
        parts: Object.fromEntries(
          Object.entries(parts).map(([name, { isUp, since }]) => [name, { up: isUp, since }]),
        ),
        services_down: servicesDown,
      }
    })
  }

// `POST /hooks/<WEBHOOK_SECRET>`: the upstream says that something changed. The body is not read; the streams are.
type Options = {
  /** Null switches the route off. */
  readonly secret: string | null
  readonly onDelivery: () => void
}

export const hookRoute =
  ({ secret, onDelivery }: Options): Routes =>
  (server) => {
    if (secret === null) return
    const isOurs = isSecret(secret)
    server.post<{ Params: { secret: string } }>(
      '/hooks/:secret',
      {
        // Before the body: a wrong secret is answered like any unknown path, and its body is not read.
        onRequest: async (request, reply) => {
          if (!isOurs(request.params.secret)) return reply.callNotFound()
          onDelivery()
        },
      },
      async (_request, reply) => reply.code(202).send(),
    )
  }

// `GET /metrics`, in the text format of Prometheus.
export const metricsRoute =
  ({ registry, refresh }: { readonly registry: Registry; readonly refresh: () => Promise<void> }): Routes =>
  (server) => {
    server.get('/metrics', async (_request, reply) => {
      await refresh()
      return reply.header('content-type', registry.contentType).send(await registry.metrics())
    })
  }
