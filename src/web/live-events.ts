// `GET /events`: what changed on the pages, as server-sent events. One look at the status queries serves all open pages, and nobody looks
// when no page is open. Only what changed is sent; a new page gets everything.

import type { ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import type { Problem } from '../problems/stream-problems.ts'
import {
  age,
  ageInWords,
  count,
  foreign,
  type Html,
  html,
  kindInWords,
  markupOf,
  spanInWords,
  stamp,
  time,
} from './html.ts'
import { problemCells } from './pages/layout.ts'
import { addressOf } from './pages/tables.ts'
import type { Routes } from './server.ts'
import type { Snapshot, StatusQueries, StreamSnapshot } from './status-queries.ts'

// What changes on a page while one looks at it: small pieces, each under a key. The page is made of the same pieces that are sent to it
// later, so that it says the same with and without its script.
export type Cells = ReadonlyMap<string, Html | null>

/** The place of a piece on the page. */
export const live = (cells: Cells, key: string): Html =>
  html`<span data-live="${key}">${cells.get(key)}</span>`

export function cellsOf(snapshot: Snapshot): Cells {
  const cells = new Map<string, Html | null>([['as-of', time(snapshot.at)]])
  for (const stream of snapshot.streams)
    for (const [name, content] of Object.entries(numbersOf(stream, snapshot)))
      cells.set(`${stream.stream}/${name}`, content)
  for (const { stream, kind, status, startedAt, finishedAt } of snapshot.latestRuns)
    cells.set(
      `${stream}/${kind}/last`,
      html`<span class="status ${status}">${status}</span> ${age(finishedAt ?? startedAt, snapshot.at)}`,
    )
  for (const { stream, kind, at } of snapshot.nextRuns)
    cells.set(`${stream}/${kind}/next`, age(at, snapshot.at))
  return cells
}

function numbersOf(stream: StreamSnapshot, snapshot: Snapshot): Record<string, Html | null> {
  const { stream: name, readThroughAt, lagMs, position, lookbackMs, related } = stream
  const rates = snapshot.rates.streams.get(name) ?? []
  return {
    state: stateOf(stream),
    age:
      readThroughAt === null || lagMs === null
        ? html`not read through yet`
        : html`<time datetime="${readThroughAt.toISOString()}" title="${stamp(readThroughAt)}">${ageInWords(lagMs)}</time>`,
    rate: html`now ${count(rates.at(-1) ?? 0)}, peak ${count(Math.max(0, ...rates))}`,
    position: html`${position === '0' ? 'none yet' : position}`,
    rows:
      stream.rows === null
        ? html`not counted yet`
        : stream.rows === 0
          ? html`none yet`
          : html`about ${count(stream.rows)}`,
    lookback:
      lookbackMs === null
        ? html`as configured; no late arrival was measured yet`
        : html`${spanInWords(lookbackMs)}: ${foreign(stream.lookbackReason ?? 'no reason was recorded')}`,
    late: html`${count(stream.lateArrivals)}`,
    rescued: notable(stream.rescued, addressOf('/dictionary', { stream: name })),
    quarantined: notable(stream.quarantined, addressOf('/quarantine', { stream: name })),
    blocked:
      stream.blockedDeletions === null
        ? html`not blocked`
        : html`<a href="${addressOf('/approve', { stream: name })}">blocked, until you decide</a>`,
    missed: notable(stream.missedRows, addressOf('/runs', { stream: name, kind: 'reconcile' })),
    backfills: notable(stream.unfinishedBackfills, addressOf('/checkpoints', { stream: name })),
    related: related && html`${count(related.read)} read, ${count(related.waiting)} waiting`,
  }
}

/** Zero needs no attention; more leads to where it can be looked into. */
const notable = (amount: number, address: string): Html =>
  amount === 0 ? html`0` : html`<a href="${address}">${count(amount)}</a>`

function stateOf({ stoppedReason, paused, running }: StreamSnapshot): Html | null {
  if (stoppedReason !== null) return html`<span class="status failed">stopped</span>`
  if (paused)
    return html`<span class="status waiting">paused by ${foreign(paused.by, 60)} since ${stamp(new Date(paused.at))}${paused.reason && html`: ${foreign(paused.reason)}`}</span>`
  return running.length > 0
    ? html`<span class="status running">running: ${running.map(kindInWords).join(', ')}</span>`
    : null
}

type Options = {
  /** Null while the worker waits for what it needs. */
  readonly statusQueries: () => Pick<StatusQueries, 'snapshot' | 'problems'> | null
  readonly everyMs?: number
  readonly timeoutMs?: number
  readonly mostListeners?: number
  readonly log: Logger
}

export type LiveEvents = { readonly routes: Routes; close(): void }
type Seen = { readonly cells: Readonly<Record<string, string>>; readonly rates: unknown }
/** When it is whole, what a page shows besides is over. */
type Update = Seen & { readonly isWhole: boolean }
/** A look that began before somebody came may have seen less than their page: they wait for the next one. */
type Stage = 'new' | 'waits for this look' | 'up to date'

const defaultEveryMs = 2_000
const defaultMostListeners = 100
/** Who does not take what is sent is let go, and comes back by itself. */
const mostUnsentBytes = 1_048_576
const retryMs = 2_000
/** A look that takes longer is waited for, but not silently. */
const defaultTimeoutMs = 5_000

export function openLiveEvents(options: Options): LiveEvents {
  const { mostListeners = defaultMostListeners } = options
  const updates = openUpdates(options)
  return {
    routes(server) {
      server.get('/events', { exposeHeadRoute: false }, (_request, reply) => {
        if (!updates.hasRoom(mostListeners))
          return reply
            .code(503)
            .header('retry-after', '10')
            .send({ error: 'Too many pages are open already.' })
        reply.hijack()
        const listener = reply.raw
        listener.writeHead(200, {
          'content-type': 'text/event-stream; charset=utf-8',
          'cache-control': 'no-store',
          'x-content-type-options': 'nosniff',
          // Proxies would keep it until there is more.
          'x-accel-buffering': 'no',
        })
        listener.write(`retry: ${retryMs}\n\n`)
        updates.add(listener)
        return reply
      })
    },
    close: updates.close,
  }
}

type Updates = {
  hasRoom(mostListeners: number): boolean
  add(listener: ServerResponse): void
  close(): void
}

/** Looks as long as somebody listens. */
function openUpdates(options: Options): Updates {
  const { everyMs = defaultEveryMs, timeoutMs = defaultTimeoutMs, log } = options
  const audience = openAudience()
  let isLooking = false
  let isClosed = false
  let rest = new AbortController()

  async function look(): Promise<void> {
    const queries = options.statusQueries()
    if (!queries) return audience.setAway()
    audience.beginLook()
    audience.update(whatIsSeen(...(await Promise.all([queries.snapshot(), queries.problems()]))))
  }

  async function keepLooking(): Promise<void> {
    if (isLooking) return
    isLooking = true
    while (audience.size() > 0 && !isClosed) {
      const tooLong = setTimeout(audience.setAway, timeoutMs)
      await look().catch((error) => {
        log.debug({ err: error }, 'could not look up what the pages show')
        audience.setAway()
      })
      clearTimeout(tooLong)
      if (audience.awaitsLook()) continue
      rest = new AbortController()
      await wait(everyMs, undefined, { signal: rest.signal, ref: false }).catch(() => {})
    }
    isLooking = false
    audience.forget()
  }

  return {
    hasRoom: (mostListeners) => !isClosed && audience.size() < mostListeners,
    add(listener) {
      if (audience.add(listener)) rest.abort()
      void keepLooking()
    },
    close() {
      isClosed = true
      rest.abort()
      audience.close()
    },
  }
}

type Audience = {
  size(): number
  /** Whether a page was opened since the last look began. */
  awaitsLook(): boolean
  /** False when nothing can be looked up at the moment; then the page says so. */
  add(listener: ServerResponse): boolean
  beginLook(): void
  update(seen: Seen): void
  /** Nothing can be looked up. Pages that are opened now get nothing that may be over. */
  setAway(): void
  forget(): void
  close(): void
}

/** Who listens, and what they know. */
function openAudience(): Audience {
  const listeners = new Map<ServerResponse, Stage>()
  /** Null while nothing is known. */
  let known: Seen | null = null
  let isAway = false
  return {
    size: () => listeners.size,
    awaitsLook: () => !isAway && [...listeners.values()].includes('new'),
    add(listener) {
      listeners.set(listener, 'new')
      listener.on('close', () => listeners.delete(listener))
      listener.on('error', () => listeners.delete(listener))
      if (isAway) send(listener, 'away', null)
      return !isAway
    },
    beginLook() {
      for (const [listener, stage] of listeners)
        if (stage === 'new') listeners.set(listener, 'waits for this look')
    },
    update(seen) {
      const whole = { ...seen, isWhole: true }
      const news = known === null ? whole : changesBetween(known, seen)
      known = seen
      isAway = false
      for (const [listener, stage] of listeners) {
        if (stage === 'new') continue
        send(listener, 'update', stage === 'up to date' ? news : whole)
        listeners.set(listener, 'up to date')
      }
    },
    setAway() {
      known = null
      isAway = true
      for (const listener of listeners.keys()) send(listener, 'away', null)
    },
    forget() {
      known = null
      isAway = false
    },
    close() {
      for (const listener of listeners.keys()) listener.end()
    },
  }
}

function send(listener: ServerResponse, event: string, data: Update | null): void {
  if (listener.writableLength > mostUnsentBytes) listener.destroy()
  else listener.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
}

function whatIsSeen(snapshot: Snapshot, problems: readonly Problem[]): Seen {
  const pieces = [...cellsOf(snapshot), ...problemCells(problems)]
  const { from, streams, ...rest } = snapshot.rates
  return {
    cells: Object.fromEntries(pieces.map(([key, cell]) => [key, cell ? markupOf(cell) : ''])),
    rates: { ...rest, from: from.getTime(), streams: Object.fromEntries(streams) },
  }
}

function changesBetween(before: Seen, now: Seen): Update {
  const changed = Object.entries(now.cells).filter(([key, markup]) => before.cells[key] !== markup)
  const gone = Object.keys(before.cells).filter((key) => !(key in now.cells))
  const cells = Object.fromEntries([...changed, ...gone.map((key) => [key, ''] as const)])
  return { cells, rates: now.rates, isWhole: false }
}
