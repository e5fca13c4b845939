// `POST /hooks/<WEBHOOK_SECRET>`: the upstream says that something changed. What it says is not believed, only that it speaks.

import type { Routes } from './http-server.ts'
import { isSecret } from './secrets.ts'

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
        // Before the body: a wrong secret is told as any unknown path is, and its body is not read.
        onRequest: async (request, reply) => {
          if (!isOurs(request.params.secret)) return reply.callNotFound()
          onDelivery()
        },
      },
      async (_request, reply) => reply.code(202).send(),
    )
  }
