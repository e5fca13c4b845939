// `GET /metrics`, in the text format of Prometheus.

import type { Registry } from 'prom-client'
import type { Routes } from './http-server.ts'

export const metricsRoute =
  ({ registry, refresh }: { readonly registry: Registry; readonly refresh: () => Promise<void> }): Routes =>
  (server) => {
    server.get('/metrics', async (_request, reply) => {
      await refresh()
      return reply.header('content-type', registry.contentType).send(await registry.metrics())
    })
  }
