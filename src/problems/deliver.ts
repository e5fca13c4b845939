// Sends one message to a receiver of alerts, over HTTP or by mail. Follows no redirect, waits briefly, reads no answer, and names the
// address in no error: the address is the secret (P9).

import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Webhook } from '../config/alert-receivers.ts'
import { messageOf } from '../util/errors.ts'
import { noProxies, openAgents, proxyOf } from '../util/proxies.ts'
import { sentence } from '../util/text.ts'
import { bodiesOf, formatOf, mailOf, type News, type Receiver, testNews } from './alert-body.ts'
import { sendMail } from './smtp.ts'

/** The message may not have arrived. */
export class AlertUndelivered extends Error {
  override readonly name = 'AlertUndelivered'
  /** How long the receiver asked to wait. */
  readonly retryAfterMs: number | null

  constructor({ name = 'default' }: Receiver, problem: string, retryAfterMs: number | null = null) {
    super(`An alert could not be delivered${name === 'default' ? '' : ` to ${name}`}: ${problem}`)
    this.retryAfterMs = retryAfterMs
  }
}

const timeoutMs = 10_000
/** A mail server may keep strangers waiting. */
const mailTimeoutMs = 30_000

/** Returns what somebody should know of it all the same; null: nothing. Rejects when it may not have arrived. */
export async function deliver(receiver: Receiver, news: News, signal: AbortSignal): Promise<string | null> {
  if ('mail' in receiver) return await deliverMail(receiver, news, signal)
  for (const body of bodiesOf(receiver, news)) await postTo(receiver, body, signal)
  return null
}

async function deliverMail(
  receiver: Extract<Receiver, { mail: unknown }>,
  news: News,
  signal: AbortSignal,
): Promise<string | null> {
  const timeout = AbortSignal.timeout(mailTimeoutMs)
  const ended = AbortSignal.any([signal, timeout])
  const refused = await sendMail(receiver.mail, mailOf(receiver, news), ended).catch((error) => {
    const why = timeout.aborted
      ? `the mail server did not finish within ${mailTimeoutMs / 1000} s`
      : messageOf(error)
    throw new AlertUndelivered(receiver, `${sentence(why)} Check ${settingOf(receiver)}.`)
  })
  return refused.length === 0 ? null : refused.map(sentence).join(' ')
}

const settingOf = ({ setting = 'ALERT_WEBHOOK_URL' }: Receiver): string => setting

async function postTo(receiver: Receiver & Webhook, body: string, signal: AbortSignal): Promise<void> {
  const { url, proxies = noProxies } = receiver
  const timeout = AbortSignal.timeout(timeoutMs)
  const undelivered = (why: string, afterMs: number | null = null) =>
    new AlertUndelivered(receiver, `the receiver ${why}`, afterMs)
  const setting = settingOf(receiver)
  const { status, headers } = await post(receiver, body, AbortSignal.any([signal, timeout])).catch(
    (error) => {
      if (timeout.aborted) throw undelivered(`did not answer within ${timeoutMs / 1000} s.`)
      const proxy = proxyOf(new URL(url), proxies)
      throw undelivered(
        proxy
          ? `cannot be reached through the proxy ${proxy.host} (${reasonOf(error)}). Check ${setting} and HTTPS_PROXY, or name the receiver in NO_PROXY.`
          : `cannot be reached (${reasonOf(error)}). Check ${setting} and the network.`,
      )
    },
  )
  if (status >= 200 && status < 300) return
  if (status >= 300 && status < 400)
    throw undelivered(`redirects (${status}), which is not followed. Set ${setting} to the new address.`)
  const seconds = Number(headers['retry-after'] ?? Number.NaN)
  const afterMs = Number.isFinite(seconds) ? seconds * 1000 : null
  throw undelivered(`answered ${status}. Check ${setting}.`, afterMs)
}

type Head = { readonly status: number; readonly headers: IncomingHttpHeaders }

/** Resolves with the beginning of the answer. */
function post({ url, proxies = noProxies }: Webhook, body: string, signal: AbortSignal): Promise<Head> {
  const target = new URL(url)
  const agents = openAgents(proxies, { keepAlive: false })
  const isSecure = target.protocol === 'https:'
  const { promise, resolve, reject } = Promise.withResolvers<Head>()
  const request = (isSecure ? httpsRequest : httpRequest)(target, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'tidemark',
    },
    agent: isSecure ? agents.of(target).https : agents.of(target).http,
    signal,
  })
  request.on('error', reject)
  request.on('response', ({ statusCode = 0, headers }) => {
    resolve({ status: statusCode, headers })
    request.destroy()
  })
  request.on('close', agents.close)
  request.end(body)
  return promise
}

/** The status with which a proxy refused the way, or the code of what failed. */
function reasonOf(error: unknown): string {
  const { code, statusCode, name } = error as NodeJS.ErrnoException & { readonly statusCode?: number }
  return statusCode === undefined ? (code ?? name) : `it answers ${statusCode}`
}

/** Says in one line what was sent. Rejects when it does not arrive. */
export async function sendTest(receiver: Receiver, now: Date, signal: AbortSignal): Promise<string> {
  const { name = 'default' } = receiver
  const note = await deliver(receiver, testNews(now), signal)
  const how = 'mail' in receiver ? 'by mail' : `in the form of ${formatOf(receiver)}`
  return `A test message was sent${name === 'default' ? '' : ` to ${name}`}, ${how}. ${note ?? 'Look whether it is there.'}`
}

/** To all at once: none waits for another. */
export const sendTests = (receivers: readonly Receiver[], signal: AbortSignal) =>
  Promise.all(
    receivers.map(async (one) => {
      const { name = 'default' } = one
      const sent = (text: string) => ({ receiver: name, text, failure: null })
      const failed = (failure: unknown) => ({ receiver: name, text: messageOf(failure), failure })
      return await sendTest(one, new Date(), signal).then(sent, failed)
    }),
  )
