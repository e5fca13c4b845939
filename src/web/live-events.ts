// `GET /events`: sends what changed on the pages, as server-sent events. One look at the status queries serves all open pages; while no
// page is open there are no looks. Only what changed is sent; a new page gets everything.

import type { ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { ownValue } from '../json/json.ts'
import type { Logger } from '../log.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { markupOf } from './html.ts'
import { problemCells } from './pages/layout.ts'
import { readerOf } from './reading-places.ts'
import type { Routes } from './server.ts'
import type { Snapshot, StatusQueries } from './status-queries.ts'
import { cellsOf } from './stream-cells.ts'

type Options = {
  /** Null while the worker waits for what it needs. */
  readonly statusQueries: () => Pick<StatusQueries, 'snapshot' | 'problems'> | null
  readonly everyMs?: number
  readonly timeoutMs?: number
  readonly log: Logger
}

export type LiveEvents = { readonly routes: Routes; close(): void }
type Seen = { readonly cells: Readonly<Record<string, string>> }
/** `isWhole`: the update has everything, so a page drops what it shows besides. */
type Update = Seen & { readonly isWhole: boolean }
/** What a page knows. A look that began before the page was opened may be older than the page, so the page waits for the next one. */
type Stage = 'new' | 'waits for this look' | 'up to date'

const defaultEveryMs = 2_000
/** A listener that does not take what is sent is disconnected. It comes back by itself. */
const mostUnsentBytes = 1_048_576
const retryMs = 2_000
/** When a look takes longer, pages are told that nothing can be looked up, and the look goes on. */
const defaultTimeoutMs = 5_000

export function openLiveEvents(options: Options): LiveEvents {
  const updates = openUpdates(options)
  return {
    routes(server) {
      const config = { place: 'live' } as const
      server.get('/events', { exposeHeadRoute: false, config }, (request, reply) => {
        if (updates.isClosed()) return reply.code(503).send({ error: 'The worker is stopping.' })
        reply.hijack()
        const listener = reply.raw
        listener.writeHead(200, {
          'content-type': 'text/event-stream; charset=utf-8',
          // Proxies would keep it until there is more.
          'x-accel-buffering': 'no',
        })
        listener.write(`retry: ${retryMs}\n\n`)
        updates.add(listener, readerOf(request).mayRead)
        return reply
      })
    },
    close: updates.close,
  }
}

type Updates = {
  isClosed(): boolean
  add(listener: ServerResponse, mayRead: () => boolean): void
  close(): void
}

/** Looks again and again while a page listens. */
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
    isClosed: () => isClosed,
    add(listener, mayRead) {
      if (audience.add(listener, mayRead)) rest.abort()
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
  add(listener: ServerResponse, mayRead: () => boolean): boolean
  /** Those whose session has ended are sent away. */
  beginLook(): void
  update(seen: Seen): void
  /** Nothing can be looked up. A page that is opened now gets nothing, because what is known may be over. */
  setAway(): void
  forget(): void
  close(): void
}

/** Who listens, and what they know. */
function openAudience(): Audience {
  const listeners = new Map<ServerResponse, Stage>()
  const rights = new WeakMap<ServerResponse, () => boolean>()
  /** Null while nothing is known. */
  let known: Seen | null = null
  let isAway = false
  return {
    size: () => listeners.size,
    awaitsLook: () => !isAway && [...listeners.values()].includes('new'),
    add(listener, mayRead) {
      listeners.set(listener, 'new')
      rights.set(listener, mayRead)
      listener.on('close', () => listeners.delete(listener))
      listener.on('error', () => listeners.delete(listener))
      if (isAway) send(listener, 'away', null)
      return !isAway
    },
    beginLook() {
      for (const [listener, stage] of listeners)
        if (rights.get(listener)?.() === false) {
          listeners.delete(listener)
          listener.end()
        } else if (stage === 'new') listeners.set(listener, 'waits for this look')
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
  const pieces = [...cellsOf(snapshot, problems), ...problemCells(problems, snapshot)]
  return { cells: Object.fromEntries(pieces.map(([key, cell]) => [key, cell ? markupOf(cell) : ''])) }
}

function changesBetween(before: Seen, now: Seen): Update {
  const changed = Object.entries(now.cells).filter(([key, markup]) => ownValue(before.cells, key) !== markup)
  const gone = Object.keys(before.cells).filter((key) => !Object.hasOwn(now.cells, key))
  const cells = Object.fromEntries([...changed, ...gone.map((key) => [key, ''] as const)])
  return { cells, isWhole: false }
}
