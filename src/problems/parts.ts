// The one list of parts that the work depends on: Postgres, the queue, each service of the upstream, each receiver of alerts. A part works
// when work has gone through it lately; that something answers is not enough. Health, metrics, pages, the terminal and alerts read this
// list. It is there before anything is connected.

import { type Logger, redact } from '../log.ts'
import { errorOf, messageOf } from '../util/errors.ts'
import { formatDuration, sentence } from '../util/text.ts'

export type PartKind = 'database' | 'queue' | 'service' | 'receiver'
export type Part = {
  readonly name: string
  readonly kind: PartKind
  readonly isUp: boolean
  /** `not yet`: nothing has gone through since the start. `not tried`: there was nothing to send yet, so it counts as up. */
  readonly state: 'works' | 'down' | 'not yet' | 'not tried'
  /** Since when it is in this state. */
  readonly since: Date
  /** What was seen; null while it is up. */
  readonly reason: string | null
  /** For those who need not sign in: of a service, what was seen without what it answers. */
  readonly publicReason?: string | null
  /** With commands between backticks; null while it is up. */
  readonly whatToDo: string | null
  /** The worker was started just now, and nothing is known that keeps work from it: it is not up, and no problem. */
  readonly isStarting?: true
}

export type GivenPart = {
  readonly name: string
  readonly kind: PartKind
  /** It is down when nothing has gone through for longer; null: nothing has to. */
  readonly longestSilenceMs: () => number | null
  /** What keeps work from it that others have met; null: nothing known. */
  readonly outage?: () => unknown
  readonly onReturn?: () => void
  /** Left out: always. */
  readonly isThere?: () => boolean
}

export type Parts = {
  list(): readonly Part[]
  /** Work has gone through it, so long ago. */
  worked(name: string, agoMs?: number): void
  failed(name: string, error: unknown): void
  /** What was said of it does not count any more: others have seen that it works, or use it instead. */
  forget(name: string): void
}

type Known = {
  readonly given: GivenPart
  workedMs: number | null
  failure: unknown
  state: Part['state']
  since: Date
  /** The same by the clock that nobody can set. */
  sinceMs: number
  wasSilent: boolean
}

/** A part works again that did not; `since` when. `wasSilent`: nothing failed, nothing went through either. */
export type Returned = Pick<Part, 'name' | 'kind' | 'since'> & { readonly wasSilent: boolean }

type Options = {
  readonly log: Logger
  readonly onReturn?: (part: Returned) => void
  /** A clock that nobody can set. */
  readonly nowMs?: () => number
}

export function openParts(
  given: readonly GivenPart[],
  { log, onReturn, nowMs = () => performance.now() }: Options,
): Parts {
  const openedMs = nowMs()
  const known = new Map<string, Known>(
    given.map((part) => {
      const state = part.kind === 'receiver' ? 'not tried' : 'not yet'
      const unseen = { workedMs: null, failure: null, wasSilent: true }
      return [part.name, { given: part, state, since: new Date(), sinceMs: openedMs, ...unseen }]
    }),
  )

  /** Since when requests get to services. While Postgres or the queue is away, no silence of a service means anything. */
  function reachedMs(): number {
    const needed = [...known.values()].filter(
      ({ given: { kind } }) => kind === 'database' || kind === 'queue',
    )
    return needed.every(({ state }) => state === 'works')
      ? Math.max(openedMs, ...needed.map(({ sinceMs }) => sinceMs))
      : Number.POSITIVE_INFINITY
  }

  function look(part: Known): void {
    const state = stateOf(part, nowMs(), reachedMs())
    if (state === part.state) return
    const { state: before, since, wasSilent } = part
    Object.assign(part, { state, since: new Date(), sinceMs: nowMs(), wasSilent: failureOf(part) === null })
    tell(log, part, nowMs(), before, part.since.getTime() - since.getTime())
    if (state !== 'works' || before !== 'down') return
    part.given.onReturn?.()
    onReturn?.({ ...part.given, since, wasSilent })
  }
  const change = (name: string, changes: Partial<Pick<Known, 'workedMs' | 'failure'>>) => {
    const part = known.get(name)
    if (part) look(Object.assign(part, changes))
  }

  return {
    list() {
      const parts = [...known.values()].filter(({ given: { isThere } }) => isThere?.() ?? true)
      parts.forEach(look)
      return parts.map((part) => shownOf(part, nowMs()))
    },
    worked(name, agoMs = 0) {
      const workedMs = Math.max(nowMs() - agoMs, known.get(name)?.workedMs ?? Number.NEGATIVE_INFINITY)
      change(name, { workedMs, failure: null })
    },
    failed: (name, error) => change(name, { failure: errorOf(error) }),
    forget: (name) => change(name, { workedMs: null, failure: null }),
  }
}

const failureOf = ({ given, failure }: Known): unknown => failure ?? given.outage?.() ?? null

function stateOf(part: Known, nowMs: number, reachedMs: number): Part['state'] {
  const { given, workedMs } = part
  const isBroken = failureOf(part) !== null
  if (given.kind === 'receiver') return isBroken ? 'down' : workedMs === null ? 'not tried' : 'works'
  const longestMs = given.longestSilenceMs()
  const fromMs = given.kind === 'service' ? Math.max(reachedMs, workedMs ?? 0) : (workedMs ?? nowMs)
  const isSilent = longestMs !== null && nowMs - fromMs > longestMs
  if (workedMs === null) return given.kind === 'service' && (isBroken || isSilent) ? 'down' : 'not yet'
  return isBroken || isSilent ? 'down' : 'works'
}

const words: Readonly<Record<PartKind, { readonly title: string; readonly work: string }>> = {
  database: { title: 'Postgres', work: 'write' },
  queue: { title: 'the queue', work: 'job' },
  service: { title: 'the service', work: 'request' },
  receiver: { title: 'the receiver of alerts', work: 'message' },
}
export const titleOf = ({ name, kind }: Pick<Part, 'name' | 'kind'>): string =>
  kind === 'service' ? `the ${name} service` : words[kind].title

function shownOf(part: Known, nowMs: number): Part {
  const { given, state, since } = part
  const { name, kind } = given
  const isUp = state === 'works' || state === 'not tried'
  const failure = failureOf(part)
  return {
    name,
    kind,
    isUp,
    state,
    since,
    reason: isUp ? null : reasonOf(part, failure, nowMs),
    ...(!isUp && kind === 'service' && failure !== null && { publicReason: publicReasonOf(failure) }),
    whatToDo: isUp ? null : whatToDo(kind, failure),
    ...(state === 'not yet' && failure === null && nowMs - part.sinceMs < startMs && { isStarting: true }),
  }
}

const startMs = 30_000
const longestReason = 400

function reasonOf({ given, workedMs }: Known, failure: unknown, nowMs: number): string {
  const { work } = words[given.kind]
  if (failure !== null) {
    // On one line, as other programs show it, and without secrets (P9).
    const text = redact(messageOf(failure)).replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    return sentence(text.length <= longestReason ? text : `${text.slice(0, longestReason).toWellFormed()}…`)
  }
  return workedMs === null
    ? `No ${work} has gone through since the worker was started.`
    : `No ${work} has gone through for ${formatDuration(nowMs - workedMs)}.`
}

function publicReasonOf(failure: unknown): string {
  const { code, status } = failure as { readonly code?: unknown; readonly status?: unknown }
  const known = [typeof code === 'string' && code, typeof status === 'number' && `status ${status}`]
  const seen = known.filter(Boolean).join(', ')
  return `Requests fail${seen && ` (${seen})`}. \`tidemark status\`, the console and the log say more.`
}

export const isDiskFull = (failure: unknown): boolean => /^(?:53100|ENOSPC)$/.test(codeOf(failure))
const isFull = (failure: unknown): boolean =>
  isDiskFull(failure) || /No space left|^OOM /.test(messageOf(failure))

function codeOf(failure: unknown): string {
  for (let cause = failure; cause instanceof Error; cause = cause.cause)
    if ('code' in cause && typeof cause.code === 'string') return cause.code
  return ''
}

const missingTables = /^(?:42P01|3F000)$/

function whatToDo(kind: PartKind, failure: unknown): string {
  if (kind === 'receiver')
    return 'Check its settings (ALERT_WEBHOOK_URL, the file that ALERTS names, or the page Alerts) and the network, then `tidemark alerts test`.'
  if (kind === 'service') return 'If it takes long, see what the service answers: `tidemark probe`.'
  if (failure !== null && isFull(failure))
    return kind === 'database'
      ? 'Make room on the disk of Postgres, or make it larger. Tidemark goes on by itself.'
      : 'Give Redis more memory (maxmemory), or the queue room on its disk. Tidemark goes on by itself.'
  if (kind === 'database' && missingTables.test(codeOf(failure)))
    return 'Somebody removed the tables of Tidemark, or this is another database. Restart the worker: it makes them and reads everything again.'
  const said = failure === null ? '' : messageOf(failure)
  if (/NOPERM/.test(said))
    return 'Give the user of REDIS_URL this right back: `ACL SETUSER`. Tidemark goes on by itself.'
  if (/permission denied/.test(said))
    return kind === 'database'
      ? 'Give the role of DATABASE_URL this right back. Tidemark goes on by itself.'
      : 'Give the role of DATABASE_URL this right (as the owner of the database, with WORKER_ROLE: `tidemark migrate`). Tidemark goes on by itself.'
  if (kind === 'database' && /read-only/.test(said))
    return 'Set DATABASE_URL to the primary, or make room on its disk. Tidemark goes on by itself when it takes writes again.'
  return 'Check that it runs and can be reached: `tidemark probe`.'
}

/** The outages of services and of receivers are logged by those who meet them. */
function tell(log: Logger, part: Known, nowMs: number, before: Part['state'], lastedMs: number): void {
  const { kind } = part.given
  if (kind === 'receiver') return
  const failure = failureOf(part)
  if (kind === 'service' && (failure !== null || before !== 'works')) return
  const title = titleOf(part.given)
  const why = `${title} does not work; runs wait until it does: ${reasonOf(part, failure, nowMs)}`
  if (part.state === 'down') log.warn({ err: failure }, why)
  else if (part.state === 'works' && before === 'down')
    log.info(`${title} works again, after ${formatDuration(lastedMs)}`)
}

/** A part that does not work, as a worker noted it for others; a worker of another version may have noted something else. */
export function notedPart(noted: Readonly<Record<string, unknown>>): Part[] {
  const { name, since } = noted
  const kind = Object.keys(words).find((one): one is PartKind => one === noted.kind)
  if (kind === undefined || typeof name !== 'string') return []
  const textOf = (value: unknown) => (typeof value === 'string' ? value : null)
  const [reason, what] = [textOf(noted.reason), textOf(noted.whatToDo)]
  return [{ name, kind, isUp: false, state: 'down', since: new Date(String(since)), reason, whatToDo: what }]
}
