// The alert loop: looks at the problems now and then, and sends what is new to the receiver of alerts. Whatever fails here is tried
// again and stops nothing else.

import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import type { Alert, AlertBook } from '../store/book/problems.ts'
import { noProxies, openAgents, proxyOf } from '../util/proxies.ts'
import { alertBody, formatOf, type Receiver, testBody } from './alert-body.ts'
import { isQuiet, planAlerts, type QuietHours, retryAfter } from './alerts.ts'
import type { Problem } from './stream-problems.ts'

// Posts one message to the receiver of alerts. Follows no redirect, waits briefly, reads no answer, and names the address in no
// error: the address is the secret (P9).
type SendOptions = Pick<Receiver, 'url' | 'proxies'> & {
  readonly body: string
  readonly signal: AbortSignal
}

/** The message may not have arrived. */
class AlertUndelivered extends Error {
  override readonly name = 'AlertUndelivered'
  /** How long the receiver asked to wait. */
  readonly retryAfterMs: number | null

  constructor(problem: string, retryAfterMs: number | null = null) {
    super(`An alert could not be delivered: ${problem}`)
    this.retryAfterMs = retryAfterMs
  }
}

const timeoutMs = 10_000

async function sendAlert(options: SendOptions): Promise<void> {
  const { url, proxies = noProxies, signal } = options
  const timeout = AbortSignal.timeout(timeoutMs)
  const { status, headers } = await post({
    ...options,
    signal: AbortSignal.any([signal, timeout]),
  }).catch((error) => {
    const proxy = proxyOf(new URL(url), proxies)
    throw new AlertUndelivered(
      timeout.aborted
        ? `the receiver did not answer within ${timeoutMs / 1000} s.`
        : proxy
          ? `the receiver cannot be reached through the proxy ${proxy.host} (${reasonOf(error)}). Check ALERT_WEBHOOK_URL and HTTPS_PROXY, or name the receiver in NO_PROXY.`
          : `the receiver cannot be reached (${reasonOf(error)}). Check ALERT_WEBHOOK_URL and the network.`,
    )
  })
  if (status >= 200 && status < 300) return
  if (status >= 300 && status < 400)
    throw new AlertUndelivered(
      `the receiver redirects (${status}), which is not followed. Set ALERT_WEBHOOK_URL to the new address.`,
    )
  const seconds = Number(headers['retry-after'] ?? Number.NaN)
  throw new AlertUndelivered(
    `the receiver answered ${status}. Check ALERT_WEBHOOK_URL.`,
    Number.isFinite(seconds) ? seconds * 1000 : null,
  )
}

type Head = { readonly status: number; readonly headers: IncomingHttpHeaders }

/** Resolves with the beginning of the answer. */
function post({ url, proxies = noProxies, body, signal }: SendOptions): Promise<Head> {
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
  await sendAlert({ ...receiver, body: testBody(receiver, now), signal })
  return `A test message was sent, in the form of ${formatOf(receiver)}. Look whether it is there.`
}

type Round = Receiver & {
  readonly problems: readonly Problem[]
  readonly book: AlertBook
  /** Null or left out: people are told at any hour. */
  readonly quietHours?: QuietHours | null
  readonly now: Date
  /** Null: the message was accepted. */
  readonly onSent?: (failure: unknown) => void
  /** Nothing waits to be sent again, whichever worker sent it. */
  readonly onAllSent?: (lastToldAt: Date | null) => void
  readonly signal: AbortSignal
  readonly log: Logger
}

/** Looks once, and sends what is new in one message, unless the receiver has to be left alone for a while. */
export async function sendAlerts({
  problems,
  book,
  quietHours = null,
  now,
  onSent = () => {},
  onAllSent = () => {},
  signal,
  log,
  ...receiver
}: Round): Promise<void> {
  const { known, begun, over, forgotten } = planAlerts(await book.read(), problems, now)
  await book.write(known)
  if (forgotten.length > 0) await book.forget(forgotten)
  const news = [...begun, ...over]
  if (known.every(({ attempts }) => attempts === 0)) onAllSent(lastToldOf(known))
  if (quietHours && isQuiet(quietHours, now)) return
  if (news.length === 0 || news.some(({ retryAt }) => retryAt !== null && retryAt > now)) return
  const failures = Math.max(...news.map(({ attempts }) => attempts))
  try {
    await sendAlert({ ...receiver, body: alertBody(receiver, { begun, over, now }), signal })
  } catch (error) {
    if (signal.aborted) return
    onSent(error)
    log[failures === 0 ? 'warn' : 'debug']({ err: error }, 'could not send an alert; it is sent again later')
    const askedForMs = error instanceof AlertUndelivered ? error.retryAfterMs : null
    const retryAt = retryAfter(failures, askedForMs, now)
    await book.write(news.map((alert) => ({ ...alert, attempts: failures + 1, retryAt })))
    return
  }
  onSent(null)
  await book.write(begun.map((alert) => ({ ...alert, toldAt: now, attempts: 0, retryAt: null })))
  await book.forget(over.map(({ key }) => key))
  if (failures > 0) log.info({ failures }, 'alerts can be sent again')
}

const lastToldOf = (alerts: readonly Alert[]): Date | null =>
  alerts
    .flatMap(({ toldAt }) => toldAt ?? [])
    .reduce<Date | null>((last, one) => (last !== null && last > one ? last : one), null)

const defaultEveryMs = 15_000
/** What a worker knows by itself costs nothing to look at. */
const defaultOwnEveryMs = 5_000

type Options = Receiver &
  Pick<Round, 'quietHours' | 'onSent' | 'onAllSent' | 'signal' | 'log'> & {
    /** What was found with the help of Postgres, and the book that is kept there; null while Postgres does not work. */
    readonly database: () => {
      problems(): Promise<readonly Problem[]>
      withBook(work: (book: AlertBook) => Promise<void>): Promise<void>
    } | null
    /** What this worker knows without Postgres. While that is away, each worker sends alerts of this by itself. */
    readonly ownProblems: () => readonly Problem[]
    readonly everyMs?: number
    readonly ownEveryMs?: number
    readonly now?: () => Date
  }

/** Until the signal. Needs neither Postgres nor the queue. */
export async function runAlertLoop(options: Options): Promise<void> {
  const { database, ownProblems, now = () => new Date(), onAllSent, ...round } = options
  const { everyMs = defaultEveryMs, ownEveryMs = defaultOwnEveryMs } = options
  const memory = openMemory()
  await Promise.all([
    keepLooking(options, async () => {
      const there = database()
      if (there === null) return ownEveryMs
      const found = await there.problems()
      await there.withBook(async (book) => {
        await memory.writeTo(book)
        await sendAlerts({ ...round, ...(onAllSent && { onAllSent }), problems: found, book, now: now() })
        memory.remember(await book.read())
      })
      return everyMs
    }),
    // In a loop of its own, because the other loop may wait for Postgres for ever.
    keepLooking(options, async () => {
      const isAway = database() === null
      if (isAway) memory.goOnWith(ownProblems())
      await sendAlerts({ ...round, problems: isAway ? ownProblems() : [], book: memory.book, now: now() })
      return ownEveryMs
    }),
  ])
}

/** `look` returns when to look again. */
async function keepLooking({ signal, log }: Options, look: () => Promise<number>): Promise<void> {
  while (!signal.aborted) {
    // That Postgres is away is logged with the state of the parts.
    const nextMs = await look().catch((error) => {
      log.debug({ err: error }, 'could not look for problems to alert of')
      return defaultOwnEveryMs
    })
    await wait(nextMs, undefined, { signal, ref: false }).catch(() => null)
  }
}

/**
 * The book of a worker whose Postgres is away. It begins with what people were told of the parts, and what this worker told is written to
 * the book in Postgres when that is back, so that nothing is told twice.
 */
function openMemory() {
  /** Of what people were told by the book in Postgres. */
  let told: ReadonlyMap<string, Alert> = new Map()
  /** What changed since; null: it is over. */
  const changed = new Map<string, Alert | null>()
  const isNew = ({ key, toldAt }: Alert) => toldAt !== null && !told.has(key)
  const book: AlertBook = {
    read: async () => [...changed.values()].filter((alert) => alert !== null),
    async write(given) {
      for (const alert of given) changed.set(alert.key, alert)
    },
    async forget(keys) {
      for (const key of keys)
        if (told.has(key)) changed.set(key, null)
        else changed.delete(key)
    },
  }
  return {
    book,
    remember(given: readonly Alert[]) {
      told = new Map(given.filter(({ toldAt }) => toldAt !== null).map((alert) => [alert.key, alert]))
    },
    /** Nobody is told anew of these problems. */
    goOnWith(problems: readonly Problem[]) {
      for (const { key } of problems) {
        const alert = told.get(key)
        if (alert !== undefined && !changed.has(key)) changed.set(key, alert)
      }
    },
    async writeTo(other: AlertBook): Promise<void> {
      const begun = [...changed.values()].filter((alert) => alert !== null).filter(isNew)
      if (begun.length > 0) await other.write(begun)
      const over = [...changed].flatMap(([key, alert]) => (alert === null ? [key] : []))
      if (over.length > 0) await other.forget(over)
      // What nobody was told of is forgotten by the looks that follow.
      for (const [key, alert] of changed)
        if (alert === null || told.has(key) || isNew(alert)) changed.delete(key)
    },
  }
}
