// The alert loop: looks at the problems now and then, and sends what is new to the receiver of alerts. Whatever fails here is tried
// again and stops nothing else.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import type { Alert, AlertBook } from '../store/admin/alert-book.ts'
import { alertBody, formatOf, type Receiver, testBody } from './alert-body.ts'
import { isQuiet, planAlerts, type QuietHours, retryAfter } from './alerts.ts'
import type { Problem } from './stream-problems.ts'

// Posts one message to the receiver of alerts. Follows no redirect, waits briefly, reads no answer, and names the address in no
// error: the address is the secret (P9).
type SendOptions = { readonly url: string; readonly body: string; readonly signal: AbortSignal }

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

async function sendAlert({ url, body, signal }: SendOptions): Promise<void> {
  const timeout = AbortSignal.timeout(timeoutMs)
  let answer: Response
  try {
    answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'tidemark' },
      body,
      redirect: 'manual',
      signal: AbortSignal.any([signal, timeout]),
    })
  } catch (error) {
    throw new AlertUndelivered(
      timeout.aborted
        ? `the receiver did not answer within ${timeoutMs / 1000} s.`
        : `the receiver cannot be reached (${codeOf(error)}). Check ALERT_WEBHOOK_URL and the network.`,
    )
  }
  await answer.body?.cancel()
  if (answer.ok) return
  const { status } = answer
  if (status >= 300 && status < 400)
    throw new AlertUndelivered(
      `the receiver redirects (${status}), which is not followed. Set ALERT_WEBHOOK_URL to the new address.`,
    )
  const seconds = Number(answer.headers.get('retry-after') ?? Number.NaN)
  throw new AlertUndelivered(
    `the receiver answered ${status}. Check ALERT_WEBHOOK_URL.`,
    Number.isFinite(seconds) ? seconds * 1000 : null,
  )
}

function codeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : null
  if (typeof cause !== 'object' || cause === null) return 'no reason given'
  if ('code' in cause && typeof cause.code === 'string') return cause.code
  return 'name' in cause ? String(cause.name) : 'no reason given'
}

/** Says in one line what was sent. Rejects when it does not arrive. */
export async function sendTest(receiver: Receiver, now: Date, signal: AbortSignal): Promise<string> {
  await sendAlert({ url: receiver.url, body: testBody(receiver, now), signal })
  return `A test message was sent, in the form of ${formatOf(receiver)}. Look whether it is there.`
}

type Round = Receiver & {
  readonly problems: readonly Problem[]
  readonly book: AlertBook
  /** Null or left out: people are told at any hour. */
  readonly quietHours?: QuietHours | null
  readonly now: Date
  readonly signal: AbortSignal
  readonly log: Logger
}

/** Looks once, and sends what is new in one message, unless the receiver has to be left alone for a while. */
export async function sendAlerts({
  problems,
  book,
  quietHours = null,
  now,
  signal,
  log,
  ...receiver
}: Round): Promise<void> {
  const { known, begun, over, forgotten } = planAlerts(await book.read(), problems, now)
  await book.write(known)
  if (forgotten.length > 0) await book.forget(forgotten)
  const news = [...begun, ...over]
  if (quietHours && isQuiet(quietHours, now)) return
  if (news.length === 0 || news.some(({ retryAt }) => retryAt !== null && retryAt > now)) return
  const failures = Math.max(...news.map(({ attempts }) => attempts))
  try {
    await sendAlert({ url: receiver.url, body: alertBody(receiver, { begun, over, now }), signal })
  } catch (error) {
    if (signal.aborted) return
    log[failures === 0 ? 'warn' : 'debug']({ err: error }, 'could not send an alert; it is sent again later')
    const askedForMs = error instanceof AlertUndelivered ? error.retryAfterMs : null
    const retryAt = retryAfter(failures, askedForMs, now)
    await book.write(news.map((alert) => ({ ...alert, attempts: failures + 1, retryAt })))
    return
  }
  await book.write(begun.map((alert) => ({ ...alert, toldAt: now, attempts: 0, retryAt: null })))
  await book.forget(over.map(({ key }) => key))
  if (failures > 0) log.info({ failures }, 'alerts can be sent again')
}

const defaultEveryMs = 15_000

type Options = Receiver & {
  readonly quietHours?: QuietHours | null
  readonly problems: () => Promise<readonly Problem[]>
  readonly withBook: (work: (book: AlertBook) => Promise<void>) => Promise<void>
  /** That Postgres is away, which keeps all other problems from being looked up. Each worker sends this alert by itself. */
  readonly ownProblems: () => readonly Problem[]
  readonly everyMs?: number
  readonly now?: () => Date
  readonly signal: AbortSignal
  readonly log: Logger
}

/** Until the signal. */
export async function runAlertLoop(options: Options): Promise<void> {
  const { problems, withBook, ownProblems, now = () => new Date() } = options
  const send = (found: readonly Problem[], book: AlertBook) =>
    sendAlerts({ ...options, problems: found, book, now: now() })
  const ownBook = openOwnBook()
  await Promise.all([
    keepLooking(options, async () => {
      const found = await problems()
      await withBook((book) => send(found, book))
    }),
    // In a loop of its own, because the other loop may wait for Postgres for ever.
    keepLooking(options, () => send(ownProblems(), ownBook)),
  ])
}

async function keepLooking(
  { everyMs = defaultEveryMs, signal, log }: Options,
  look: () => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    // That Postgres is away is logged by the watch of the parts.
    await look().catch((error) => log.debug({ err: error }, 'could not look for problems to alert of'))
    await wait(everyMs, undefined, { signal, ref: false }).catch(() => null)
  }
}

/** For what cannot be kept in Postgres: that Postgres is away. */
function openOwnBook(): AlertBook {
  const alerts = new Map<string, Alert>()
  return {
    read: async () => [...alerts.values()],
    async write(given) {
      for (const alert of given) alerts.set(alert.key, alert)
    },
    async forget(keys) {
      for (const key of keys) alerts.delete(key)
    },
  }
}
