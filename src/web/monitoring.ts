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

// `POST /hooks/<WEBHOOK_SECRET>`, and for another source `POST /hooks/<its name>/<its own secret>`: the upstream says that something changed.
// The body is read for its signature only; the streams of that source are read for what changed.
export type Hook = {
  readonly secret: string
  /** What deliveries are signed with; null: nobody knows. */
  readonly signingSecret: string | null
  /** This worker cannot read the source at the moment, and would have nothing to ask for. */
  readonly isLater?: boolean
}
type Options = {
  /** Null switches the route off. */
  readonly secret: string | null
  readonly signingSecret?: string | null
  /** Of a source that has a name; null: there is none of that name. The same one as long as nothing changes. */
  readonly hookOf?: (source: string) => Hook | null
  /** Deliveries without a signature are refused. */
  readonly requiresSignature?: boolean
  /** For a source; empty: the one that the environment describes. */
  readonly onDelivery: (source: string) => void
  readonly log?: Logger
  readonly now?: () => number
}

export const hookRoute =
  (options: Options): Routes =>
  (server) => {
    const { secret, signingSecret = null, hookOf = () => null, requiresSignature = false } = options
    const { onDelivery, log, now = Date.now } = options
    const first = secret === null ? null : { secret, signingSecret }
    // With what was delivered before: a source that is opened anew begins anew.
    const opened = new WeakMap<Hook, ReturnType<typeof openHook>>()
    const hookIn = ({ source = '' }: Params) => {
      const hook: Hook | null = source === '' ? first : hookOf(source)
      if (hook === null) return null
      const known = opened.get(hook) ?? openHook(hook)
      opened.set(hook, known)
      return known
    }
    const warned = new Set<string>()
    const warnOnce = (source: string, text: string | undefined) => {
      if (text === undefined || warned.has(`${source} ${text}`)) return
      log?.warn(source === '' ? {} : { source }, text)
      warned.add(`${source} ${text}`)
    }
    const refused: readonly Signature[] = requiresSignature
      ? ['old', 'wrong', 'none', 'unknown']
      : ['old', 'wrong']
    withBytes(server, (scope) => {
      for (const path of ['/hooks/:secret', '/hooks/:source/:secret'])
        scope.post<{ Params: Params }>(
          path,
          {
            bodyLimit: mostDeliveryBytes,
            // Before the body: a wrong secret is answered like any unknown path, and its body is not read.
            onRequest: async ({ params }, reply) => {
              const hook = hookIn(params)
              if (!hook?.isOurs(params.secret)) return reply.callNotFound()
              if (hook.isLater)
                return reply.code(503).header('retry-after', laterSeconds).send({ error: 'try again later' })
            },
          },
          async ({ params, headers, body }, reply) => {
            const { source = '' } = params
            const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0)
            const signature = hookIn(params)?.check(headers, bytes, now()) ?? 'wrong'
            if (refused.includes(signature)) {
              warnOnce(source, whyRefused[signature])
              return reply.code(401).send({ error: 'the signature does not fit' })
            }
            if (signature === 'unknown') warnOnce(source, believed)
            // The sender may not have got the first answer, so this is no error.
            if (signature !== 'seen') onDelivery(source)
            return reply.code(202).send()
          },
        )
    })
  }

type Params = { readonly source?: string; readonly secret: string }

const laterSeconds = 30

const openHook = ({ secret, signingSecret, isLater = false }: Hook) => ({
  isLater,
  isOurs: isSecret(secret),
  check: signingSecret === null ? () => 'none' as const : openSignatureCheck(signingSecret),
})

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
