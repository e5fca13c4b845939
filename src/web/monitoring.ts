// `/healthz`: the program runs. `/readyz`: it can do its work, and if not, which part is missing.

import type { Registry } from 'prom-client'
import type { Logger } from '../log.ts'
import type { Part } from '../problems/parts.ts'
import { withTimeout } from '../util/waiting.ts'
import { type Routes, withBytes } from './server.ts'
import { isSecret } from './sessions.ts'
import { openSignatureCheck, type Signature } from './webhook-signature.ts'

export type Readiness = {
  /** The worker has what it needs to begin, and is not stopping. */
  readonly isRunning: boolean
  readonly parts: readonly Part[]
}

/** Without these nothing is read. A service that is down makes the worker no less ready: it serves the mirror and goes on trying. */
const needed: readonly Part['kind'][] = ['database', 'queue']

export const healthRoutes =
  (readiness: () => Readiness): Routes =>
  (server) => {
    server.get('/healthz', async () => ({ status: 'alive' }))
    server.get('/readyz', async (_request, reply) => {
      const { isRunning, parts } = readiness()
      const isReady = isRunning && parts.every(({ kind, isUp }) => isUp || !needed.includes(kind))
      reply.code(isReady ? 200 : 503)
      return {
        status: isReady ? 'ready' : 'not ready',
        parts: Object.fromEntries(
          parts.map(({ name, isUp, state, since, reason, publicReason = reason, whatToDo }) => [
            name,
            { up: isUp, state, since, ...(!isUp && { reason: publicReason, what_to_do: whatToDo }) },
          ]),
        ),
        services_down: parts
          .filter(({ kind, state }) => kind === 'service' && state === 'down')
          .map(({ name }) => name),
      }
    })
  }

// `POST /hooks/<WEBHOOK_SECRET>`: the upstream says that something changed. The body is read for its signature only; the streams are
// read for what changed.
type Options = {
  /** Null switches the route off. */
  readonly secret: string | null
  /** What deliveries are signed with; null: nobody knows. */
  readonly signingSecret?: string | null
  /** Deliveries without a signature are refused. */
  readonly requiresSignature?: boolean
  readonly onDelivery: () => void
  readonly log?: Logger
  readonly now?: () => number
}

export const hookRoute =
  (options: Options): Routes =>
  (server) => {
    const { secret, signingSecret = null, requiresSignature = false, onDelivery, log } = options
    if (secret === null) return
    const { now = Date.now } = options
    const isOurs = isSecret(secret)
    const check = signingSecret === null ? () => 'none' as const : openSignatureCheck(signingSecret)
    const warned = new Set<string>()
    const warnOnce = (text: string | undefined) => {
      if (text === undefined || warned.has(text)) return
      log?.warn(text)
      warned.add(text)
    }
    const refused: readonly Signature[] = requiresSignature
      ? ['old', 'wrong', 'none', 'unknown']
      : ['old', 'wrong']
    withBytes(server, (scope) =>
      scope.post<{ Params: { secret: string } }>(
        '/hooks/:secret',
        {
          bodyLimit: mostDeliveryBytes,
          // Before the body: a wrong secret is answered like any unknown path, and its body is not read.
          onRequest: async (request, reply) => {
            if (!isOurs(request.params.secret)) return reply.callNotFound()
          },
        },
        async ({ headers, body }, reply) => {
          const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0)
          const signature = check(headers, bytes, now())
          if (refused.includes(signature)) {
            warnOnce(whyRefused[signature])
            return reply.code(401).send({ error: 'the signature does not fit' })
          }
          if (signature === 'unknown') warnOnce(believed)
          // The sender may not have got the first answer, so this is no error.
          if (signature !== 'seen') onDelivery()
          return reply.code(202).send()
        },
      ),
    )
  }

/** Larger than any delivery. */
const mostDeliveryBytes = 65_536
const believed =
  'Deliveries of webhooks are signed in a way that Tidemark does not know. They are believed because of the secret in their address.'
const refusedUnsigned =
  'WEBHOOK_REQUIRE_SIGNATURE is true, so it was refused. Give the upstream the secret that is in WEBHOOK_SIGNING_SECRET, or set WEBHOOK_REQUIRE_SIGNATURE=false.'
const whyRefused: Readonly<Partial<Record<Signature, string>>> = {
  wrong:
    'A delivery of a webhook was refused: its signature was made with another secret. If you subscribed by hand, set WEBHOOK_SIGNING_SECRET to the secret that you gave.',
  old: 'A delivery of a webhook was refused: the time in its signature is more than five minutes away from the clock of this machine. Somebody sent an old delivery again, or one of the two clocks is wrong.',
  none: `A delivery of a webhook has no signature. ${refusedUnsigned}`,
  unknown: `A delivery of a webhook is signed in a way that Tidemark does not know. ${refusedUnsigned}`,
}

// `GET /metrics`, in the text format of Prometheus. Nobody has to sign in for it, so those who ask at once share one look.
export const metricsRoute =
  ({ registry, refresh }: { readonly registry: Registry; readonly refresh: () => Promise<void> }): Routes =>
  (server) => {
    let looking: Promise<string> | null = null
    const look = async () => {
      await refresh()
      return await registry.metrics()
    }
    server.get('/metrics', async (_request, reply) => {
      looking ??= look().finally(() => {
        looking = null
      })
      return reply.header('content-type', registry.contentType).send(await looking)
    })
  }

/** Nobody has to sign in for `/metrics`: however often it is asked for, Postgres and the queue are asked once in this time. */
const askAgainMs = 2_000
const longestMs = 5_000

/** What was answered is kept, and so is that no answer came; not, that there was nobody to ask yet. */
export function kept<Result>(
  ask: () => Promise<Result> | null | undefined,
  now = () => performance.now(),
): () => Promise<Result | null> {
  let last: { readonly atMs: number; readonly answer: Promise<Result | null> } | null = null
  return async () => {
    if (last !== null && now() - last.atMs < askAgainMs) return await last.answer
    const asked = ask()
    last = asked ? { atMs: now(), answer: withTimeout(longestMs, asked).catch(() => null) } : null
    return (await last?.answer) ?? null
  }
}
