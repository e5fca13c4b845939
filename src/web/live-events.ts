// `GET /events`: what changed on the pages, as server-sent events. One look at the desk serves all who listen, and nobody looks when
// nobody listens. Only what changed is sent; who comes new gets everything, as of now.

import type { ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import type { Concern } from '../concerns/concern.ts'
import type { Logger } from '../log.ts'
import type { Desk, Sight } from './desk.ts'
import { markupOf } from './html.ts'
import type { Routes } from './http-server.ts'
import { cellsOf } from './live-cells.ts'
import { concernCells } from './pages/concerns.ts'

type Options = {
  /** Null while the worker waits for what it needs. */
  readonly desk: () => Pick<Desk, 'sight' | 'concerns'> | null
  readonly everyMs?: number
  readonly patienceMs?: number
  readonly mostListeners?: number
  readonly log: Logger
}

type LiveEvents = { readonly routes: Routes; close(): void }
type Seen = { readonly cells: Readonly<Record<string, string>>; readonly rates: unknown }
/** When it is whole, what a page shows besides is over. */
type Update = Seen & { readonly isWhole: boolean }
/** A look that began before somebody came may have seen less than their page: they wait for the next one. */
type Stage = 'new' | 'waits for this look' | 'told'

const defaultEveryMs = 2_000
const defaultMostListeners = 100
/** Who does not take what is sent is let go, and comes back by itself. */
const mostUnsentBytes = 1_048_576
const retryMs = 2_000
/** A look that takes longer is waited for, but not silently. */
const defaultPatienceMs = 5_000

export function openLiveEvents(options: Options): LiveEvents {
  const { everyMs = defaultEveryMs, patienceMs = defaultPatienceMs, log } = options
  const { desk, mostListeners = defaultMostListeners } = options
  const listeners = new Map<ServerResponse, Stage>()
  /** Null while nothing is known. */
  let known: Seen | null = null
  let isAway = false
  let isLooking = false
  let isClosed = false
  let rest = new AbortController()

  /** Whoever comes now is told nothing that may be over. */
  function away(): void {
    known = null
    isAway = true
    for (const listener of listeners.keys()) send(listener, 'away', null)
  }

  async function look(): Promise<void> {
    const there = desk()
    if (!there) return away()
    for (const [listener, stage] of listeners)
      if (stage === 'new') listeners.set(listener, 'waits for this look')
    const seen = whatIsSeen(...(await Promise.all([there.sight(), there.concerns()])))
    const whole = { ...seen, isWhole: true }
    const news = known === null ? whole : changesBetween(known, seen)
    known = seen
    isAway = false
    for (const [listener, stage] of listeners) {
      if (stage === 'new') continue
      send(listener, 'update', stage === 'told' ? news : whole)
      listeners.set(listener, 'told')
    }
  }

  async function keepLooking(): Promise<void> {
    if (isLooking) return
    isLooking = true
    while (listeners.size > 0 && !isClosed) {
      const tooLong = setTimeout(away, patienceMs)
      await look().catch((error) => {
        log.debug({ err: error }, 'what the pages show could not be looked up')
        away()
      })
      clearTimeout(tooLong)
      if ([...listeners.values()].includes('new') && !isAway) continue
      rest = new AbortController()
      await wait(everyMs, undefined, { signal: rest.signal, ref: false }).catch(() => {})
    }
    isLooking = false
    known = null
    isAway = false
  }

  return {
    routes(server) {
      server.get('/events', { exposeHeadRoute: false }, (_request, reply) => {
        if (listeners.size >= mostListeners || isClosed)
          return reply.code(503).header('retry-after', '10').send({ error: 'too many listen already' })
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
        listeners.set(listener, 'new')
        listener.on('close', () => listeners.delete(listener))
        listener.on('error', () => listeners.delete(listener))
        if (isAway) send(listener, 'away', null)
        else rest.abort()
        void keepLooking()
        return reply
      })
    },
    close() {
      isClosed = true
      rest.abort()
      for (const listener of listeners.keys()) listener.end()
    },
  }
}

function send(listener: ServerResponse, event: string, data: Update | null): void {
  if (listener.writableLength > mostUnsentBytes) listener.destroy()
  else listener.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
}

function whatIsSeen(sight: Sight, concerns: readonly Concern[]): Seen {
  const pieces = [...cellsOf(sight), ...concernCells(concerns)]
  const { from, streams, ...rest } = sight.rates
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
