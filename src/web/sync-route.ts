// `POST /streams/<name>/sync` with `Authorization: Bearer <ADMIN_TOKEN>`: reads a stream now instead of at its next tick.

import type { Routes } from './http-server.ts'
import { isSecret } from './secrets.ts'

type Options = {
  /** Null switches the route off. */
  readonly adminToken: string | null
  readonly streams: readonly string[]
  /** Rejects when the queue does not take it. */
  readonly onSync: (stream: string) => Promise<void>
}

export const syncRoute =
  ({ adminToken, streams, onSync }: Options): Routes =>
  (server) => {
    if (adminToken === null) return
    const isAdmin = isSecret(adminToken)
    server.post<{ Params: { name: string } }>(
      '/streams/:name/sync',
      {
        onRequest: async (request, reply) => {
          const [, given = ''] = /^Bearer\s+(\S+)$/i.exec(request.headers.authorization ?? '') ?? []
          if (isAdmin(given)) return
          return reply.code(401).header('www-authenticate', 'Bearer').send({ error: 'not signed in' })
        },
      },
      async (request, reply) => {
        const { name } = request.params
        if (!streams.includes(name)) return reply.code(404).send({ error: 'no such stream', streams })
        try {
          await onSync(name)
        } catch {
          return reply
            .code(503)
            .send({ error: 'the queue does not answer; the stream is read at its next tick' })
        }
        return reply.code(202).send({ stream: name, status: 'asked for' })
      },
    )
  }
