// `/healthz`: the program runs. `/readyz`: it can do its work, and if not, which part is missing.

import type { Routes } from './http-server.ts'

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
