// The alert loop of one receiver: looks at the problems now and then, and sends what is new. Whatever fails here is tried again and stops
// nothing else: a receiver that hangs delays no other, and holds no connection to Postgres.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import type { Alert, AlertBook } from '../store/book/problems.ts'
import type { Silence } from '../store/book/silences.ts'
import type { News, Receiver } from './alert-body.ts'
import { type AlertRules, isSilencedBy, planAlerts, retryAfter } from './alerts.ts'
import { AlertUndelivered, deliver } from './deliver.ts'
import type { Problem } from './stream-problems.ts'

type Round = Pick<AlertRules, 'timingOf'> & {
  readonly receiver: Receiver
  readonly problems: readonly Problem[]
  readonly book: AlertBook
  readonly silences?: readonly Silence[]
  readonly now: Date
  /** Null: the message was accepted. */
  readonly onSent?: (failure: unknown) => void
  /** Nothing waits to be sent again, whichever worker sent it. */
  readonly onAllSent?: (lastToldAt: Date | null) => void
  readonly signal: AbortSignal
  readonly log: Logger
}

/** Nobody else sends what somebody sends for so long. Who was killed meanwhile may have sent it. */
const claimedMs = 60_000

/** Looks once, and sends what is new in one message, unless the receiver has to be left alone for a while. */
export async function sendAlerts(round: Round): Promise<void> {
  const { receiver, book, now, onSent = () => {}, signal, log } = round
  const news: News[] = []
  await book.inTurn(async () => {
    news.push(...(await planned(round)))
  })
  for (const { begun, over } of news) {
    const all = [...begun, ...over]
    const failures = Math.max(...all.map(({ attempts }) => attempts))
    try {
      const note = await deliver(receiver, { begun, over, now }, signal)
      if (note !== null) log.warn({ receiver: receiver.name, note }, 'an alert was not taken for everybody')
    } catch (error) {
      if (signal.aborted) return await book.write(all)
      onSent(error)
      log[failures === 0 ? 'warn' : 'debug'](
        { err: error, receiver: receiver.name },
        'could not send an alert; it is sent again later',
      )
      const askedForMs = error instanceof AlertUndelivered ? error.retryAfterMs : null
      const retryAt = retryAfter(failures, askedForMs, now)
      await book.write(all.map((alert) => ({ ...alert, attempts: failures + 1, retryAt })))
      return
    }
    onSent(null)
    const told = { toldAt: now, attempts: 0, retryAt: null, isWorse: false }
    await book.write(begun.map((alert) => ({ ...alert, ...told })))
    await book.forget(over.map(({ key }) => key))
    if (failures > 0) log.info({ failures, receiver: receiver.name }, 'alerts can be sent again')
  }
}

/** What is to be sent now, if anything: from then on it is claimed. */
async function planned({ problems, book, now, onAllSent, silences = [], ...round }: Round): Promise<News[]> {
  const isSilenced = isSilencedBy(silences, now)
  const plan = planAlerts(await book.read(), problems, now, { ...round, isSilenced })
  const { known, over, forgotten } = plan
  const begun = plan.begun.map((alert) => sinceItBegan(alert, problems))
  const news = [...begun, ...over]
  const isWaiting = news.length === 0 || news.some(({ retryAt }) => retryAt !== null && retryAt > now)
  const claimed = isWaiting ? [] : news.map(({ key }) => key)
  const retryAt = new Date(now.getTime() + claimedMs)
  await book.write(known.map((alert) => (claimed.includes(alert.key) ? { ...alert, retryAt } : alert)))
  if (forgotten.length > 0) await book.forget(forgotten)
  if (known.every(({ attempts }) => attempts === 0)) onAllSent?.(lastToldOf(known))
  return isWaiting ? [] : [{ begun, over, now }]
}

/** A receiver may be younger than the problem. From the message on, the alert goes by when the problem began. */
function sinceItBegan(alert: Alert, problems: readonly Problem[]): Alert {
  const since = problems.find(({ key }) => key === alert.key)?.since
  return since && since < alert.since ? { ...alert, since } : alert
}

const lastToldOf = (alerts: readonly Alert[]): Date | null =>
  alerts.flatMap(({ toldAt }) => toldAt ?? []).toSorted((one, other) => Number(other) - Number(one))[0] ??
  null

const defaultEveryMs = 15_000
/** What a worker knows by itself costs nothing to look at. */
const defaultOwnEveryMs = 5_000

type Asked = Pick<Round, 'receiver' | 'timingOf'>
type Options = Pick<Round, 'onSent' | 'onAllSent' | 'signal' | 'log'> & {
  /** As the settings are now; null: there is no such receiver any more. */
  readonly asked: (now: Date) => Asked | null
  /** What was found with the help of Postgres, and the book that is kept there; null while Postgres does not work. */
  readonly database: () => {
    problems(): Promise<readonly Problem[]>
    silences(): Promise<readonly Silence[]>
    readonly book: AlertBook
  } | null
  /** What this worker knows without Postgres. While that is away, each worker sends alerts of this by itself. */
  readonly ownProblems: () => readonly Problem[]
  readonly everyMs?: number
  readonly ownEveryMs?: number
  readonly now?: () => Date
}

/** Until the signal, or until nobody is to be told. Needs neither Postgres nor the queue. */
export async function runAlertLoop(options: Options): Promise<void> {
  const { asked, database, ownProblems, now = () => new Date(), onAllSent, ...given } = options
  const { everyMs = defaultEveryMs, ownEveryMs = defaultOwnEveryMs } = options
  const memory = openMemory()
  let silences: readonly Silence[] = []
  await Promise.all([
    keepLooking(options, async () => {
      const there = database()
      if (there === null) return ownEveryMs
      const { book } = there
      const problems = await there.problems()
      silences = await there.silences()
      const at = now()
      const round = asked(at)
      if (round === null) return everyMs
      await memory.writeTo(book)
      const settled = onAllSent && { onAllSent }
      await sendAlerts({ ...given, ...round, ...settled, problems, silences, book, now: at })
      memory.remember(await book.read())
      return everyMs
    }),
    // In a loop of its own, because the other loop may wait for Postgres for ever.
    keepLooking(options, async () => {
      const isAway = database() === null
      if (isAway) memory.goOnWith(ownProblems())
      const [at, problems] = [now(), isAway ? ownProblems() : []]
      const round = asked(at)
      if (round !== null)
        await sendAlerts({ ...given, ...round, problems, silences, book: memory.book, now: at })
      return ownEveryMs
    }),
  ])
}

/** `look` returns when to look again. */
async function keepLooking({ signal, log, asked }: Options, look: () => Promise<number>): Promise<void> {
  while (!signal.aborted && asked(new Date()) !== null) {
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
    inTurn: (work) => work(),
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
