// Keeps the worker subscribed to the upstream's webhooks: looked at when it starts and every hour, by one worker at a time. When
// that cannot be, it says why, once, and the schedules go on without.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Logger } from '../log.ts'
import { lockKeys } from '../mirror/lock-keys.ts'
import { type Stream, streams } from '../streams.ts'
import type { Source } from '../sync/ports.ts'
import { openSource } from '../upstream/source.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { checkCreated, planSubscriptions, subscriptionKeyOf } from './subscription-plan.ts'

type Options = {
  readonly upstream: Upstream
  readonly pool: Pool
  /** PUBLIC_URL. */
  readonly publicUrl: string
  readonly secret: string
  readonly signal: AbortSignal
  readonly log: Logger
}

const everyMs = 3_600_000
const afterFailureMs = 60_000

/** Ends with the signal. */
export async function keepSubscribed(options: Options): Promise<void> {
  const { signal, log } = options
  let lastSaid = ''
  while (!signal.aborted) {
    let pauseMs = everyMs
    let said: string
    let isFine = false
    try {
      ;({ said, isFine } = await subscribeOnce(options))
    } catch (error) {
      if (signal.aborted) return
      pauseMs = afterFailureMs
      said = `no webhooks: ${error instanceof Error ? error.message : String(error)}`
    }
    if (said !== lastSaid) log[isFine ? 'info' : 'warn'](said)
    lastSaid = said
    await wait(pauseMs, undefined, { signal, ref: false }).catch(() => {})
  }
}

async function subscribeOnce(options: Options): Promise<{ said: string; isFine: boolean }> {
  const client = await options.pool.connect()
  try {
    // It waits for the upstream, but not for ever: the others want to look after their subscription, too.
    await client.query(`begin; set local idle_in_transaction_session_timeout = '15min'`)
    // Two workers that subscribe at once would subscribe twice.
    await client.query('select pg_advisory_xact_lock($1)', [lockKeys.subscription])
    return await subscribe(options)
  } finally {
    // The lock goes with the transaction, or with the connection.
    await client.query('rollback').then(
      () => client.release(),
      () => client.release(true),
    )
  }
}

async function subscribe({
  upstream,
  publicUrl,
  secret,
  signal,
}: Options): Promise<{ said: string; isFine: boolean }> {
  const hooksUrl = `${publicUrl}/hooks/`
  const hookUrl = `${hooksUrl}${secret}`
  const list = async (name: Stream['name']) =>
    (await sourceOf(upstream, name).list({ page: 1, pageSize: 1_000 }, signal)).records
  const served = {
    definitions: await list('webhook_definition'),
    subscriptions: await list('webhook_subscription'),
  }
  const plan = planSubscriptions(served, { hookUrl, hooksUrl })
  if ('unusable' in plan) return { said: `no webhooks: ${plan.unusable}`, isFine: false }
  const remove = (webhookSubscriptionId: string) =>
    upstream.call('deleteWebhookSubscription', { path: { webhookSubscriptionId } }, signal)
  for (const key of plan.remove) await remove(key)
  for (const body of plan.create) {
    const { body: created } = await upstream.call('createWebhookSubscription', { body }, signal)
    const wrong = checkCreated(created, hookUrl)
    if (!wrong) continue
    const key = subscriptionKeyOf(created)
    if (key !== null) await remove(key)
    return { said: `no webhooks: ${wrong.unusable}`, isFine: false }
  }
  const count = plan.kept + plan.create.length
  return { said: `subscribed to ${count} kinds of webhooks`, isFine: true }
}

function sourceOf(upstream: Upstream, name: string): Source {
  const stream = streams.find((one) => one.name === name)
  if (!stream) throw new Error(`there is no stream ${name}`)
  return openSource(upstream, stream)
}
